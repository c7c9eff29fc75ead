"""One fault for one request of a gang's life: which request and which fault is the case of each gang.

Many gangs run at the same time, because a request has the name of its gang in its path or body.
"""

import asyncio
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from aiohttp import web

from tests.e2e.faults.schedule import Kind, kind_of
from tests.e2e.gate import Gate
from tests.e2e.proxy import cut, error_response, is_watch


class Fault(StrEnum):
    """Faults of a request."""

    ERROR_BEFORE = "500, not done"
    ERROR_AFTER = "500, done"
    THROTTLED = "429 with Retry-After"
    CONFLICT = "409"
    RESET_BEFORE = "reset, not done"
    RESET_AFTER = "reset, done"
    LATE = "done after the timeout of the client"
    TWICE = "sent twice, answered by the second"
    UNREADABLE = "500, done, and its objects cannot be read for some time"


LATE_S = 16.0
"""Longer than the timeout of each request."""

UNREADABLE_S = 6.0
"""Longer than all attempts of a read."""


@dataclass(frozen=True, slots=True)
class Case:
    """The fault of the request with this number among those of its kind. ``life``: what the gang goes through."""

    life: str
    kind: Kind
    number: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.life}: {self.kind} {self.number}: {self.fault}"


def all_cases(lives: Mapping[str, Counter[Kind]]) -> list[Case]:
    """Each request of each life with each fault."""
    return [
        Case(life, kind, number, fault)
        for life, requests in lives.items()
        for kind, count in sorted(requests.items())
        for number in range(count)
        for fault in Fault
    ]


def sample(cases: Sequence[Case], seed: int) -> list[Case]:
    """One random case of each kind of request and fault."""
    groups: defaultdict[tuple[Kind, Fault], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.kind, case.fault].append(case)
    chance = random.Random(seed)
    return [chance.choice(group) for group in groups.values()]


@dataclass
class EachRequest:
    """Injects the faults of the cases, by name of the gang. ``requests``: those of each gang so far."""

    cases: dict[str, Case] = field(default_factory=dict)
    requests: defaultdict[str, Counter[Kind]] = field(default_factory=lambda: defaultdict(Counter))
    injected: set[str] = field(default_factory=set)
    _unreadable_until: dict[str, float] = field(default_factory=dict)
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def answer(self, gate: Gate, request: web.Request) -> web.Response | None:
        """The answer to a request with a fault. None for others, which the gate forwards."""
        kind = kind_of(request.method, request.path, request.query)
        if is_watch(request) or (gang := _gang(request.path, await request.read())) is None:
            return None
        if kind is Kind.READ and time.monotonic() < self._unreadable_until.get(gang, 0.0):
            return error_response(503, "ServiceUnavailable", "a fault was injected")
        number, case = self.requests[gang][kind], self.cases.get(gang)
        self.requests[gang][kind] += 1
        if case is None or (case.kind, case.number) != (kind, number):
            return None
        self.injected.add(gang)
        return await self._inject(gate, request, gang, case.fault)

    async def settled(self) -> None:
        """Wait until the late requests have arrived."""
        await asyncio.gather(*self._late)

    async def _inject(self, gate: Gate, request: web.Request, gang: str, fault: Fault) -> web.Response | None:
        match fault:
            case Fault.ERROR_BEFORE:
                return error_response(500, "InternalError", "a fault was injected")
            case Fault.THROTTLED:
                return error_response(429, "TooManyRequests", "a fault was injected", 1)
            case Fault.CONFLICT:
                return error_response(409, "Conflict", "a fault was injected")
            case Fault.ERROR_AFTER | Fault.UNREADABLE:
                if fault is Fault.UNREADABLE:
                    self._unreadable_until[gang] = time.monotonic() + UNREADABLE_S
                await _forward(gate, request)
                return error_response(500, "InternalError", "a fault was injected")
            case Fault.RESET_AFTER:
                await _forward(gate, request)
            case Fault.LATE:
                late = asyncio.create_task(_forward(gate, request, LATE_S))  # also if the client disconnects
                self._late.add(late)
                await asyncio.shield(late)
            case Fault.TWICE:
                await _forward(gate, request)
                return None
            case Fault.RESET_BEFORE:
                pass
        return cut(request)


async def _forward(gate: Gate, request: web.Request, after_s: float = 0.0) -> None:
    """Let the API server handle the request, and drop its answer."""
    await asyncio.sleep(after_s)
    async with gate.forwarded(request) as answer:
        await answer.read()


_GANG = re.compile(rb"\bcase-\d+\b")


def _gang(path: str, body: bytes) -> str | None:
    """The gang whose pod, or event, the request is about."""
    found = _GANG.search(path.encode()) or _GANG.search(body)
    return found[0].decode() if found is not None else None
