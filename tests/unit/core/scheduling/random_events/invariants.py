"""What has to hold between any two events, besides what the core's own invariants say (scheduling/invariants.py).

Every "no" of the core is planned anew without its memo and must be the same
"no" (semantics 22); the core and its resource manager know the same allocations.
"""

from __future__ import annotations

from muster_core.gangs import planning
from muster_core.model.config import ApplicationOrder
from muster_core.model.resources import Limit
from muster_core.model.states import ApplicationState, ManagerState
from muster_core.placement import node_reservations, node_search, pods, replacement
from muster_core.placement.snapshot import AllocationPlan, Snapshot, shape_of
from muster_core.queues import quota
from muster_core.scheduling import requeue
from muster_core.state import ordering
from muster_core.state.applications import Application
from muster_core.state.request_classes import UnschedulableClasses
from muster_core.state.scheduler_state import Partition, SchedulerState
from tests.unit.core.scheduling.random_events.configurations import EXPIRY_NS

_STARTED = (ApplicationState.RUNNING, ApplicationState.COMPLETING)


def is_open(scheduler_state: SchedulerState, partition: Partition, now_ns: int) -> bool:
    """Whether anything is scheduled there."""
    manager = scheduler_state.managers[partition.rm]
    is_awake = now_ns >= partition.asleep_until_ns
    return is_awake and manager.state is ManagerState.RUNNING and not manager.fence_up


def every_no_is_a_no(partition: Partition) -> None:
    """No node has room for an ask that queues have room for."""
    for app in partition.applications.values():
        if app.is_reserving or stands_behind_a_gang(partition, app) or is_held(partition, app):
            continue
        room = quota.room(partition, app)
        for kind in app.waiting:
            if kind.placeholder or app.has_placeholder(kind) or not room.count(kind.resources, 1):
                continue
            spots = node_search.place(Snapshot(partition.nodes), shape_of(kind), 1, partition.config.node_sort)
            assert spots == [], f"{app.id} could have been placed on {spots}"


def a_plan_without_memory_decides_nothing_more(partition: Partition, now_ns: int) -> None:
    """Whatever is remembered of failures, a plan of what waits comes out empty."""
    remembered, partition.unschedulable_classes = partition.unschedulable_classes, UnschedulableClasses()
    for leaf in partition.queues.leaves():
        is_blocked = False
        for app in ordering.applications(partition, leaf):
            if is_held(partition, app):
                continue
            outlines = planned_anew(partition, app, now_ns)
            has_started = (
                app.state in _STARTED or app.real_allocations or app.gang.reserved or app.gang.quota_reservation
            )
            if not is_blocked or has_started:
                decided = [decision for allocation_plan in outlines for decision in allocation_plan.decisions]
                assert decided == [], f"{app.id} need not have waited"
                is_blocked = is_blocked or (outlines[0].blocks and leaf.policies.order is ApplicationOrder.FIFO)
    partition.unschedulable_classes = remembered


def is_held(partition: Partition, app: Application) -> bool:
    """Whether it is not to be tried: it may not start, sleeps, or waits for admission or a take-over."""
    is_waiting = bool(app.withheld) or bool(requeue.is_waiting(partition, app))
    return bool(app.asleep_until_ns) or is_waiting or quota.start_refusal(partition, app) is not None


def planned_anew(partition: Partition, app: Application, now_ns: int) -> list[AllocationPlan]:
    """All that would be tried for the application in a turn."""
    if app.is_reserving:
        return [planning.plan_gang(partition, app, now_ns)]
    return [
        node_reservations.plan_reservation(partition, app),
        replacement.plan_replacements(partition, app, 100),
        pods.plan_pods(partition, app, 100),
    ]


def stands_behind_a_gang(partition: Partition, app: Application) -> bool:
    """Whether an earlier gang of its leaf may be before it."""
    leaf = app.queue
    mine = ordering.application_key(partition, app)
    return leaf.policies.order is ApplicationOrder.FIFO and any(
        other.is_reserving and ordering.application_key(partition, other) < mine
        for other in map(partition.applications.__getitem__, leaf.waiting)
    )


def nothing_new_is_over_the_maximum(partition: Partition) -> None:
    """Only what was there already may be."""
    for queue in partition.queues.by_path.values():
        assert queue.tolerated == Limit(dict(queue.max.items())).excess(queue.allocated)


def nobody_is_kept_too_long(partition: Partition, now_ns: int) -> None:
    """Ended applications are let go of when their time is up (contract 6.3)."""
    for app in partition.history:
        assert app.ended_ns > now_ns - EXPIRY_NS, f"{app.id} ended {now_ns - app.ended_ns} ns ago"
