"""Which nodes can hold asks of one shape, which of them are taken, and why the others are not.

All members of one shape are placed at once: one pass over the columns finds
how many fit on each node, then only the preferred rows are looked at. Equal
to placing them one by one. Members whose places change where others may or
would rather go are placed one after the other on a board (board.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator, Iterator, Sequence

import numpy as np

from muster_core.model.config import NodeSort
from muster_core.model.ids import NodeId
from muster_core.model.shortfall import EVERY_NODE, Lack, Shortfall
from muster_core.plan.board import Board
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters, node_name, placement, resources_fit
from muster_core.plan.feasibility.reasons import is_resolvable
from muster_core.plan.feasibility.volumes import binding
from muster_core.plan.guards import Guard, Refused, guards, pod_refusal, scores
from muster_core.plan.scoring import FILLERS, Fill, Preference
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn

NO_NODES = "no nodes available to schedule pods"
# What a DaemonSet names its node with is a node affinity, to kube-scheduler too.
NOT_REQUIRED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
OUTSIDE = "node(s) were outside the gang's topology domain"
AVOIDED = "node(s) were avoided because a pod could not be bound there"


def place(draft: Draft, shape: Shape, count: int, sort: NodeSort, *, is_last: bool = False) -> list[tuple[NodeId, int]]:
    """As many as fit, up to `count`, on the most preferred nodes; the draft is charged.
    Nodes come in the order in which they were first chosen. `is_last`: if all of them fit, no more is asked of the
    draft but the volumes that it assumes, so that amounts need not be charged.
    """
    fills = _fills(draft, shape, count, sort)
    if is_last and sum(there for _, there in fills) == count:
        _enter_all(draft, shape, fills)
    else:
        charge_all(draft, shape, fills)
    at = draft.nodes.rows.at
    return [(at(row), there) for row, there in fills]


def charge(draft: Draft, shape: Shape, row: int, count: int = 1) -> None:
    """Suppose that so many of the shape are on a row; less than 0 = went."""
    draft.charge(row, shape.resources, count)
    binding.assume(draft, shape, row, count)
    draft.enter(row, shape.occupant, count)


def charge_all(draft: Draft, shape: Shape, fills: Sequence[Fill]) -> None:
    """The same of many rows, all different."""
    draft.charge_all(fills, shape.resources)
    _enter_all(draft, shape, fills)


def _enter_all(draft: Draft, shape: Shape, fills: Sequence[Fill]) -> None:
    if draft.nodes.occupants.is_noted(shape.occupant.facts):  # claims are noted, too
        for row, there in fills:
            binding.assume(draft, shape, row, there)
            draft.enter(row, shape.occupant, there)


def _fills(draft: Draft, shape: Shape, count: int, sort: NodeSort) -> list[Fill]:
    allowed = facts = on_facts(draft, shape)
    watching = [guard for _, guard in guards(draft, shape)]
    for guard in watching:
        allowed = allowed & guard.allows()
    fitting = resources_fit.fits(draft.available, shape.resources, allowed)
    wishes = scores(draft, shape, fitting)
    if watching or wishes:
        room = resources_fit.counts(draft.available, shape.resources, facts, count)
        return Board(draft, shape, room, sort, (watching, wishes)).fill(count)
    if count == 1:
        rows = np.flatnonzero(fitting)
        return [(Preference(draft, shape, sort).first(rows), 1)] if len(rows) else []
    rows = np.flatnonzero(fitting)
    if not len(rows):
        return []
    preference = Preference(draft, shape, sort)
    best = preference.best(rows, count)
    room = resources_fit.counts_of(draft.available, shape.resources, best, count)
    return FILLERS[sort.order](preference, best, room, count)


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
    return int(on_facts(draft, shape).sum())


def shortfall(draft: Draft, shape: Shape) -> Shortfall:
    """Why one more of the shape does not fit: nodes per reason, each node under the
    first filter that refuses it, with every resource that it has too little of.
    """
    nodes = len(draft.nodes)
    if not nodes:
        return Shortfall(Lack.NODES, NO_NODES)
    if reason := pod_refusal(draft, shape):
        return Shortfall(Lack.NODES, counts=((reason, EVERY_NODE),), nodes=nodes)
    counted: Counter[str] = Counter()
    for reason, rows in refusals(draft, shape):
        counted[reason] += int(rows.sum())
    counts = tuple((reason, count) for reason, count in counted.items() if count)
    return Shortfall(Lack.NODES, counts=counts, nodes=nodes)


def resolvable(draft: Draft, shape: Shape) -> BoolColumn:
    """Nodes that refuse one more for reasons that may go away with somebody who is there."""
    refused, lasting = np.zeros(draft.size, dtype=np.bool_), np.zeros(draft.size, dtype=np.bool_)
    small = resources_fit.too_small(draft.capacity, shape.resources, ~lasting)
    for reason, rows in refusals(draft, shape):
        refused |= rows
        lasting |= rows & (small if reason.startswith(resources_fit.INSUFFICIENT) else not is_resolvable(reason))
    return refused & ~lasting


def refusals(draft: Draft, shape: Shape, without: Container[str] = ()) -> Iterator[Refused]:
    """Reason and rows refused for it, among the rows that no earlier filter refused. `without`: filters that are
    not asked, by name: whoever compares us with kube-scheduler wants to know that each of them tells.
    """
    if reason := pod_refusal(draft, shape, without):
        yield reason, draft.nodes.rows.ranks() < len(draft.nodes)
        return
    left = yield from _refused_on_facts(draft, shape, without)
    watching = [(entry, guard) for entry, guard in guards(draft, shape) if entry.name not in without]
    for entry, guard in watching:
        if not entry.after_fit:
            left = yield from _refused_by(guard, left)
    if resources_fit.NAME not in without:
        for resource, rows in resources_fit.insufficient(draft.available, shape.resources, left):
            yield resources_fit.reason(resource), rows
        left = resources_fit.fits(draft.available, shape.resources, left)
    for entry, guard in watching:
        if entry.after_fit:
            left = yield from _refused_by(guard, left)
    for last, passed in filters.asked(shape.constraints, draft.nodes, last=True):
        if last.name not in without:
            yield last.reason, left & ~passed
            left = left & passed
    yield AVOIDED, left & ~_not_avoided(draft, shape)


def _refused_on_facts(draft: Draft, shape: Shape, without: Container[str]) -> Generator[Refused, None, BoolColumn]:
    """Returns those that no constraint on nodes refuses."""
    left = draft.nodes.rows.ranks() < len(draft.nodes)
    for entry, passed in filters.asked(shape.constraints, draft.nodes):
        if entry.name not in without:
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
    if draft.within is not None:
        yield OUTSIDE, left & ~draft.within
        left = left & draft.within
    return left


def _refused_by(guard: Guard, among: BoolColumn) -> Generator[Refused, None, BoolColumn]:
    """Returns those that the guard lets pass."""
    for reason, rows in guard.refusals():
        yield reason, among & rows
    return among & guard.allows()


def allowed(draft: Draft, shape: Shape, without: Container[str] = ()) -> BoolColumn:
    """Nodes where one more may go, full or not. `without`: guards that are not asked, by name."""
    found = on_facts(draft, shape)
    for entry, guard in guards(draft, shape):
        if entry.name not in without:
            found = found & guard.allows()
    return found


def on_facts(draft: Draft, shape: Shape) -> BoolColumn:
    """Nodes that no constraint on nodes refuses."""
    facts = filters.allowed(shape.constraints, draft.nodes)
    if shape.required:
        facts = facts & node_name.named(shape.required, draft.nodes)
    if shape.placement is not None and shape.placement.nodes:
        facts = facts & placement.on_target(shape.placement.nodes, draft.nodes)
    if draft.within is not None:
        facts = facts & draft.within
    return facts & _not_avoided(draft, shape) if shape.avoid else facts


def _not_avoided(draft: Draft, shape: Shape) -> BoolColumn:
    kept = np.ones(draft.size, dtype=np.bool_)
    rows = draft.nodes.rows
    kept[[rows.row(node) for node in shape.avoid if node in rows]] = False
    return kept
