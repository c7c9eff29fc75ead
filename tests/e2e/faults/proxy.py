"""The proxy that injects the scheduled faults, counts them, and lets callers wait for the n-th write.

Requests that get an error response are not forwarded; ``..._AFTER`` faults forward them and drop the response. Lists
are requested in small pages, so that even a short list has a second page that can expire.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from devcluster.api import Access
from devcluster.certificates import ServerFiles
from tests.e2e.faults.schedule import Fault, Kind, PlannedFault, Schedule, kind_of
from tests.e2e.proxy import EXPIRED, Proxy, cut, error_response, is_watch

HANG_S = 40.0
"""Maximum time without a response, after which the connection is cut. Longer than any client timeout."""

WRITES = frozenset({Kind.BIND, Kind.CREATE, Kind.DELETE, Kind.PATCH})

ERRORS = {
    Fault.CONFLICT: (409, "Conflict", None),
    Fault.THROTTLED: (429, "TooManyRequests", 1),
    Fault.ERROR: (500, "InternalError", None),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable", None),
    Fault.GONE: (410, "Expired", None),
}
"""Status, reason and Retry-After of the faults that are error responses."""

PLANNED_FAULT = web.RequestKey("planned_fault", PlannedFault)
"""The planned fault of a watch."""

STREAM_FAULTS = frozenset({Fault.CUT, Fault.TORN, Fault.EXPIRED})


class FaultyProxy(Proxy):
    """``done`` counts faults by kind of request; ``quiet`` stops all faults.

    ``page``: objects per page of a list, instead of the requested limit.
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
        """Number of writes of pods so far."""
        return sum(self.requests[kind] for kind in WRITES)

    def quiet(self) -> None:
        """Stop all faults, so that Muster can finish its work."""
        self._quieted.set()

    async def reaches(self, kinds: frozenset[Kind], count: int) -> None:
        """Wait for ``count`` further requests of these kinds."""
        total = count + sum(self.requests[kind] for kind in kinds)
        async with self._moved:
            await self._moved.wait_for(lambda: sum(self.requests[kind] for kind in kinds) >= total)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Apply the planned fault of the request, if it has one."""
        kind = kind_of(request.method, request.path, request.query)
        planned = None if self._quieted.is_set() else self._schedule.next(kind)
        self.requests[kind] += 1
        async with self._moved:
            self._moved.notify_all()
        if planned is None or planned.fault in STREAM_FAULTS:
            return await self._pass_on(request, planned)
        self.done[kind, planned.fault] += 1
        return await self._inject(request, planned)

    async def stream(self, request: web.Request, answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
        """Forward the lines of a watch until its planned fault."""
        planned = request.get(PLANNED_FAULT)
        if planned is None:
            await super().stream(request, answer, stream)
            return
        kind = kind_of(request.method, request.path, request.query)
        remaining = planned.after if kind is Kind.WATCH_PODS else 0
        rest = b""
        while remaining > 0 or self._quieted.is_set():
            chunk = await answer.content.readany()
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            await stream.write(b"".join(line + b"\n" for line in lines))
            remaining -= len(lines)
        self.done[kind, planned.fault] += 1
        await _break(request, stream, planned.fault)

    async def _pass_on(self, request: web.Request, planned: PlannedFault | None) -> web.StreamResponse:
        """Forward the request, and record the planned fault of a watch."""
        if planned is not None and is_watch(request):
            request[PLANNED_FAULT] = planned
        async with self.forwarded(request, self._small_pages(request)) as answer:
            return await self.relay(request, answer)

    async def _inject(self, request: web.Request, planned: PlannedFault) -> web.StreamResponse:
        """Apply a fault before or after the API server handles the request."""
        match planned.fault:
            case Fault.SLOW:
                await asyncio.sleep(planned.delay_s)
                return await self._pass_on(request, None)
            case Fault.UNANSWERED_BEFORE:
                await self._hang()
            case Fault.UNANSWERED_AFTER | Fault.RESET_AFTER:
                async with self.forwarded(request) as answer:
                    await answer.read()
                if planned.fault is Fault.UNANSWERED_AFTER:
                    await self._hang()
            case Fault.RESET_BEFORE:
                pass
            case _:
                code, reason, retry_after_s = ERRORS[planned.fault]
                return error_response(code, reason, "a fault was injected", retry_after_s)
        return cut(request)

    def _small_pages(self, request: web.Request) -> str | None:
        """The query with a smaller limit, or None if it has no limit."""
        if "limit" not in request.query:
            return None
        return urlencode({**request.query, "limit": self._page})

    async def _hang(self) -> None:
        """Send nothing until the client disconnects or faults are stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quieted.wait(), HANG_S)


async def _break(request: web.Request, stream: web.StreamResponse, fault: Fault) -> None:
    """End a watch: normally, within a line, or with 410 as an event."""
    if fault is Fault.EXPIRED:
        await stream.write(EXPIRED)
    elif fault is Fault.TORN:
        await stream.write(b'{"type":"MODIFIED","object":{"kind":"Po')
        cut(request)
