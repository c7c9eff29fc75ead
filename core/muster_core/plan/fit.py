"""Which nodes can hold asks of one shape, which of them are taken, and why the others are not.

All members of one shape are placed at once: one pass over the columns finds
how many fit on each node, then only the preferred rows are looked at. Equal
to placing them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muster_core.model.config import NodeSort
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters, resources_fit
from muster_core.plan.scoring import FILLERS, Fill, Preference
from muster_core.world.columns import BoolColumn

NO_NODES = "no nodes available to schedule pods"
AVOIDED = "node(s) were avoided because a pod could not be bound there"


@dataclass(frozen=True, slots=True)
class Shape:
    """What members that are placed together have in common. `avoid`: semantics 5."""

    resources: Resources
    constraints: Constraints = ANYWHERE
    avoid: frozenset[NodeId] = frozenset()


def place(draft: Draft, shape: Shape, count: int, sort: NodeSort) -> list[tuple[NodeId, int]]:
    """As many as fit, up to `count`, on the most preferred nodes; the draft is charged.
    Nodes come in the order in which they were first chosen.
    """
    fills = _one(draft, shape, sort) if count == 1 else _many(draft, shape, count, sort)
    at = draft.nodes.rows.at
    for row, there in fills:
        draft.charge(row, shape.resources, there)
    return [(at(row), there) for row, there in fills]


def _one(draft: Draft, shape: Shape, sort: NodeSort) -> list[Fill]:
    rows = np.flatnonzero(resources_fit.fits(draft.available, shape.resources, _allowed(draft, shape)))
    if not len(rows):
        return []
    return [(Preference(draft, shape.resources, sort).first(rows), 1)]


def _many(draft: Draft, shape: Shape, count: int, sort: NodeSort) -> list[Fill]:
    room = resources_fit.counts(draft.available, shape.resources, _allowed(draft, shape), count)
    rows = np.flatnonzero(room)
    if not len(rows):
        return []
    preference = Preference(draft, shape.resources, sort)
    return FILLERS[sort.order](preference, preference.best(rows, count), room, count)


def room_for(draft: Draft, shape: Shape, count: int) -> int:
    """How many of the shape fit now, up to `count`; the draft is left alone."""
    room = resources_fit.counts(draft.available, shape.resources, _allowed(draft, shape), count)
    return min(int(room.sum()), count)


def fits_on(draft: Draft, shape: Shape, node: NodeId) -> bool:
    """Whether one more of the shape may run on this node; never on a node that is gone."""
    if node not in draft.nodes or node in shape.avoid:
        return False
    row = draft.nodes.rows.row(node)
    if not filters.allowed(shape.constraints, draft.nodes)[row]:
        return False
    return all(
        (column := draft.available(name)) is not None and column.item(row) >= amount
        for name, amount in shape.resources.items()
    )


def feasible_nodes(draft: Draft, shape: Shape) -> int:
    """How many nodes the constraints allow, full or not."""
    return int(_allowed(draft, shape).sum())


def shortfall(draft: Draft, shape: Shape) -> Shortfall:
    """Why one more of the shape does not fit: nodes per reason, each node under the
    first filter that refuses it, with every resource that it has too little of.
    """
    nodes = len(draft.nodes)
    if not nodes:
        return Shortfall(Lack.NODES, NO_NODES)
    counted = ((reason, int(rows.sum())) for reason, rows in _refusals(draft, shape))
    return Shortfall(Lack.NODES, counts=tuple((reason, count) for reason, count in counted if count), nodes=nodes)


def _refusals(draft: Draft, shape: Shape) -> Iterator[tuple[str, BoolColumn]]:
    """Reason and rows refused for it, among the rows that no earlier filter refused."""
    left = draft.nodes.rows.ranks() < len(draft.nodes)
    for entry, passed in zip(filters.FILTERS, filters.answers(shape.constraints, draft.nodes), strict=False):
        yield entry.reason, left & ~passed
        left = left & passed
    fitting = resources_fit.fits(draft.available, shape.resources, left)
    for resource, rows in resources_fit.insufficient(draft.available, shape.resources, left):
        yield resources_fit.reason(resource), rows
    yield AVOIDED, fitting & ~_not_avoided(draft, shape)


def _allowed(draft: Draft, shape: Shape) -> BoolColumn:
    allowed = filters.allowed(shape.constraints, draft.nodes)
    return allowed & _not_avoided(draft, shape) if shape.avoid else allowed


def _not_avoided(draft: Draft, shape: Shape) -> BoolColumn:
    kept = np.ones(draft.size, dtype=np.bool_)
    rows = draft.nodes.rows
    kept[[rows.row(node) for node in shape.avoid if node in rows]] = False
    return kept
