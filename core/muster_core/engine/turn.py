"""One turn of one leaf: its active applications are tried in order, until its places are given or nobody is left.

Who is refused goes to stand before what refused it; who got all that a turn
gives stays active for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from muster_core.engine import (
    contention,
    gangs,
    growth,
    inquiries,
    isolation,
    lifecycle,
    notes,
    preemption,
    reservations,
    takeovers,
)
from muster_core.engine.commit import commit
from muster_core.engine.steps import Lap, Step, untimed
from muster_core.model.decisions import Placement, Swap
from muster_core.model.effects import SchedulingState, SchedulingStateChanged
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import ClockKind
from muster_core.model.ids import AllocationKey
from muster_core.model.limits import LOOKS_PER_ATTEMPT, MOST_RESTARTS
from muster_core.model.notes import Detail, Notice
from muster_core.model.policies import ApplicationOrder
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.model.states import ApplicationState
from muster_core.plan import gang, reserving, starting, swap, usual
from muster_core.plan.outline import Outline, Unplaced, wanted
from muster_core.plan.pace import FREELY, Pace, Rival, pace_of
from muster_core.world import ordering
from muster_core.world.applications import Application, Ask
from muster_core.world.classes import AskClass
from muster_core.world.obstacles import NoNode, NotHeld, NotTogether, NoTurn, Obstacle
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

_STATES: Final = {
    Lack.QUOTA: SchedulingState.SKIPPED,
    Lack.USER_QUOTA: SchedulingState.SKIPPED,
    Lack.APPLICATIONS: SchedulingState.SKIPPED,
    Lack.TURN: SchedulingState.SKIPPED,
    Lack.ADMISSION: SchedulingState.SKIPPED,
    Lack.NODES: SchedulingState.FAILED,
    Lack.RESERVED: SchedulingState.RESERVED,
    Lack.CLUSTER: SchedulingState.FAILED,
}
_NOTHING: Final = Outline()
_STARTED: Final = (ApplicationState.RUNNING, ApplicationState.COMPLETING)
_NOTES: Final = {
    Detail.APP_CANNOTRUN_QUEUE: Detail.APP_RUNNABLE_QUEUE,
    Detail.APP_CANNOTRUN_QUOTA: Detail.APP_RUNNABLE_QUOTA,
}


@dataclass(slots=True)
class Turn:
    """Of `leaf`, with `left` places to give, or fewer where the pace says so. `pace`: None = it is not known yet."""

    partition: Partition
    leaf: Queue
    pace: Pace | None
    left: int
    now_ns: int
    may_go_on: Callable[[], bool]
    lap: Lap = untimed
    #: The only application that is tried; None = all active applications.
    only: Application | None = None
    #: A decision did not hold: whoever it was for is not asked again before something changes.
    is_broken: bool = False

    def take(self) -> None:
        """Try the applications in order. The rest stays in the scheduling queue; one that raises backs off."""
        scheduling = self.partition.scheduling
        app = self.only or scheduling.next_application(self.leaf)
        self.lap(Step.APPLICATION)
        while app is not None:
            if isolation.attempt(self.partition, app, self.now_ns, partial(self._take_one, app)):
                self.lap(Step.NODE)
            tried, app = app, None if self.only else scheduling.next_application(self.leaf)
            if app is not None and (tried.unplanned or self._is_over(tried) or not self.may_go_on()):
                break
        preemption.watch(self.partition, self.leaf, self.now_ns)

    def _take_one(self, app: Application) -> bool:
        """Whether it was tried: it may be held, or not be worth it."""
        is_worth = growth.is_worth_trying(self.partition, app) or self.only is not None
        if not is_worth or self._is_held(app):
            return False
        self._try(app)
        return True

    def _is_over(self, app: Application) -> bool:
        """Whether no more is to be given; who comes first and wants more is not overtaken in a turn. Where no pace was
        needed, the next leaf is chosen anew.
        """
        is_given = self.left <= 0 or app.id in self.partition.scheduling.requeued
        return is_given or self.pace is None or self.pace.is_over()

    def _is_held(self, app: Application) -> bool:
        """Whether it may not be tried at all now."""
        if app.asleep_until_ns or self._is_parked(app):
            self._stand(app, [])  # a clock, or an answer, stirs it
            return True
        if waits := contention.is_waiting(self.partition, app):
            say(self.partition, app, [Unplaced(kind, Shortfall(Lack.TURN, waits)) for kind in _told(app)])
            self._stand(app, [])  # the end of the take-over stirs it
            return True
        gang = self._gang_before(app)
        if gang is not None:
            text = f"gang {gang.name} came first in queue {self.leaf.path} and waits for head room"
            why = Shortfall(Lack.TURN, text)
            say(self.partition, app, [Unplaced(kind, why) for kind in _told(app)])
            self._stand(app, [NoTurn(self.leaf.path)])
            return True
        held = starting.hindrance(self.partition, app)
        note_runnable(self.partition, app, held.detail if held is not None else Detail.NONE)
        if held is None:
            return False
        contention.note_short(self.partition, app)
        growth.set_blocking(self.partition, app, blocks=False)
        say(self.partition, app, [Unplaced(kind, held.why) for kind in _told(app)])
        self._stand(app, [held.obstacle])
        return True

    def _is_parked(self, app: Application) -> bool:
        return self.partition.inquiries.is_parked(self.partition.id, app.id)

    def _gang_before(self, app: Application) -> Application | None:
        """The gang whose turn it is; None = it is this application's (semantics 11)."""
        blockers = self.leaf.blockers
        if not blockers or _has_started(app) or self.leaf.policies.order is not ApplicationOrder.FIFO:
            return None
        mine = ordering.application_key(self.partition, app)
        apps = map(self.partition.applications.__getitem__, blockers)
        return next((other for other in apps if ordering.application_key(self.partition, other) < mine), None)

    def _try(self, app: Application) -> None:
        partition = self.partition
        if app.withheld:
            self._replace_only(app)
            return
        if app.is_reserving:
            taken_over = takeovers.finish(partition, app)
            outline = Outline([taken_over]) if taken_over is not None else gang.plan(partition, app, self.now_ns)
            app.gang.searches = app.gang.searches + 1 if outline.in_vain else 0
            if outline.checked:
                app.gang.checked_at = partition.nodes.capacity_total
                app.gang.exceeds_nodes = bool(outline.notice)
            self._carry_out(app, outline)
            if app.is_reserving:
                gangs.note_impossible(partition, app, outline.impossible, self.now_ns)
            growth.set_blocking(partition, app, blocks=outline.blocks and app.is_reserving)
            if not outline.more:
                contention.note_short(partition, app)
            if contention.waits_for_any_growth(partition, app, self.now_ns):
                outline.obstacles.append(NotTogether(app.id))
            self._settle(app, [outline], more=outline.more or app.gang.over)
            return
        held = swaps = _NOTHING
        if app.id in partition.reservations.by_application:
            held = reserving.plan(partition, app)
            self._carry_out(app, held)
        if app.gang.live and not self._is_parked(app):
            swaps = swap.plan(partition, app, self.left)
            self._carry_out(app, swaps)
        growth.set_blocking(partition, app, blocks=False)
        if self.left <= 0 or self._is_parked(app):  # what is asked about is in no draft: it would be planned twice
            self._settle(app, [swaps], more=True)
            return
        outline = usual.plan(partition, app, self.left, self._pace_of(app), self._budget(app))
        self._carry_out(app, outline)
        self._note_progress(app, outline)
        self._settle(app, [held, swaps, outline], more=swaps.more or outline.more)
        back_off(partition, app, outline, self.now_ns)

    def _replace_only(self, app: Application) -> None:
        """Let real pods take over from placeholders; the application's new requests wait (`withheld`)."""
        partition = self.partition
        is_idle = app.is_reserving or self._is_parked(app)
        swaps = Outline() if is_idle else swap.plan(partition, app, self.left)
        self._carry_out(app, swaps)
        growth.set_blocking(partition, app, blocks=False)
        why = Shortfall(Lack.ADMISSION, app.withheld)
        kinds = [kind for kind in _told(app) if not swap.has_placeholder(app, kind)]
        say(partition, app, [Unplaced(kind, why) for kind in kinds])
        self._settle(app, [swaps], more=swaps.more)

    def _budget(self, app: Application) -> usual.Budget:
        """A part of the cycle for each attempt; a plan that changes made void too often runs to its end."""
        return usual.UNBOUNDED if app.restarts >= MOST_RESTARTS else usual.Budget(self.may_go_on, LOOKS_PER_ATTEMPT)

    def _note_progress(self, app: Application, outline: Outline) -> None:
        """Continue an unfinished plan in the next cycle. The leaf waits until then, and other leaves continue."""
        app.restarts += 0 < app.unplanned <= outline.left
        app.unplanned = outline.left
        if outline.left:
            self.partition.scheduling.pause(self.leaf)
        else:
            app.restarts = 0

    def _pace_of(self, app: Application) -> Pace:
        """In a FAIR leaf the next application is a rival too. One place is always given: an application that wants no
        more needs no pace.
        """
        if self.pace is None:
            if len(app.waiting) == 1 and wanted(app, next(iter(app.waiting)), 2) == 1:
                return FREELY
            self.pace = pace_of(self.partition, self.leaf)
        if self.only is not None or self.leaf.policies.order is not ApplicationOrder.FAIR:
            return self.pace
        other = self.partition.scheduling.second_application(self.leaf)
        if other is None:
            return self.pace
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
        self.partition.scheduling.stand(app, obstacles)

    def _carry_out(self, app: Application, outline: Outline) -> None:
        partition = self.partition
        if outline.notice:
            partition.note(Notice.APPLICATION, app.id, reference=outline.short_of, message=outline.notice)
        parked: list[Placement | Swap] = []
        for decision in outline.decisions:
            # Places without pods are nobody's to judge.
            is_asked = partition.inquiries.places and not (app.spec.is_podless and app.is_reserving)
            if isinstance(decision, Placement | Swap) and is_asked:
                parked.append(decision)
                self.left -= len(decision.places) if isinstance(decision, Placement) else 1
                continue
            try:
                commit(partition, decision, self.now_ns)
            except BrokenDecision as broken:
                # A plan of this very pass should hold. It wrote nothing: count it, tell it, leave it.
                partition.void_decisions += 1
                self.is_broken = True
                partition.note(Notice.APPLICATION, app.id, message=str(broken))
                continue
            self.left -= len(decision.places) if isinstance(decision, Placement) else 1
        if parked:
            inquiries.ask_places(partition, app.id, parked, self.now_ns)
        # Room for places that are only asked about is not taken yet: how much there is besides is not to be remembered.
        unplaced = [replace(entry, room=None) for entry in outline.unplaced] if parked else outline.unplaced
        say(partition, app, unplaced)
        refused = [entry.kind for entry in outline.unplaced if entry.why.lack is Lack.NODES]
        if refused:
            reservations.watch(partition, app, self.now_ns)
            preemption.watch_required(partition, app, refused, self.now_ns)


