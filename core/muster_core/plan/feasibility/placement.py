"""Seed 001's placement constraints: which nodes their targets allow, and what affinity to allocations allows.

Targets on nodes are facts and remembered like a filter's answer. What
allocations are where changes with every place that is given, so affinity is
asked of a draft, which knows what the plan placed so far. Affinity is of one
direction: who is there already is not asked (seed 001).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

import numpy as np

from muster_core.model.facts import Occupant
from muster_core.model.placement import AllocationAffinity, Target, TargetOperator, matches
from muster_core.plan.draft import Draft
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, CodeColumn, FloatColumn, IntColumn
from muster_core.world.nodes import NodeTable

TARGETS: Final = "node(s) didn't match the placement constraint's node targets"
TOO_FEW: Final = "node(s) had too few allocations that the placement constraint asks for"
TOO_MANY: Final = "node(s) had as many allocations as the placement constraint allows"

#: Points of a preference: no sum of kube-scheduler's scores comes near it (seed 001: preferred = wherever it can be).
PREFERRED: Final = 1e6

#: So many values of targets are remembered between two changes of facts.
_MEMORY: Final = 4096


def on_target(targets: tuple[Target, ...], nodes: NodeTable) -> BoolColumn:
    """Nodes that meet all the targets."""
    known = nodes.targeted.get(targets)
    if known is None:
        known = np.ones(nodes.rows.size, dtype=np.bool_)
        for target in targets:
            known &= _meets(target, nodes)
        known.flags.writeable = False
        if len(nodes.targeted) >= _MEMORY:
            nodes.targeted.clear()
        nodes.targeted[targets] = known
    return known


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


class Neighbours:
    """What an affinity counts, as a shape sees it: a guard, and where it is not required a score.

    `_groups`: per row the number of its value of the scope, -1 = none; `_counts`: matching allocations by that
    number, and last those in no group; `_total`: of all groups. `_itself`: one of the shape would be counted, too.
    """

    __slots__ = ("_affinity", "_counts", "_groups", "_itself", "_points", "_total")

    def __init__(self, draft: Draft, affinity: AllocationAffinity, occupant: Occupant) -> None:
        self._affinity = affinity
        self._groups = draft.nodes.attribute(affinity.scope).codes(draft.size)
        self._counts = counts_by(self._groups, draft.tagged(affinity.targets))
        self._itself = matches(affinity.targets, dict(occupant.tags))
        self._total = int(self._counts[:-1].sum())
        self._points = np.where(self.allows(), PREFERRED, 0.0)

    def allows(self) -> BoolColumn:
        """Rows that the affinity allows."""
        return self.allows_at(np.arange(len(self._groups)))

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows."""
        return self._enough(rows) & self._not_too_many(rows)

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Too few of those it asks for, or as many as it allows."""
        rows = np.arange(len(self._groups))
        enough = self._enough(rows)
        return (TOO_FEW, ~enough), (TOO_MANY, enough & ~self._not_too_many(rows))

    def points(self) -> FloatColumn:
        """More where the affinity allows it than anything else weighs."""
        return self._points

    def add(self, row: int) -> IntColumn | None:
        """One more is there: its group has more of them, and where fewer than enough were, every group is asked."""
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
        """In whose group there are at least as many as have to be, or all that there are while these are too few."""
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
        """In whose group there may be one more, if it counts, or as many as there are."""
        groups = self._groups[rows]
        return (self._counts[groups] + int(self._itself) <= self._affinity.at_most) | (groups < 0)


def guard(draft: Draft, shape: Shape) -> Neighbours | None:
    """Of a required affinity."""
    if shape.affinity is None or not shape.affinity.required:
        return None
    return Neighbours(draft, shape.affinity, shape.occupant)


def score(draft: Draft, shape: Shape, among: BoolColumn) -> Neighbours | None:
    """Of an affinity that is a preference."""
    if shape.affinity is None or shape.affinity.required:
        return None
    return Neighbours(draft, shape.affinity, shape.occupant)


def counts_by(groups: CodeColumn, parts: Iterable[Mapping[int, int]]) -> IntColumn:
    """How many there are by the number of a row's group, and last those in no group (-1)."""
    counts = np.zeros(int(groups.max(initial=-1)) + 2, dtype=np.int64)
    for rows in parts:
        where = np.fromiter(rows, dtype=np.int64, count=len(rows))
        amounts = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
        np.add.at(counts, groups[where], amounts)
    return counts
