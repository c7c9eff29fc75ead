"""A gate between the operator and the API server: holds, fails, delays or loses requests of a kind.

With it a test stops the operator at an exact step: hold the third bind, see it arrive, kill -9. A held request whose
client died is never sent on, as if the process had died just before sending it. It ends TLS with a certificate of the
cluster's own authority, so the operator cannot tell it from the API server.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from devcluster.api import Access
from devcluster.certificates import ServerFiles
from devcluster.waiting import until

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
"""Headers that belong to one connection and are made anew for the next (RFC 9110, 7.6.1)."""


EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired","message":"gate"}}\n'
)
"""What the API server says to a watch whose version it has compacted away."""


class Action(Enum):
    """What happens to a matching request."""

    HOLD = auto()
    """Wait until released; then send it on, or drop it."""
    FAIL = auto()
    """Answer with a failure; the API server never sees it."""
    DELAY = auto()
    """Send it on after a while."""
    LOSE_ANSWER = auto()
    """Send it on, then cut the connection instead of answering: the client cannot know (semantics 20)."""


@dataclass(slots=True)
class Rule:
    """Applies to matching requests after the first ``skip`` of them, ``times`` times (None: always)."""

    action: Action
    method: str
    path: re.Pattern[str]
    skip: int = 0
    times: int | None = None
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    seen: list[str] = field(default_factory=list)
    """``METHOD path`` of every request it applied to."""
    _matched: int = 0
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, method: str, path: str) -> bool:
        """Whether this request is the rule's; counts it."""
        if method != self.method or not self.path.search(path):
            return False
        self._matched += 1
        if self._matched <= self.skip or (self.times is not None and len(self.seen) >= self.times):
            return False
        if self._opened.is_set():
            return False
        self.seen.append(f"{method} {path}")
        return True

    async def reached(self, count: int = 1, deadline_s: float = 30.0) -> None:
        """Wait until the rule applied ``count`` times. Raises ConditionNotMet."""

        async def enough() -> bool:
            return len(self.seen) >= count

        await until(f"{count} times {self.method} {self.path.pattern} at the gate", enough, deadline_s, every_s=0.005)

    def open(self) -> None:
        """Let what is held go on, and take no more."""
        self._opened.set()

    async def opened(self) -> None:
        """Wait for that."""
        await self._opened.wait()


class Gate:
    """The proxy; ``async with Gate(access, files) as gate``, then ``gate.url`` in the operator's kubeconfig."""

    def __init__(self, upstream: Access, files: ServerFiles) -> None:
        self._upstream = upstream
        self._files = files
        self._rules: list[Rule] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._generation = 0
        self.requests: Counter[tuple[str, str, bool]] = Counter()
        """Method, path and whether it was a watch, of everything that came to the gate."""
        self.url = ""
        self.waiting = 0
        """How many requests are held just now, whose clients still live."""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._upstream.tls)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        # Cancelled handlers are what makes a held request die with its client.
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._files.context())
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"https://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        await self._runner.cleanup()
        await self._session.close()

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force; the first that takes a request decides."""
        self._rules.append(rule)
        return rule

    def hold(self, method: str, path: str, *, skip: int = 0, times: int | None = None) -> Rule:
        """Hold matching requests until ``rule.open()``."""
        return self.add(Rule(Action.HOLD, method, re.compile(path), skip=skip, times=times))

    def fail(
        self, method: str, path: str, status: int, *, times: int | None = 1, retry_after_s: int | None = None
    ) -> Rule:
        """Answer matching requests with this status."""
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        return self.add(Rule(Action.FAIL, method, re.compile(path), times=times, status=status, headers=headers))

    def lose_answer(self, method: str, path: str, *, times: int | None = 1) -> Rule:
        """Send matching requests on and cut the connection instead of answering."""
        return self.add(Rule(Action.LOSE_ANSWER, method, re.compile(path), times=times))

    def delay(self, method: str, path: str, delay_s: float, *, times: int | None = None) -> Rule:
        """Send matching requests on later."""
        return self.add(Rule(Action.DELAY, method, re.compile(path), times=times, delay_s=delay_s))

    def freeze_watches(self) -> None:
        """Events of the API server no longer get through, until ``clear``; requests do."""
        self._flowing.clear()

    def expire_watches(self) -> None:
        """What was frozen is lost: open watches end with 410 Gone, as if the API server had forgotten their version."""
        self._generation += 1
        self._flowing.set()

    def clear(self) -> None:
        """No more rules; everything held goes on."""
        self._flowing.set()
        for rule in self._rules:
            rule.open()
        self._rules.clear()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests[request.method, request.path, _is_watch(request)] += 1
        rule = next((rule for rule in self._rules if rule.takes(request.method, request.path)), None)
        match rule:
            case Rule(action=Action.HOLD):
                self.waiting += 1
                try:
                    await rule.opened()
                finally:
                    self.waiting -= 1
            case Rule(action=Action.FAIL):
                return _failure(rule)
            case Rule(action=Action.DELAY):
                await asyncio.sleep(rule.delay_s)
            case _:
                pass
        lose = rule is not None and rule.action is Action.LOSE_ANSWER
        return await self._forward(request, lose_answer=lose)

    async def _forward(self, request: web.Request, *, lose_answer: bool) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read()
        try:
            async with self._session.request(
                request.method, self._upstream.server + request.path_qs, data=body or None, headers=headers
            ) as answer:
                if lose_answer:
                    await answer.read()
                    return _cut(request)
                return await self._answer(request, answer)
        except aiohttp.ClientError:
            return _cut(request)

    async def _answer(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        if not _is_watch(request):
            return web.Response(status=answer.status, headers=headers, body=await answer.read())
        stream = web.StreamResponse(status=answer.status, headers=headers)
        await stream.prepare(request)
        generation = self._generation
        async for chunk in answer.content.iter_any():
            await self._flowing.wait()
            if self._generation != generation:
                await stream.write(EXPIRED)
                break
            await stream.write(chunk)
        await stream.write_eof()
        return stream


def _is_watch(request: web.Request) -> bool:
    return request.query.get("watch") in {"1", "true"}


def _failure(rule: Rule) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": rule.status,
        "message": "gate",
        "reason": "Gate",
    }
    return web.json_response(status, status=rule.status, headers=dict(rule.headers))


def _cut(request: web.Request) -> web.Response:
    """Close the connection under the client; the answer made here reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
