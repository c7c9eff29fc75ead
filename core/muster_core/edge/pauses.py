"""When the next cycle may begin: a cycle costs something however few it is for, so one waits for company.

Who asks alone is served at once. While asks keep coming, cycles follow each other at a distance, and take no more than
a share of the time: a burst is planned in few passes, which is what a burst needs. Used by loop.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: From one cycle's beginning to the next one's, at least: what somebody may wait who asks just after another.
_LEAST_S: Final = 0.004
#: From its end, at most, however long it took.
_MOST_S: Final = 0.040
#: Cycles' share of the time is one of so many parts.
_PARTS: Final = 5


class Pauses:
    """Seconds of any steady clock. `ring` is called when a pause that somebody met is over."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Whether somebody met a pause, and has not been rung yet."""
        return self._timer is not None

    def cycled(self, began_s: float, ended_s: float) -> None:
        """A cycle was made."""
        took_s = ended_s - began_s
        self.begin(ended_s + min(max(_LEAST_S - took_s, (_PARTS - 1) * took_s), _MOST_S))

    def begin(self, until_s: float) -> None:
        """From now until then no cycle begins."""
        self._until_s = until_s

    def left_s(self, now_s: float) -> float:
        """Seconds until the next one may begin; 0 = now."""
        return max(0.0, self._until_s - now_s)

    def holds(self, now_s: float) -> bool:
        """Whether a cycle has to wait; then its end is rung."""
        left_s = self.left_s(now_s)
        if left_s and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._over)
        return left_s > 0

    def stop(self) -> None:
        """Not ring any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        self._ring()
