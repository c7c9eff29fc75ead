"""PodTopologySpread's score: domains with fewer of the pods that ScheduleAnyway constraints select.

Per constraint the matching pods in the node's domain weigh more the more
domains there are (by the logarithm), and maxSkew - 1 is added; the sum is
rounded, and the nodes are put between 0 and 100 so that the emptiest has 100.
Which nodes count is as in the filter, but for kubernetes.io/hostname, where
the pods of the node itself are counted. Nodes without all the keys have 0.
Source: Kubernetes 1.36, "Pod Topology Spread Constraints"; its weight among the scores is 2.

Kubernetes' own default constraints (for pods without any) are not there: they select by the pod's Services and
owners, which the core does not know.

Differs: while members of one shape are placed together, points stay relative to the nodes that were left for the
first of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_core.model.company import Spread
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.topology import domains
from muster_core.plan.feasibility.topology_spread import counts, honoured, is_meant, with_keys
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.world.domains import Domains

_WEIGHT: Final = 2
_MOST: Final = 100
_HOST: Final = "kubernetes.io/hostname"
_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


class Evenness:
    """All such constraints of a shape.

    `_rows`: those with all the keys, the first `_left` of them those among which points are shared out; `_places`: per
    row where it is there, -1 = it is not. `_sums`: per place what the node has too many.
    """

    __slots__ = ("_high", "_left", "_low", "_parts", "_places", "_points", "_rows", "_sums")

    def __init__(self, draft: Draft, shape: Shape, constraints: Sequence[Spread], among: BoolColumn) -> None:
        keyed = with_keys(draft, constraints)
        left = np.flatnonzero(keyed & among)
        self._left = len(left)
        self._rows = np.concatenate((left, np.flatnonzero(keyed & ~among)))
        self._places = np.full(draft.size, -1, dtype=np.int64)
        self._places[self._rows] = np.arange(len(self._rows))
        self._parts = [_Part(draft, shape, one, keyed, left) for one in constraints]
        self._sums = self._summed(self._rows)
        self._low, self._high = self._bounds()
        self._points = np.zeros(draft.size)
        self._points[self._rows] = self._normal(self._sums)

    def points(self) -> FloatColumn:
        """From 0 to 100, times the weight."""
        return self._points

    def add(self, row: int) -> IntColumn | None:
        """The nodes of its domains have one more; who has most or least may be others then."""
        changed = [rows for part in self._parts if len(rows := part.add(row))]
        if not changed:
            return None
        for rows in changed:
            places = self._places[rows]
            self._sums[places[places >= 0]] = self._summed(rows[places >= 0])
        before = self._low, self._high
        self._low, self._high = self._bounds()
        rows = np.concatenate(changed) if (self._low, self._high) == before else self._rows
        rows = rows[self._places[rows] >= 0]
        points = self._normal(self._sums[self._places[rows]])
        moved = rows[points != self._points[rows]]
        self._points[rows] = points
        return moved if len(moved) else None

    def _summed(self, rows: IntColumn) -> IntColumn:
        """Halves are rounded up, as there."""
        sums = np.zeros(len(rows))
        for part in self._parts:
            sums += part.weighed(rows)
        return np.floor(sums + 0.5).astype(np.int64)

    def _bounds(self) -> tuple[int, int]:
        sums = self._sums[: self._left]
        return int(sums.min(initial=np.iinfo(np.int64).max)), int(sums.max(initial=0))

    def _normal(self, sums: IntColumn) -> FloatColumn:
        if not self._left or not self._high:
            return np.full(len(sums), float(_WEIGHT * _MOST))
        shares: FloatColumn = (_MOST * (self._high + self._low - sums) // self._high).astype(np.float64)
        shares *= _WEIGHT
        return shares


class _Part:
    """One constraint. `_codes`: per row the number of its domain, or of itself; `_amounts`: by that number what the
    pods there weigh.
    """

    __slots__ = ("_amounts", "_codes", "_counted", "_counts", "_domains", "_is_own", "_rest", "_weight")

    def __init__(self, draft: Draft, shape: Shape, constraint: Spread, keyed: BoolColumn, left: IntColumn) -> None:
        self._domains: Domains | None = None
        if constraint.topology == _HOST:
            self._codes = self._counted = np.arange(draft.size)
            size, number = draft.size, len(left)
        else:
            self._domains = domains(draft.nodes, constraint.topology)
            self._codes, size = self._domains.codes, self._domains.count
            self._counted = np.where(honoured(draft, shape, constraint, keyed), self._codes, -1)
            number = len(np.unique(self._codes[left]))
        self._counts = counts(draft, constraint, self._counted, size)
        self._weight, self._rest = math.log(number + 2), constraint.max_skew - 1
        self._amounts = self._counts.astype(np.float64)
        self._amounts *= self._weight
        self._amounts += self._rest
        self._is_own = bool(constraint.selector) and is_meant(constraint, shape)

    def weighed(self, rows: IntColumn) -> FloatColumn:
        """What the pods weigh for each of the rows."""
        found: FloatColumn = self._amounts[self._codes[rows]]
        return found

    def add(self, row: int) -> IntColumn:
        """The rows for which they weigh more now."""
        code = self._counted.item(row)
        if not self._is_own or code < 0:
            return _NO_ROWS
        self._counts[code] += 1
        self._amounts[code] = self._counts.item(code) * self._weight + self._rest
        return np.array([row]) if self._domains is None else self._domains.members(code)


def score(draft: Draft, shape: Shape, among: BoolColumn) -> Evenness | None:
    """Of a shape with such constraints."""
    constraints = [one for one in shape.occupant.facts.company.spread if not one.required]
    return Evenness(draft, shape, constraints, among) if constraints else None
