"""The proxy that injects the scheduled faults, counts them, and lets callers wait for the n-th write.

Answers that are errors never reach the API server; ``..._AFTER`` faults let it act and lose the answer. Lists are asked
for in small pages, so that a short list too has a second page to expire.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from devcluster.api import Access
from devcluster.certificates import ServerFiles
from tests.e2e.faults.schedule import Fault, Kind, PlannedFault, Schedule, kind_of
from tests.e2e.proxy import EXPIRED, Proxy, cut, is_watch, refusal

SILENCE_S = 40.0
"""Longest silence, then the connection is cut: longer than any client of ours waits."""

WRITES = frozenset({Kind.BIND, Kind.CREATE, Kind.DELETE, Kind.PATCH})

REFUSALS = {
    Fault.CONFLICT: (409, "Conflict", None),
    Fault.THROTTLED: (429, "TooManyRequests", 1),
    Fault.ERROR: (500, "InternalError", None),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable", None),
    Fault.GONE: (410, "Expired", None),
}
"""Status, reason and Retry-After of the faults that are answers."""

STROKE = web.RequestKey("stroke", PlannedFault)
"""How a watch will end."""

STREAM_FAULTS = frozenset({Fault.CUT, Fault.TORN, Fault.EXPIRED})


class FaultyProxy(Proxy):
    """``done`` counts faults by kind of request; ``quiet`` lets everything through from then on.

    ``page``: objects in a page of a list, whatever the client asks for.
    """

    def __init__(self, upstream: Access, files: ServerFiles, schedule: Schedule, page: int = 40) -> None:
        super().__init__(upstream, files)
        self._schedule = schedule
        self._page = page
        self._quieted = asyncio.Event()
        self.done: Counter[tuple[Kind, Fault]] = Counter()
        self.requests: Counter[Kind] = Counter()
        self._moved = asyncio.Condition()

    @property
    def writes(self) -> int:
        """How many writes of pods came so far."""
        return sum(self.requests[kind] for kind in WRITES)

    def quiet(self) -> None:
        """No more faults: what is still to be settled shall settle."""
        self._quieted.set()

    async def reaches(self, kinds: frozenset[Kind], count: int) -> None:
        """Wait until so many more requests of these kinds have come."""
        end = count + sum(self.requests[kind] for kind in kinds)
        async with self._moved:
            await self._moved.wait_for(lambda: sum(self.requests[kind] for kind in kinds) >= end)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Do to the request what its number says."""
        kind = kind_of(request.method, request.path, request.query)
        stroke = None if self._quieted.is_set() else self._schedule.next(kind)
        self.requests[kind] += 1
        async with self._moved:
            self._moved.notify_all()
        if stroke is None or stroke.fault in STREAM_FAULTS:
            return await self._pass_on(request, stroke)
        self.done[kind, stroke.fault] += 1
        return await self._strike(request, stroke)

    async def stream(self, request: web.Request, answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
        """Pass a watch's lines on until its stroke falls."""
        stroke = request.get(STROKE)
        if stroke is None:
            await super().stream(request, answer, stream)
            return
        kind = kind_of(request.method, request.path, request.query)
        left = stroke.after if kind is Kind.WATCH_PODS else 0
        rest = b""
        while left > 0 or self._quieted.is_set():
            chunk = await answer.content.readany()
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            await stream.write(b"".join(line + b"\n" for line in lines))
            left -= len(lines)
        self.done[kind, stroke.fault] += 1
        await _break(request, stream, stroke.fault)

    async def _pass_on(self, request: web.Request, stroke: PlannedFault | None) -> web.StreamResponse:
        """Forward it; a watch remembers how it will end."""
        if stroke is not None and is_watch(request):
            request[STROKE] = stroke
        async with self.forwarded(request, self._small_pages(request)) as answer:
            return await self.relay(request, answer)

    async def _strike(self, request: web.Request, stroke: PlannedFault) -> web.StreamResponse:
        """One of the faults that fall before or after the API server acts."""
        match stroke.fault:
            case Fault.SLOW:
                await asyncio.sleep(stroke.delay_s)
                return await self._pass_on(request, None)
            case Fault.SILENT_BEFORE:
                await self._silence()
            case Fault.SILENT_AFTER | Fault.RESET_AFTER:
                async with self.forwarded(request) as answer:
                    await answer.read()
                if stroke.fault is Fault.SILENT_AFTER:
                    await self._silence()
            case Fault.RESET_BEFORE:
                pass
            case _:
                code, reason, retry_after_s = REFUSALS[stroke.fault]
                return refusal(code, reason, "a fault was injected", retry_after_s)
        return cut(request)

    def _small_pages(self, request: web.Request) -> str | None:
        """The query with a smaller limit; None where it has none."""
        if "limit" not in request.query:
            return None
        return urlencode({**request.query, "limit": self._page})

    async def _silence(self) -> None:
        """Nothing, until the client has enough of it, or faults are over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quieted.wait(), SILENCE_S)


async def _break(request: web.Request, stream: web.StreamResponse, fault: Fault) -> None:
    """End a watch: as the API server ends it, within a line, or with 410 as an event."""
    if fault is Fault.EXPIRED:
        await stream.write(EXPIRED)
    elif fault is Fault.TORN:
        await stream.write(b'{"type":"MODIFIED","object":{"kind":"Po')
        cut(request)
