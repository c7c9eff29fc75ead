"""Applies one event to the scheduler state.

Called by the scheduler task for each event. It finds the partition and calls the handler in `applications`,
`allocations`, `nodes`, `configuration` or `timers`. Effects collect in the outbox of the state.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from muster_core.model.effects import Effect
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
from muster_core.placement.filters.hooks import HOOKS
from muster_core.scheduling import allocations, applications, configuration, failures, nodes, preemption
from muster_core.state.scheduler_state import Partition, SchedulerState

_PlacesEvent = AskAdded | AskReleased | AllocationReported | AllocationReleased

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
    _step(scheduler_state, event, now_ns)
    if scheduler_state.is_any_closing:
        configuration.drop_closed_partitions(scheduler_state)
    return scheduler_state.outbox.drain()


def _step(scheduler_state: SchedulerState, event: Event, now_ns: int) -> None:
    match event:  # requests and allocations first, because most events are about them
        case AskAdded() | AskReleased() | AllocationReleased() | AllocationReported():
            _step_places(scheduler_state, event, now_ns)
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
            _step_partition(scheduler_state, event, now_ns)


def _step_partition(scheduler_state: SchedulerState, event: _PartitionEvent, now_ns: int) -> None:
    partition = _partition_of(scheduler_state, event)
    if partition is None:
        configuration.reject_closed_partition(scheduler_state, event)
        return
    match event:
        case ApplicationAdded():
            applications.add_application(partition, event.spec, now_ns)
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
                HOOKS.utilization.report(scheduler_state, partition, event)
        case ClusterObjectsReported():
            nodes.update_cluster_objects(partition, event)
        case _:
            assert_never(event)


def _step_places(scheduler_state: SchedulerState, event: _PlacesEvent, now_ns: int) -> None:
    partition = _partition_of(scheduler_state, event)
    if partition is None:
        configuration.reject_closed_partition(scheduler_state, event)
        return
    match event:
        case AskAdded():
            applications.add_ask(partition, event.spec, now_ns)
        case AskReleased():
            applications.release_ask(scheduler_state, partition, event, now_ns)
        case AllocationReleased():
            allocations.release_allocation(scheduler_state, partition, event, now_ns)
        case AllocationReported():
            allocations.report_allocation(partition, event.spec, now_ns)
        case _:
            assert_never(event)


def _partition_of(scheduler_state: SchedulerState, event: _PartitionEvent | _PlacesEvent) -> Partition | None:
    match event:
        case AskAdded() | ApplicationAdded() | AllocationReported() | NodeAdded() | NodeUpdated():
            return scheduler_state.partitions.get(event.spec.partition)
        case _:
            return scheduler_state.partitions.get(event.partition)
