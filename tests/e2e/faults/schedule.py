"""Which request meets which fault: decided by a seed, a kind of request, and the request's number within its kind.

Pure. The faults of a kind come from a deck that is shuffled again when it is empty, so that all occur equally often.
The gaps between them are random too, and sometimes several faults follow each other without a gap.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Kinds of requests of the operator that have different faults."""

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
    """Faults of a request, or of an open watch."""

    CONFLICT = "409"
    THROTTLED = "429 with Retry-After"
    ERROR = "500"
    UNAVAILABLE = "503"
    UNANSWERED_BEFORE = "no answer, not done"
    UNANSWERED_AFTER = "no answer, done"
    RESET_BEFORE = "reset, not done"
    RESET_AFTER = "reset, done"
    SLOW = "slow"
    GONE = "410"
    CUT = "watch ended"
    TORN = "watch cut within a line"
    EXPIRED = "410 within a watch"


ANY = (Fault.THROTTLED, Fault.ERROR, Fault.UNAVAILABLE, Fault.RESET_BEFORE, Fault.SLOW)
UNANSWERED = (Fault.UNANSWERED_BEFORE, Fault.UNANSWERED_AFTER)
WRITE = (*ANY, *UNANSWERED, Fault.CONFLICT, Fault.RESET_AFTER)
WATCH = (Fault.ERROR, Fault.UNAVAILABLE, Fault.RESET_BEFORE, Fault.GONE, Fault.CUT, Fault.TORN, Fault.EXPIRED)

FITS: Mapping[Kind, Sequence[Fault]] = {
    Kind.BIND: WRITE,
    Kind.CREATE: WRITE,
    Kind.DELETE: WRITE,
    Kind.PATCH: WRITE,
    Kind.EVENT: WRITE,
    Kind.READ: (*ANY, Fault.UNANSWERED_BEFORE),
    Kind.LIST: ANY,
    Kind.PAGE: (*ANY, Fault.GONE, Fault.GONE),
    Kind.WATCH_PODS: WATCH,
    Kind.WATCH: WATCH,
    Kind.LEASE: WRITE,
    Kind.OTHER: ANY,
}
"""The faults that a real API server or network can cause for each kind."""

GAPS: Mapping[Kind, int] = {Kind.LIST: 3, Kind.PAGE: 5, Kind.READ: 5, Kind.WATCH_PODS: 1, Kind.WATCH: 2, Kind.LEASE: 25}
"""Average number of requests between two faults, if it differs from ``GAP``."""

GAP = 9
LINES = 60
"""Maximum number of lines before a watch breaks."""

BURST_CHANCE = 0.1
BURST = 6


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault for one request. ``after``: lines of a watch before the fault. ``delay_s``: delay of a slow request."""

    fault: Fault
    after: int = 0
    delay_s: float = 0.0


class Schedule:
    """The planned faults of a seed. Call ``schedule.next(kind)`` for each request of that kind in order."""

    def __init__(self, seed: int) -> None:
        self._sequences = {kind: _Sequence(seed, kind) for kind in Kind}

    def next(self, kind: Kind) -> PlannedFault | None:
        """The planned fault of the next request of this kind, or None."""
        return self._sequences[kind].next()


class _Sequence:
    """The planned faults of one kind."""

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
    """Return the kind of a request by method, path and query."""
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