def say(partition: Partition, app: Application, unplaced: list[Unplaced]) -> None:
    """Tell the resource manager, per ask, and only where the reason's kind is another than before.

    Keys of a class keep their order and were all told together, so the walk
    ends at the first one that knows: only newcomers are looked at, and those
    whose room is held no more.
    """
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
        for one in speak:
            partition.outbox.state(SchedulingStateChanged(partition.rm, app.id, one.spec.voice, state, text, lack))


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


def back_off(partition: Partition, app: Application, outline: Outline, now_ns: int) -> None:
    """Send an application to sleep of which so many asks had no node in one pass (contract 2.5)."""
    policies = app.queue.policies
    if not policies.backoff_after:
        return
    refused = dict.fromkeys(one.kind for one in outline.obstacles if isinstance(one, NoNode))
    most = policies.backoff_after
    if sum(wanted(app, kind, most) for kind in refused if kind in app.waiting) < most:
        return
    app.asleep_until_ns = now_ns + policies.backoff_delay_ns
    lifecycle.set_clock(partition, app, ClockKind.BACKOFF, app.sequence, app.asleep_until_ns)


def _told(app: Application) -> list[AskClass]:
    """Whose asks are told why the application waits: for a Direct gang that reserves its own asks speak."""
    speaks = app.spec.is_podless and app.is_reserving
    return [kind for kind in app.waiting if kind.placeholder or not speaks]


def _has_started(app: Application) -> bool:
    return app.state in _STARTED or bool(app.real_allocations or app.gang.reserved or app.gang.pledge)
