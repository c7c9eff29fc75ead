"""Watch freshness: when each watched resource last delivered a byte, a bookmark or a finished list.

API servers send each watch a bookmark a minute, so a stream that delivers nothing for `STALE_S` is dead, whatever the
Lease or other requests say. What is known of its objects is old then, and a decision by it may be wrong. So a leader
with a stale stream of pods or nodes carries out no decision (`link.api.pool`), and a standby takes over only from what
is current.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from muster_operator.link.leading.fence import running_s

log = structlog.get_logger("muster.freshness")

#: Seconds without a byte after which a stream is stale; a silent watch is cut, and begun again, after 75 s.
STALE_S: Final = 120.0
#: What every decision rests on.
DECISIVE: Final = frozenset({"pods", "nodes"})


class WatchFreshness:
    """Noted by the inbox. `clock`: seconds of a steady clock that also counts while the machine sleeps."""

    def __init__(self, clock: Callable[[], float] = running_s) -> None:
        self._clock = clock
        self._delivered: dict[str, float] = {}
        self._delivery = asyncio.Event()

    def note(self, plural: str) -> None:
        """Record that the stream delivered something."""
        self._delivered[plural] = self._clock()
        self._delivery.set()

    @property
    def stale(self) -> str:
        """The resources that delivered something once and not lately; empty = none."""
        before = self._clock() - STALE_S
        return ", ".join(sorted(plural for plural, at in self._delivered.items() if at < before))

    @property
    def may_decide(self) -> bool:
        """Whether no stream is stale that every decision rests on. Asked before each write, so it is short."""
        before, delivered = self._clock() - STALE_S, self._delivered
        return all(delivered.get(plural, before) >= before for plural in DECISIVE)

    async def all_fresh(self) -> None:
        """Wait until no stream at all is stale."""
        if stale := self.stale:
            log.warning(
                "watches are stale, waiting for the current cluster state before making decisions", resources=stale
            )
        while self.stale:
            await self._next_delivery()

    async def until_stale(self) -> None:
        """Wait until a stream is stale that every decision rests on. It sleeps as long as none can be."""
        while self.may_decide:
            delivered = [self._delivered[plural] for plural in DECISIVE & self._delivered.keys()]
            await asyncio.sleep(max(0.0, min(delivered, default=self._clock()) + STALE_S - self._clock()) + 0.01)

    async def until_fresh(self) -> None:
        """Wait until no stream is stale that every decision rests on."""
        while not self.may_decide:
            await self._next_delivery()

    async def _next_delivery(self) -> None:
        self._delivery.clear()
        await self._delivery.wait()
