"""The leadership guard before each write, and watch freshness.

The guard closes before another replica may take the Lease, so two leaders never write at the same time (semantics 27,
ADR 0012). Bind decisions are held while the pod or node watch is stale.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

import structlog

from muster_operator.model.errors import NotLeading

log = structlog.get_logger("muster.freshness")


def running_s() -> float:
    """Seconds on a clock that is never set and, on Linux, also counts the time in which the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Named(Protocol):
    """A write, by what people call it."""

    @property
    def name(self) -> str:
        """Made only where it is said."""


class GuardedWrite:
    """A write between its question and its answer, entered by the task that writes.

    It has no timer: the fence has one for all of them. A timer each, for the fence and for the answer that does not
    come, cost every write 5 us.
    """

    __slots__ = ("_cancelling", "_fence", "_task", "_what", "end", "late_at", "within_s")

    def __init__(self, fence: LeadershipGuard, what: Named, within_s: float) -> None:
        self._fence, self._what, self.within_s = fence, what, within_s
        self.late_at = 0.0
        self.end: type[NotLeading | TimeoutError] | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a write belongs to a task")
        self._task, self._cancelling = task, task.cancelling()
        self._fence.begin(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fence.end(self)
        if self.end is None or self._task.uncancel() > self._cancelling:
            return
        if isinstance(error, asyncio.CancelledError | TimeoutError):
            raise (self.refused() if self.end is NotLeading else TimeoutError()) from error

    def cut(self, end: type[NotLeading | TimeoutError]) -> None:
        """Let the write end this way, if it has not been told yet that it ends."""
        if self.end is None:
            self.end = end
            self._task.cancel()

    def refused(self) -> NotLeading:
        """What its writer is told whom the fence stops."""
        return NotLeading(self._what.name)


class LeadershipGuard:
    """Closed when made. `refused`: called for each write that it stopped."""

    def __init__(self, clock: Callable[[], float] = running_s, refused: Callable[[], None] = lambda: None) -> None:
        self._clock, self._refused = clock, refused
        self._until = float("-inf")
        self._under_way: set[GuardedWrite] = set()
        self._empty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")  # when the timer rings, by the event loop's clock

    @property
    def left_s(self) -> float:
        """Seconds for which it stays open if nothing more is received; 0 = it is closed."""
        return max(0.0, self._until - self._clock())

    def open_until(self, moment_s: float) -> None:
        """Open it until then by `running_s`; what is under way may take as long."""
        self._until = moment_s
        if self._under_way:
            self._look()

    def close(self) -> None:
        """Nothing may be written from now on."""
        self.open_until(float("-inf"))

    async def emptied(self) -> None:
        """Wait, after `close`, until what was under way has been cut off."""
        while self._under_way:
            self._empty.clear()
            await self._empty.wait()

    def passed(self, what: Named, within_s: float) -> GuardedWrite:
        """Do a write in the block.

        It raises NotLeading: we may not, or may not any more before the answer came; TimeoutError: none came in time.
        """
        return GuardedWrite(self, what, within_s)

    def begin(self, passage: GuardedWrite) -> None:
        """A write is about to be sent.

        Raises:
            NotLeading: we may not.
        """
        left_s = self.left_s
        if left_s <= 0:
            self._refused()
            raise passage.refused()
        now = asyncio.get_running_loop().time()
        passage.late_at = now + passage.within_s
        self._under_way.add(passage)
        if (due := min(passage.late_at, now + left_s)) < self._due:
            self._ring_at(due)

    def end(self, passage: GuardedWrite) -> None:
        """It was answered, or will not be."""
        if passage.end is NotLeading:
            self._refused()
        self._under_way.discard(passage)
        if not self._under_way:
            self._empty.set()

    def _look(self) -> None:
        """Cut off what may not continue, and look again when the next one may not."""
        now, left_s = asyncio.get_running_loop().time(), self.left_s
        due = float("inf")
        for passage in self._under_way:
            if left_s <= 0:
                passage.cut(NotLeading)
            elif passage.late_at <= now:
                passage.cut(TimeoutError)
            elif passage.end is None:
                due = min(due, passage.late_at, now + left_s)
        self._ring_at(due)

    def _ring_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None if due == float("inf") else asyncio.get_running_loop().call_at(due, self._look)


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
