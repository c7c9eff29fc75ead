"""NodeResourcesBalancedAllocation: nodes whose cpu and memory are used more evenly with the pod than without it.

kube-scheduler's formula without its rounding: how much nearer the used shares of both come to each other, a quarter
of that in points. A node that has only one of them is as even as can be. Asked by plan/scoring.py; its weight is 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_core.world.columns import BoolColumn, FloatColumn, IntColumn

_QUARTER: Final = 0.25

#: Capacity, what is available, and 1 / capacity.
Amount = tuple[IntColumn, IntColumn, FloatColumn]


class Balance:
    """How a pod changes the evenness of nodes, as keys of plan/scoring: lower is preferred, 1.0 is worth 100 points."""

    __slots__ = ("_asked", "_both", "_first", "_second")

    def __init__(self, first: Amount, second: Amount, asked: tuple[int, int]) -> None:
        self._first, self._second, self._asked = first, second, asked
        self._both: BoolColumn = (first[0] > 0) & (second[0] > 0)

    def keys(self, at: IntColumn | slice, placed: int = 0) -> FloatColumn:
        """Of these rows as they are now, or after `placed` more."""
        (one, left, by), (other, rest, per) = self._first, self._second
        here, there, by, per = one[at] - left[at], other[at] - rest[at], by[at], per[at]
        if placed:
            here += placed * self._asked[0]
            there += placed * self._asked[1]
        without = _gaps(here, by, there, per)
        here += self._asked[0]
        there += self._asked[1]
        change = _gaps(here, by, there, per)
        change -= without
        change *= self._both[at]
        change *= _QUARTER
        return change

    def key(self, row: int, placed: int) -> float:
        """Of one row after `placed` more: to the last bit what `keys` would say then."""
        if not self._both.item(row):
            return 0.0
        return (self._gap(row, placed + 1) - self._gap(row, placed)) * _QUARTER

    def _gap(self, row: int, more: int) -> float:
        (one, left, by), (other, rest, per) = self._first, self._second
        here = (one.item(row) - left.item(row) + more * self._asked[0]) * by.item(row)
        there = (other.item(row) - rest.item(row) + more * self._asked[1]) * per.item(row)
        return abs(min(here, 1.0) - min(there, 1.0))


def _gaps(here: IntColumn, by: FloatColumn, there: IntColumn, per: FloatColumn) -> FloatColumn:
    """How far the used shares are apart; a node that is over its capacity counts as full."""
    gap = here * by
    np.minimum(gap, 1.0, out=gap)
    gap -= np.minimum(there * per, 1.0)
    return np.abs(gap, out=gap)
