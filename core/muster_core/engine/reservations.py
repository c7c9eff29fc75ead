"""Room is held for an ask that waits, and given back (contract 13, behaviour C.5).

A hold ends when its ask is placed, parked or gone, when its node drains or
goes, and when its time is up (`service.reservationTimeout`).
"""

from __future__ import annotations

from muster_core.engine import holds, notes
from muster_core.model.decisions import Reservation
from muster_core.model.effects import ClockSet, Effect, SchedulingState, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId
from muster_core.model.shortfall import Lack
from muster_core.model.states import NodeState
from muster_core.plan import reserving
from muster_core.world.applications import Application, Ask
from muster_core.world.queues import Queue
from muster_core.world.reservations import Hold
from muster_core.world.world import Partition


def queue_clock(partition: Partition, queue: Queue, kind: ClockKind, number: int, at_ns: int) -> ClockSet:
    """One deadline of a queue."""
    nobody = ApplicationId("")
    return ClockSet(Clock(kind, partition.rm, partition.id, nobody, AllocationKey(""), number, queue.path), at_ns)


def watch(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    """No node had room for an ask of this application: look again when it waited for long enough."""
    leaf = app.queue
    if app.is_reserving and (app.spec.is_whole or partition.partial != app.id):
        return []
    if leaf.reservation_clock or not leaf.waiting or app.id in partition.reservations.by_application:
        return []
    return _look_again(partition, leaf, now_ns + partition.timing.reservation_delay_ns)


def ring(partition: Partition, clock: Clock, now_ns: int) -> list[Effect]:
    """The reservation delay of a leaf is over."""
    leaf = partition.queues.get(clock.queue)
    if leaf is None or leaf.reservation_clock != clock.generation:
        return []
    leaf.reservation_clock = 0
    chosen = reserving.choose(partition, leaf)
    if chosen is None:
        return []
    ask, decision = chosen
    due_ns = ask.asked_ns + partition.timing.reservation_delay_ns
    if now_ns < due_ns:
        return _look_again(partition, leaf, due_ns)
    try:
        return reserve(partition, decision, now_ns) if decision is not None else []
    except BrokenDecision as broken:
        notes.broken(partition, leaf.path, broken)
        return []


def reserve(partition: Partition, decision: Reservation, now_ns: int, *, preemption: int = 0) -> list[Effect]:
    """Hold the room, and say so. Raises BrokenDecision before the first write."""
    app = partition.applications.get(decision.application)
    ask = app.asks.get(decision.ask) if app is not None else None
    node = decision.node
    if app is None or ask is None or ask.swap is not None:
        raise BrokenDecision("reservation", f"ask {decision.ask} does not wait")
    is_required = bool(ask.spec.required_node)
    is_open = node in partition.nodes and partition.nodes.record(node).state is NodeState.SCHEDULABLE
    if not is_open and not (is_required and node in partition.nodes):
        raise BrokenDecision("reservation", f"node {node} takes nothing")
    if is_required or preemption:
        give_way(partition, node)
    holds.unreserve(partition, (app.id, ask.spec.key))
    number = partition.next_number()
    hold = Hold(app.id, ask.spec.key, node, ask.spec.resources, number, is_required, preemption)
    holds.reserve(partition, app, ask, hold)
    partition.stir_one(app)  # from now on it waits for that node
    at_ns = now_ns + partition.timing.reservation_timeout_ns
    clock = Clock(ClockKind.RESERVED, partition.rm, partition.id, app.id, ask.spec.key, number)
    return [*_say(partition, app, ask, node), ClockSet(clock, at_ns)]


def give_way(partition: Partition, node: NodeId) -> None:
    """What others hold on a node gives way to an ask that may run nowhere else, or that others went for."""
    for hold in partition.reservations.on(node):
        if not hold.required and not hold.preempted:
            holds.unreserve(partition, hold.ask)


def expire(partition: Partition, clock: Clock) -> list[Effect]:
    """The time of one hold is up: its ask is scheduled as usual."""
    hold = partition.reservations.by_ask.get((clock.application, clock.key))
    if hold is not None and hold.number == clock.generation:
        holds.unreserve(partition, hold.ask)
    return []


def leave_node(partition: Partition, node: NodeId) -> None:
    """The node drains or goes: nothing is held there any more."""
    for hold in partition.reservations.on(node):
        holds.unreserve(partition, hold.ask)


def shrink_node(partition: Partition, node: NodeId) -> None:
    """The node may have become too small for what is held there."""
    spec = partition.nodes.record(node).spec
    for hold in partition.reservations.on(node):
        if not (spec.capacity - spec.occupied).covers(hold.resources):
            holds.unreserve(partition, hold.ask)


def _look_again(partition: Partition, leaf: Queue, at_ns: int) -> list[Effect]:
    leaf.reservation_clock = partition.next_number()
    return [queue_clock(partition, leaf, ClockKind.RESERVATION, leaf.reservation_clock, at_ns)]


def _say(partition: Partition, app: Application, ask: Ask, node: NodeId) -> list[Effect]:
    if ask.said is Lack.RESERVED:
        return []
    ask.said = Lack.RESERVED
    if ask.spec.podless:  # one of many places: its task group is told when all are held
        return []
    text = f"room is held on node {node} until there is enough of it"
    state = SchedulingState.RESERVED
    return [SchedulingStateChanged(partition.rm, app.id, ask.spec.key, state, text, Lack.RESERVED)]
