"""Node reservations for requests that wait.

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

from muster_core.model.decisions import NodeReservationDecision, Placement, ReasonKind
from muster_core.model.ids import NO_NODE, NodeId
from muster_core.model.limits import NODE_RESERVATIONS_PER_LEAF, NODES_PER_NODE_RESERVATION
from muster_core.model.resources import NOTHING, Resources
from muster_core.placement import node_search
from muster_core.placement.replacement import has_placeholder
from muster_core.placement.snapshot import AllocationPlan, Snapshot, shape_of, volumes_of
from muster_core.queues import quota
from muster_core.state.applications import Application, Ask
from muster_core.state.columns import BoolColumn
from muster_core.state.ordering import Key, application_key
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import AskId, NodeReservation
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MembersDoNotFit

#: Scheduling classes of a leaf that are looked at for asks to reserve nodes for.
_CLASSES: Final = 256

#: Applications of a class that are looked at, those whose requests arrived first.
_APPLICATIONS: Final = 64


def plan_reservation(partition: Partition, app: Application) -> AllocationPlan:
    """Places for those of its asks that room is held for; headroom that is held for an ask is its own to use."""
    allocation_plan = AllocationPlan()
    if app.id not in partition.reservations.by_application:
        return allocation_plan
    snapshot = Snapshot(partition.nodes)
    freed: set[AskId] = set()
    taken = given = NOTHING
    for hold in partition.reservations.of(app.id):
        ask = app.asks[hold.key]
        back = hold.resources if hold.preempted else NOTHING
        if not quota.room(partition, app, back, given).room(taken).count(ask.spec.resources, 1):
            refused = quota.quota_refusal(partition, app, ask.spec.resources, taken - back, given + back)
            allocation_plan.blocking_reasons += [refused.blocking_reason] if refused is not None else []
            continue
        node = _place(partition, snapshot, ask.kind, hold, freed)
        if node:
            # What it takes was held for it, and is held no more.
            taken += ask.spec.resources - back
            given += back
            volumes = volumes_of(snapshot, ask.kind)
            allocation_plan.decisions.append(Placement(partition.id, app.id, ((hold.key, node),), volumes))
        elif hold.preempted:
            # Head room is held for it too, so what refuses others of its class does not refuse it: any node may help.
            allocation_plan.blocking_reasons.append(MembersDoNotFit(app.id))
    return allocation_plan


def _place(
    partition: Partition, snapshot: Snapshot, kind: AskClass, hold: NodeReservation, freed: set[AskId]
) -> NodeId:
    """A node for the holder, the held one if it may; the draft is charged. Empty = there is none.

    `freed`: the asks whose reservations this plan has freed in the draft, for each is freed only once.
    """
    shape = shape_of(kind)
    snapshot.free(hold.node, hold.resources)
    freed.add(hold.ask)
    lift(partition, snapshot, kind, 1, freed)
    node = NO_NODE
    if node_search.fits_on(snapshot, shape, hold.node):
        node = hold.node
        node_search.charge(snapshot, shape, snapshot.nodes.rows.row(node))
    elif spots := node_search.place(snapshot, shape, 1, partition.config.node_sort):
        node = spots[0][0]
    lift(partition, snapshot, kind, -1, freed)
    if not node:
        snapshot.take(hold.node, hold.resources)
        freed.discard(hold.ask)
    return node


def draft_for(partition: Partition, app: Application) -> Snapshot:
    """The nodes as a gang that reserves may use them: with what is held for it."""
    snapshot = Snapshot(partition.nodes)
    takeover = partition.contention.open.get(app.id)
    for node, amount in takeover.nodes.items() if takeover is not None else ():
        snapshot.free(node, amount)
    for hold in partition.reservations.of(app.id):
        snapshot.free(hold.node, hold.resources)
    return snapshot


def lift(partition: Partition, snapshot: Snapshot, kind: AskClass, times: int, freed: Container[AskId] = ()) -> None:
    """Suppose that nobody holds room on the one node of such an ask, but others like it; -1 = they do again. What is
    reserved for asks in `freed` is not reserved in the draft any more.
    """
    if kind.required_node:
        for hold in partition.reservations.on(kind.required_node):
            if not hold.required and hold.ask not in freed:
                snapshot.charge(snapshot.nodes.rows.row(hold.node), hold.resources, -times)


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
            if ask.said is not ReasonKind.NODES:
                return
            yield ask


def choose(partition: Partition, ask: Ask) -> NodeReservationDecision | None:
    """The node to reserve for an ask; None = no node could ever hold it, or all those are reserved."""
    app = partition.applications[ask.spec.application]
    node = _nearest(partition, app, ask.kind)
    return NodeReservationDecision(partition.id, app.id, ask.spec.key, node) if node else None


def _nearest(partition: Partition, app: Application, kind: AskClass) -> NodeId:
    """The node with the least lacking of what is asked, first among those where the application has nothing itself;
    ties go to the lowest id. Empty = none could hold it.
    """
    snapshot = Snapshot(partition.nodes)
    own = _own(partition, app)
    possible = node_search.allowed(snapshot, shape_of(kind)) & _large_enough(snapshot, kind, own)
    if not kind.required_node:
        possible = possible & snapshot.schedulable & _unreserved(partition, snapshot)
    rows = np.flatnonzero(possible)
    if not len(rows):
        return NO_NODE
    lacking = np.zeros(len(rows))
    for name, amount in kind.resources.items():
        column = snapshot.available(name)
        if column is not None:
            np.maximum(lacking, (amount - column[rows]) / amount, out=lacking)
    has_own = np.array([row in own for row in rows.tolist()], dtype=np.bool_)
    ranks = snapshot.nodes.rows.ranks()[rows]
    return snapshot.nodes.rows.at(int(rows[np.lexsort((ranks, lacking, has_own))[0]]))


def _own(partition: Partition, app: Application) -> dict[int, Resources]:
    """What a gang that reserves has on each row: it keeps that until it has all its places."""
    found: dict[int, Resources] = {}
    if app.is_reserving:
        for one in app.allocations.values():
            if one.releasing is None:
                row = partition.nodes.rows.row(one.node)
                found[row] = found.get(row, NOTHING) + one.spec.resources
    return found


def _large_enough(snapshot: Snapshot, kind: AskClass, own: dict[int, Resources]) -> BoolColumn:
    """Nodes that could hold one of the class once all have ended that may end; `own` does not."""
    fitting = np.ones(snapshot.size, dtype=np.bool_)
    for name, amount in kind.resources.items():
        column = snapshot.at_best(name)
        fitting = np.zeros(snapshot.size, dtype=np.bool_) if column is None else fitting & (column >= amount)
        for row, kept in own.items():
            if column is not None and column.item(row) - kept[name] < amount:
                fitting[row] = False
    return fitting


def _unreserved(partition: Partition, snapshot: Snapshot) -> BoolColumn:
    free = np.ones(snapshot.size, dtype=np.bool_)
    free[[snapshot.nodes.rows.row(node) for node in partition.reservations.by_node]] = False
    return free
