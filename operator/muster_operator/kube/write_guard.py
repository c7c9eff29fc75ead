"""The leadership guard before each write, and watch freshness.

The guard closes before another replica may acquire the Lease, so that two leaders never write at the same time
(docs/internals/semantics.md, 27). Bind decisions wait while the pod or node watch is stale.
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
    """Seconds of a clock that is never set and, on Linux, also counts while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Named(Protocol):
    """A write with a name for messages."""

    @property
    def name(self) -> str:
        """Built only if a message needs it."""


class GuardedWrite:
    """Context manager around a write and its response, used by the task that writes.

    It has no timer of its own: the guard has one for all writes. Two timers per write, for the guard and for the
    timeout, would cost 5 us.
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
        """Cancels the write with this result, unless it is cancelled already."""
        if self.end is None:
            self.end = end
            self._task.cancel()

    def refused(self) -> NotLeading:
        """The exception for a write that the guard stops."""
        return NotLeading(self._what.name)


class LeadershipGuard:
    """Allows writes until a time. Closed when created. `refused` is called for each stopped write."""

    def __init__(self, clock: Callable[[], float] = running_s, refused: Callable[[], None] = lambda: None) -> None:
        self._clock, self._refused = clock, refused
        self._until = float("-inf")
        self._under_way: set[GuardedWrite] = set()
        self._empty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")  # when the timer expires, by the event loop's clock

    @property
    def left_s(self) -> float:
        """Seconds until it closes without a further renewal; 0 = it is closed."""
        return max(0.0, self._until - self._clock())

    def open_until(self, moment_s: float) -> None:
        """Opens it until a time of `running_s`. The time also applies to writes in flight."""
        self._until = moment_s
        if self._under_way:
            self._look()

    def close(self) -> None:
        """Stops all writes from now on."""
        self.open_until(float("-inf"))

    async def emptied(self) -> None:
        """Waits, after `close`, until all writes in flight have ended."""
        while self._under_way:
            self._empty.clear()
            await self._empty.wait()

    def passed(self, what: Named, within_s: float) -> GuardedWrite:
        """Returns the context manager for a write.

        It raises NotLeading if the guard is closed or closes before the response, TimeoutError after `within_s`.
        """
        return GuardedWrite(self, what, within_s)

    def begin(self, passage: GuardedWrite) -> None:
        """Registers a write that is about to be sent.

        Raises:
            NotLeading: the guard is closed.
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
        """Removes a write that has ended."""
        if passage.end is NotLeading:
            self._refused()
        self._under_way.discard(passage)
        if not self._under_way:
            self._empty.set()

    def _look(self) -> None:
        """Cancels writes that may not continue, and sets the timer for the next one."""
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


#: Seconds without data after which a stream is stale. A silent watch is closed and restarted after 75 s.
STALE_S: Final = 120.0

#: Resources on which all decisions depend.
DECISIVE: Final = frozenset({"pods", "nodes"})


class WatchFreshness:
    """When each watch last delivered data. Called by the inbox. `clock` must also count while the machine sleeps."""

    def __init__(self, clock: Callable[[], float] = running_s) -> None:
        self._clock = clock
        self._delivered: dict[str, float] = {}
        self._delivery = asyncio.Event()

    def note(self, plural: str) -> None:
        """Records that the stream delivered data."""
        self._delivered[plural] = self._clock()
        self._delivery.set()

    @property
    def stale(self) -> str:
        """The resources with a stale stream, separated by commas; empty if there is none."""
        before = self._clock() - STALE_S
        return ", ".join(sorted(plural for plural, at in self._delivered.items() if at < before))

    @property
    def may_decide(self) -> bool:
        """Whether no decisive stream is stale. Called before each write, so it must be fast."""
        before, delivered = self._clock() - STALE_S, self._delivered
        return all(delivered.get(plural, before) >= before for plural in DECISIVE)

    async def all_fresh(self) -> None:
        """Waits until no stream is stale."""
        if stale := self.stale:
            log.warning(
                "watches are stale, waiting for the current cluster state before making decisions", resources=stale
            )
        while self.stale:
            await self._next_delivery()

    async def until_stale(self) -> None:
        """Waits until a decisive stream is stale. Sleeps while none can be."""
        while self.may_decide:
            delivered = [self._delivered[plural] for plural in DECISIVE & self._delivered.keys()]
            await asyncio.sleep(max(0.0, min(delivered, default=self._clock()) + STALE_S - self._clock()) + 0.01)

    async def until_fresh(self) -> None:
        """Waits until no decisive stream is stale."""
        while not self.may_decide:
            await self._next_delivery()

    async def _next_delivery(self) -> None:
        self._delivery.clear()
        await self._delivery.wait()
