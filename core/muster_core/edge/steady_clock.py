"""The core's clock: nanoseconds since the epoch as they were at its start, counted on by a monotonic clock.

A step of the system clock, manual or by NTP, therefore neither shortens nor extends a timeout. Times that people
read follow the system clock again with the next start. Used by loop.py; below the edge time is an argument.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class SteadyClock:
    """Never goes back, and never jumps."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def __call__(self) -> int:
        """Nanoseconds since the epoch."""
        return self._offset_ns + self._monotonic_ns()
