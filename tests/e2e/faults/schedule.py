"""Which request meets which fault: decided by a seed, a kind of request, and the request's number within its kind.

Pure. The faults of a kind come from a deck that is shuffled anew when it is used up, so that each of them comes as
often as the others; the gaps between them are drawn too, and now and then there is no gap at all for a while.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the operator asks of the API server, as far as faults differ."""

    BIND = "bind"
    CREATE = "create a placeholder"
    DELETE = "delete a pod"
    PATCH = "patch"
    EVENT = "tell an event"
    READ = "read one object"
    LIST = "list"
    PAGE = "list on"
    WATCH_PODS = "watch pods"
    WATCH = "watch anything else"
    LEASE = "hold the lease"
    OTHER = "anything else"


class Fault(StrEnum):
    """What can happen to a request, or to a watch while it is open."""

    CONFLICT = "409"
    THROTTLED = "429 with Retry-After"
    ERROR = "500"
    UNAVAILABLE = "503"
    SILENT_BEFORE = "no answer, not done"
    SILENT_AFTER = "no answer, done"
    RESET_BEFORE = "reset, not done"
    RESET_AFTER = "reset, done"
    SLOW = "slow"
    GONE = "410"
    CUT = "watch ended"
    TORN = "watch cut within a line"
    EXPIRED = "410 within a watch"


ANY = (Fault.THROTTLED, Fault.ERROR, Fault.UNAVAILABLE, Fault.RESET_BEFORE, Fault.SLOW)
SILENT = (Fault.SILENT_BEFORE, Fault.SILENT_AFTER)
WRITE = (*ANY, *SILENT, Fault.CONFLICT, Fault.RESET_AFTER)
WATCH = (Fault.ERROR, Fault.UNAVAILABLE, Fault.RESET_BEFORE, Fault.GONE, Fault.CUT, Fault.TORN, Fault.EXPIRED)

FITS: Mapping[Kind, Sequence[Fault]] = {
    Kind.BIND: WRITE,
    Kind.CREATE: WRITE,
    Kind.DELETE: WRITE,
    Kind.PATCH: WRITE,
    Kind.EVENT: WRITE,
    Kind.READ: (*ANY, Fault.SILENT_BEFORE),
    Kind.LIST: ANY,
    Kind.PAGE: (*ANY, Fault.GONE, Fault.GONE),
    Kind.WATCH_PODS: WATCH,
    Kind.WATCH: WATCH,
    Kind.LEASE: WRITE,
    Kind.OTHER: ANY,
}
"""The faults that a real API server, or the way to it, can do to each kind."""

GAPS: Mapping[Kind, int] = {Kind.LIST: 3, Kind.PAGE: 5, Kind.READ: 5, Kind.WATCH_PODS: 1, Kind.WATCH: 2, Kind.LEASE: 25}
"""Requests between two faults, on average, where it is not ``GAP``."""

GAP = 9
LINES = 60
"""Before a watch breaks, at most."""

BURST_CHANCE = 0.1
BURST = 6


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault for one request. ``after``: how many lines of a watch get through before. ``delay_s``: of a slow one."""

    fault: Fault
    after: int = 0
    delay_s: float = 0.0


class Schedule:
    """The strokes of a seed: ``schedule.next(kind)`` for each request of that kind, in the order of their coming."""

    def __init__(self, seed: int) -> None:
        self._lanes = {kind: _Lane(seed, kind) for kind in Kind}

    def next(self, kind: Kind) -> PlannedFault | None:
        """What the next request of this kind meets; None = nothing."""
        return self._lanes[kind].next()


class _Lane:
    """The strokes of one kind."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self._random = random.Random(f"{seed}/{kind}")
        self._fits = list(FITS[kind])
        self._gap = GAPS.get(kind, GAP)
        self._deck: list[Fault] = []
        self._pass = self._random.randint(0, self._gap)
        self._burst = 0

    def next(self) -> PlannedFault | None:
        if self._pass > 0:
            self._pass -= 1
            return None
        if self._burst > 0:
            self._burst -= 1
        else:
            self._pass = self._random.randint(0, 2 * self._gap)
            if self._random.random() < BURST_CHANCE:
                self._burst, self._pass = self._random.randint(1, BURST), 0
        if not self._deck:
            self._deck = list(self._fits)
            self._random.shuffle(self._deck)
        return PlannedFault(self._deck.pop(), self._random.randint(0, LINES), self._random.uniform(0.05, 1.5))


def kind_of(method: str, path: str, query: Mapping[str, str]) -> Kind:
    """The kind of a request by what it says to the API server."""
    parts = path.strip("/").split("/")
    if "leases" in parts:
        return Kind.LEASE
    if "events" in parts:
        return Kind.EVENT
    return _read_kind(parts, query) if method == "GET" else _write_kind(method, parts[-1])


def _read_kind(parts: Sequence[str], query: Mapping[str, str]) -> Kind:
    if query.get("watch") in {"1", "true"}:
        return Kind.WATCH_PODS if parts[-1] == "pods" else Kind.WATCH
    if "continue" in query:
        return Kind.PAGE
    if "limit" in query:
        return Kind.LIST
    return Kind.READ if "namespaces" in parts[:-2] else Kind.OTHER


def _write_kind(method: str, last: str) -> Kind:
    match method, last:
        case "POST", "binding":
            return Kind.BIND
        case "POST", "pods":
            return Kind.CREATE
        case "DELETE", _:
            return Kind.DELETE
        case "PATCH" | "PUT", _:
            return Kind.PATCH
        case _:
            return Kind.OTHER
