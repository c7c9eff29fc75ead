"""Room is held for an ask that waits, and given back (contract 13, behaviour C.5).

A hold ends when its ask is placed, parked or gone, when its node drains or
goes, and when its time is up (`service.reservationTimeout`).
"""

from __future__ import annotations

from muster_core.engine import contention, holds
from muster_core.model.decisions import Reservation
from muster_core.model.effects import ClockSet, SchedulingState, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.model.shortfall import Lack
from muster_core.model.states import NodeState
from muster_core.plan import reserving
from muster_core.world.applications import Application, Ask
from muster_core.world.queues import Queue
from muster_core.world.reservations import Hold
from muster_core.world.world import Partition


def queue_clock(partition: Partition, queue: Queue, kind: ClockKind, number: int, at_ns: int) -> None:
    """One deadline of a queue."""
    nobody = ApplicationId("")
    clock = Clock(kind, partition.rm, partition.id, nobody, AllocationKey(""), number, queue.path)
    partition.outbox.put(ClockSet(clock, at_ns))


def watch(partition: Partition, app: Application, now_ns: int) -> None:
    """No node had room for an ask of this application: look again when it waited for long enough."""
    leaf = app.queue
    if leaf.reservation_clock or not leaf.waiting or leaf.node_reservations >= reserving.allowed(partition):
        return
    if reserving.may_reserve(partition, app):
        look_again(partition, leaf, now_ns + partition.timing.reservation_delay_ns)


def look_again(partition: Partition, leaf: Queue, at_ns: int) -> None:
    """Set the clock of the leaf's reservation delay."""
    number = partition.next_number()
    queue_clock(partition, leaf, ClockKind.RESERVATION, number, at_ns)
    leaf.reservation_clock = number


def reserve(partition: Partition, app: Application, decision: Reservation, now_ns: int) -> None:
    """Reserve resources of a node, and say so. Raises BrokenDecision before the first write."""
    ask = app.asks.get(decision.ask)
    if ask is None or ask.swap is not None:
        raise BrokenDecision("reservation", f"ask {decision.ask} does not wait")
    check_node(partition, ask, decision.node)
    others = (hold for hold in partition.reservations.on(decision.node) if hold.ask != (app.id, decision.ask))
    if not ask.spec.required_node and any(not (hold.required or hold.preempted) for hold in others):
        raise BrokenDecision("reservation", f"node {decision.node} is reserved already")
    put(partition, app, ask, decision.node, now_ns)


def check_node(partition: Partition, ask: Ask, node: NodeId) -> None:
    """Raise BrokenDecision if the node could not be used once there is room: it is gone, drained or cordoned. Only an
    ask that may run nowhere else may wait there all the same.
    """
    if node not in partition.nodes:
        raise BrokenDecision("reservation", f"node {node} is gone")
    is_open = partition.nodes.record(node).state is NodeState.SCHEDULABLE
    if not is_open and ask.spec.required_node != node:
        raise BrokenDecision("reservation", f"node {node} is not schedulable")


def kept(partition: Partition, app: Application, node: NodeId, *, required_only: bool) -> Resources:
    """What is reserved on a node for others than the application. `required_only`: an ask that may run nowhere else
    leaves alone only what is reserved for asks like it, and by take-overs.
    """
    holds_there = partition.reservations.on(node)
    others = (one for one in holds_there if one.application != app.id and (one.required or not required_only))
    return sum((one.resources for one in others), contention.reserved_on(partition, app, node))


def put(partition: Partition, app: Application, ask: Ask, node: NodeId, now_ns: int, *, preemption: int = 0) -> None:
    """Write a reservation that was checked."""
    is_required = bool(ask.spec.required_node)
    if is_required or preemption:
        give_way(partition, node)
    holds.unreserve(partition, (app.id, ask.spec.key))
    number = partition.next_number()
    hold = Hold(app.id, ask.spec.key, node, ask.spec.resources, number, is_required, preemption)
    holds.reserve(partition, app, ask, hold)
    at_ns = now_ns + partition.timing.reservation_timeout_ns
    clock = Clock(ClockKind.RESERVED, partition.rm, partition.id, app.id, ask.spec.key, number)
    partition.outbox.put(ClockSet(clock, at_ns))
    partition.stir_one(app)  # from now on it waits for that node
    _say(partition, app, ask, node)


def give_way(partition: Partition, node: NodeId) -> None:
    """What others hold on a node gives way to an ask that may run nowhere else, or that others went for."""
    for hold in partition.reservations.on(node):
        if not hold.required and not hold.preempted:
            holds.unreserve(partition, hold.ask)


def expire(partition: Partition, clock: Clock) -> None:
    """The time of one hold is up: its ask is scheduled as usual."""
    hold = partition.reservations.by_ask.get((clock.application, clock.key))
    if hold is not None and hold.number == clock.generation:
        holds.unreserve(partition, hold.ask)


def leave_node(partition: Partition, node: NodeId) -> None:
    """The node drains or goes: nothing is held there any more."""
    contention.leave_node(partition, node)
    for hold in partition.reservations.on(node):
        holds.unreserve(partition, hold.ask)


def shrink_node(partition: Partition, node: NodeId) -> None:
    """The node may have become too small for what is held there."""
    spec = partition.nodes.record(node).spec
    for hold in partition.reservations.on(node):
        if not (spec.capacity - spec.occupied).covers(hold.resources):
            holds.unreserve(partition, hold.ask)
    if not (spec.capacity - spec.occupied).covers(partition.nodes.claimed(node)):
        contention.leave_node(partition, node)


def _say(partition: Partition, app: Application, ask: Ask, node: NodeId) -> None:
    if ask.said is Lack.RESERVED:
        return
    ask.said = Lack.RESERVED
    if ask.spec.podless:  # one of many places: its task group is told when all are held
        return
    text = f"node {node} is reserved for it until enough resources are free there"
    state = SchedulingState.RESERVED
    partition.outbox.state(SchedulingStateChanged(partition.rm, app.id, ask.spec.key, state, text, Lack.RESERVED))
