"""Release of allocations and of preemption victims.

`commit` and `takeovers` call it for planned preemptions, `gangs` for timeouts. `notify_victims` sends the releases. A
preemption is in progress until its last victim has ended or the release timeout has expired.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import Preemption, QuotaPreemption
from muster_core.model.effects import Release, TimerSet
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import NO_APPLICATION, AllocationKey, NodeId, QueuePath, Termination
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import NOTHING, Resources
from muster_core.preemption import candidates, guarantees, quota_victims
from muster_core.preemption.candidates import CandidatePool, NodePool, is_eligible, positive, releasing_on
from muster_core.preemption.guarantees import GuaranteeBalance, fence
from muster_core.scheduling import ledger, requeue, reservations
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.reservations import PlaceId, PreemptionReport, RunningPreemption, ThrashingGuard, pair
from muster_core.state.scheduler_state import Partition, ResponseBuilder


def release_on_timeout(
    partition: Partition, app: Application, taken: Iterable[Allocation], why: str, now_ns: int, answer: ResponseBuilder
) -> None:
    """Releases allocations of one application (TIMEOUT) and adds the releases to the response.

    Virtual placeholders are removed at once.
    """
    for allocation in list(taken):
        ledger.mark_releasing(partition, app, allocation, Termination.TIMEOUT, now_ns)
        if allocation.spec.is_virtual:
            ledger.drop(partition, app, allocation, now_ns)
        else:
            key = allocation.spec.key
            answer.released.append(Release(partition.id, app.id, key, allocation.id, Termination.TIMEOUT, why))


def release_allocations(partition: Partition, victims: Iterable[tuple[Application, Allocation]], now_ns: int) -> None:
    """Removes the virtual placeholders among the victims, because no pod has to end first."""
    for app, victim in victims:
        if victim.spec.is_virtual:
            ledger.drop(partition, app, victim, now_ns)


_PREEMPTED: Final = Termination.PREEMPTED_BY_SCHEDULER


def preempt(partition: Partition, app: Application, decision: Preemption, now_ns: int) -> None:
    """Releases the victims and reserves their resources. Raises BrokenDecision before the first write."""
    asks = _asks(app, decision)
    victims = [victim_of(partition, name) for name in dict.fromkeys(decision.victims)]
    if not victims or any(owner is app for owner, _ in victims):
        raise BrokenDecision("preemption", f"application {app.id} would preempt nothing, or from itself")
    is_required = any(ask.spec.required_node for ask, _ in asks)
    _check_room(partition, app, asks, victims, now_ns)
    (_check_required if is_required else _check_rights)(partition, app, asks, victims)
    leaf = app.queue.path
    for other in () if is_required else leaves_of(partition, decision.victims):
        _remember(partition, leaf, other, now_ns)
    keys = tuple((app.id, ask.spec.key) for ask, _ in asks)
    running = RunningPreemption(partition.next_number(), leaf, keys, dict.fromkeys(decision.victims), now_ns)
    notify_victims(partition, running, victims, messages.preempted_for_queue(leaf), now_ns)
    for ask, node in asks:
        reservations.put(partition, app, ask, node, now_ns, preemption=running.number)
        ask.preemption, ask.triggered = running.number, True
    release_allocations(partition, victims, now_ns)


def enforce(partition: Partition, decision: QuotaPreemption, now_ns: int) -> None:
    """Releases the victims of a queue above its maximum. Raises BrokenDecision before the first write."""
    queue = partition.queues.get(decision.queue)
    over = quota_victims.excess(queue) if queue is not None else NOTHING
    if queue is None or not over:
        raise BrokenDecision("quota preemption", f"queue {decision.queue} is not over its maximum")
    victims = [victim_of(partition, name) for name in dict.fromkeys(decision.victims)]
    balance = GuaranteeBalance(queue)
    for owner, victim in victims:
        if queue not in owner.queue.path_up or not is_eligible(victim, over):
            raise BrokenDecision(
                "quota preemption", f"preempting allocation {victim.id} does not help queue {queue.path}"
            )
        _lose(balance, owner, victim)
    number = partition.next_number()
    running = RunningPreemption(number, queue.path, (), dict.fromkeys(decision.victims), now_ns)
    queue.quota_running = number
    notify_victims(partition, running, victims, messages.preempted_over_maximum(queue.path), now_ns)
    release_allocations(partition, victims, now_ns)


def notify_victims(
    partition: Partition,
    running: RunningPreemption,
    victims: list[tuple[Application, Allocation]],
    why: str,
    now_ns: int,
) -> None:
    """Marks the victims, sends all releases in one response and starts the release timeout.

    The caller removes virtual placeholders after it has reserved their resources.
    """
    partition.preemptions.running[running.number] = running
    partition.preemptions.count += 1
    partition.preemptions.victims += len(victims)
    partition.preemptions.reports.append(
        PreemptionReport(running.since_ns, running.queue, running.asks, tuple(running.victims))
    )
    app_id = running.asks[0][0] if running.asks else NO_APPLICATION
    answer = partition.outbox.answer(partition.rm)
    freed = NOTHING
    for app, victim in victims:
        freed += victim.spec.resources
        ledger.mark_preempted(partition, app, victim, running.number, now_ns)
        if not victim.spec.is_virtual:
            answer.released.append(Release(partition.id, app.id, victim.spec.key, victim.id, _PREEMPTED, why))
        if app.is_reserving:
            partition.scheduling.requeue(app)  # one more of its members is missing
    due_ns = max(candidates.due_ns(partition, victim) for _, victim in victims)
    partition.set_timer(TimerKind.VICTIMS, running.number, due_ns, app_id, queue=running.queue)
    detail, text = Detail.QUEUE_PREEMPTION, messages.preempting(len(victims))
    partition.note(
        Notice.QUEUE,
        running.queue,
        change=Change.SET,
        detail=detail,
        reference=app_id,
        resource=freed,
        message=text,
    )


def victim_of(partition: Partition, name: PlaceId) -> tuple[Application, Allocation]:
    """Returns an allocation that may be released. Raises BrokenDecision if it may not."""
    app = partition.applications.get(name[0])
    victim = app.allocations.get(name[1]) if app is not None else None
    if app is None or victim is None or victim.releasing is not None or victim.spec.required_node:
        raise BrokenDecision("preemption", f"allocation {name[1]} cannot be released")
    return app, victim


def _asks(app: Application, decision: Preemption) -> list[tuple[Ask, NodeId]]:
    """Returns the requests of a decision with their nodes. Raises BrokenDecision if one of them is not pending."""
    found: dict[AllocationKey, tuple[Ask, NodeId]] = {}
    for key, node in decision.places:
        ask = app.asks.get(key)
        if ask is None or ask.replacement is not None or ask.preemption or key in found:
            raise BrokenDecision("preemption", f"ask {key} does not wait for it any more")
        found[key] = ask, node
    return list(found.values())


def _check_room(
    partition: Partition,
    app: Application,
    asks: list[tuple[Ask, NodeId]],
    victims: list[tuple[Application, Allocation]],
    now_ns: int,
) -> None:
    """Checks that each node is usable and has the resources for all its requests once the victims have ended.

    Allocations that are being released anyway count as free. Reservations that have precedence do not.
    """
    own = {(ask.spec.application, ask.spec.key) for ask, _ in asks}
    wanted: dict[NodeId, Resources] = {}
    for ask, node in asks:
        reservations.check_node(partition, ask, node)
        wanted[node] = wanted.get(node, NOTHING) + ask.spec.resources
    freed: dict[NodeId, Resources] = {}
    for _, victim in victims:
        freed[victim.node] = freed.get(victim.node, NOTHING) + victim.spec.resources
    is_required = any(ask.spec.required_node for ask, _ in asks)
    for node, amount in wanted.items():
        room = partition.nodes.available(node) + freed.get(node, NOTHING) + releasing_on(partition, node, now_ns)
        room -= requeue.reserved_on(partition, app, node)
        for reservation in partition.reservations.on(node):
            if reservation.ask not in own and (reservation.required or (reservation.preempted and not is_required)):
                room -= reservation.resources
        if not room.covers(amount.on_nodes):
            raise BrokenDecision("preemption", f"node {node} has {room} for {amount} after the release of the victims")


def _check_required(
    partition: Partition,
    app: Application,
    asks: list[tuple[Ask, NodeId]],
    victims: list[tuple[Application, Allocation]],
) -> None:
    """Checks a request with a required node: it may preempt all victims, and they are on that node."""
    [(ask, node), *more] = asks
    pool = NodePool(partition, app, ask)
    for owner, victim in victims:
        if more or victim.node != node or not pool.has(owner, victim):
            raise BrokenDecision("preemption", f"allocation {victim.id} does not go for ask {ask.spec.key}")
        _lose(pool.balance, owner, victim)


def _check_rights(
    partition: Partition,
    app: Application,
    asks: list[tuple[Ask, NodeId]],
    victims: list[tuple[Application, Allocation]],
) -> None:
    """Checks a preemption for a guarantee.

    The leaf may preempt, each victim is a candidate within the preemption fence, and no queue falls below its
    guarantee.
    """
    amount = sum((ask.spec.resources for ask, _ in asks), NOTHING)
    bound = fence(app, amount)
    if bound is None:
        raise BrokenDecision("preemption", f"queue {app.queue.path} has no right to preempt {amount}")
    priority = min(ask.spec.priority for ask, _ in asks)
    pool = CandidatePool(partition, bound.root, app.queue, priority=priority, amount=amount)
    balance = GuaranteeBalance(partition.queues.root, amount, frozenset(queue.path for queue in app.queue.path_up))
    for owner, victim in victims:
        if not pool.has(owner, victim):
            raise BrokenDecision("preemption", f"allocation {victim.id} may not be taken for queue {app.queue.path}")
        _lose(balance, owner, victim)
    freed = sum((victim.spec.resources for _, victim in victims), NOTHING)
    if positive(bound.need - freed):
        raise BrokenDecision("preemption", f"queue {bound.root.path} would still have no quota for {amount}")


def _lose(balance: GuaranteeBalance, owner: Application, victim: Allocation) -> None:
    if not balance.may_release(owner.queue, victim.spec.resources):
        raise BrokenDecision("preemption", f"queue {owner.queue.path} would fall below its guarantee")
    balance.lose(owner.queue, victim.spec.resources)


def _remember(partition: Partition, leaf: QueuePath, other: QueuePath, now_ns: int) -> None:
    """Records which leaf preempted from which, for the preemption thrashing guard."""
    thrashing_guards = partition.preemptions.thrashing_guards
    for both in [both for both, thrashing in thrashing_guards.items() if guarantees.is_over(thrashing, now_ns)]:
        del thrashing_guards[both]
    thrashing = thrashing_guards.setdefault(pair(leaf, other), ThrashingGuard(leaf, now_ns))
    thrashing.rounds += thrashing.taker != leaf
    thrashing.taker, thrashing.since_ns = leaf, now_ns


def victims_timed_out(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Ends a preemption whose victims were not confirmed in time, or whose released resources were not used.

    Its node reservations are removed, and its requests are scheduled like any other. The timer is set again if the
    deletion of a victim has shown since that it takes longer.
    """
    running = partition.preemptions.running.get(timer.generation)
    if running is not None:
        left_victims = (partition.applications[name].allocations[identity] for name, identity in running.victims)
        due_ns = max((candidates.due_ns(partition, victim) for victim in left_victims), default=0)
        if due_ns > now_ns:
            partition.outbox.put(TimerSet(timer, due_ns))
            return
        partition.preemptions.earlier_victims.clear()
        ledger.forget_preemption(partition, running)
    for reservation in partition.reservations.of(timer.application):
        if reservation.preemption == timer.generation:
            ledger.unreserve(partition, reservation.ask)
            left = len(running.victims) if running is not None else 0
            if left:
                message = messages.preempted_pods_not_released(left)
                partition.note(Notice.REQUEST, reservation.key, reference=reservation.application, message=message)


def leaves_of(partition: Partition, victims: Iterable[PlaceId]) -> list[QueuePath]:
    """Returns the paths of the leaves that lose these allocations."""
    return sorted({partition.applications[name].queue.path for name, _ in victims})
