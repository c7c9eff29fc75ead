"""The core's one timer: wakes the loop when the next deadline is due. Used by loop.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: It sleeps no longer, so that a wall clock that was put right is noticed.
_LONGEST_SLEEP_S: Final = 600.0


class Alarm:
    """`ring` is called once per setting, at the moment set or soon after."""

    def __init__(self, now_ns: Callable[[], int], ring: Callable[[], None]) -> None:
        self._now_ns = now_ns
        self._ring = ring
        self._at_ns: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ns: int | None) -> None:
        """Ring at this moment since the epoch instead of the one before; None = never."""
        if at_ns == self._at_ns and self._timer is not None:
            return
        self.stop()
        self._at_ns = at_ns
        if at_ns is not None:
            delay = min(max((at_ns - self._now_ns()) / 1e9, 0.0), _LONGEST_SLEEP_S)
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def stop(self) -> None:
        """Not ring any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._ring()
