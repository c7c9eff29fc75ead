"""One turn of one leaf: those on its agenda are tried in order, until its places are given or nobody is left.

Who is refused goes to stand before what refused it; who got all that a turn
gives stays on the agenda for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapify, heappop
from typing import Final

from muster_core.engine import growth, inquiries, lifecycle, notes, preemption, reservations
from muster_core.engine.commit import commit
from muster_core.engine.steps import Lap, Step, untimed
from muster_core.model.decisions import Placement, Swap
from muster_core.model.effects import AllocationAnswer, Effect, SchedulingState, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import ClockKind
from muster_core.model.ids import AllocationKey
from muster_core.model.notes import Detail, EventNoted, Notice
from muster_core.model.policies import ApplicationOrder
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.model.states import ApplicationState
from muster_core.plan import gang, ordering, reserving, starting, swap, usual
from muster_core.plan.ordering import Key
from muster_core.plan.outline import Outline, Unplaced, wanted
from muster_core.plan.pace import Pace, Rival
from muster_core.world.applications import Application, Ask
from muster_core.world.classes import AskClass
from muster_core.world.obstacles import NoNode, NotHeld, NoTurn, Obstacle
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

_STATES: Final = {
    Lack.QUOTA: SchedulingState.SKIPPED,
    Lack.USER_QUOTA: SchedulingState.SKIPPED,
    Lack.APPLICATIONS: SchedulingState.SKIPPED,
    Lack.TURN: SchedulingState.SKIPPED,
    Lack.NODES: SchedulingState.FAILED,
    Lack.RESERVED: SchedulingState.RESERVED,
    Lack.CLUSTER: SchedulingState.FAILED,
}
_STARTED: Final = (ApplicationState.RUNNING, ApplicationState.COMPLETING)
_NOTES: Final = {
    Detail.APP_CANNOTRUN_QUEUE: Detail.APP_RUNNABLE_QUEUE,
    Detail.APP_CANNOTRUN_QUOTA: Detail.APP_RUNNABLE_QUOTA,
}


@dataclass(slots=True)
class Turn:
    """Of `leaf`, with `left` places to give, or fewer where the pace says so."""

    partition: Partition
    leaf: Queue
    pace: Pace
    left: int
    now_ns: int
    may_go_on: Callable[[], bool]
    lap: Lap = untimed
    #: Nobody else is tried; None = all of the agenda.
    only: Application | None = None
    #: A decision did not hold: whoever it was for is not asked again before something changes.
    is_broken: bool = False

    def take(self) -> list[Effect]:
        """Try one after the other; whoever is left stays on the agenda."""
        effects: list[Effect] = []
        order = self._order()
        self.lap(Step.APPLICATION)
        while order:
            _, _, app = heappop(order)
            if not self._is_candidate(app):
                continue
            if self._is_held(app, effects):
                continue
            left = self.left
            effects += self._try(app, order)
            self.lap(Step.NODE)
            if self.left < left:
                growth.narrow(self.partition)
            if self._is_over(app) or (order and not self.may_go_on()):
                break
        return effects + preemption.watch(self.partition, self.leaf, self.now_ns)

    def _is_over(self, app: Application) -> bool:
        """Whether no more is to be given, or to be had; who comes first and wants more is not overtaken in a turn."""
        agenda = self.leaf.agenda
        is_given = self.left <= 0 or app.id in agenda.stirred or self.pace.is_over()
        return is_given or not agenda.has_candidates(self.leaf.path)

    def _order(self) -> list[tuple[Key, int, Application]]:
        if self.only is not None:
            return [((), 0, self.only)]
        apps = map(self.partition.applications.__getitem__, self.leaf.agenda.candidates(self.leaf.path))
        order = [(ordering.application_key(self.partition, app), app.sequence, app) for app in apps]
        heapify(order)
        return order

    def _is_candidate(self, app: Application) -> bool:
        """Its lines may have been closed by one before it."""
        return app.id in self.leaf.agenda.stirred or self.partition.obstacles.is_open(app.id)

    def _is_held(self, app: Application, effects: list[Effect]) -> bool:
        """Whether it may not be tried at all now."""
        if app.asleep_until_ns or self._is_parked(app):
            self._stand(app, [])  # a clock, or an answer, stirs it
            return True
        gang = self._gang_before(app)
        if gang is not None:
            text = f"gang {gang.id} came first in queue {self.leaf.path} and waits for head room"
            why = Shortfall(Lack.TURN, text)
            effects += say(self.partition, app, [Unplaced(kind, why) for kind in _told(app)])
            self._stand(app, [NoTurn(self.leaf.path)])
            return True
        held = starting.hindrance(self.partition, app)
        note_runnable(self.partition, app, held.detail if held is not None else Detail.NONE)
        if held is None:
            return False
        growth.set_blocking(self.partition, app, blocks=False)
        effects += say(self.partition, app, [Unplaced(kind, held.why) for kind in _told(app)])
        self._stand(app, [held.obstacle])
        return True

    def _is_parked(self, app: Application) -> bool:
        return self.partition.inquiries.is_parked(self.partition.id, app.id)

    def _gang_before(self, app: Application) -> Application | None:
        """The gang whose turn it is; None = it is this application's (semantics 11)."""
        blockers = self.leaf.agenda.blockers
        if not blockers or _has_started(app) or self.leaf.policies.order is not ApplicationOrder.FIFO:
            return None
        mine = ordering.application_key(self.partition, app)
        apps = map(self.partition.applications.__getitem__, blockers)
        return next((other for other in apps if ordering.application_key(self.partition, other) < mine), None)

    def _try(self, app: Application, order: list[tuple[Key, int, Application]]) -> list[Effect]:
        partition = self.partition
        if app.is_reserving:
            outline = gang.plan(partition, app, self.now_ns)
            app.gang.searches = app.gang.searches + 1 if outline.in_vain else 0
            if outline.checked:
                app.gang.checked_at = partition.nodes.capacity_total
            said = self._carry_out(app, outline)
            growth.set_blocking(partition, app, blocks=outline.blocks and app.is_reserving)
            self._settle(app, [outline], more=outline.more or app.gang.over)
            return said
        held = reserving.plan(partition, app)
        effects = self._carry_out(app, held)
        swaps = swap.plan(partition, app, self.left) if not self._is_parked(app) else Outline()
        effects += self._carry_out(app, swaps)
        growth.set_blocking(partition, app, blocks=False)
        if self.left <= 0 or self._is_parked(app):  # what is asked about is in no draft: it would be planned twice
            self._settle(app, [swaps], more=True)
            return effects
        outline = usual.plan(partition, app, self.left, self._pace_of(app, order))
        effects += self._carry_out(app, outline)
        self._settle(app, [held, swaps, outline], more=swaps.more or outline.more)
        return effects + back_off(partition, app, outline, self.now_ns)

    def _pace_of(self, app: Application, order: list[tuple[Key, int, Application]]) -> Pace:
        """In a FAIR leaf the next application is a rival too."""
        if not order or self.leaf.policies.order is not ApplicationOrder.FAIR:
            return self.pace
        other = order[0][2]
        if self.leaf.policies.sorts_by_priority and other.shown != app.shown:
            return self.pace
        partition = self.partition
        rival = Rival(
            lambda: app.allocated + app.gang.allocated,
            partition.nodes.capacity_total.__getitem__,
            ordering.application_share(partition, other),
        )
        return Pace((*self.pace.rivals, rival))

    def _settle(self, app: Application, outlines: list[Outline], *, more: bool) -> None:
        if not app.waiting or app.id not in self.partition.applications:
            return
        if self._is_parked(app):
            self._stand(app, [])
            return
        more = more and not self.is_broken
        # Room that is held for it is room for nobody else: what others are told is not its answer.
        held: list[Obstacle] = [NotHeld(app.id, hold.node) for hold in self.partition.reservations.of(app.id)]
        self._stand(app, [] if more else [*held, *(one for outline in outlines for one in outline.obstacles)])
        if more:
            self.partition.stir_one(app)

    def _stand(self, app: Application, obstacles: list[Obstacle]) -> None:
        self.partition.unstir(app)
        self.partition.obstacles.stand(app, obstacles)

    def _carry_out(self, app: Application, outline: Outline) -> list[Effect]:
        partition = self.partition
        effects: list[Effect] = []
        if outline.notice:
            effects.append(EventNoted(partition.rm, Notice.APPLICATION, app.id, outline.notice, outline.short_of))
        parked: list[Placement | Swap] = []
        for decision in outline.decisions:
            # Places without pods are nobody's to judge.
            is_asked = partition.inquiries.places and not (app.spec.is_podless and app.is_reserving)
            if isinstance(decision, Placement | Swap) and is_asked:
                parked.append(decision)
                self.left -= len(decision.places) if isinstance(decision, Placement) else 1
                continue
            try:
                said = commit(partition, decision, self.now_ns)
                effects += joined(effects, said) if isinstance(decision, Swap) else said
            except BrokenDecision as broken:
                # A plan of this very pass should hold. It wrote nothing, and what was
                # committed before it must be said: count it, tell it, leave it.
                partition.void_decisions += 1
                self.is_broken = True
                effects.append(EventNoted(partition.rm, Notice.APPLICATION, app.id, str(broken)))
                continue
            self.left -= len(decision.places) if isinstance(decision, Placement) else 1
        if parked:
            effects += inquiries.ask_places(partition, app.id, parked, self.now_ns)
        # Room for places that are only asked about is not taken yet: how much there is besides is not to be remembered.
        unplaced = [replace(entry, room=None) for entry in outline.unplaced] if parked else outline.unplaced
        effects += say(partition, app, unplaced)
        refused = [entry.kind for entry in outline.unplaced if entry.why.lack is Lack.NODES]
        if refused:
            effects += reservations.watch(partition, app, self.now_ns)
            effects += preemption.watch_required(partition, app, refused, self.now_ns)
        return effects


