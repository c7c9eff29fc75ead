"""Plugin PodTopologySpread: required constraints filter, those with `whenUnsatisfiable: ScheduleAnyway` give points.

Differs: while pods of one shape are placed together, points are normalised over the nodes that were feasible for the
first of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from muster_core.model.constraints import (
    NAMESPACE,
    TERMINATING,
    Target,
    TargetOperator,
    TopologySpreadConstraint,
    matches,
)
from muster_core.placement.plugins import node_properties
from muster_core.placement.plugins.inter_pod_affinity import cells, domains
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.state.nodes import Cells
from muster_core.state.snapshot import RequestShape, Snapshot

NO_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"

#: Positions of two filters in the result of `node_properties.answers`.
_AFFINITY, _TAINTS = (
    next(position for position, entry in enumerate(node_properties.FILTERS) if entry.passes is passes)
    for passes in (node_properties.matches_node_affinity, node_properties.tolerates_taints)
)


class TopologySpreadFilter:
    """All required constraints of a shape."""

    def __init__(
        self, snapshot: Snapshot, shape: RequestShape, constraints: Sequence[TopologySpreadConstraint]
    ) -> None:
        keyed = with_keys(snapshot, constraints)
        self._levels = [SpreadCounts(snapshot, shape, constraint, keyed) for constraint in constraints]

    def allows(self) -> BoolColumn:
        """Rows that every constraint allows."""
        first, *others = self._levels
        found = first.allows()
        for level in others:
            found &= level.allows()
        return found

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        first, *others = self._levels
        found = first.allows_at(rows)
        for level in others:
            found &= level.allows_at(rows)
        return found

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows without a topology key, and rows in full domains, by the first constraint that refuses the row."""
        left = np.ones_like(self._levels[0].keyless)
        unlabelled, skewed = ~left, ~left
        for level in self._levels:
            allowed = level.allows()
            unlabelled |= left & level.keyless
            skewed |= left & ~level.keyless & ~allowed
            left &= allowed
        return (NO_LABEL, unlabelled), (SKEWED, skewed)

    def add(self, row: int) -> IntColumn | None:
        """Adds one pod. Its domain may become full, or other domains may open because the minimum rises."""
        changed = [rows for level in self._levels if (rows := level.add(row)) is not None]
        if len(changed) > 1:
            return np.concatenate(changed)
        return changed[0] if changed else None


class SpreadCounts:
    """Number of matching pods per domain of one constraint. `keyless`: rows without its topology key.

    `_counts` and `_open` are indexed by domain; the last element is for rows in no domain. `_nodes`: number of nodes
    per domain. `_heights`: number of domains per count. It keeps the minimum `_least` up to date without a pass over
    all domains.
    """

    def __init__(
        self, snapshot: Snapshot, shape: RequestShape, constraint: TopologySpreadConstraint, keyed: BoolColumn
    ) -> None:
        self._domains = domains(snapshot.nodes, constraint.topology)
        self.keyless = self._domains.codes < 0
        self._counted = np.where(honoured(snapshot, shape, constraint, keyed), self._domains.codes, -1)
        self._counts = counts(snapshot, constraint, self._counted, self._domains.count)
        self._nodes = np.bincount(self._domains.codes + 1, minlength=self._domains.count + 1)[1:]
        filled = np.bincount(self._counted + 1, minlength=self._domains.count + 1)[1:] > 0
        is_itself = is_meant(constraint, shape)
        self._is_own = is_itself and bool(constraint.selector)
        #: With fewer domains than minDomains the global minimum is 0, as in Kubernetes.
        is_few = np.count_nonzero(filled) < constraint.min_domains
        self._heights = Counter[int]() if is_few else Counter(self._counts[:-1][filled].tolist())
        self._least = min(self._heights, default=0)
        self._limit = self._least + constraint.max_skew - is_itself
        self._open = self._counts <= self._limit
        self._open[-1] = False

    def allows(self) -> BoolColumn:
        """Rows in domains that accept one more pod."""
        return self._open[self._domains.codes]

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return self._open[self._domains.codes[rows]]

    def add(self, row: int) -> IntColumn | None:
        """Returns the rows of domains that are now full or open again. None = at most the row itself changes."""
        code = self._counted.item(row)
        if not self._is_own or code < 0:
            return None
        height = self._counts.item(code) + 1
        self._counts[code] = height
        if self._rises(height - 1):
            return self._opened()
        is_open = height <= self._limit
        if is_open == self._open.item(code):
            return None
        self._open[code] = is_open
        return None if self._nodes.item(code) == 1 else self._domains.members(code)

    def _rises(self, height: int) -> bool:
        """Moves a domain from `height` to `height` + 1. Returns whether the minimum rises, which it does by 1."""
        if not self._heights:
            return False
        self._heights[height + 1] += 1
        self._heights[height] -= 1
        if self._heights[height]:
            return False
        del self._heights[height]
        self._least += height == self._least
        return height < self._least

    def _opened(self) -> IntColumn:
        """Raises the limit by 1. Returns the rows of domains that are open now."""
        self._limit += 1
        open_now = self._counts <= self._limit
        open_now[-1] = False
        changed = open_now != self._open
        self._open = open_now
        rows: IntColumn = changed[self._domains.codes].nonzero()[0]
        return rows


