"""Score PodTopologySpread: topology spread constraints with `whenUnsatisfiable: ScheduleAnyway`.

Differs: while pods of one shape are placed together, points are normalised over the nodes that were feasible for the
first of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from muster_core.model.constraints import TopologySpreadConstraint
from muster_core.placement.filters.inter_pod_affinity import cells, domains
from muster_core.placement.filters.topology_spread import counts, honoured, is_meant, with_keys
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.state.nodes import Cells
from muster_core.state.snapshot import RequestShape, Snapshot

_WEIGHT: Final = 2
_MOST: Final = 100
_HOST: Final = "kubernetes.io/hostname"
_NONE: Final = np.zeros(0, dtype=np.int64)


class TopologySpreadScore:
    """All preferred spread constraints of a shape.

    `_sums`: weighted number of pods per cell (nodes in the same domains), lower is better. `_keyed`: rows with all
    topology keys. `_left`: cells with a feasible node, over which points are normalised.
    """

    __slots__ = ("_cells", "_high", "_keyed", "_left", "_low", "_parts", "_points", "_sums")

    def __init__(
        self,
        snapshot: Snapshot,
        shape: RequestShape,
        constraints: Sequence[TopologySpreadConstraint],
        among: BoolColumn,
    ) -> None:
        self._keyed = with_keys(snapshot, constraints)
        keys = {one.topology for one in constraints}
        self._cells = cells(snapshot.nodes, keys, by_row=_HOST in keys)
        left = np.flatnonzero(self._keyed & among)
        self._left = np.flatnonzero(np.bincount(self._cells.of[left], minlength=self._cells.count))
        self._parts = [_ConstraintCounts(snapshot, shape, one, self._cells, (self._keyed, left)) for one in constraints]
        self._sums = self._summed(np.arange(self._cells.count))
        self._low, self._high = self._bounds()
        self._points = self._shares(np.arange(self._cells.count))[self._cells.of]

    def points(self) -> FloatColumn:
        """Points from 0 to 100, times the weight."""
        return self._points

    def add(self, row: int) -> IntColumn | None:
        """Adds one pod to the domains of the row. The bounds may change, which changes the points of other cells."""
        changed = [found for part in self._parts if len(found := part.add(row))]
        if not changed:
            return None
        some = changed[0] if len(changed) == 1 else np.concatenate(changed)  # may contain duplicates
        self._sums[some] = self._summed(some)
        before = self._low, self._high
        self._low, self._high = self._bounds()
        return self._replace(some) if (self._low, self._high) == before else self._replace_all()

    def _replace(self, some: IntColumn) -> IntColumn | None:
        """Computes the points of the cells again. Returns the rows whose points changed."""
        shares = self._shares(some)
        is_moved = shares != self._points[self._cells.first[some]]
        if not is_moved.any():
            return None
        self._cells.put(self._points, some[is_moved], shares[is_moved])
        return self._cells.rows(some[is_moved])

    def _replace_all(self) -> IntColumn | None:
        if self._cells.first is not self._cells.of:
            return self._replace(np.arange(len(self._sums)))
        self._points = np.where(self._keyed, self._normal(self._sums), 0.0)
        return self._cells.of

    def _shares(self, some: IntColumn) -> FloatColumn:
        """Points of the cells; 0 for cells without all topology keys."""
        return np.where(self._keyed[self._cells.first[some]], self._normal(self._sums[some]), 0.0)

    def _summed(self, some: IntColumn) -> IntColumn:
        """Sums over all constraints. Halves are rounded up, as in kube-scheduler."""
        sums = np.zeros(len(some))
        for part in self._parts:
            sums += part.weighed(some)
        return np.floor(sums + 0.5).astype(np.int64)

    def _bounds(self) -> tuple[int, int]:
        sums = self._sums[self._left]
        return (int(sums.min()), int(sums.max())) if len(sums) else (0, 0)

    def _normal(self, sums: IntColumn) -> FloatColumn:
        if not self._high:
            return np.full(len(sums), float(_WEIGHT * _MOST))
        shares: FloatColumn = (_MOST * (self._high + self._low - sums) // self._high).astype(np.float64)
        shares *= _WEIGHT
        return shares


class _ConstraintCounts:
    """Number of matching pods per domain for one constraint.

    `_amounts`: weighted counts per domain; for the topology key `kubernetes.io/hostname` each row is a domain.
    `_codes`: domain per cell. `_counted`: domain per row, -1 where pods do not count.
    """

    __slots__ = ("_amounts", "_cells", "_codes", "_counted", "_counts", "_is_own", "_key", "_rest", "_weight")

    def __init__(
        self,
        snapshot: Snapshot,
        shape: RequestShape,
        constraint: TopologySpreadConstraint,
        found: Cells,
        rows: tuple[BoolColumn, IntColumn],
    ) -> None:
        keyed, left = rows
        self._cells, self._key = found, constraint.topology
        if constraint.topology == _HOST:
            self._codes = self._counted = np.arange(snapshot.size)
            size, number = snapshot.size, len(left)
        else:
            where = domains(snapshot.nodes, constraint.topology)
            codes, size = where.codes, where.count
            self._codes = found.codes[constraint.topology]
            self._counted = np.where(honoured(snapshot, shape, constraint, keyed), codes, -1)
            number = len(np.unique(codes[left]))
        self._counts = counts(snapshot, constraint, self._counted, size)
        self._weight, self._rest = math.log(number + 2), constraint.max_skew - 1
        self._amounts = self._counts.astype(np.float64)
        self._amounts *= self._weight
        self._amounts += self._rest
        self._is_own = bool(constraint.selector) and is_meant(constraint, shape)

    def weighed(self, some: IntColumn) -> FloatColumn:
        """Weighted counts for each of the cells."""
        found: FloatColumn = self._amounts[self._codes[some]]
        return found

    def add(self, row: int) -> IntColumn:
        """Adds one pod. Returns the cells whose weighted counts changed."""
        code = self._counted.item(row)
        if not self._is_own or code < 0:
            return _NONE
        self._counts[code] += 1
        self._amounts[code] = self._counts.item(code) * self._weight + self._rest
        return np.array([row]) if self._key == _HOST else self._cells.within(self._key, code)


def score(snapshot: Snapshot, shape: RequestShape, among: BoolColumn) -> TopologySpreadScore | None:
    """Creates the score if the shape has preferred constraints."""
    constraints = [one for one in shape.pod_on_node.facts.inter_pod.spread if not one.required]
    return TopologySpreadScore(snapshot, shape, constraints, among) if constraints else None
