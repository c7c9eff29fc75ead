"""Histograms of waiting times by leaf queue, for metrics. They are not part of the decisions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import add
from typing import Final

from muster_core.model import limits
from muster_core.model.ids import ROOT, QueuePath, parent_path

#: Upper bounds of the buckets in seconds. Creation times of pods have a resolution of one second.
BOUNDS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)
_SECOND_NS: Final = 10**9
_BOUNDS_NS: Final = tuple(bound * _SECOND_NS for bound in BOUNDS_S)


@dataclass(slots=True)
class WaitingTimes:
    """One histogram for each of the first leaf queues; those of further queues are counted for their parents.

    The number of dynamic queues is not limited, and each histogram is a series per bucket.
    """

    _counts: dict[QueuePath, list[int]] = field(default_factory=dict)
    _sums_ns: dict[QueuePath, int] = field(default_factory=dict)

    def note(self, queue: QueuePath, *waited_ns: int) -> None:
        """Records waiting times. One below 0, because clocks differ, counts as 0."""
        counts = self._counts.get(queue)
        if counts is None:
            queue = self._series(queue)
            counts = self._counts.setdefault(queue, [0] * (len(BOUNDS_S) + 1))
        sum_ns = self._sums_ns.get(queue, 0)
        for waited in waited_ns:
            counts[bisect_left(_BOUNDS_NS, waited)] += 1
            if waited > 0:
                sum_ns += waited
        self._sums_ns[queue] = sum_ns

    def _series(self, queue: QueuePath) -> QueuePath:
        if len(self._counts) < limits.TIMED_QUEUES:
            return queue
        while queue not in self._counts and queue != ROOT:
            queue = parent_path(queue)
        return queue

    def __iter__(self) -> Iterator[tuple[QueuePath, list[int], float]]:
        """Queue, counts of the buckets with the last one above all bounds, and the sum in seconds."""
        for queue, counts in list(self._counts.items()):
            yield queue, counts, self._sums_ns[queue] / _SECOND_NS


def sums(several: Iterable[WaitingTimes]) -> list[tuple[QueuePath, list[int], float]]:
    """The sums over partitions, which may have queues of the same path."""
    found: dict[QueuePath, tuple[list[int], float]] = {}
    for times in several:
        for queue, counts, seconds in times:
            known, sum_s = found.get(queue, ([0] * len(counts), 0.0))
            found[queue] = [*map(add, known, counts)], sum_s + seconds
    return [(queue, *both) for queue, both in found.items()]
