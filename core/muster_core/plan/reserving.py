"""Room that is held on nodes for asks that wait: for whom, where, and how a plan sees it.

Everybody else's plan sees held room as taken (plan/draft.py). The holder is
asked first, on its node and then on all others; a gang that reserves plans
with all that is held for its members. An ask that may run on one node only
(DaemonSets) passes by what others hold there.

A leaf holds room for one ask at a time: the first that waits, of the
application whose turn it is, once it waits for long enough; on the node that
lacks the least, if that could hold it at all. What preemption makes room for
is held beside it (plan/preemption/).

Differs: a reservation holds the room of one ask, and a leaf has one at a time; YuniKorn closes the node to everybody,
and lets each waiting ask reserve one.
"""

from __future__ import annotations

import numpy as np

from muster_core.model.decisions import Placement, Reservation
from muster_core.model.ids import NO_NODE, NodeId
from muster_core.model.resources import NOTHING
from muster_core.model.shortfall import Lack
from muster_core.plan import fit, headroom
from muster_core.plan.draft import Draft
from muster_core.plan.ordering import applications, classes
from muster_core.plan.outline import Outline, shape_of, volumes_of
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application, Ask
from muster_core.world.classes import AskClass
from muster_core.world.columns import BoolColumn
from muster_core.world.obstacles import NotTogether
from muster_core.world.queues import Queue
from muster_core.world.reservations import Hold
from muster_core.world.world import Partition


def plan(partition: Partition, app: Application) -> Outline:
    """Places for those of its asks that room is held for; head room that is held for an ask is its own to use."""
    outline = Outline()
    if app.id not in partition.reservations.by_application:
        return outline
    draft = Draft(partition.nodes)
    taken = given = NOTHING
    for hold in partition.reservations.of(app.id):
        ask = app.asks[hold.key]
        back = hold.resources if hold.preempted else NOTHING
        if not headroom.room(partition, app, back, given).room(taken).count(ask.spec.resources, 1):
            refused = headroom.refusal(partition, app, ask.spec.resources, taken - back, given + back)
            outline.obstacles += [refused.obstacle] if refused is not None else []
            continue
        node = _place(partition, draft, ask.kind, hold)
        if node:
            # What it takes was held for it, and is held no more.
            taken += ask.spec.resources - back
            given += back
            volumes = volumes_of(draft, ask.kind)
            outline.decisions.append(Placement(partition.id, app.id, ((hold.key, node),), volumes))
        elif hold.preempted:
            # Head room is held for it too, so what refuses others of its class does not refuse it: any node may help.
            outline.obstacles.append(NotTogether(app.id))
    return outline


def _place(partition: Partition, draft: Draft, kind: AskClass, hold: Hold) -> NodeId:
    """A node for the holder, the held one if it may; the draft is charged. Empty = there is none."""
    shape = shape_of(kind)
    draft.free(hold.node, hold.resources)
    lift(partition, draft, kind, 1)
    node = NO_NODE
    if fit.fits_on(draft, shape, hold.node):
        node = hold.node
        fit.charge(draft, shape, draft.nodes.rows.row(node))
    elif spots := fit.place(draft, shape, 1, partition.config.node_sort):
        node = spots[0][0]
    lift(partition, draft, kind, -1)
    if not node:
        draft.take(hold.node, hold.resources)
    return node


def draft_for(partition: Partition, app: Application) -> Draft:
    """The nodes as a gang that reserves may use them: with what is held for it."""
    draft = Draft(partition.nodes)
    for hold in partition.reservations.of(app.id):
        draft.free(hold.node, hold.resources)
    return draft


def lift(partition: Partition, draft: Draft, kind: AskClass, times: int) -> None:
    """Suppose that nobody holds room on the one node of such an ask, but others like it; -1 = they do again."""
    if kind.required_node:
        for hold in partition.reservations.on(kind.required_node):
            if not hold.required:
                draft.charge(draft.nodes.rows.row(hold.node), hold.resources, -times)


def choose(partition: Partition, leaf: Queue) -> tuple[Ask, Reservation | None] | None:
    """The ask of the leaf that is first to have room held, and where, if a node could; None = no ask waits for it."""
    if partition.reservations and any(
        not hold.preempted for name in leaf.waiting for hold in partition.reservations.of(name)
    ):
        return None
    for app in applications(partition, leaf):
        ask = _first(partition, app)
        if ask is not None:
            node = _nearest(partition, ask.kind)
            return ask, Reservation(partition.id, app.id, ask.spec.key, node) if node else None
        if app.waiting:
            return None
    return None


def _first(partition: Partition, app: Application) -> Ask | None:
    if app.is_reserving and (app.spec.is_whole or partition.partial != app.id):
        return None
    for kind in classes(app):
        ask = app.asks[next(iter(app.waiting[kind]))]
        if ask.said is Lack.NODES and not has_placeholder(app, kind):
            return ask
    return None


def _nearest(partition: Partition, kind: AskClass) -> NodeId:
    """The node that lacks the least of what is asked; ties go to the lowest id. Empty = none could hold it."""
    draft = Draft(partition.nodes)
    possible = fit.allowed(draft, shape_of(kind)) & _large_enough(draft, kind)
    if not kind.required_node:
        possible = possible & _unreserved(partition, draft)
    rows = np.flatnonzero(possible)
    if not len(rows):
        return NO_NODE
    lacking = np.zeros(len(rows))
    for name, amount in kind.resources.items():
        column = draft.available(name)
        if column is not None:
            np.maximum(lacking, (amount - column[rows]) / amount, out=lacking)
    ranks = draft.nodes.rows.ranks()[rows]
    return draft.nodes.rows.at(int(rows[np.lexsort((ranks, lacking))[0]]))


def _large_enough(draft: Draft, kind: AskClass) -> BoolColumn:
    empty = draft.fork()
    empty.empty()
    fitting = np.ones(draft.size, dtype=np.bool_)
    for name, amount in kind.resources.items():
        column = empty.available(name)
        fitting = np.zeros(draft.size, dtype=np.bool_) if column is None else fitting & (column >= amount)
    return fitting


def _unreserved(partition: Partition, draft: Draft) -> BoolColumn:
    free = np.ones(draft.size, dtype=np.bool_)
    free[[draft.nodes.rows.row(node) for node in partition.reservations.by_node]] = False
    return free