def spread_filter(snapshot: Snapshot, shape: RequestShape) -> TopologySpreadFilter | None:
    """Creates the filter if the shape has required constraints."""
    constraints = [one for one in shape.pod_on_node.facts.inter_pod.spread if one.required]
    return TopologySpreadFilter(snapshot, shape, constraints) if constraints else None


def with_keys(snapshot: Snapshot, constraints: Sequence[TopologySpreadConstraint]) -> BoolColumn:
    """Rows of nodes that have the topology keys of all constraints."""
    keyed = np.ones(snapshot.size, dtype=np.bool_)
    for key in dict.fromkeys(constraint.topology for constraint in constraints):
        keyed &= domains(snapshot.nodes, key).codes >= 0
    return keyed


def honoured(
    snapshot: Snapshot, shape: RequestShape, constraint: TopologySpreadConstraint, among: BoolColumn
) -> BoolColumn:
    """Rows in `among` that count as domains of the constraint, by its nodeAffinityPolicy and nodeTaintsPolicy."""
    answers = node_properties.answers(shape.constraints, snapshot.nodes)
    if constraint.honors_affinity:
        among = among & answers[_AFFINITY]
        if shape.required:
            among = among & node_properties.named(shape.required, snapshot.nodes)
    if constraint.honors_taints:
        among = among & answers[_TAINTS]
    return among


def counts(snapshot: Snapshot, constraint: TopologySpreadConstraint, codes: IntColumn, size: int) -> IntColumn:
    """Returns the number of matching pods per code of their row; the last element is for rows without a code (-1)."""
    found = np.zeros(size + 1, dtype=np.int64)
    if constraint.selector:
        alive = Target(TERMINATING, TargetOperator.NOT_EXIST)
        here = Target(NAMESPACE, TargetOperator.IN, (constraint.namespace,))
        parts = list(snapshot.tagged((*constraint.selector, here, alive)))
        total = sum(len(part) for part in parts)
        rows = np.fromiter(chain.from_iterable(parts), dtype=np.int64, count=total)
        amounts = np.fromiter(chain.from_iterable(part.values() for part in parts), dtype=np.int64, count=total)
        np.add.at(found, codes[rows], amounts)
    return found


def is_meant(constraint: TopologySpreadConstraint, shape: RequestShape) -> bool:
    """Whether the selector matches the shape itself, whatever its namespace."""
    return constraint.selector is not None and matches(constraint.selector, dict(shape.pod_on_node.tags))


_WEIGHT: Final = 2
_MOST: Final = 100
_HOST: Final = "kubernetes.io/hostname"
_NONE: Final = np.zeros(0, dtype=np.int64)


class TopologySpreadScore:
    """All preferred spread constraints of a shape.

    `_sums`: weighted number of pods per cell (nodes in the same domains), lower is better. `_keyed`: rows with all
    topology keys. `_left`: cells with a feasible node, over which points are normalised.
    """

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
            number = int(np.count_nonzero(np.bincount(codes[left])))
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
