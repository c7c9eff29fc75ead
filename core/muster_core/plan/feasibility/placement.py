"""Seed 001's placement constraints: which nodes their targets allow, and what affinity to allocations allows.

Targets on nodes are facts and remembered like a filter's answer. What
allocations are where changes with every place that is given, so affinity is
asked of a draft, which knows what the plan placed so far. Affinity is of one
direction: who is there already is not asked (seed 001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np

from muster_core.model.placement import UNBOUNDED, AllocationAffinity, Tags, Target, TargetOperator, matches
from muster_core.plan.draft import Draft
from muster_core.plan.scoring import Budget
from muster_core.world.columns import BoolColumn, CodeColumn, IntColumn
from muster_core.world.nodes import NodeTable

TARGETS: Final = "node(s) didn't match the placement constraint's node targets"
TOO_FEW: Final = "node(s) had too few allocations that the placement constraint asks for"
TOO_MANY: Final = "node(s) had as many allocations as the placement constraint allows"

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


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What an affinity counts, as an ask with certain tags sees it. `itself`: it would be counted, too.

    `groups`: per row the number of its value of the scope, -1 = none; `counts`: matching allocations by that
    number, and last those in no group; `total`: of all groups.
    """

    affinity: AllocationAffinity
    itself: bool
    groups: CodeColumn
    counts: IntColumn
    total: int

    @property
    def is_beginning(self) -> bool:
        """Whether one that is placed now changes where the next one may go: fewer than enough are there at all."""
        return self.itself and self.total < self.affinity.at_least

    def enough(self) -> BoolColumn:
        """Rows in whose group there are at least as many as have to be."""
        at_least = self.affinity.at_least
        if at_least <= 0:
            return np.ones(len(self.groups), dtype=np.bool_)
        here = self.counts[self.groups]
        found = here >= at_least
        if self.is_beginning:
            found |= here == self.total
        return found & (self.groups >= 0)

    def not_too_many(self) -> BoolColumn:
        """Rows in whose group there may be one more, if the ask counts, or as many as there are."""
        over = self.counts[self.groups] + int(self.itself) > self.affinity.at_most
        return ~over | (self.groups < 0)

    def allowed(self) -> BoolColumn:
        """Rows that the affinity allows."""
        return self.enough() & self.not_too_many()

    def budget(self) -> Budget | None:
        """How many more each group takes; None where one more changes nothing."""
        if not self.itself or self.affinity.at_most == UNBOUNDED:
            return None
        return Budget(self.groups, np.maximum(self.affinity.at_most - self.counts, 0).tolist())


def neighbours(draft: Draft, affinity: AllocationAffinity, tags: Tags) -> Neighbours:
    """Count, by group of nodes, the allocations that match."""
    groups = draft.nodes.attribute(affinity.scope).codes(draft.size)
    counts = np.zeros(int(groups.max(initial=-1)) + 2, dtype=np.int64)
    for rows in draft.tagged(affinity.targets):
        where = np.fromiter(rows, dtype=np.int64, count=len(rows))
        amounts = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
        np.add.at(counts, groups[where], amounts)
    itself = matches(affinity.targets, dict(tags))
    return Neighbours(affinity, itself, groups, counts, int(counts[:-1].sum()))


def refusals(found: Neighbours, among: BoolColumn) -> Sequence[tuple[str, BoolColumn]]:
    """Reason and rows that a required affinity refuses for it, each row once."""
    enough = found.enough()
    return (TOO_FEW, among & ~enough), (TOO_MANY, among & enough & ~found.not_too_many())
