"""Filter and score of the placement constraints of the Scheduler Interface, which Muster's operator does not use.

The decoder of requests (`si/pod_tags`) creates the constraint; `placement/plugins/hooks` calls this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

import numpy as np

from muster_core.model.constraints import AllocationAffinity, Target, TargetOperator, matches
from muster_core.model.specs import PodOnNode
from muster_core.placement.plugins.hooks import TOO_MANY
from muster_core.state import indexes
from muster_core.state.columns import BoolColumn, CodeColumn, FloatColumn, IntColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import Snapshot

TOO_FEW: Final = "node(s) had too few allocations that the placement constraint asks for"

#: Higher than any sum of kube-scheduler's scores, so a preferred affinity decides whenever a node can satisfy it.
PREFERRED: Final = 1e6

#: Number of target lists whose rows are cached until a node property changes.
_MEMORY: Final = 4096


def matches_targets(targets: tuple[Target, ...], nodes: NodeTable) -> BoolColumn:
    """Rows of the nodes that match all targets."""
    return indexes.cached(nodes.targeted, targets, _MEMORY, lambda: _meet_all(targets, nodes))


def _meet_all(targets: tuple[Target, ...], nodes: NodeTable) -> BoolColumn:
    found = np.ones(nodes.rows.size, dtype=np.bool_)
    for target in targets:
        found &= _meets(target, nodes)
    found.flags.writeable = False
    return found


def _meets(target: Target, nodes: NodeTable) -> BoolColumn:
    column, size = nodes.attribute(target.key), nodes.rows.size
    match target.operator:
        case TargetOperator.IN:
            return column.has_any(target.values, size)
        case TargetOperator.NOT_IN:
            return ~column.has_any(target.values, size)
        case TargetOperator.EXIST:
            return column.exists(size)
        case TargetOperator.NOT_EXIST:
            return ~column.exists(size)
        case _:
            assert_never(target.operator)


def affinity_plugin(
    snapshot: Snapshot, affinity: AllocationAffinity, pod_on_node: PodOnNode
) -> AllocationAffinityFilter:
    """Creates the filter and score of an affinity to other allocations."""
    return AllocationAffinityFilter(snapshot, affinity, pod_on_node)


class AllocationAffinityFilter:
    """Filter of a required allocation affinity, and score of a preferred one.

    `_groups`: number of the scope value per row, -1 = none. `_counts`: matching allocations per group; the last element
    is for rows without a group. `_total`: sum over all groups. `_itself`: a request of the shape matches the targets.
    """

    def __init__(self, snapshot: Snapshot, affinity: AllocationAffinity, pod_on_node: PodOnNode) -> None:
        self._affinity = affinity
        self._groups = snapshot.nodes.attribute(affinity.scope).codes(snapshot.size)
        self._counts = counts_by(self._groups, snapshot.tagged(affinity.targets))
        self._itself = matches(affinity.targets, dict(pod_on_node.tags))
        self._total = int(self._counts[:-1].sum())
        self._points = np.where(self.allows(), PREFERRED, 0.0)

    def allows(self) -> BoolColumn:
        """Rows that the affinity allows."""
        return self.allows_at(np.arange(len(self._groups)))

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return self._enough(rows) & self._not_too_many(rows)

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows in groups with too few matching allocations, and rows in groups with as many as allowed."""
        rows = np.arange(len(self._groups))
        enough = self._enough(rows)
        return (TOO_FEW, ~enough), (TOO_MANY, enough & ~self._not_too_many(rows))

    def points(self) -> FloatColumn:
        """`PREFERRED` where the affinity allows the row, else 0."""
        return self._points

    def add(self, row: int) -> IntColumn | None:
        """Adds one allocation. Its group changes; all groups change if the minimum was not reached in total before."""
        if not self._itself:
            return None
        was_beginning, group = self._total < self._affinity.at_least, self._groups.item(row)
        self._counts[group] += 1
        self._total += group >= 0
        if group < 0:
            return None
        rows = np.arange(len(self._groups)) if was_beginning else np.flatnonzero(self._groups == group)
        self._points[rows] = np.where(self.allows_at(rows), PREFERRED, 0.0)
        return rows

    def _enough(self, rows: IntColumn) -> BoolColumn:
        """Rows in groups with at least the required number of matching allocations.

        While the total is below that number and the shape matches its own targets, the group that has all of them
        qualifies.
        """
        at_least = self._affinity.at_least
        if at_least <= 0:
            return np.ones(len(rows), dtype=np.bool_)
        groups = self._groups[rows]
        here = self._counts[groups]
        found = here >= at_least
        if self._itself and self._total < at_least:
            found |= here == self._total
        return found & (groups >= 0)

    def _not_too_many(self, rows: IntColumn) -> BoolColumn:
        """Rows in groups that stay within the maximum with one more allocation of the shape."""
        groups = self._groups[rows]
        return (self._counts[groups] + int(self._itself) <= self._affinity.at_most) | (groups < 0)


def counts_by(groups: CodeColumn, parts: Iterable[Mapping[int, int]]) -> IntColumn:
    """Returns the number of allocations per group; the last element is for rows without a group (-1)."""
    counts = np.zeros(int(groups.max(initial=-1)) + 2, dtype=np.int64)
    for rows in parts:
        where = np.fromiter(rows, dtype=np.int64, count=len(rows))
        amounts = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
        np.add.at(counts, groups[where], amounts)
    return counts
