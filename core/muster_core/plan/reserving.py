"""Room that is held on nodes for asks that wait: for whom, where, and how a plan sees it.

Everybody else's plan sees held room as taken (plan/draft.py). The holder is
asked first, on its node and then on all others; a gang that reserves plans
with all that is held for its members. An ask that may run on one node only
(DaemonSets) passes by what others hold there.

The first asks of a leaf that the nodes refused each have a node reserved once
they have waited for long enough, up to a number that grows with the cluster:
with more, a leaf with a long backlog would keep what is freed from the others.
The node is schedulable, has the least lacking, and could hold the ask once all
have ended there that may end: foreign, mirror and DaemonSet pods do not, nor
do placeholders of the gang that waits. What preemption makes room for is
reserved besides (plan/preemption/).

Differs: a reservation keeps the resources of one ask, and a leaf has a bounded number; YuniKorn reserves the complete
node, and each waiting ask may reserve one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from typing import Final

import numpy as np

from muster_core.model.decisions import Placement, Reservation
from muster_core.model.ids import NO_NODE, NodeId
from muster_core.model.limits import NODE_RESERVATIONS_PER_LEAF, NODES_PER_NODE_RESERVATION
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.shortfall import Lack
from muster_core.plan import fit, headroom
from muster_core.plan.draft import Draft
from muster_core.plan.outline import Outline, shape_of, volumes_of
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application, Ask
from muster_core.world.classes import AskClass
from muster_core.world.columns import BoolColumn
from muster_core.world.obstacles import NotTogether
from muster_core.world.ordering import Key, application_key
from muster_core.world.queues import Queue
from muster_core.world.reservations import AskId, Hold
from muster_core.world.world import Partition

#: Scheduling classes of a leaf that are looked at for asks to reserve nodes for.
_CLASSES: Final = 256
#: Applications of a class that are looked at, those whose requests arrived first.
_APPLICATIONS: Final = 64


def plan(partition: Partition, app: Application) -> Outline:
    """Places for those of its asks that room is held for; head room that is held for an ask is its own to use."""
    outline = Outline()
    if app.id not in partition.reservations.by_application:
        return outline
    draft = Draft(partition.nodes)
    freed: set[AskId] = set()
    taken = given = NOTHING
    for hold in partition.reservations.of(app.id):
        ask = app.asks[hold.key]
        back = hold.resources if hold.preempted else NOTHING
        if not headroom.room(partition, app, back, given).room(taken).count(ask.spec.resources, 1):
            refused = headroom.refusal(partition, app, ask.spec.resources, taken - back, given + back)
            outline.obstacles += [refused.obstacle] if refused is not None else []
            continue
        node = _place(partition, draft, ask.kind, hold, freed)
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


def _place(partition: Partition, draft: Draft, kind: AskClass, hold: Hold, freed: set[AskId]) -> NodeId:
    """A node for the holder, the held one if it may; the draft is charged. Empty = there is none.

    `freed`: the asks whose reservations this plan has freed in the draft, for each is freed only once.
    """
    shape = shape_of(kind)
    draft.free(hold.node, hold.resources)
    freed.add(hold.ask)
    lift(partition, draft, kind, 1, freed)
    node = NO_NODE
    if fit.fits_on(draft, shape, hold.node):
        node = hold.node
        fit.charge(draft, shape, draft.nodes.rows.row(node))
    elif spots := fit.place(draft, shape, 1, partition.config.node_sort):
        node = spots[0][0]
    lift(partition, draft, kind, -1, freed)
    if not node:
        draft.take(hold.node, hold.resources)
        freed.discard(hold.ask)
    return node


def draft_for(partition: Partition, app: Application) -> Draft:
    """The nodes as a gang that reserves may use them: with what is held for it."""
    draft = Draft(partition.nodes)
    takeover = partition.contention.open.get(app.id)
    for node, amount in takeover.nodes.items() if takeover is not None else ():
        draft.free(node, amount)
    for hold in partition.reservations.of(app.id):
        draft.free(hold.node, hold.resources)
    return draft


def lift(partition: Partition, draft: Draft, kind: AskClass, times: int, freed: Container[AskId] = ()) -> None:
    """Suppose that nobody holds room on the one node of such an ask, but others like it; -1 = they do again. What is
    reserved for asks in `freed` is not reserved in the draft any more.
    """
    if kind.required_node:
        for hold in partition.reservations.on(kind.required_node):
            if not hold.required and hold.ask not in freed:
                draft.charge(draft.nodes.rows.row(hold.node), hold.resources, -times)


def allowed(partition: Partition) -> int:
    """How many node reservations one leaf may have; those that preemption made do not count."""
    return min(NODE_RESERVATIONS_PER_LEAF, 1 + len(partition.nodes) // NODES_PER_NODE_RESERVATION)


def may_reserve(partition: Partition, app: Application) -> bool:
    """Whether a reserved node could help the application: not a gang that wants all or nothing, nor one that a
    take-over decides about.
    """
    if not app.is_reserving:
        return True
    return not (app.spec.is_whole or app.gang.lost_to or app.id in partition.contention.open)


def candidates(partition: Partition, leaf: Queue) -> list[Ask]:
    """The asks of the leaf that the nodes refused and that have no reservation, the first to be served first.

    Looks at the first of the earliest applications of each class, not at all that wait. Requests may arrive in another
    order than their applications, as after a restart.
    """
    at_most = allowed(partition) - leaf.node_reservations
    found: list[tuple[Key, int, int, Ask]] = []
    for kind, names in islice(leaf.classes.items(), _CLASSES if at_most > 0 else 0):
        left = at_most
        apps = (partition.applications[name] for name in islice(names, _APPLICATIONS))
        for key, app in _first(partition, apps, at_most):
            if has_placeholder(app, kind) or not may_reserve(partition, app):
                continue
            asks = list(islice(_refused(partition, app, kind), left))
            found += ((key, -kind.priority, len(found) + index, ask) for index, ask in enumerate(asks))
            left -= len(asks)
            if not left:
                break
    return [ask for *_, ask in sorted(found, key=itemgetter(0, 1, 2))]


def _first(partition: Partition, apps: Iterable[Application], count: int) -> list[tuple[Key, Application]]:
    """The applications that are served first, with their keys."""
    return nsmallest(count, ((application_key(partition, app), app) for app in apps), key=itemgetter(0))


def _refused(partition: Partition, app: Application, kind: AskClass) -> Iterator[Ask]:
    """Asks of a class that no node had room for, oldest first. Newcomers, which were not told yet, are last."""
    for key in app.waiting[kind]:
        ask = app.asks[key]
        if (app.id, key) not in partition.reservations.by_ask:
            if ask.said is not Lack.NODES:
                return
            yield ask


def choose(partition: Partition, ask: Ask) -> Reservation | None:
    """The node to reserve for an ask; None = no node could ever hold it, or all those are reserved."""
    app = partition.applications[ask.spec.application]
    node = _nearest(partition, app, ask.kind)
    return Reservation(partition.id, app.id, ask.spec.key, node) if node else None


def _nearest(partition: Partition, app: Application, kind: AskClass) -> NodeId:
    """The node with the least lacking of what is asked, first among those where the application has nothing itself;
    ties go to the lowest id. Empty = none could hold it.
    """
    draft = Draft(partition.nodes)
    own = _own(partition, app)
    possible = fit.allowed(draft, shape_of(kind)) & _large_enough(draft, kind, own)
    if not kind.required_node:
        possible = possible & draft.schedulable & _unreserved(partition, draft)
    rows = np.flatnonzero(possible)
    if not len(rows):
        return NO_NODE
    lacking = np.zeros(len(rows))
    for name, amount in kind.resources.items():
        column = draft.available(name)
        if column is not None:
            np.maximum(lacking, (amount - column[rows]) / amount, out=lacking)
    has_own = np.array([row in own for row in rows.tolist()], dtype=np.bool_)
    ranks = draft.nodes.rows.ranks()[rows]
    return draft.nodes.rows.at(int(rows[np.lexsort((ranks, lacking, has_own))[0]]))


def _own(partition: Partition, app: Application) -> dict[int, Resources]:
    """What a gang that reserves has on each row: it keeps that until it has all its places."""
    found: dict[int, Resources] = {}
    if app.is_reserving:
        for one in app.allocations.values():
            if one.releasing is None:
                row = partition.nodes.rows.row(one.node)
                found[row] = found.get(row, NOTHING) + one.spec.resources
    return found


def _large_enough(draft: Draft, kind: AskClass, own: dict[int, Resources]) -> BoolColumn:
    """Nodes that could hold one of the class once all have ended that may end; `own` does not."""
    fitting = np.ones(draft.size, dtype=np.bool_)
    for name, amount in kind.resources.items():
        column = draft.at_best(name)
        fitting = np.zeros(draft.size, dtype=np.bool_) if column is None else fitting & (column >= amount)
        for row, kept in own.items():
            if column is not None and column.item(row) - kept[name] < amount:
                fitting[row] = False
    return fitting


def _unreserved(partition: Partition, draft: Draft) -> BoolColumn:
    free = np.ones(draft.size, dtype=np.bool_)
    free[[draft.nodes.rows.row(node) for node in partition.reservations.by_node]] = False
    return free
