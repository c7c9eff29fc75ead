"""The last question before every write to the API server: may we, still?

Open until a moment that each renewal of the lease moves on, and that lies well before the one at which another may take
it. Asked when a request is about to be sent; requests under way when it closes are cut off. The clock goes on while
the machine sleeps, where there is such a clock: a process that wakes up after an hour must not write first and look
later.

What no fence on our side can do is take back what the API server has already read: it may still act on it while the
next holder begins (so may it if we are stopped between the question and the write). Such a straggler does no harm,
because every write names what it is about. A bind carries the pod's UID and a pod is bound once, so the next holder's
own bind meets 409 and is settled by reading the pod. A delete carries the UID. A placeholder's name follows from gang,
group and ordinal, so a second one of that name is refused, and the first is found to be ours. Patches of conditions
carry the UID and are written again when they are no longer true. Room that a straggling bind takes is accounted when
the watch shows it, and the kubelet refuses what does not fit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

from muster_operator.link.errors import NotLeading


def running_s() -> float:
    """Seconds on a clock that is never set and, on Linux, also counts the time in which the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Named(Protocol):
    """A write, by what people call it."""

    @property
    def name(self) -> str:
        """Made only where it is said."""


class Passage:
    """A write between its question and its answer; a class, because a generator costs every write 2 us."""

    __slots__ = ("_fence", "_limit", "_what")

    def __init__(self, fence: Fence, what: Named) -> None:
        self._fence, self._what = fence, what

    async def __aenter__(self) -> None:
        self._limit = self._fence.begin(self._what)
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise NotLeading(self._what.name) from late
        finally:
            self._fence.end(self._limit)
        if isinstance(error, TimeoutError) and self._limit.expired():
            raise NotLeading(self._what.name) from error


class Fence:
    """Closed when made. `refused`: called for each write that it stopped."""

    def __init__(self, clock: Callable[[], float] = running_s, refused: Callable[[], None] = lambda: None) -> None:
        self._clock, self._refused = clock, refused
        self._until = float("-inf")
        self._under_way: set[asyncio.Timeout] = set()
        self._empty = asyncio.Event()

    @property
    def left_s(self) -> float:
        """Seconds for which it stays open if nothing more is heard; 0 = it is closed."""
        return max(0.0, self._until - self._clock())

    def open_until(self, moment_s: float) -> None:
        """Open it until then by `running_s`; what is under way may take as long."""
        self._until = moment_s
        for limit in self._under_way:
            if not limit.expired():
                limit.reschedule(self._end())

    def close(self) -> None:
        """Nothing may be written from now on."""
        self.open_until(float("-inf"))

    async def emptied(self) -> None:
        """Wait, after `close`, until what was under way has been cut off."""
        while self._under_way:
            self._empty.clear()
            await self._empty.wait()

    def passed(self, what: Named) -> Passage:
        """Do a write in the block. It raises NotLeading: we may not, or may not any more before the answer came."""
        return Passage(self, what)

    def begin(self, what: Named) -> asyncio.Timeout:
        """A write is about to be sent; what cuts it off.

        Raises:
            NotLeading: we may not.
        """
        if self.left_s <= 0:
            self._refused()
            raise NotLeading(what.name)
        limit = asyncio.timeout_at(self._end())
        self._under_way.add(limit)
        return limit

    def end(self, limit: asyncio.Timeout) -> None:
        """It was answered, or will not be."""
        if limit.expired():
            self._refused()
        self._under_way.discard(limit)
        self._empty.set()

    def _end(self) -> float | None:
        """When it closes by the event loop's clock, None = never."""
        left_s = self.left_s
        return None if left_s == float("inf") else asyncio.get_running_loop().time() + left_s
