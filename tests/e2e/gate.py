"""A gate between the operator and the API server: holds, fails, delays or loses requests of a kind.

With it a test stops the operator at an exact step: hold the third bind, see it arrive, kill -9. A held request whose
client was killed is never forwarded, as if the process had been killed just before sending it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Protocol

import aiohttp
from aiohttp import web

from devcluster.api import Access
from devcluster.certificates import ServerFiles
from devcluster.waiting import until
from tests.e2e.proxy import EXPIRED, Proxy, cut, error_response, is_watch


class Action(Enum):
    """What happens to a matching request."""

    HOLD = auto()
    """Wait until released, then forward or drop it."""
    FAIL = auto()
    """Answer with a failure and do not forward it."""
    DELAY = auto()
    """Forward it later."""
    DROP_RESPONSE = auto()
    """Forward it, then cut the connection, so that the client gets no response."""


@dataclass(slots=True)
class Rule:
    """Applies to matching requests after the first ``skip`` of them, ``times`` times (None: always)."""

    action: Action
    method: str
    path: re.Pattern[str]
    skip: int = 0
    times: int | None = None
    status: int = 500
    retry_after_s: int | None = None
    delay_s: float = 0.0
    seen: list[str] = field(default_factory=list)
    """``METHOD path`` of every matching request."""
    _matched: int = 0
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, method: str, path: str) -> bool:
        """Whether the rule applies to this request. Counts matching requests."""
        if method != self.method or not self.path.search(path):
            return False
        self._matched += 1
        if self._matched <= self.skip or (self.times is not None and len(self.seen) >= self.times):
            return False
        if self._opened.is_set():
            return False
        self.seen.append(f"{method} {path}")
        return True

    async def reached(self, count: int = 1, deadline_s: float = 90.0) -> None:
        """Wait until the rule applied ``count`` times. Raises ConditionNotMet."""

        async def enough() -> bool:
            return len(self.seen) >= count

        await until(f"{count} times {self.method} {self.path.pattern} at the gate", enough, deadline_s, every_s=0.005)

    def open(self) -> None:
        """Release the held requests and apply to no further ones."""
        self._opened.set()

    async def opened(self) -> None:
        """Wait until the rule is opened."""
        await self._opened.wait()


class Faults(Protocol):
    """Decides which requests get a fault."""

    async def answer(self, gate: Gate, request: web.Request) -> web.Response | None:
        """The answer to a request with a fault. None for others, which the gate forwards."""


class Gate(Proxy):
    """The proxy with rules; ``async with Gate(access, files) as gate``, then ``gate.url`` in the kubeconfig."""

    def __init__(self, upstream: Access, files: ServerFiles) -> None:
        super().__init__(upstream, files)
        self._rules: list[Rule] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._generation = self._cuts = 0
        self.requests: Counter[tuple[str, str, bool]] = Counter()
        """Method, path and whether it was a watch, of every request without a label selector.

        The requests with one are of the detection of YuniKorn, which repeats its lists.
        """
        self.faults: Faults | None = None
        self.waiting = 0
        """Number of held requests whose clients are still connected."""
        self.watches: Counter[str] = Counter()
        """Number of open watches by path."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        await super().__aexit__(kind, error, trace)

    def add(self, rule: Rule) -> Rule:
        """Add a rule. The first matching rule applies."""
        self._rules.append(rule)
        return rule

    def hold(self, method: str, path: str, *, skip: int = 0, times: int | None = None) -> Rule:
        """Hold matching requests until ``rule.open()``."""
        return self.add(Rule(Action.HOLD, method, re.compile(path), skip=skip, times=times))

    def fail(
        self, method: str, path: str, status: int, *, times: int | None = 1, retry_after_s: int | None = None
    ) -> Rule:
        """Answer matching requests with this status."""
        pattern = re.compile(path)
        return self.add(Rule(Action.FAIL, method, pattern, times=times, status=status, retry_after_s=retry_after_s))

    def drop_response(self, method: str, path: str, *, times: int | None = 1) -> Rule:
        """Forward matching requests and cut the connection instead of answering."""
        return self.add(Rule(Action.DROP_RESPONSE, method, re.compile(path), times=times))

    def delay(self, method: str, path: str, delay_s: float, *, times: int | None = None) -> Rule:
        """Forward matching requests later."""
        return self.add(Rule(Action.DELAY, method, re.compile(path), times=times, delay_s=delay_s))

    def freeze_watches(self) -> None:
        """Hold back watch events until ``clear``. Other requests pass."""
        self._flowing.clear()

    def expire_watches(self) -> None:
        """Drop the held events: open watches end with 410 Gone, as if the API server had compacted their version."""
        self._generation += 1
        self._flowing.set()

    def cut_watches(self) -> None:
        """Cut the connection of each open watch at its next event, as a restarted load balancer does."""
        self._generation += 1
        self._cuts = self._generation

    def clear(self) -> None:
        """Remove all rules and release the held requests."""
        self._flowing.set()
        for rule in self._rules:
            rule.open()
        self._rules.clear()
        self.faults = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Apply the first matching rule; without one, forward the request."""
        if "labelSelector" not in request.query:
            self.requests[request.method, request.path, is_watch(request)] += 1
        if self.faults is not None and (fault := await self.faults.answer(self, request)) is not None:
            return fault
        rule = next((rule for rule in self._rules if rule.matches(request.method, request.path)), None)
        match rule:
            case Rule(action=Action.HOLD):
                self.waiting += 1
                try:
                    await rule.opened()
                finally:
                    self.waiting -= 1
            case Rule(action=Action.FAIL):
                return error_response(rule.status, "Gate", "gate", rule.retry_after_s)
            case Rule(action=Action.DELAY):
                await asyncio.sleep(rule.delay_s)
            case _:
                pass
        async with self.forwarded(request) as answer:
            if rule is not None and rule.action is Action.DROP_RESPONSE:
                await answer.read()
                return cut(request)
            return await self.relay(request, answer)

    async def stream(self, request: web.Request, answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
        """Forward the events of a watch unless watches are frozen. Events of expired watches are dropped."""
        generation = self._generation
        self.watches[request.path] += 1
        try:
            async for chunk in answer.content.iter_any():
                await self._flowing.wait()
                if self._generation != generation and self._generation == self._cuts:
                    cut(request)
                    return
                if self._generation != generation:
                    await stream.write(EXPIRED)
                    return
                await stream.write(chunk)
        finally:
            self.watches[request.path] -= 1
