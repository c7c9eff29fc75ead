"""Room is made for asks by telling others to go: when that is tried, what is written, how it ends (contract 10.1).

A leaf whose asks may have a right to preempt has one clock. When it rings, the
asks that waited for their queue's `preemption.delay` are tried, the first
ones first, so many at a time, and no ask again before its interval is over.
Victims are told to go all at once; room on the node and head room in the
queues are held for the ask until it has its place. Once they are gone the ask
is placed as every holder of room is (plan/reserving.py).

Differs: an ask may preempt again when what was made room for did not get it its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from muster_core.engine import ledger, reservations
from muster_core.model.decisions import Preemption, Reservation
from muster_core.model.effects import AllocationAnswer, ClockSet, Effect, Release
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationKey, ApplicationId, QueuePath
from muster_core.model.notes import Change, Detail, Notice
from muster_core.model.release import Termination
from muster_core.model.resources import NOTHING
from muster_core.model.shortfall import Lack
from muster_core.plan import ordering
from muster_core.plan.preemption import guarantee, required, rivals
from muster_core.plan.preemption.rights import Balance, is_under_guarantee
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Allocation, Application, Ask, AskClass
from muster_core.world.preemptions import PlaceId, Report, Rivalry, Running, pair
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: Attempts of one leaf at a time; more would keep the owner of the world too long.
_ATTEMPTS: Final = 10
#: Until the others of the leaf are tried.
_PAUSE_NS: Final = 1_000_000_000
#: Words of attempts that are kept of one ask.
_WORDS_KEPT: Final = 8
_PREEMPTED: Final = Termination.PREEMPTED_BY_SCHEDULER


# -- when it is tried -----------------------------------------------------------


def watch(partition: Partition, leaf: Queue, now_ns: int) -> list[Effect]:
    """Asks of the leaf were refused: look again when they waited for long enough, if they may have a right."""
    if leaf.preemption_clock or not leaf.waiting or not partition.config.preemption or not is_under_guarantee(leaf):
        return []
    app = partition.applications[next(iter(leaf.waiting))]
    first = app.asks[next(iter(next(iter(app.waiting.values()))))]
    after_last_ns = leaf.preemption_at_ns + partition.timing.preemption_interval_ns if leaf.preemption_at_ns else 0
    at_ns = max(now_ns, after_last_ns, first.asked_ns + leaf.policies.preemption_delay_ns)
    return [_set_clock(partition, leaf, at_ns)]


def watch_required(partition: Partition, app: Application, kinds: Iterable[AskClass], now_ns: int) -> list[Effect]:
    """The one node that an ask may run on has no room: there is no delay for it to wait for (contract 10.2)."""
    leaf = app.queue
    due = [
        _due(partition, [ask], leaf)
        for kind in kinds
        if kind.required_node
        and kind in app.waiting
        and _may(partition, ask := app.asks[next(iter(app.waiting[kind]))])
    ]
    if not due or not partition.config.preemption:
        return []
    at_ns = max(now_ns, min(due))
    if leaf.preemption_clock and leaf.preemption_at_ns <= at_ns:
        return []
    return [_set_clock(partition, leaf, at_ns)]


def ring(partition: Partition, clock: Clock, now_ns: int) -> list[Effect]:
    """The clock of a leaf rang: try its asks, and set it again while some of them may get what they wait for."""
    leaf = partition.queues.get(clock.queue)
    if leaf is None or leaf.preemption_clock != clock.generation:
        return []
    leaf.preemption_clock = 0
    leaf.preemption_at_ns = now_ns
    if not partition.config.preemption:
        return []
    effects: list[Effect] = []
    next_ns: int | None = None
    left = _ATTEMPTS
    refused: set[tuple[ApplicationId, AskClass]] = set()
    for app, asks in _subjects(partition, leaf):
        at_ns = _due(partition, asks, leaf)
        name = (app.id, asks[0].kind)
        if at_ns <= now_ns:
            said: list[Effect] = []
            if left and name not in refused:
                left -= 1
                said = attempt(partition, app, asks, now_ns)
                effects += said
                refused |= set() if said else {name}
            at_ns = now_ns + (partition.timing.preemption_interval_ns if name in refused else _PAUSE_NS)
        next_ns = at_ns if next_ns is None else min(next_ns, at_ns)
    if next_ns is not None and leaf.waiting:
        effects.append(_set_clock(partition, leaf, next_ns))
    return effects


def _set_clock(partition: Partition, leaf: Queue, at_ns: int) -> ClockSet:
    leaf.preemption_clock, leaf.preemption_at_ns = partition.next_number(), at_ns
    return reservations.queue_clock(partition, leaf, ClockKind.PREEMPTION, leaf.preemption_clock, at_ns)


def _subjects(partition: Partition, leaf: Queue) -> Iterator[tuple[Application, list[Ask]]]:
    """Asks of the leaf that preemption may be for, in the order of their turns: those that a gang lacks together,
    of each class of others the first.
    """
    is_under = is_under_guarantee(leaf)
    for app in ordering.applications(partition, leaf):
        kinds = ordering.classes(app)
        if app.is_reserving:
            asks = [app.asks[key] for kind in kinds if kind.placeholder for key in app.waiting[kind]]
            if is_under and asks and all(_may(partition, ask) and ask.left == 1 for ask in asks):
                yield app, asks
            continue
        for kind in kinds:
            if not kind.placeholder and not has_placeholder(app, kind) and (is_under or kind.required_node):
                may = (ask for key in list(app.waiting[kind]) if _may(partition, ask := app.asks[key]))
                yield from ((app, [ask]) for ask in islice(may, _ATTEMPTS))


def _may(partition: Partition, ask: Ask) -> bool:
    """Whether queues or nodes refused it, and nobody goes for it already. What a user may use is no reason."""
    hold = partition.reservations.by_ask.get((ask.spec.application, ask.spec.key))
    if ask.preemption or not ask.spec.allow_preempt_other or (hold is not None and hold.preempted):
        return False
    if ask.spec.required_node:
        return ask.said in (Lack.NODES, Lack.RESERVED)
    return ask.said in (Lack.QUOTA, Lack.NODES, Lack.RESERVED)


def _due(partition: Partition, asks: list[Ask], leaf: Queue) -> int:
    """When it may be tried for all of them."""
    at_ns = 0
    for ask in asks:
        delay_ns = 0 if ask.spec.required_node else leaf.policies.preemption_delay_ns
        again_ns = ask.attempted_ns + partition.timing.preemption_interval_ns if ask.attempted_ns else 0
        at_ns = max(at_ns, ask.asked_ns + delay_ns, again_ns)
    return at_ns


# -- one attempt ----------------------------------------------------------------


def attempt(partition: Partition, app: Application, asks: list[Ask], now_ns: int) -> list[Effect]:
    """Plan for these asks and carry it out; nothing is said where that does not help."""
    for ask in asks:
        ask.attempted_ns = now_ns
    if asks[0].spec.required_node:
        answer = required.plan(partition, app, asks[0])
    else:
        answer = _plan(partition, app, asks, now_ns)
    if isinstance(answer, Preemption):
        return carry_out(partition, answer, now_ns)
    for ask in asks:
        _write_down(partition, ask, answer, now_ns)
    return []


def _plan(partition: Partition, app: Application, asks: list[Ask], now_ns: int) -> Preemption | str:
    """A plan that takes nothing from leaves that it would come round with."""
    leaf = app.queue.path
    while True:
        answer = guarantee.plan(partition, app, asks, rivals.spared(partition, leaf, now_ns))
        if not isinstance(answer, Preemption):
            return answer
        found = [
            rivalry
            for victim in _leaves_of(partition, answer)
            if (rivalry := rivals.comes_round(partition, leaf, victim, now_ns)) is not None
        ]
        if not found:
            return answer
        for rivalry in found:
            _stop(partition, leaf, rivalry, now_ns)


def _leaves_of(partition: Partition, decision: Preemption) -> list[QueuePath]:
    return sorted({partition.applications[name].queue.path for name, _ in decision.victims})


def _stop(partition: Partition, leaf: QueuePath, rivalry: Rivalry, now_ns: int) -> None:
    """Both leave each other alone for a while, and people are told why."""
    span_ns = rivals.pause_ns(rivalry.pauses)
    rivalry.pauses += 1
    rivalry.paused_until_ns = now_ns + span_ns
    partition.preemptions.livelocks += 1
    message = (
        f"queues {leaf} and {rivalry.taker} preempt from each other in turns; they are kept from it for "
        f"{span_ns // 1_000_000_000} s. Give each of them a guarantee of its own"
    )
    partition.note(Notice.QUEUE, leaf, reference=rivalry.taker, message=message)


def _write_down(partition: Partition, ask: Ask, words: str, now_ns: int) -> None:
    """What came of an attempt, for people who look; where only one node would do, they are told at once, and once."""
    ask.attempts = ask.attempts or {}
    times, _ = ask.attempts.pop(words, (0, 0))
    ask.attempts[words] = (times + 1, now_ns)
    if len(ask.attempts) > _WORDS_KEPT:
        del ask.attempts[next(iter(ask.attempts))]
    if ask.spec.required_node and not times:
        partition.note(Notice.REQUEST, ask.spec.key, reference=ask.spec.application, message=words)


# -- what is written ------------------------------------------------------------


def carry_out(partition: Partition, decision: Preemption, now_ns: int) -> list[Effect]:
    """Tell the victims to go, hold their room. Raises BrokenDecision before the first write."""
    app = partition.applications.get(decision.application)
    if app is None:
        raise BrokenDecision("preemption", "the application is gone")
    victims = [_victim(partition, name) for name in decision.victims]
    _check(partition, app, decision, victims)
    keys = tuple((app.id, key) for key, _ in decision.places)
    leaf = app.queue.path
    for other in _leaves_of(partition, decision):
        if not app.asks[decision.places[0][0]].spec.required_node:
            _remember(partition, leaf, other, now_ns)
    running = Running(partition.next_number(), leaf, keys, dict.fromkeys(decision.victims), now_ns)
    effects = tell(partition, running, victims, f"preempted for an ask of queue {leaf}")
    for key, node in decision.places:
        effects += reservations.reserve(partition, Reservation(partition.id, app.id, key, node), now_ns, preempted=True)
        app.asks[key].preemption, app.asks[key].triggered = running.number, True
    clock = Clock(ClockKind.VICTIMS, partition.rm, partition.id, app.id, AllocationKey(""), running.number)
    return [*effects, ClockSet(clock, now_ns + partition.timing.release_timeout_ns)]


def tell(
    partition: Partition, running: Running, victims: list[tuple[Application, Allocation]], why: str
) -> list[Effect]:
    """Mark the victims, and say all releases in one answer."""
    partition.preemptions.running[running.number] = running
    partition.preemptions.count += 1
    partition.preemptions.victims += len(victims)
    partition.preemptions.reports.append(Report(running.since_ns, running.queue, running.asks, tuple(running.victims)))
    released: list[Release] = []
    freed = NOTHING
    for app, victim in victims:
        freed += victim.spec.resources
        ledger.mark_preempted(app, victim, running.number)
        released.append(Release(partition.id, app.id, victim.spec.key, victim.id, _PREEMPTED, why))
    detail, text = Detail.QUEUE_PREEMPTION, f"{len(victims)} allocations were told to go"
    partition.note(Notice.QUEUE, running.queue, change=Change.SET, detail=detail, resource=freed, message=text)
    return [AllocationAnswer(partition.rm, released=tuple(released))]


def _victim(partition: Partition, name: PlaceId) -> tuple[Application, Allocation]:
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


# -- how it ends ----------------------------------------------------------------


def time_out(partition: Partition, clock: Clock) -> list[Effect]:
    """Victims were not confirmed as gone in time: nothing is held for the asks any more, they wait as usual."""
    running = partition.preemptions.running.pop(clock.generation, None)
    if running is None:
        return []
    for name, key in running.asks:
        app = partition.applications.get(name)
        ask = app.asks.get(key) if app is not None else None
        if ask is not None and ask.preemption == running.number:
            ask.preemption = 0
            ledger.unreserve(partition, (name, key))
            left = len(running.victims)
            message = f"{left} preempted allocations were not confirmed as released in time: the pod waits as usual"
            partition.note(Notice.REQUEST, key, reference=name, message=message)
    return []
