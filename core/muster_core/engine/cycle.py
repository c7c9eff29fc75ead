"""One pass over what waits: ask plan/, commit, say. Runs when something changed, never by a tick.

Leaves with something to try are taken in the order of their shares, each for
a bounded number of places, so that one queue never keeps the others waiting
and the owner of the world can yield between turns (`may_go_on`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from muster_core.engine import notes, recommendations, reservations
from muster_core.engine.commit import commit
from muster_core.engine.steps import Lap, Step, untimed
from muster_core.model.decisions import Placement
from muster_core.model.effects import Effect, SchedulingState, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision
from muster_core.model.notes import EventNoted, Notice
from muster_core.model.policies import ApplicationOrder
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.model.states import ApplicationState, ManagerState
from muster_core.plan import gang, ordering, reserving, swap, usual
from muster_core.plan.outline import Outline, Unplaced, is_settled, moment
from muster_core.world.applications import Application, Ask
from muster_core.world.queues import Queue
from muster_core.world.world import Misfit, Partition, World

#: Places a leaf gets before another leaf (or, in a FAIR leaf, application) has its turn.
_TURN: Final = 64
#: The same while nobody else waits; bounds the time of one turn.
_TURN_ALONE: Final = 250

_STATES: Final = {
    Lack.QUOTA: SchedulingState.SKIPPED,
    Lack.TURN: SchedulingState.SKIPPED,
    Lack.NODES: SchedulingState.FAILED,
    Lack.RESERVED: SchedulingState.RESERVED,
    Lack.CLUSTER: SchedulingState.FAILED,
}
_STARTED: Final = (ApplicationState.RUNNING, ApplicationState.COMPLETING)
_TURN_OF_ANOTHER: Final = Shortfall(Lack.TURN, "an earlier gang of the queue waits for head room")


@dataclass(slots=True)
class CycleResult:
    """`more`: the pass stopped because its time was up; call again."""

    effects: list[Effect] = field(default_factory=list)
    more: bool = False


def cycle(world: World, now_ns: int, may_go_on: Callable[[], bool], lap: Lap = untimed) -> CycleResult:
    """Try everything that was stirred since the last pass; what was noted comes last.

    `lap` is told after each step which one it was.
    """
    result = CycleResult()
    _pass(world, now_ns, may_go_on, lap, result)
    result.effects += world.take_notes()
    return result


def _pass(world: World, now_ns: int, may_go_on: Callable[[], bool], lap: Lap, result: CycleResult) -> None:
    for partition in world.partitions.values():
        if not _is_open(world, partition):
            continue
        while (leaf := _next(partition)) is not None:
            if not may_go_on():
                result.more = True
                return
            lap(Step.QUEUE)
            result.effects += _turn(partition, leaf, now_ns, may_go_on, lap)
        result.effects += recommendations.node_to_empty(partition, now_ns)


def _next(partition: Partition) -> Queue | None:
    """The next leaf; all have something to try when something may fit that did not."""
    if partition.stirred_at != partition.nodes.epoch:
        partition.stir_all()
        partition.stirred_at = partition.nodes.epoch
    return ordering.next_leaf(partition)


def _is_open(world: World, partition: Partition) -> bool:
    manager = world.managers[partition.rm]
    return manager.state is ManagerState.RUNNING and not manager.fence_up


def _turn(partition: Partition, leaf: Queue, now_ns: int, may_go_on: Callable[[], bool], lap: Lap) -> list[Effect]:
    """One leaf's turn: until its places are given, all it waits for is refused, or time is up; then it is
    stirred again, and who was refused is passed over.
    """
    is_alone = len(partition.stirred) == 1 and leaf.policies.order is ApplicationOrder.FIFO
    left = _TURN_ALONE if is_alone else _TURN
    del partition.stirred[leaf.path]
    effects: list[Effect] = []
    is_blocked = False
    apps = ordering.applications(partition, leaf)
    lap(Step.APPLICATION)
    for app in apps:
        if is_blocked and not _has_started(app):
            waiting = [Unplaced(kind, _TURN_OF_ANOTHER) for kind in app.waiting]
            effects += _say(partition, app, waiting)
            continue
        if not is_settled(partition, app):
            placed, said = _try(partition, app, left, now_ns)
            lap(Step.NODE)
            effects += said
            left -= placed
            if left <= 0 or (app is not apps[-1] and not may_go_on()):
                partition.stir(leaf.path)
                break
        is_blocked = is_blocked or (app.blocks and leaf.policies.order is ApplicationOrder.FIFO)
    return effects


def _try(partition: Partition, app: Application, at_most: int, now_ns: int) -> tuple[int, list[Effect]]:
    epoch = partition.nodes.epoch
    if partition.misfits_at != epoch:
        partition.misfits.clear()
        partition.misfits_at = epoch
    if app.is_reserving:
        outline = gang.plan(partition, app, now_ns)
        if outline.checked:
            app.gang.checked_at = partition.nodes.capacity_total
        placed, effects = _carry_out(partition, app, outline, now_ns)
        app.blocks = outline.blocks
        app.refused_at = None if app.gang.over or partition.nodes.epoch != epoch else moment(partition, app)
        return placed, effects
    placed, effects = 0, []
    if app.id in partition.reservations.by_application:
        placed, effects = _carry_out(partition, app, reserving.plan(partition, app), now_ns)
    more, said = _carry_out(partition, app, swap.plan(partition, app, at_most - placed), now_ns)
    placed, effects = placed + more, effects + said
    if placed < at_most:
        more, said = _carry_out(partition, app, usual.plan(partition, app, at_most - placed), now_ns)
        placed, effects = placed + more, effects + said
    app.blocks = False
    # What was placed may be what another of its asks waits for (affinity): then nothing is settled.
    app.refused_at = moment(partition, app) if placed < at_most and partition.nodes.epoch == epoch else None
    return placed, effects


def _carry_out(partition: Partition, app: Application, outline: Outline, now_ns: int) -> tuple[int, list[Effect]]:
    effects: list[Effect] = []
    placed = 0
    if outline.notice:
        app.gang.warned = True
        effects.append(EventNoted(partition.rm, Notice.APPLICATION, app.id, outline.notice))
    for decision in outline.decisions:
        try:
            effects += commit(partition, decision, now_ns)
        except BrokenDecision as broken:
            # A plan of this very pass should hold. It wrote nothing, and what was
            # committed before it must be said: count it, tell it, leave it.
            partition.void_decisions += 1
            effects.append(EventNoted(partition.rm, Notice.APPLICATION, app.id, str(broken)))
            continue
        placed += len(decision.places) if isinstance(decision, Placement) else 1
    effects += _say(partition, app, outline.unplaced)
    if any(entry.why.lack is Lack.NODES for entry in outline.unplaced):
        effects += reservations.watch(partition, app, now_ns)
    return placed, effects


def _say(partition: Partition, app: Application, unplaced: list[Unplaced]) -> list[Effect]:
    """Tell the resource manager, per ask, and only where the reason's kind is another than before.

    Keys of a class keep their order and were all told together, so the walk
    ends at the first one that knows: only newcomers are looked at.
    """
    effects: list[Effect] = []
    for entry in unplaced:
        lack = entry.why.lack
        if entry.room is not None:
            partition.misfits[entry.kind] = Misfit(entry.room, entry.why)
        if entry.kind in app.waiting:
            app.refusals[entry.kind] = entry.why
        text = entry.why.text()
        told: list[Ask] = []
        for key in reversed(app.waiting.get(entry.kind, {})):
            ask = app.asks[key]
            if ask.said is lack:
                break
            if ask.said is Lack.RESERVED:
                continue
            told.append(ask)
            effects.append(SchedulingStateChanged(partition.rm, app.id, key, _STATES[lack], text, lack))
        if told:
            notes.refused(partition, told, entry.why)
        for ask in told:
            ask.said = lack
    return effects


def _has_started(app: Application) -> bool:
    return app.state in _STARTED or bool(app.real_allocations or app.gang.reserved or app.gang.pledge)
