"""Room is made for asks by telling others to go: when that is tried, what is written, how it ends (contract 10.1).

A leaf whose asks may have a right to preempt has one clock. When it rings, the
asks that waited for their queue's `preemption.delay` are tried, the first
ones first, so many at a time, and no ask again before its interval is over,
which grows while nothing helps.
Victims are told to go all at once; room on the node and head room in the
queues are held for the ask until it has its place. Once they are gone the ask
is placed as every holder of room is (plan/reserving.py).

Differs: an ask may preempt again when what was made room for did not get it its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from muster_core.engine import inquiries, notes, podless, reservations, victims
from muster_core.model.decisions import Preemption
from muster_core.model.effects import ClockSet, Effect
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import ApplicationId, QueuePath
from muster_core.model.notes import Notice
from muster_core.model.release import Termination
from muster_core.model.shortfall import Lack
from muster_core.plan import ordering
from muster_core.plan.preemption import guarantee, required, rivals
from muster_core.plan.preemption.rights import is_under_guarantee, leaves_below, usage
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application, Ask
from muster_core.world.classes import AskClass
from muster_core.world.preemptions import Rivalry
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: Attempts of one leaf at a time; more would keep the owner of the world too long.
_ATTEMPTS: Final = 2
#: Until the others of the leaf are tried: whatever else has come is heard first.
_PAUSE_NS: Final = 1_000_000
#: How often the interval doubles.
_DOUBLED: Final = 2
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


def watch_shrunk(partition: Partition, now_ns: int) -> list[Effect]:
    """Leaves gave something back: whoever is below a guarantee by that may have had no turn, others took the room."""
    shrunk, partition.shrunk = partition.shrunk, {}
    if not partition.config.preemption or not partition.waiting:
        return []
    below = {
        queue.path: queue
        for path in shrunk
        if (leaf := partition.queues.get(path)) is not None
        for queue in leaf.path_up()
        if queue.guaranteed and not usage(queue).covers(queue.guaranteed)
    }
    found = {leaf.path: leaf for queue in below.values() for leaf in leaves_below(queue)}
    return [effect for leaf in found.values() for effect in watch(partition, leaf, now_ns)]


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
            if left and name not in refused:
                left -= 1
                said = attempt(partition, app, asks, now_ns)
                effects += said
                refused |= set() if said else {name}
            at_ns = now_ns + (_interval(partition, asks[0]) if name in refused else _PAUSE_NS)
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
        if partition.inquiries.is_parked(partition.id, app.id):
            continue
        kinds = ordering.classes(app)
        if app.is_reserving:
            asks = _of_gang(app)
            if is_under and asks and all(_may(partition, ask) for ask in asks):
                if app.spec.is_podless:
                    podless.split(partition, app)
                    asks = _of_gang(app)
                if all(ask.left == 1 for ask in asks):
                    yield app, asks
            continue
        for kind in kinds:
            if not kind.placeholder and not has_placeholder(app, kind) and (is_under or kind.required_node):
                may = (ask for key in list(app.waiting[kind]) if _may(partition, ask := app.asks[key]))
                yield from ((app, [ask]) for ask in islice(may, _ATTEMPTS))


def _of_gang(app: Application) -> list[Ask]:
    """What a gang that reserves lacks."""
    return [app.asks[key] for kind in ordering.classes(app) if kind.placeholder for key in app.waiting[kind]]


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
        again_ns = ask.attempted_ns + _interval(partition, ask) if ask.attempted_ns else 0
        at_ns = max(at_ns, ask.asked_ns + delay_ns, again_ns)
    return at_ns


def _interval(partition: Partition, ask: Ask) -> int:
    """Until the next attempt: longer, up to a bound, the more of them did not help."""
    in_vain = sum(times for times, _ in ask.attempts.values()) if ask.attempts else 1
    return partition.timing.preemption_interval_ns << min(in_vain - 1, _DOUBLED)


# -- one attempt ----------------------------------------------------------------


def attempt(partition: Partition, app: Application, asks: list[Ask], now_ns: int) -> list[Effect]:
    """Plan for these asks and carry it out; nothing is said where that does not help."""
    for ask in asks:
        ask.attempted_ns = now_ns
    if asks[0].spec.required_node:
        answer = required.plan(partition, app, asks[0])
    else:
        answer = _plan(partition, app, asks, now_ns)
    # What has no pod cannot be judged.
    if isinstance(answer, Preemption) and partition.inquiries.victims and not asks[0].spec.podless:
        return inquiries.ask_victims(partition, answer, now_ns)
    if isinstance(answer, Preemption):
        try:
            return victims.carry_out(partition, answer, now_ns)
        except BrokenDecision as broken:
            answer = notes.broken(partition, app.queue.path, broken)
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
            for victim in victims.leaves_of(partition, answer)
            if (rivalry := rivals.comes_round(partition, leaf, victim, now_ns)) is not None
        ]
        if not found:
            return answer
        for rivalry in found:
            _stop(partition, leaf, rivalry, now_ns)


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