def joined(said: list[Effect], more: list[Effect]) -> list[Effect]:
    """What is still to be said of `more`: if both only give places, those are put into the last answer of `said`.

    Members that take over from places without pods come one by one, and would be a message each.
    """
    match said, more:
        case [*_, AllocationAnswer(released=()) as last], [AllocationAnswer(released=()) as next_one]:
            said[-1] = replace(last, new=last.new + next_one.new)
            return []
        case _:
            return more


def say(partition: Partition, app: Application, unplaced: list[Unplaced]) -> list[Effect]:
    """Tell the resource manager, per ask, and only where the reason's kind is another than before.

    Keys of a class keep their order and were all told together, so the walk
    ends at the first one that knows: only newcomers are looked at, and those
    whose room is held no more.
    """
    effects: list[Effect] = []
    for entry in unplaced:
        lack = entry.why.lack
        if entry.room is not None:
            then = growth.held_by_nodes(partition, app, entry.kind) if entry.room else None
            partition.misfits.put(entry.kind, entry.room, entry.why, then)
        if entry.kind in app.waiting:
            app.refusals[entry.kind] = entry.told
        text = entry.told.text()
        told = _untold(app, app.waiting.get(entry.kind, {}), lack)
        if told:
            notes.refused(partition, told, entry.told)
        for ask in told:
            ask.said = lack
        speak = told[:1] if entry.kind.placeholder and app.spec.is_podless else told
        state = _STATES[lack]
        effects += [SchedulingStateChanged(partition.rm, app.id, one.spec.voice, state, text, lack) for one in speak]
    return effects


