"""Node reservations: creation, expiry and release.

A node reservation keeps resources on one node for a request that waits. The node stays open for other requests that
fit next to the reservation.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.model.decisions import NodeReservationDecision, Placement, ReasonKind
from muster_core.model.effects import TimerSet
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.states import NodeState
from muster_core.placement import node_reservations, node_search
from muster_core.queues import quota
from muster_core.scheduling import ledger, repair, reporting, requeue
from muster_core.state.applications import Application, Ask
from muster_core.state.queues import Queue
from muster_core.state.reservations import NodeReservation
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import NoNodeFits
from muster_core.state.snapshot import AllocationPlan, Snapshot, shape_of


def watch(partition: Partition, app: Application, now_ns: int) -> None:
    """Sets the reservation timer of the leaf, because no node fits a request of the application."""
    leaf = app.queue
    if leaf.reservation_timer or not leaf.waiting or leaf.node_reservations >= node_reservations.allowed(partition):
        return
    if node_reservations.may_reserve(partition, app):
        look_again(partition, leaf, now_ns + partition.timing.reservation_delay_ns)


def look_again(partition: Partition, leaf: Queue, at_ns: int) -> None:
    """Sets the reservation timer of the leaf."""
    leaf.reservation_timer = partition.start_timer(TimerKind.RESERVATION, at_ns, queue=leaf.path)


def reserve(partition: Partition, app: Application, decision: NodeReservationDecision, now_ns: int) -> None:
    """Reserves resources on a node for a request, and reports it. Raises BrokenDecision before the first write."""
    ask = app.asks.get(decision.ask)
    if ask is None or ask.replacement is not None:
        raise BrokenDecision("reservation", f"ask {decision.ask} does not wait")
    check_node(partition, ask, decision.node)
    others = (
        reservation
        for reservation in partition.reservations.on(decision.node)
        if reservation.ask != (app.id, decision.ask)
    )
    if not ask.spec.required_node and any(
        not (reservation.required or reservation.preempted) for reservation in others
    ):
        raise BrokenDecision("reservation", f"node {decision.node} is reserved already")
    put(partition, app, ask, decision.node, now_ns)


def check_node(partition: Partition, ask: Ask, node: NodeId) -> None:
    """Raises BrokenDecision if the node is removed, draining or cordoned.

    A request that requires this node may wait there even while the node is not schedulable.
    """
    if node not in partition.nodes:
        raise BrokenDecision("reservation", f"node {node} no longer exists")
    is_open = partition.nodes.record(node).state is NodeState.SCHEDULABLE
    if not is_open and ask.spec.required_node != node:
        raise BrokenDecision("reservation", f"node {node} is not schedulable")


def kept(partition: Partition, app: Application, node: NodeId, *, required_only: bool) -> Resources:
    """Returns the resources on a node that are reserved for other applications.

    `required_only`: for a request with a required node, only reservations of such requests and of takeovers count.
    """
    holds_there = partition.reservations.on(node)
    others = (one for one in holds_there if one.application != app.id and (one.required or not required_only))
    return sum((one.resources for one in others), requeue.reserved_on(partition, app, node))


def put(partition: Partition, app: Application, ask: Ask, node: NodeId, now_ns: int, *, preemption: int = 0) -> None:
    """Writes a reservation that was checked before."""
    is_required = bool(ask.spec.required_node)
    if is_required or preemption:
        give_way(partition, node)
    ledger.unreserve(partition, (app.id, ask.spec.key))
    number = partition.next_number()
    reservation = NodeReservation(app.id, ask.spec.key, node, ask.spec.resources, number, is_required, preemption)
    ledger.reserve(partition, app, ask, reservation)
    at_ns = now_ns + partition.timing.reservation_timeout_ns
    partition.set_timer(TimerKind.RESERVED, number, at_ns, app.id, ask.spec.key)
    partition.scheduling.requeue(app)  # it waits for that node now
    _report_reservation(partition, app, ask, node)


def move_useless(partition: Partition, app: Application, nodes: Iterable[NodeId], now_ns: int) -> None:
    """Removes the reservations of a gang on nodes that its own members fill, and has other nodes reserved instead."""
    for reservation in node_reservations.useless(partition, app, nodes):
        ledger.unreserve(partition, reservation.ask)
        partition.scheduling.requeue(app)
        watch(partition, app, now_ns)


def give_way(partition: Partition, node: NodeId) -> None:
    """Removes the ordinary reservations on a node, for a request that requires the node or has victims there."""
    for reservation in partition.reservations.on(node):
        if not reservation.required and not reservation.preempted:
            ledger.unreserve(partition, reservation.ask)


def give_way_to_repair(partition: Partition, app: Application, allocation_plan: AllocationPlan) -> bool:
    """Removes the ordinary reservations on the nodes that lost members of a gang get instead, if these have precedence.

    `allocation_plan` places what fits next to the reservations. Each member that it refuses takes at most one node.
    Returns whether there were any.
    """
    refused = {one.kind for one in allocation_plan.blocking_reasons if isinstance(one, NoNodeFits)}
    ordinary = [
        one
        for one in (partition.reservations.by_ask.values() if refused else ())
        if not (one.required or one.preempted or one.application == app.id)
        and repair.precedes(partition, app, partition.applications[one.application])
    ]
    if not ordinary:
        return False
    snapshot, left, taken = Snapshot(partition.nodes), repair.replacements(app), NOTHING
    for decision in allocation_plan.decisions:
        for key, node in decision.places if isinstance(decision, Placement) else ():
            kind = app.asks[key].kind
            node_search.charge(snapshot, shape_of(kind), partition.nodes.rows.row(node))
            left[kind] -= 1
            taken += kind.resources
    for one in ordinary:
        snapshot.free(one.node, one.resources)
    nodes: set[NodeId] = set()
    for kind in (kind for kind in left if kind in refused):
        count = quota.room(partition, app).room(taken).count(kind.resources, left[kind])
        spots = node_search.place(snapshot, shape_of(kind), count, partition.config.node_sort) if count else []
        nodes.update(node for node, _ in spots)
        taken += kind.resources.times(sum(there for _, there in spots))
    found = [one for one in ordinary if one.node in nodes]
    for one in found:
        ledger.unreserve(partition, one.ask)
    return bool(found)


def expire(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Removes a reservation after its timeout. The request is scheduled like any other.

    A reservation for which victims are still terminating stays as long as they have time.
    """
    reservation = partition.reservations.by_ask.get((timer.application, timer.key))
    if reservation is None or reservation.number != timer.generation:
        return
    if reservation.preemption in partition.preemptions.running:
        partition.outbox.put(TimerSet(timer, now_ns + partition.timing.reservation_timeout_ns))
    else:
        ledger.unreserve(partition, reservation.ask)


def leave_node(partition: Partition, node: NodeId) -> None:
    """Removes all reservations on a node that drains or is removed."""
    requeue.leave_node(partition, node)
    for reservation in partition.reservations.on(node):
        ledger.unreserve(partition, reservation.ask)


def shrink_node(partition: Partition, node: NodeId) -> None:
    """Removes the reservations that the changed capacity of the node does not cover."""
    spec = partition.nodes.record(node).spec
    for reservation in partition.reservations.on(node):
        if not (spec.capacity - spec.occupied).covers(reservation.resources.on_nodes):
            ledger.unreserve(partition, reservation.ask)
    if not (spec.capacity - spec.occupied).covers(partition.nodes.node_reserved(node)):
        requeue.leave_node(partition, node)


def _report_reservation(partition: Partition, app: Application, ask: Ask, node: NodeId) -> None:
    if ask.reported_kind is ReasonKind.RESERVED:
        return
    ask.reported_kind = ReasonKind.RESERVED
    reporting.report_reservation(partition, app, ask)
