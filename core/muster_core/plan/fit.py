"""Which nodes can hold asks of one shape, which of them are taken, and why the others are not.

All members of one shape are placed at once: one pass over the columns finds
how many fit on each node, then only the preferred rows are looked at. Equal
to placing them one by one. Asks with an affinity to other allocations (seed
001) see each other: they are placed group by group of nodes, and one by one
where each changes where the next may go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muster_core.model.config import NodeSort
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.ids import NO_NODE, NodeId
from muster_core.model.placement import NO_TAGS, AllocationAffinity, PlacementConstraint, Tags
from muster_core.model.resources import Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters, node_name, placement, resources_fit
from muster_core.plan.feasibility.placement import neighbours
from muster_core.plan.scoring import FILLERS, Budget, Fill, Preference
from muster_core.world.columns import BoolColumn

NO_NODES = "no nodes available to schedule pods"
# What a DaemonSet names its node with is a node affinity, to kube-scheduler too.
NOT_REQUIRED = "node(s) didn't match Pod's node affinity/selector"
AVOIDED = "node(s) were avoided because a pod could not be bound there"


@dataclass(frozen=True, slots=True)
class Shape:
    """What members that are placed together have in common. `avoid`: semantics 5; `tags`: as others count them."""

    resources: Resources
    constraints: Constraints = ANYWHERE
    avoid: frozenset[NodeId] = frozenset()
    placement: PlacementConstraint | None = None
    tags: Tags = NO_TAGS
    #: The one node it may run on; empty = any.
    required: NodeId = NO_NODE

    @property
    def affinity(self) -> AllocationAffinity | None:
        """To other allocations; None = none."""
        return None if self.placement is None else self.placement.allocations


def place(draft: Draft, shape: Shape, count: int, sort: NodeSort) -> list[tuple[NodeId, int]]:
    """As many as fit, up to `count`, on the most preferred nodes; the draft is charged.
    Nodes come in the order in which they were first chosen.
    """
    if shape.affinity is None:
        fills = _fill(draft, shape, _on_facts(draft, shape), count, sort)
        _charge(draft, shape, fills)
    else:
        fills = _near(draft, shape, shape.affinity, count, sort)
    at = draft.nodes.rows.at
    return [(at(row), there) for row, there in fills]


def _charge(draft: Draft, shape: Shape, fills: list[Fill]) -> None:
    for row, there in fills:
        draft.charge(row, shape.resources, there)
        draft.tag(row, shape.tags, there)


def _fill(
    draft: Draft, shape: Shape, allowed: BoolColumn, count: int, sort: NodeSort, budget: Budget | None = None
) -> list[Fill]:
    """On the most preferred of the allowed nodes; the draft is left alone."""
    if count == 1:
        rows = np.flatnonzero(resources_fit.fits(draft.available, shape.resources, allowed))
        return [(Preference(draft, shape.resources, sort).first(rows), 1)] if len(rows) else []
    room = resources_fit.counts(draft.available, shape.resources, allowed, count)
    rows = np.flatnonzero(room)
    if not len(rows):
        return []
    preference = Preference(draft, shape.resources, sort)
    rows = preference.best(rows, count) if budget is None else rows
    return FILLERS[sort.order](preference, rows, room, count, budget)


def _near(draft: Draft, shape: Shape, affinity: AllocationAffinity, count: int, sort: NodeSort) -> list[Fill]:
    """Where affinity allows, or (if it is not required) prefers; else anywhere. The draft is charged."""
    facts = _on_facts(draft, shape)
    placed: dict[int, int] = {}
    while count > 0:
        found = neighbours(draft, affinity, shape.tags)
        # One that is placed where it is not preferred may make its group one that is.
        is_stepwise = found.is_beginning or (not affinity.required and found.itself and affinity.at_least > 0)
        step = 1 if is_stepwise else count
        fills = _fill(draft, shape, facts & found.allowed(), step, sort, found.budget())
        _charge(draft, shape, fills)
        done = sum(there for _, there in fills)
        if not affinity.required and done < step:
            rest = _fill(draft, shape, facts, step - done, sort)
            _charge(draft, shape, rest)
            fills = [*fills, *rest]
        for row, there in fills:
            placed[row] = placed.get(row, 0) + there
        if not is_stepwise or not fills:
            break
        count -= 1
    return list(placed.items())


def fits_on(draft: Draft, shape: Shape, node: NodeId) -> bool:
    """Whether one more of the shape may run on this node; never on a node that is gone."""
    if node not in draft.nodes:
        return False
    row = draft.nodes.rows.row(node)
    if not allowed(draft, shape)[row]:
        return False
    return all(
        (column := draft.available(name)) is not None and column.item(row) >= amount
        for name, amount in shape.resources.items()
    )


def feasible_nodes(draft: Draft, shape: Shape) -> int:
    """How many nodes the constraints allow, full or not."""
    return int(_on_facts(draft, shape).sum())


def shortfall(draft: Draft, shape: Shape) -> Shortfall:
    """Why one more of the shape does not fit: nodes per reason, each node under the
    first filter that refuses it, with every resource that it has too little of.
    """
    nodes = len(draft.nodes)
    if not nodes:
        return Shortfall(Lack.NODES, NO_NODES)
    counted: Counter[str] = Counter()
    for reason, rows in _refusals(draft, shape):
        counted[reason] += int(rows.sum())
    counts = tuple((reason, count) for reason, count in counted.items() if count)
    return Shortfall(Lack.NODES, counts=counts, nodes=nodes)


def _refusals(draft: Draft, shape: Shape) -> Iterator[tuple[str, BoolColumn]]:
    """Reason and rows refused for it, among the rows that no earlier filter refused."""
    left = draft.nodes.rows.ranks() < len(draft.nodes)
    for entry, passed in zip(filters.FILTERS, filters.answers(shape.constraints, draft.nodes), strict=False):
        yield entry.reason, left & ~passed
        left = left & passed
    if shape.required:
        passed = node_name.named(shape.required, draft.nodes)
        yield NOT_REQUIRED, left & ~passed
        left = left & passed
    if shape.placement is not None and shape.placement.nodes:
        passed = placement.on_target(shape.placement.nodes, draft.nodes)
        yield placement.TARGETS, left & ~passed
        left = left & passed
    fitting = resources_fit.fits(draft.available, shape.resources, left)
    for resource, rows in resources_fit.insufficient(draft.available, shape.resources, left):
        yield resources_fit.reason(resource), rows
    if shape.affinity is not None and shape.affinity.required:
        for reason, rows in placement.refusals(neighbours(draft, shape.affinity, shape.tags), fitting):
            yield reason, rows
            fitting = fitting & ~rows
    yield AVOIDED, fitting & ~_not_avoided(draft, shape)


def allowed(draft: Draft, shape: Shape) -> BoolColumn:
    """Nodes where one more may go, full or not."""
    facts = _on_facts(draft, shape)
    if shape.affinity is None or not shape.affinity.required:
        return facts
    return facts & neighbours(draft, shape.affinity, shape.tags).allowed()


def _on_facts(draft: Draft, shape: Shape) -> BoolColumn:
    """Nodes that no constraint on nodes refuses."""
    facts = filters.allowed(shape.constraints, draft.nodes)
    if shape.required:
        facts = facts & node_name.named(shape.required, draft.nodes)
    if shape.placement is not None and shape.placement.nodes:
        facts = facts & placement.on_target(shape.placement.nodes, draft.nodes)
    return facts & _not_avoided(draft, shape) if shape.avoid else facts


def _not_avoided(draft: Draft, shape: Shape) -> BoolColumn:
    kept = np.ones(draft.size, dtype=np.bool_)
    rows = draft.nodes.rows
    kept[[rows.row(node) for node in shape.avoid if node in rows]] = False
    return kept
