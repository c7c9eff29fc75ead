"""Conditions that hold between any two events, in addition to the core's own invariants (scheduling/invariants.py).

Every cached failure of the core must also be a failure without the cache. Core and resource manager have
the same allocations.
"""

from muster_core.gangs import planning
from muster_core.model.config import ApplicationOrder
from muster_core.model.resources import Limit
from muster_core.model.states import ApplicationState, ManagerState
from muster_core.placement import node_reservations, node_search, pods, replacement
from muster_core.queues import quota
from muster_core.scheduling import gangs, requeue, slots
from muster_core.state import ordering
from muster_core.state.applications import Application
from muster_core.state.request_classes import UnschedulableClasses
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.scheduling_queue import BlockingReason, NoNodeFits, QuotaExceeded
from muster_core.state.snapshot import AllocationPlan, Snapshot, shape_of
from tests.unit.core.scheduling.random_events.configurations import EXPIRY_NS

_STARTED = (ApplicationState.RUNNING, ApplicationState.COMPLETING)


def is_open(scheduler_state: SchedulerState, partition: Partition, now_ns: int) -> bool:
    """Whether the core schedules in this partition."""
    manager = scheduler_state.managers[partition.rm]
    is_awake = now_ns >= partition.backoff_until_ns
    return is_awake and manager.state is ManagerState.RUNNING and not manager.is_recovering


def every_no_is_a_no(partition: Partition) -> None:
    """Assert that no pending ask fits both in its queues and on a node."""
    for app in partition.applications.values():
        if app.is_reserving or is_queued_behind_a_gang(partition, app) or is_held(partition, app):
            continue
        room = quota.room(partition, app)
        for kind in app.waiting:
            if kind.placeholder or app.has_placeholder(kind) or not room.count(kind.resources, 1):
                continue
            spots = node_search.place(Snapshot(partition.nodes), shape_of(kind), 1, partition.config.node_sort)
            assert spots == [], f"{app.id} could have been placed on {spots}"


def a_plan_without_memory_decides_nothing_more(partition: Partition, now_ns: int) -> None:
    """Assert that plans of pending asks without the cache of failures are empty."""
    in_back_off = {app.id for app in partition.applications.values() if is_in_back_off(partition, app)}
    remembered, partition.unschedulable_classes = partition.unschedulable_classes, UnschedulableClasses()
    for leaf in partition.queues.leaves():
        is_blocked = False
        for app in ordering.applications(partition, leaf):
            if app.id in in_back_off:
                is_blocked = is_blocked or app.is_reserving
            if app.id in in_back_off or is_held(partition, app):
                continue
            outlines = replanned(partition, app, now_ns)
            has_started = (
                app.state in _STARTED or app.real_allocations or app.gang.reserved or app.gang.quota_reservation
            )
            if not is_blocked or has_started:
                decided = [decision for allocation_plan in outlines for decision in allocation_plan.decisions]
                assert decided == [], f"{app.id} need not have waited"
                is_blocked = is_blocked or (outlines[0].blocks and leaf.policies.order is ApplicationOrder.FIFO)
    partition.unschedulable_classes = remembered


def is_held(partition: Partition, app: Application) -> bool:
    """Whether the application is not tried: it may not start, backs off, or waits for admission or a takeover."""
    is_waiting = bool(app.withheld) or bool(requeue.is_waiting(partition, app)) or is_in_back_off(partition, app)
    return bool(app.backoff_until_ns) or is_waiting or quota.start_refusal(partition, app) is not None


def is_in_back_off(partition: Partition, app: Application) -> bool:
    """Whether the application was woken and waits until further failed attempts are allowed."""
    reasons, backoff, classes = (
        partition.blocking_reasons,
        partition.scheduling.backoff,
        partition.unschedulable_classes,
    )

    def is_woken(reason: BlockingReason) -> bool:
        match reason:
            case NoNodeFits(kind):
                return classes.is_woken(kind)
            case QuotaExceeded():
                return reasons.amounts.is_woken(reason)
            case _:
                return reason in reasons.woken_gangs

    return any(
        (entry in backoff and entry not in backoff.tried) or is_woken(reason)
        for reason, entry in reasons.blocked.get(app.id, {}).items()
    )


def replanned(partition: Partition, app: Application, now_ns: int) -> list[AllocationPlan]:
    """Return all plans of a scheduling attempt of the application."""
    if app.is_reserving:
        if app.spec.uses_virtual_placeholders and (gangs.awaits_first_member(app, now_ns) or slots.awaits_pods(app)):
            return [AllocationPlan()]
        return [planning.plan_gang(partition, app, now_ns)]
    return [
        node_reservations.plan_reservation(partition, app),
        replacement.plan_replacements(partition, app, 100),
        pods.plan_pods(partition, app, 100),
    ]


def is_queued_behind_a_gang(partition: Partition, app: Application) -> bool:
    """Whether an earlier gang of its leaf may block it."""
    leaf = app.queue
    mine = ordering.application_key(partition, app)
    return leaf.policies.order is ApplicationOrder.FIFO and any(
        other.is_reserving and ordering.application_key(partition, other) < mine
        for other in map(partition.applications.__getitem__, leaf.waiting)
    )


def nothing_new_is_over_the_maximum(partition: Partition) -> None:
    """Assert that only existing allocations exceed a maximum."""
    for queue in partition.queues.by_path.values():
        assert queue.tolerated == Limit(dict(queue.max.items())).excess(queue.allocated)


def no_request_waits_too_long(partition: Partition, now_ns: int) -> None:
    """Assert that ended applications are removed after their timeout."""
    for app in partition.history:
        assert app.ended_ns > now_ns - EXPIRY_NS, f"{app.id} ended {now_ns - app.ended_ns} ns ago"
