"""Node reservations for requests that wait: which request gets one, on which node, and the plan that uses them.

Differs: a reservation keeps the resources of one request, and a leaf has a bounded number of them. YuniKorn reserves
the complete node, and each waiting request may reserve one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
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
from muster_core.queues import quota
from muster_core.state.applications import Application, Ask
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.ordering import SortKey, application_key
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import AskId, NodeReservation
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MembersDoNotFit
from muster_core.state.snapshot import AllocationPlan, Snapshot, chosen_for, shape_of

#: Scheduling classes of a leaf that one pass evaluates.
_CLASSES: Final = 256

#: Applications of a class that one pass evaluates, in the order of their first requests.
_APPLICATIONS: Final = 64


def plan_reservation(partition: Partition, app: Application) -> AllocationPlan:
    """Plans nodes for the requests of the application that have a node reservation.

    The quota that preemption reserved for a request is available to that request only.
    """
    allocation_plan = AllocationPlan()
    if app.id not in partition.reservations.by_application:
        return allocation_plan
    snapshot = Snapshot(partition.nodes)
    freed: set[AskId] = set()
    taken = given = NOTHING
    room = quota.room(partition, app)
    for reservation in partition.reservations.of(app.id):
        ask = app.asks[reservation.key]
        back = reservation.resources if reservation.preempted else NOTHING
        left = quota.room(partition, app, back, given) if back or given else room
        if not left.room(taken).count(ask.spec.resources, 1):
            refused = quota.quota_refusal(partition, app, ask.spec.resources, taken - back, given + back)
            allocation_plan.blocking_reasons += [refused.blocking_reason] if refused is not None else []
            continue
        is_possible = bool(freed) or _may_fit(partition, ask.kind, reservation)
        node = _place(partition, snapshot, ask.kind, reservation, freed) if is_possible else NO_NODE
        if node:
            # The placement uses up the reserved quota.
            taken += ask.spec.resources - back
            given += back
            chosen = chosen_for(snapshot, ask.kind)
            allocation_plan.decisions.append(Placement(partition.id, app.id, ((reservation.key, node),), chosen))
        elif reservation.preempted:
            # The quota of this request is reserved, so the reasons of its class do not apply. Any change of a node may
            # help.
            allocation_plan.blocking_reasons.append(MembersDoNotFit(app.id))
    return allocation_plan


def _may_fit(partition: Partition, kind: AskClass, reservation: NodeReservation) -> bool:
    """Whether the request may fit on its reserved node or on another one. False = certainly not."""
    known = partition.unschedulable_classes.get(kind)
    if known is None or known.room or kind.required_node:
        return True
    nodes = partition.nodes
    left = nodes.available(reservation.node) - nodes.node_reserved(reservation.node) + reservation.resources
    return left.covers(kind.resources.on_nodes)


def _place(
    partition: Partition, snapshot: Snapshot, kind: AskClass, reservation: NodeReservation, freed: set[AskId]
) -> NodeId:
    """Places the request on the reserved node if it fits, else on another node. Charges the snapshot. Empty = no node.

    `freed`: requests whose reservations this plan has already removed from the snapshot.
    """
    shape = shape_of(kind)
    snapshot.free(reservation.node, reservation.resources)
    freed.add(reservation.ask)
    lift(partition, snapshot, kind, 1, freed)
    node = NO_NODE
    if node_search.fits_on(snapshot, shape, reservation.node):
        node = reservation.node
        node_search.charge(snapshot, shape, snapshot.nodes.rows.row(node))
    elif spots := node_search.place(snapshot, shape, 1, partition.config.node_sort):
        node = spots[0][0]
    lift(partition, snapshot, kind, -1, freed)
    if not node:
        snapshot.take(reservation.node, reservation.resources)
        freed.discard(reservation.ask)
    return node


def snapshot_for(partition: Partition, app: Application) -> Snapshot:
    """Returns a snapshot in which the resources reserved for this gang are free."""
    snapshot = Snapshot(partition.nodes)
    for node, amount in partition.contention.own_nodes(app.id):
        snapshot.free(node, amount)
    for reservation in partition.reservations.of(app.id):
        snapshot.free(reservation.node, reservation.resources)
    return snapshot


def lift(partition: Partition, snapshot: Snapshot, kind: AskClass, times: int, freed: Container[AskId] = ()) -> None:
    """Frees other reservations on the node that requests of this class require; `times` -1 takes them again.

    Reservations of requests that require the same node stay. Reservations in `freed` are already removed.
    """
    if kind.required_node:
        for reservation in partition.reservations.on(kind.required_node):
            if not reservation.required and reservation.ask not in freed:
                snapshot.charge(snapshot.nodes.rows.row(reservation.node), reservation.resources, -times)


def allowed(partition: Partition) -> int:
    """Returns how many node reservations a leaf may have. Those made by preemption do not count."""
    return min(NODE_RESERVATIONS_PER_LEAF, 1 + len(partition.nodes) // NODES_PER_NODE_RESERVATION)


def may_reserve(partition: Partition, app: Application) -> bool:
    """Whether a node reservation may help the application.

    False for a gang that is placed all at once, and for a gang that takes part in a takeover.
    """
    if not app.is_reserving:
        return True
    return not (app.spec.is_all_or_nothing or app.gang.lost_to or app.id in partition.contention.open)


def candidates(partition: Partition, leaf: Queue) -> list[Ask]:
    """Returns the requests of the leaf that no node fits and that have no reservation, in the order of scheduling.

    Only the first applications and requests of each class are evaluated. Requests may arrive in another order than
    their applications, for example after a restart.
    """
    at_most = allowed(partition) - leaf.node_reservations
    found: list[tuple[SortKey, int, int, Ask]] = []
    for kind, names in islice(leaf.classes.items(), _CLASSES if at_most > 0 else 0):
        left = at_most
        apps = (partition.applications[name] for name in islice(names, _APPLICATIONS))
        for key, app in _first(partition, apps, at_most):
            if app.has_placeholder(kind) or not may_reserve(partition, app):
                continue
            asks = list(islice(_refused(partition, app, kind), left))
            found += ((key, -kind.priority, len(found) + index, ask) for index, ask in enumerate(asks))
            left -= len(asks)
            if not left:
                break
    return [ask for *_, ask in sorted(found, key=itemgetter(0, 1, 2))]


def _first(partition: Partition, apps: Iterable[Application], count: int) -> list[tuple[SortKey, Application]]:
    """Returns the `count` applications that are scheduled first, with their ordering keys."""
    return nsmallest(count, ((application_key(partition, app), app) for app in apps), key=itemgetter(0))


def _refused(partition: Partition, app: Application, kind: AskClass) -> Iterator[Ask]:
    """Yields the requests of a class that no node fits, oldest first. Requests without a reported reason are last."""
    for key in app.waiting[kind]:
        ask = app.asks[key]
        if (app.id, key) not in partition.reservations.by_ask:
            if ask.reported_kind is not ReasonKind.NODES:
                return
            yield ask


def choose(partition: Partition, ask: Ask) -> NodeReservationDecision | None:
    """Returns the node reservation for a request. None = no node is large enough, or all such nodes are reserved."""
    app = partition.applications[ask.spec.application]
    node = _nearest(partition, app, ask.kind)
    return NodeReservationDecision(partition.id, app.id, ask.spec.key, node) if node else None


def _nearest(partition: Partition, app: Application, kind: AskClass) -> NodeId:
    """Returns the node with the smallest missing share of a requested resource. Empty = no node is large enough.

    Nodes without allocations of the application come first. Ties are decided by the lowest node ID.
    """
    snapshot = Snapshot(partition.nodes)
    rows = _reservable(snapshot, kind)
    node_set = partition.contention.node_set
    if node_set is not None:
        rows = rows[~np.isin(rows, [partition.nodes.rows.row(node) for node in node_set.nodes])]
    if not len(rows):
        return NO_NODE
    own = _own(partition, app)
    rows = rows[node_search.allowed(snapshot, shape_of(kind))[rows]]
    rows = rows[_are_large_enough(snapshot, kind, own, rows)]
    if own:
        others = rows[~np.isin(rows, list(own))]
        rows = others if len(others) else rows
    if not len(rows):
        return NO_NODE
    lacking = np.zeros(len(rows))
    for name, amount in kind.resources.on_nodes.items():
        available = snapshot.available_at(name, rows)
        if available is not None:
            np.maximum(lacking, (amount - available) / amount, out=lacking)
    nearest = rows[lacking == lacking.min()]
    return snapshot.nodes.rows.at(int(nearest[snapshot.nodes.rows.ranks()[nearest].argmin()]))


def useless(partition: Partition, app: Application, nodes: Iterable[NodeId]) -> list[NodeReservation]:
    """Returns the reservations of a reserving gang on these nodes that its own allocations there leave no room for."""
    found = [one for node in nodes for one in partition.reservations.on(node) if one.application == app.id]
    found = [one for one in found if not (one.required or one.preempted)]
    if not found:
        return []
    snapshot, own = Snapshot(partition.nodes), _own(partition, app)
    rows = [np.array([partition.nodes.rows.row(one.node)]) for one in found]
    kinds = [app.asks[one.key].kind for one in found]
    fitting = (_are_large_enough(snapshot, kind, own, row).item() for kind, row in zip(kinds, rows, strict=True))
    return [one for one, fits in zip(found, fitting, strict=True) if not fits]


def _own(partition: Partition, app: Application) -> dict[int, Resources]:
    """Returns what a reserving gang has allocated per row. It keeps these until it is complete."""
    found: dict[int, Resources] = {}
    if app.is_reserving:
        for one in app.allocations.values():
            if one.releasing is None:
                row = partition.nodes.rows.row(one.node)
                found[row] = found.get(row, NOTHING) + one.spec.resources
    return found


def _reservable(snapshot: Snapshot, kind: AskClass) -> IntColumn:
    """Returns the rows of nodes that can be reserved. In a full cluster most nodes are reserved already.

    A request that requires a node may reserve it even if the node has a reservation or is not schedulable.
    """
    nodes = snapshot.nodes
    if kind.required_node:
        rows = [nodes.rows.row(kind.required_node)] if kind.required_node in nodes else []
        return np.array(rows, dtype=np.int64)
    return np.flatnonzero(snapshot.schedulable & ~nodes.reserved.view(snapshot.size))


def _are_large_enough(snapshot: Snapshot, kind: AskClass, own: Mapping[int, Resources], rows: IntColumn) -> BoolColumn:
    """Whether each of the rows could hold one pod of the class once all pods that may end have ended.

    `own`: amounts per row that do not end.
    """
    fitting = np.ones(len(rows), dtype=np.bool_)
    shared = [(index, own[row]) for index, row in enumerate(rows.tolist()) if row in own] if own else []
    for name, amount in kind.resources.on_nodes.items():
        most = snapshot.at_best(name, rows)
        if most is None:
            return np.zeros(len(rows), dtype=np.bool_)
        fitting &= most >= amount
        for index, kept in shared:
            if most.item(index) - kept[name] < amount:
                fitting[index] = False
    return fitting
