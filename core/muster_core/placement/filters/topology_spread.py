"""Filter PodTopologySpread: required topology spread constraints."""

from __future__ import annotations

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
from muster_core.placement.filters import node_properties
from muster_core.placement.filters.inter_pod_affinity import domains
from muster_core.state.columns import BoolColumn, IntColumn
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

    __slots__ = ("_levels",)

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

    __slots__ = (
        "_counted",
        "_counts",
        "_domains",
        "_heights",
        "_is_own",
        "_least",
        "_limit",
        "_nodes",
        "_open",
        "keyless",
    )

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
        return np.flatnonzero(changed[self._domains.codes])


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
