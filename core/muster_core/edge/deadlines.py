"""The core's clock as a heap: what was set comes back as `ClockRang` when it is due.

The loop asks for what is due and for the next moment to wake at; there is one
timer, and nothing ticks. A deadline is never cancelled: whoever hears it sees
by its generation that it went stale. Times: nanoseconds since the epoch.
"""

from __future__ import annotations

import heapq
from itertools import count

from muster_core.model.effects import ClockSet
from muster_core.model.events import ClockRang


class Deadlines:
    """What is to ring, the earliest first; equal moments in the order they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ClockRang]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, effect: ClockSet) -> None:
        """Remember to ring."""
        heapq.heappush(self._heap, (effect.at_ns, next(self._order), ClockRang(effect.clock)))

    def due(self, now_ns: int) -> ClockRang | None:
        """Take out the earliest deadline if its moment has come."""
        if not self._heap or self._heap[0][0] > now_ns:
            return None
        return heapq.heappop(self._heap)[2]

    def next_ns(self) -> int | None:
        """When the next one is due, None if nothing is set."""
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        """Forget everything: the world they belong to is gone."""
        self._heap.clear()
