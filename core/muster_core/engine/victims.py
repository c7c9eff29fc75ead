"""Victims are told to go, all of one decision at once, and what is held for those they make room for.

A preemption is over when the last victim is gone, however that came
(ledger.drop), or when they were not confirmed in time. Called by preemption.py
and quota.py. Source: contract 10.1; semantics 4.
"""

from __future__ import annotations

from typing import Final

from muster_core.engine import holds, reservations, taking_back
from muster_core.model.decisions import Preemption, Reservation
from muster_core.model.effects import AllocationAnswer, ClockSet, Effect, Release
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationKey, QueuePath
from muster_core.model.notes import Change, Detail, Notice
from muster_core.model.release import Termination
from muster_core.model.resources import NOTHING
from muster_core.plan.preemption import rivals
from muster_core.plan.preemption.rights import Balance
from muster_core.world.applications import Allocation, Application
from muster_core.world.preemptions import PlaceId, Report, Rivalry, Running, pair
from muster_core.world.world import Partition

_PREEMPTED: Final = Termination.PREEMPTED_BY_SCHEDULER


def carry_out(partition: Partition, decision: Preemption, now_ns: int) -> list[Effect]:
    """Tell the victims to go, hold their room. Raises BrokenDecision before the first write."""
    app = partition.applications.get(decision.application)
    if app is None:
        raise BrokenDecision("preemption", "the application is gone")
    victims = [victim_of(partition, name) for name in decision.victims]
    _check(partition, app, decision, victims)
    keys = tuple((app.id, key) for key, _ in decision.places)
    leaf = app.queue.path
    for other in leaves_of(partition, decision):
        if not app.asks[decision.places[0][0]].spec.required_node:
            _remember(partition, leaf, other, now_ns)
    running = Running(partition.next_number(), leaf, keys, dict.fromkeys(decision.victims), now_ns)
    effects = tell(partition, running, victims, f"preempted for an ask of queue {leaf}")
    for key, node in decision.places:
        effects += reservations.reserve(
            partition, Reservation(partition.id, app.id, key, node), now_ns, preemption=running.number
        )
        app.asks[key].preemption, app.asks[key].triggered = running.number, True
    taking_back.vacate(partition, victims, now_ns)
    clock = Clock(ClockKind.VICTIMS, partition.rm, partition.id, app.id, AllocationKey(""), running.number)
    return [*effects, ClockSet(clock, now_ns + partition.timing.release_timeout_ns)]


def tell(
    partition: Partition, running: Running, victims: list[tuple[Application, Allocation]], why: str
) -> list[Effect]:
    """Mark the victims, and say all releases in one answer. Who calls it vacates them when their room is held."""
    partition.preemptions.running[running.number] = running
    partition.preemptions.count += 1
    partition.preemptions.victims += len(victims)
    partition.preemptions.reports.append(Report(running.since_ns, running.queue, running.asks, tuple(running.victims)))
    released: list[Release] = []
    freed = NOTHING
    for app, victim in victims:
        freed += victim.spec.resources
        holds.mark_preempted(app, victim, running.number)
        if app.is_reserving:
            partition.stir_one(app)  # it lacks one more of its places
        if not victim.spec.podless:
            released.append(Release(partition.id, app.id, victim.spec.key, victim.id, _PREEMPTED, why))
    detail, text = Detail.QUEUE_PREEMPTION, f"{len(victims)} allocations were told to go"
    partition.note(Notice.QUEUE, running.queue, change=Change.SET, detail=detail, resource=freed, message=text)
    return [AllocationAnswer(partition.rm, released=tuple(released))] if released else []


def victim_of(partition: Partition, name: PlaceId) -> tuple[Application, Allocation]:
    """An allocation that may be told to go. Raises BrokenDecision if it may not."""
    app = partition.applications.get(name[0])
    victim = app.allocations.get(name[1]) if app is not None else None
    if app is None or victim is None or victim.releasing is not None or victim.spec.required_node:
        raise BrokenDecision("preemption", f"allocation {name[1]} cannot be told to go")
    return app, victim


def _check(
    partition: Partition, app: Application, decision: Preemption, victims: list[tuple[Application, Allocation]]
) -> None:
    """The asks wait, and the laws hold: not its own application, no queue below its guarantee."""
    asks = [app.asks.get(key) for key, _ in decision.places]
    if any(node not in partition.nodes for _, node in decision.places):
        raise BrokenDecision("preemption", "a node is gone")
    if not victims or any(ask is None or ask.swap is not None or ask.preemption for ask in asks):
        raise BrokenDecision("preemption", "an ask does not wait for it any more")
    if any(owner is app for owner, _ in victims):
        raise BrokenDecision("preemption", f"application {app.id} would preempt from itself")
    if any(ask is not None and ask.spec.required_node for ask in asks):
        return
    path = frozenset(queue.path for queue in app.queue.path_up())
    amount = sum((ask.spec.resources for ask in asks if ask is not None), NOTHING)
    balance = Balance(partition.queues.root, amount, path)
    for owner, victim in victims:
        if not balance.may_lose(owner.queue, victim.spec.resources):
            raise BrokenDecision("preemption", f"queue {owner.queue.path} would fall below its guarantee")
        balance.lose(owner.queue, victim.spec.resources)


def _remember(partition: Partition, leaf: QueuePath, other: QueuePath, now_ns: int) -> None:
    """Who took from whom, for as long as it matters."""
    rivalries = partition.preemptions.rivalries
    for both in [both for both, rivalry in rivalries.items() if rivals.is_over(rivalry, now_ns)]:
        del rivalries[both]
    rivalry = rivalries.setdefault(pair(leaf, other), Rivalry(leaf, now_ns))
    rivalry.turns += rivalry.taker != leaf
    rivalry.taker, rivalry.since_ns = leaf, now_ns


def time_out(partition: Partition, clock: Clock) -> list[Effect]:
    """Victims were not confirmed as gone in time, or the room they left went to another: nothing is held for the
    asks any more, they wait as usual.
    """
    running = partition.preemptions.running.get(clock.generation)
    if running is not None:
        holds.forget_preemption(partition, running)
    for hold in partition.reservations.of(clock.application):
        if hold.preemption == clock.generation:
            holds.unreserve(partition, hold.ask)
            left = len(running.victims) if running is not None else 0
            if left:
                message = f"{left} preempted allocations were not confirmed as released in time: the pod waits as usual"
                partition.note(Notice.REQUEST, hold.key, reference=hold.application, message=message)
    return []


def leaves_of(partition: Partition, decision: Preemption) -> list[QueuePath]:
    """The leaves that lose by a decision."""
    return sorted({partition.applications[name].queue.path for name, _ in decision.victims})