def _untold(app: Application, keys: dict[AllocationKey, None], lack: Lack) -> list[Ask]:
    """Those of a class who do not know yet that this is why they wait."""
    found: dict[AllocationKey, Ask] = {}
    for key in reversed(keys):
        ask = app.asks[key]
        if ask.said is lack:
            break
        if ask.said is not Lack.RESERVED:
            found[key] = ask
    for key in [key for key in app.unheld if key in keys]:
        del app.unheld[key]
        if app.asks[key].said is None:
            found[key] = app.asks[key]
    return list(found.values())


def note_runnable(partition: Partition, app: Application, held: Detail) -> None:
    """Note on change only that an application may not start for a maxapplications, or may again (contract 6.1)."""
    if held is app.cannot_run:
        return
    detail = held if held is not Detail.NONE else _NOTES[app.cannot_run]
    app.cannot_run = held
    partition.note(Notice.APPLICATION, app.id, detail=detail)


def back_off(partition: Partition, app: Application, outline: Outline, now_ns: int) -> list[Effect]:
    """Send an application to sleep of which so many asks had no node in one pass (contract 2.5)."""
    policies = app.queue.policies
    if not policies.backoff_after:
        return []
    refused = dict.fromkeys(one.kind for one in outline.obstacles if isinstance(one, NoNode))
    most = policies.backoff_after
    if sum(wanted(app, kind, most) for kind in refused if kind in app.waiting) < most:
        return []
    app.asleep_until_ns = now_ns + policies.backoff_delay_ns
    return [lifecycle.set_clock(partition, app, ClockKind.BACKOFF, app.sequence, app.asleep_until_ns)]


def _told(app: Application) -> list[AskClass]:
    """Whose asks are told why the application waits: for a Direct gang that reserves its own asks speak."""
    speaks = app.spec.is_podless and app.is_reserving
    return [kind for kind in app.waiting if kind.placeholder or not speaks]


def _has_started(app: Application) -> bool:
    return app.state in _STARTED or bool(app.real_allocations or app.gang.reserved or app.gang.pledge)
