"""Applies events to the scheduler state, and tries the applications that may have become schedulable.

The scheduler task calls both entry points. Effects collect in the outbox of the state. `step` applies one event: it
finds the partition and calls the handler in `applications`, `allocations`, `nodes`, `configuration` or `timers`.

`cycle` plans and commits for each active application, one leaf queue after another, until its time budget is used. It
makes at least one scheduling attempt in each partition with pending requests. An attempt that runs out of time
continues in the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final, assert_never

from muster_core.gangs import planning
from muster_core.model import messages
from muster_core.model.config import ApplicationOrder
from muster_core.model.decisions import PlaceholderReplacement, Placement, ReasonKind, UnschedulableReason
from muster_core.model.effects import Effect
from muster_core.model.errors import BrokenDecision, caught
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    CallbacksDeclared,
    ClusterObjectsReported,
    ConfigurationReplaced,
    ConnectionLost,
    Event,
    GroupsResolved,
    ManagerLeft,
    ManagerRegistered,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
    PlacementsEvaluated,
    RecoveryBarrierPassed,
    TimerFired,
    UtilizationReported,
    VictimsEvaluated,
)
from muster_core.model.ids import ApplicationId
from muster_core.model.limits import LOOKS_PER_ATTEMPT, MOST_RESTARTS
from muster_core.model.records import Detail, Notice
from muster_core.model.states import ApplicationState, ManagerState
from muster_core.placement import node_reservations, pods, replacement
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.queues import quota
from muster_core.queues.quota import FREELY, CompetingQueue, FairnessQuantum, quantum_of
from muster_core.scheduling import (
    allocations,
    applications,
    configuration,
    failures,
    gangs,
    node_sets,
    nodes,
    preemption,
    records,
    refresh,
    repair,
    reporting,
    requeue,
    reservations,
    selectors,
    slots,
    takeovers,
    timers,
)
from muster_core.scheduling.commit import commit
from muster_core.state import ordering
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.scheduling_queue import (
    BlockingReason,
    MembersDoNotFit,
    NodeNotReserved,
    NoNodeFits,
    QueuedBehindGang,
)
from muster_core.state.snapshot import AllocationPlan, wanted

_PodEvent = AskAdded | AskReleased | AllocationReported | AllocationReleased
_PartitionEvent = (
    ApplicationAdded
    | ApplicationRemoved
    | GroupsResolved
    | NodeAdded
    | NodeUpdated
    | NodeActionReported
    | UtilizationReported
    | ClusterObjectsReported
)


def step(scheduler_state: SchedulerState, event: Event, now_ns: int) -> list[Effect]:
    """Applies one event. Returns the effects of the outbox, with event records last.

    Raises CoreError only for a bug of the core. The effects of earlier changes then stay in the outbox.
    """
    effects = step_part(scheduler_state, event, now_ns)
    while scheduler_state.unfinished is not None:
        effects += step_part(scheduler_state, event, now_ns)
    return effects


def step_part(scheduler_state: SchedulerState, event: Event, now_ns: int) -> list[Effect]:
    """Applies one event, or the first part of one about many pods. Returns and raises as `step`.

    While `unfinished` is set, a call with the same event applies the next part. Another event and a cycle complete it.
    """
    if scheduler_state.unfinished is None or not scheduler_state.continues(event):
        if isinstance(event, AskAdded):  # most events; none empties a partition
            spec, partition = event.spec, scheduler_state.partitions.get(event.spec.partition)
            if partition is not None and not (spec.has_selectors and selectors.is_first(partition, event)):
                applications.add_ask(partition, spec, now_ns)
                return scheduler_state.outbox.drain()
        _step(scheduler_state, event, now_ns)
    scheduler_state.apply_part(event)
    if scheduler_state.is_any_closing:
        configuration.drop_closed_partitions(scheduler_state)
    return scheduler_state.outbox.drain()


def _step(scheduler_state: SchedulerState, event: Event, now_ns: int) -> None:
    match event:
        case ManagerRegistered():
            configuration.register_manager(scheduler_state, event, now_ns)
        case RecoveryBarrierPassed():
            configuration.pass_recovery_barrier(scheduler_state, event.rm, now_ns)
        case ConnectionLost():
            configuration.manager_lost(scheduler_state, event.rm, now_ns)
        case ManagerLeft():
            configuration.manager_left(scheduler_state, event.rm)
        case ConfigurationReplaced():
            configuration.replace_configuration(scheduler_state, event, now_ns)
        case TimerFired():
            ring = partial(configuration.on_timer, scheduler_state, event.timer, now_ns)
            failures.attempt_timer(scheduler_state, event.timer, now_ns, ring)
        case CallbacksDeclared() | PlacementsEvaluated() | VictimsEvaluated():
            if HOOKS.predicate_callbacks is not None:
                HOOKS.predicate_callbacks.apply(scheduler_state, event, preemption.confirm, now_ns)
        case _:
            partition = _partition_of(scheduler_state, event)
            if partition is None:
                configuration.reject_closed_partition(scheduler_state, event)
            elif isinstance(event, _PodEvent):
                _step_pod(scheduler_state, partition, event, now_ns)
            else:
                _step_partition(scheduler_state, partition, event, now_ns)


def _step_pod(scheduler_state: SchedulerState, partition: Partition, event: _PodEvent, now_ns: int) -> None:
    match event:
        case AskAdded():
            add = partial(applications.add_ask, partition, event.spec, now_ns)
            selectors.count_before(scheduler_state, partition, event, add)
        case AskReleased():
            applications.release_ask(scheduler_state, partition, event, now_ns)
        case AllocationReleased():
            allocations.release_allocation(scheduler_state, partition, event, now_ns)
        case AllocationReported():
            allocations.report_allocation(partition, event.spec, now_ns)


def _step_partition(scheduler_state: SchedulerState, partition: Partition, event: _PartitionEvent, now_ns: int) -> None:
    match event:
        case ApplicationAdded():
            add = partial(applications.add_application, partition, event.spec, now_ns)
            selectors.count_before(scheduler_state, partition, event, add)
        case ApplicationRemoved():
            applications.remove_application(scheduler_state, partition, event, now_ns)
        case GroupsResolved():
            applications.resolve_groups(partition, event, now_ns)
        case NodeAdded():
            nodes.add_node(partition, event, now_ns)
        case NodeUpdated():
            nodes.update_node(partition, event, now_ns)
        case NodeActionReported():
            nodes.set_node_action(partition, event, now_ns)
        case UtilizationReported():
            if HOOKS.utilization is not None:
                HOOKS.utilization.report_utilization(scheduler_state, partition, event)
        case ClusterObjectsReported():
            nodes.update_cluster_objects(partition, event)
        case _:
            assert_never(event)


def _partition_of(scheduler_state: SchedulerState, event: _PodEvent | _PartitionEvent) -> Partition | None:
    match event:
        case AskAdded() | ApplicationAdded() | AllocationReported() | NodeAdded() | NodeUpdated():
            return scheduler_state.partitions.get(event.spec.partition)
        case _:
            return scheduler_state.partitions.get(event.partition)


class CyclePhase(StrEnum):
    """Phases of a cycle that are timed separately.

    QUEUE: select the next leaf queue. APPLICATION: order the applications of the leaf. NODE: plan one application and
    commit the plan.
    """

    QUEUE = "queue"
    APPLICATION = "app"
    NODE = "node"


PhaseTimer = Callable[[CyclePhase], None]


class CycleBudget:
    """Time budget of one cycle. `granted` counts how often the cycle was allowed to continue."""

    def __init__(self, may_go_on: Callable[[], bool]) -> None:
        self._may_go_on = may_go_on
        self.granted = 0

    def __call__(self) -> bool:
        """Whether there is time left."""
        if not self._may_go_on():
            return False
        self.granted += 1
        return True


def untimed(phase: CyclePhase) -> None:
    """Phase timer that measures nothing."""


_NOTHING: Final = AllocationPlan()
_STARTED: Final = (ApplicationState.RUNNING, ApplicationState.COMPLETING)


@dataclass(slots=True)
class QueueAttempt:
    """One scheduling attempt in a leaf queue: places at most `left` allocations.

    `quantum` is the fairness quantum, which can end it earlier; None = not computed yet.
    """

    partition: Partition
    leaf: Queue
    quantum: FairnessQuantum | None
    left: int
    now_ns: int
    may_go_on: Callable[[], bool]
    phase_ended: PhaseTimer = untimed
    #: The only application to try; None = all active applications.
    only: Application | None = None
    #: Set when a decision was no longer valid. The application is then not tried again until something changes.
    is_broken: bool = False
    #: Whether the current attempt of an application has not placed anything yet.
    is_in_vain: bool = True
    #: The reasons whose classes are planned; empty = all classes.
    tried: list[BlockingReason] = field(default_factory=list)

    def take(self) -> None:
        """Tries the applications of the leaf in order until the attempt is over.

        The others stay in the scheduling queue. An application whose attempt raises an exception backs off.
        """
        scheduling = self.partition.scheduling
        app = self.only or scheduling.next_application(self.leaf)
        self.phase_ended(CyclePhase.APPLICATION)
        while app is not None:
            if self._attempt(app):
                self.phase_ended(CyclePhase.NODE)
            tried, app = app, None if self.only else scheduling.next_application(self.leaf)
            if app is not None and (tried.unplanned or self._is_over(tried, app) or not self.may_go_on()):
                break
        if self.leaf.waiting:
            preemption.watch_leaf(self.partition, self.leaf, self.now_ns)

    def _attempt(self, app: Application) -> bool:
        """Like `_take_one`. Returns False if it raised an exception. Raises InconsistentState."""
        scheduling = self.partition.scheduling
        heads = scheduling.heads_of(app).values()
        is_early = bool(heads) and all(scheduling.backoff.tried.get(entry, False) for entry in heads)
        self.is_in_vain, self.tried = True, []
        found = caught(partial(self._take_one, app))
        if heads:
            scheduling.attempted(heads, is_in_vain=self.is_in_vain, is_early=is_early, is_refused=found is False)
        if isinstance(found, Exception):
            failures.application_failed(self.partition, app, found, self.now_ns)
            return False
        if found:
            app.failures = 0
        return found

    def _take_one(self, app: Application) -> bool:
        """Tries one application. Returns False if it cannot be tried now or is no longer active."""
        if self.partition.has_stale_classes:
            requeue.evaluate(self.partition, app, self.partition.scheduling.heads_of(app))
        is_worth = self.only is not None or self.partition.scheduling.active.has(app)
        if not is_worth or self._is_held(app):
            return False
        self._try(app)
        return True

    def _is_over(self, app: Application, following: Application) -> bool:
        """Whether the attempt ends here.

        The next application never overtakes one that was queued again because it can use more, nor lost members that
        precede it. Without a fairness quantum, the next leaf is selected again.
        """
        is_given = self.left <= 0 or app.id in self.partition.scheduling.requeued
        is_over = is_given or self.quantum is None or self.quantum.is_over()
        return is_over or repair.next_gang(self.partition, following) is not None

    def _is_held(self, app: Application) -> bool:
        """Whether the application cannot be planned now. Reports the reason and the condition that wakes it up."""
        if app.backoff_until_ns or self._awaits_callback(app):
            self._mark_unschedulable(app, [])  # its timer or the callback result requeues it
            return True
        if app.is_reserving and (waits := requeue.is_waiting(self.partition, app)):
            self._postpone(app, waits, [])  # the end of the takeover requeues it
            return True
        gang = self._gang_before(app)
        if gang is not None:
            why = messages.queued_behind_gang(gang.name, self.leaf.path)
            self._postpone(app, why, [QueuedBehindGang(self.leaf.path)])
            return True
        held = quota.start_refusal(self.partition, app)
        detail = held.detail if held is not None else Detail.NONE
        if detail is not app.cannot_run:
            records.runnable_changed(self.partition, app, detail)
        if held is None:
            return False
        requeue.note_short(self.partition, app)
        requeue.set_blocking(self.partition, app, blocks=False)
        reporting.report_unschedulable(self.partition, app, reporting.for_all_classes(app, held.why))
        self._mark_unschedulable(app, [held.blocking_reason])
        return True

    def _awaits_callback(self, app: Application) -> bool:
        callbacks = self.partition.pending_callbacks
        return bool(callbacks.waiting) and callbacks.awaits_callback(self.partition.id, app.id)

    def _gang_before(self, app: Application) -> Application | None:
        """Returns the gang ahead of the application in FIFO order that still waits for quota, else None.

        See docs/internals/semantics.md, rule 11.
        """
        if not self.leaf.blockers:  # as in most leaves
            return None
        has_begun = app.real_allocations or app.gang.reserved or app.gang.quota_reservation
        if has_begun or app.state in _STARTED or self.leaf.policies.order is not ApplicationOrder.FIFO:
            return None
        mine = ordering.application_key(self.partition, app)
        apps = map(self.partition.applications.__getitem__, self.leaf.blockers)
        return next((other for other in apps if ordering.application_key(self.partition, other) < mine), None)

    def _try(self, app: Application) -> None:
        partition = self.partition
        if app.withheld:
            self._replace_only(app)
            return
        if app.is_reserving:
            self._try_gang(app)
            return
        held = replacements = _NOTHING
        if app.id in partition.reservations.by_application:
            held = node_reservations.plan_reservation(partition, app)
            self._carry_out(app, held)
        if app.gang.live and not self._awaits_callback(app):
            replacements = replacement.plan_replacements(partition, app, self.left)
            self._carry_out(app, replacements)
        if app.blocks:
            requeue.set_blocking(partition, app, blocks=False)
        if self.left <= 0 or self._awaits_callback(app):  # placements that wait for a callback would be planned twice
            self._settle(app, [replacements], more=True)
            return
        self.tried = partition.scheduling.reasons_to_try(app)
        inside = planning.rows_inside(partition, app, app.spec.topology) if app.spec.topology is not None else ()
        allocation_plan = pods.plan_pods(partition, app, self.left, self._quantum_for(app), self._budget(app), inside)
        self._carry_out(app, allocation_plan)
        self._note_progress(app, allocation_plan)
        # Which placeholders are replaced or released depends on what was placed now.
        more = replacements.more or allocation_plan.more or bool(allocation_plan.decisions and app.gang.live)
        self._settle(app, [held, replacements, allocation_plan], more=more)
        if app.queue.policies.backoff_after:
            failures.back_off_unschedulable(partition, app, allocation_plan, self.now_ns)

    def _try_gang(self, app: Application) -> None:
        """Plans the reservation of a gang."""
        partition = self.partition
        if app.spec.uses_virtual_placeholders:
            if gangs.awaits_first_member(app, self.now_ns):
                self._mark_unschedulable(app, [])  # a request or the timer requeues it
                return
            if waits := slots.awaits_pods(app):
                self._postpone(app, waits, [])  # the removal of a request requeues it
                return
            slots.match_members(partition, app)
        taken_over = takeovers.finish(partition, app)
        allocation_plan = (
            AllocationPlan([taken_over]) if taken_over is not None else planning.plan_gang(partition, app, self.now_ns)
        )
        app.gang.searches = app.gang.searches + 1 if allocation_plan.in_vain else 0
        if allocation_plan.checked:
            app.gang.checked_at = partition.nodes.capacity_total
            requeue.set_exceeds_nodes(partition, app, exceeds=bool(allocation_plan.notice))
        self._carry_out(app, allocation_plan)
        if app.is_reserving:
            gangs.note_impossible(partition, app, allocation_plan.impossible, self.now_ns)
        requeue.set_blocking(partition, app, blocks=allocation_plan.blocks and app.is_reserving)
        if not allocation_plan.more:
            requeue.note_short(partition, app)
        if allocation_plan.in_vain and app.spec.uses_virtual_placeholders:
            # Members that fit on no node give their slots to others of their task group, if there are more than slots.
            allocation_plan.more |= slots.match_members(partition, app)
            node_sets.consider(partition, app, self.now_ns)
        if requeue.waits_for_any_change(partition, app):
            allocation_plan.blocking_reasons.append(MembersDoNotFit(app.id))
        self._settle(app, [allocation_plan], more=allocation_plan.more or app.gang.over)

    def repair(self, app: Application) -> None:
        """Tries the requests that replace lost members. The application stays active for its other requests."""
        error = caught(partial(self._repair, app))
        self.partition.scheduling.repairs.deactivated(app.id)
        if isinstance(error, Exception):
            failures.application_failed(self.partition, app, error, self.now_ns)
        self.phase_ended(CyclePhase.NODE)

    def _repair(self, app: Application) -> None:
        if app.is_reserving:
            self._attempt(app)
            return
        allocation_plan = self._plan_repair(app)
        if reservations.give_way_to_repair(self.partition, app, allocation_plan):
            _absorb(self.partition, self.now_ns)
            allocation_plan = self._plan_repair(app)
        self._carry_out(app, allocation_plan)

    def _plan_repair(self, app: Application) -> AllocationPlan:
        if self.partition.has_stale_classes:
            requeue.evaluate(self.partition, app)
        budget = pods.SearchBudget(lambda: True, LOOKS_PER_ATTEMPT, repair.replacements(app))
        inside = planning.rows_inside(self.partition, app, app.spec.topology) if app.spec.topology is not None else ()
        return pods.plan_pods(self.partition, app, self.left, FREELY, budget, inside)

    def _replace_only(self, app: Application) -> None:
        """Replaces placeholders by real pods.

        The other requests of the application wait for the reason in `withheld`.
        """
        partition = self.partition
        is_idle = app.is_reserving or self._awaits_callback(app)
        replacements = AllocationPlan() if is_idle else replacement.plan_replacements(partition, app, self.left)
        self._carry_out(app, replacements)
        requeue.set_blocking(partition, app, blocks=False)
        why = UnschedulableReason(ReasonKind.ADMISSION, app.withheld)
        unplaced = [entry for entry in reporting.for_all_classes(app, why) if not app.has_placeholder(entry.kind)]
        reporting.report_unschedulable(partition, app, unplaced)
        self._settle(app, [replacements], more=replacements.more)

    def _budget(self, app: Application) -> pods.SearchBudget:
        """Returns the search budget of one attempt. It is unlimited if the plan restarted `MOST_RESTARTS` times."""
        only = None
        if self.tried:
            kinds = [one.kind for one in self.tried if isinstance(one, NoNodeFits) and one.kind in app.waiting]
            only = {kind: wanted(app, kind, self.left + 1) for kind in kinds}
        if app.restarts >= MOST_RESTARTS:
            return replace(pods.UNBOUNDED, only=only)
        return pods.SearchBudget(self.may_go_on, LOOKS_PER_ATTEMPT, only)

    def _note_progress(self, app: Application, allocation_plan: AllocationPlan) -> None:
        """Records how much of a plan is left for the next cycle. Until then, only the other leaves continue."""
        app.restarts += 0 < app.unplanned <= allocation_plan.left
        app.unplanned = allocation_plan.left
        if allocation_plan.left:
            self.partition.scheduling.pause(self.leaf)
        else:
            app.restarts = 0

    def _quantum_for(self, app: Application) -> FairnessQuantum:
        """Returns the fairness quantum of the application.

        In a FAIR leaf, the next application competes too. Each attempt places at least one allocation, so an
        application with one pending request needs no quantum.
        """
        if self.quantum is None:
            if len(app.waiting) == 1 and wanted(app, next(iter(app.waiting)), 2) == 1:
                return FREELY
            self.quantum = quantum_of(self.partition, self.leaf)
        if self.only is not None or self.leaf.policies.order is not ApplicationOrder.FAIR:
            return self.quantum
        name = self.partition.scheduling.active.first_two(self.leaf)[1]
        other = self.partition.applications[ApplicationId(name)] if name is not None else None
        if other is None or (self.leaf.policies.sorts_by_priority and other.shown != app.shown):
            return self.quantum
        rival = CompetingQueue(
            lambda: app.allocated + app.gang.allocated,
            self.partition.nodes.capacity_total.__getitem__,
            ordering.application_share(self.partition, other),
        )
        return FairnessQuantum((*self.quantum.rivals, rival))

    def _settle(self, app: Application, plans: list[AllocationPlan], *, more: bool) -> None:
        if not app.waiting or app.id not in self.partition.applications:
            return
        more = more and not self.is_broken
        if more or self._awaits_callback(app):
            self.tried = []  # none of its reasons stays
            self._mark_unschedulable(app, [])
            if more and not self._awaits_callback(app):
                self.partition.scheduling.requeue(app)
            return
        # Only this application can use its node reservations, so the result of an equal class of another application
        # does not apply to it. It waits for each of these nodes.
        held = [NodeNotReserved(app.id, reservation.node) for reservation in self.partition.reservations.of(app.id)]
        self._mark_unschedulable(app, [*held, *(one for plan in plans for one in plan.blocking_reasons)])

    def _postpone(self, app: Application, why: str, blocking_reasons: list[BlockingReason]) -> None:
        """Reports that all requests of the application wait for others, and marks them."""
        reason = UnschedulableReason(ReasonKind.QUEUE_ORDER, why)
        reporting.report_unschedulable(self.partition, app, reporting.for_all_classes(app, reason))
        self._mark_unschedulable(app, blocking_reasons)

    def _mark_unschedulable(self, app: Application, blocking_reasons: list[BlockingReason]) -> None:
        self.partition.scheduling.dequeue(app)
        if blocking_reasons:
            app.attempts_in_vain = app.attempts_in_vain + 1 if self.is_in_vain else 0
        self.partition.scheduling.mark_unschedulable(app, blocking_reasons, self.tried)

    def _carry_out(self, app: Application, allocation_plan: AllocationPlan) -> None:
        partition = self.partition
        callbacks = HOOKS.predicate_callbacks if partition.pending_callbacks.places else None
        parked: list[Placement | PlaceholderReplacement] = []
        for decision in allocation_plan.decisions:
            # Virtual placeholders have no pod, so the predicate callback does not evaluate them.
            is_asked = callbacks is not None and not (app.spec.uses_virtual_placeholders and app.is_reserving)
            if isinstance(decision, Placement | PlaceholderReplacement) and is_asked:
                parked.append(decision)
                self.left -= len(decision.places) if isinstance(decision, Placement) else 1
                continue
            try:
                commit(partition, decision, self.now_ns)
            except BrokenDecision as broken:
                # A plan of the same cycle should be valid. Nothing was written, so the decision is counted, reported
                # and dropped.
                partition.void_decisions += 1
                self.is_broken = True
                partition.note(Notice.APPLICATION, app.id, message=str(broken))
                continue
            self.left -= len(decision.places) if isinstance(decision, Placement) else 1
            self.is_in_vain = False
        if parked and callbacks is not None:
            callbacks.propose_placements(partition, app.id, parked, self.now_ns)
        # Placements that wait for a callback result are not charged yet, so the number that fits must not be cached.
        unplaced = (
            [replace(entry, room=None) for entry in allocation_plan.unplaced] if parked else allocation_plan.unplaced
        )
        if unplaced:
            reporting.report_unschedulable(partition, app, unplaced)
        if allocation_plan.notice:
            short_of = "" if reporting.waits_for_quota(partition, app) else allocation_plan.short_of
            partition.note(Notice.APPLICATION, app.id, reference=short_of, message=allocation_plan.notice)
        refused = [entry.kind for entry in allocation_plan.unplaced if entry.why.kind is ReasonKind.NODES]
        if refused:
            node_sets.give_way(
                partition, app, refused, self.now_ns, always=app.id in partition.scheduling.repairs.wanted
            )
            reservations.watch(partition, app, self.now_ns)
            preemption.watch_required(partition, app, refused, self.now_ns)


#: Allocations of one attempt in a leaf, before another leaf or, in a FAIR leaf, another application is tried.
_ALLOCATIONS_PER_ATTEMPT: Final = 64

#: The same if no other leaf is active. Bounds the time of one attempt.
_ALLOCATIONS_PER_ATTEMPT_ALONE: Final = 250


@dataclass(slots=True)
class CycleResult:
    """`more`: the time budget ended before the work; call `cycle` again. `effects`: effects from the outbox.

    `has_tried`: there was an application to try.
    """

    effects: list[Effect] = field(default_factory=list)
    more: bool = False
    has_tried: bool = False


def cycle(
    scheduler_state: SchedulerState, now_ns: int, may_go_on: Callable[[], bool], phase_ended: PhaseTimer = untimed
) -> CycleResult:
    """Tries every application that may have become schedulable since the last cycle.

    An application or partition that raises an exception backs off. `phase_ended` is called after each step. Raises
    InconsistentState; earlier effects then stay in the outbox.
    """
    scheduler_state.complete_event()
    result = CycleResult()
    for partition in scheduler_state.rotated_partitions():
        if _is_open(scheduler_state, partition, now_ns):
            error = caught(partial(_pass, partition, now_ns, may_go_on, phase_ended, result))
            if error is None:
                partition.failures = 0
                result.more |= partition.scheduling.is_due
            else:
                failures.partition_failed(partition, error, now_ns)
            if partition.node_demand.is_due or partition.node_demand.needs_timer:
                result.more |= reporting.admit_demand(partition, now_ns)
            if partition.texts.is_any(partition.nodes.facts_epoch):
                result.more |= refresh.step(partition, now_ns)
            result.more |= partition.scheduling.resume()
    result.effects = scheduler_state.outbox.drain()
    return result


def _pass(
    partition: Partition, now_ns: int, may_go_on: Callable[[], bool], phase_ended: PhaseTimer, result: CycleResult
) -> None:
    if partition.nodes.pods_on_nodes.tags.labels.is_on:
        selectors.tidy(partition)
    partition.scheduling.backoff.begin(now_ns, has_news=partition.has_grown)
    _absorb(partition, now_ns)
    partition.node_demand.now_ns = now_ns
    is_first = True
    while partition.scheduling.is_due:
        if not is_first and not may_go_on():
            result.more = True
            return
        is_first = False
        requeue.requeue_some(partition)
    is_first = True
    while partition.returning:
        if not is_first and not may_go_on():
            result.more = True
            return
        is_first, result.has_tried = False, True
        app = partition.applications.get(partition.returning.popleft())
        if app is not None and app.is_reserving:
            attempt = QueueAttempt(
                partition, app.queue, FREELY, _ALLOCATIONS_PER_ATTEMPT_ALONE, now_ns, may_go_on, phase_ended, only=app
            )
            attempt.take()
            _absorb(partition, now_ns)
    is_taken_over = True
    while is_taken_over:
        while (leaf := partition.scheduling.next_leaf()) is not None:
            if not is_first and not may_go_on():
                result.more = True
                return
            is_first, result.has_tried = False, True
            phase_ended(CyclePhase.QUEUE)
            _attempt_next(partition, leaf, now_ns, may_go_on, phase_ended)
            _absorb(partition, now_ns)
        is_taken_over = bool(partition.contention.due) and takeovers.resolve_takeovers(partition, now_ns, may_go_on)
        _absorb(partition, now_ns)
        if partition.contention.due:
            result.more = True
            return
    result.more |= partition.has_to_watch and timers.watch(partition, now_ns)


def _attempt_next(
    partition: Partition, leaf: Queue, now_ns: int, may_go_on: Callable[[], bool], phase_ended: PhaseTimer
) -> None:
    """Makes one attempt in the leaf that is next, unless the lost members of a gang precede it."""
    scheduling = partition.scheduling
    broken = repair.next_gang(partition, scheduling.next_application(leaf)) if scheduling.repairs.ready else None
    if broken is not None:
        most = _ALLOCATIONS_PER_ATTEMPT_ALONE
        QueueAttempt(partition, broken.queue, FREELY, most, now_ns, may_go_on, phase_ended, only=broken).repair(broken)
        return
    is_alone = scheduling.is_alone(leaf)
    places = (
        _ALLOCATIONS_PER_ATTEMPT_ALONE
        if is_alone and leaf.policies.order is ApplicationOrder.FIFO
        else _ALLOCATIONS_PER_ATTEMPT
    )
    QueueAttempt(partition, leaf, FREELY if is_alone else None, places, now_ns, may_go_on, phase_ended).take()


def _absorb(partition: Partition, now_ns: int) -> None:
    """Wakes up applications after changes. Sets the reservation timer of those that fit only without reservations."""
    if partition.has_grown:
        requeue.absorb(partition)
    for app in requeue.open_some(partition) if partition.scheduling.has_woken else ():
        reservations.watch(partition, app, now_ns)


def _is_open(scheduler_state: SchedulerState, partition: Partition, now_ns: int) -> bool:
    manager = scheduler_state.managers[partition.rm]
    is_running = manager.state is ManagerState.RUNNING and not manager.is_recovering
    return is_running and now_ns >= partition.backoff_until_ns
