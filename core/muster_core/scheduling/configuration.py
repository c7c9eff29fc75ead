"""Registration and removal of resource managers, and application of a new configuration. Called by `step`.

Differs: a draining dynamic queue is reopened when its parent is configured again, and changed templates apply to the
queues created below it.
"""

from __future__ import annotations

from muster_core.model import messages
from muster_core.model.config import PartitionConfig, QueueConfig
from muster_core.model.effects import AllocationResponse, ApplicationRejected, Effect, NodeRejected, Rejection, TimerSet
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    ConfigurationReplaced,
    Event,
    ManagerRegistered,
    NodeAdded,
    NodeUpdated,
    Timer,
    TimerKind,
)
from muster_core.model.ids import AllocationKey, ApplicationId, PartitionId, RmId, is_partition_of, partition_id
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.states import MANAGER, ApplicationState, ManagerEvent, ManagerState, QueueEvent, follow
from muster_core.scheduling import (
    applications,
    gangs,
    lifecycle,
    preemption,
    queues,
    records,
    repair,
    reporting,
    requeue,
    timers,
)
from muster_core.state import ordering
from muster_core.state.queues import Queue
from muster_core.state.reservations import PendingCallbacks
from muster_core.state.scheduler_state import Partition, ResourceManager, SchedulerState, new_partition

_New = ApplicationAdded | NodeAdded | NodeUpdated | AskAdded | AllocationReported


def reject_closed_partition(scheduler_state: SchedulerState, event: Event) -> None:
    """Rejects an event for an unknown partition. An event that only ends something is counted and ignored."""
    if isinstance(event, _New):
        for rm, manager in scheduler_state.managers.items():
            if manager.state is ManagerState.RUNNING and is_partition_of(rm, event.spec.partition):
                scheduler_state.outbox.put(_refusal(rm, event))
                return
    scheduler_state.ignore("event for a partition that does not exist")


def _refusal(rm: RmId, event: _New) -> Effect:
    why = messages.partition_unknown(event.spec.partition)
    match event:
        case ApplicationAdded(spec=application):
            return ApplicationRejected(rm, application.id, why)
        case NodeAdded(spec=node) | NodeUpdated(spec=node):
            return NodeRejected(rm, node.id, why)
        case AskAdded(spec=ask):
            return AllocationResponse(rm, rejected_asks=(Rejection(ask.application, ask.key, why),))
        case AllocationReported(spec=allocation):
            refused = Rejection(allocation.application, allocation.key, why)
            return AllocationResponse(rm, rejected_allocations=(refused,))


def replace_configuration(scheduler_state: SchedulerState, event: ConfigurationReplaced, now_ns: int) -> None:
    """Applies a new configuration, and closes the partitions that it does not contain."""
    manager = scheduler_state.managers.get(event.rm)
    if manager is None:
        scheduler_state.ignore("configuration of an unknown resource manager")
        return
    manager.configuration = event.configuration
    for config in event.configuration.partitions:
        _put_in_force(scheduler_state, manager, config, now_ns)
    named = {partition_id(event.rm, config.name) for config in event.configuration.partitions}
    for partition in scheduler_state.partitions.values():
        if partition.rm == event.rm and partition.id not in named:
            _close(partition, now_ns)


def drop_closed_partitions(scheduler_state: SchedulerState) -> None:
    """Removes partitions that are no longer configured and have neither applications nor nodes."""
    closed = [
        name
        for name, partition in scheduler_state.partitions.items()
        if not partition.applications and partition.is_closing and not len(partition.nodes)
    ]
    for name in closed:
        del scheduler_state.partitions[name]


def _put_in_force(
    scheduler_state: SchedulerState, manager: ResourceManager, config: PartitionConfig, now_ns: int
) -> None:
    name, configuration = partition_id(manager.id, config.name), manager.configuration
    partition = scheduler_state.partitions.get(name)
    if partition is None:
        partition = scheduler_state.partitions[name] = new_partition(scheduler_state, name, manager, config)
        partition.since_ns = now_ns
        queues.note_tree(partition)
        return
    if partition.is_closing:  # configured again
        partition.since_ns = now_ns
    # Without other waits and preemptions, nothing changes for pods that only wait for a node.
    is_of_queues = (partition.timing, partition.config.preemption) == (configuration.timing, config.preemption)
    partition.timing, partition.tracking = configuration.timing, configuration.tracking
    partition.repairs_across_queues = configuration.repairs_across_queues
    was = preemption.current_quotas(partition)
    partition.config = config
    _update(partition, partition.queues.root, config.root)
    partition.users.epoch += 1
    order_changed(partition, is_of_queues=is_of_queues)
    applications.reconsider_groups(partition, now_ns)
    lifecycle.place_recovered(partition)
    preemption.reconsider(partition, was, now_ns)


def order_changed(partition: Partition, *, is_of_queues: bool = False) -> None:
    """Recomputes priorities and requeues applications, because maximums, limits or policies have changed.

    `is_of_queues`: only of queues, so that no node has more room for the applications that wait for one.
    """
    ordering.recount(partition.queues.by_path.values())
    partition.scheduling.renew_all()
    reporting.bounds_changed(partition, partition.applications.values())
    if not is_of_queues:
        partition.unschedulable_classes.clear()
    partition.preemptions.epoch += 1
    partition.preemptions.to_watch.update(partition.waiting)
    partition.reservations.without_node_since = -1
    partition.contention.wake_ups += 1
    partition.scheduling.requeue_all(unless_waiting_for_nodes=is_of_queues)


def _close(partition: Partition, now_ns: int) -> None:
    """Drains all queues of a removed partition, and fails its applications."""
    if partition.is_closing:
        return
    queues.drain(partition, partition.queues.root)
    partition.since_ns = now_ns
    why = messages.partition_closing(partition.id)
    partition.note(Notice.QUEUE, partition.queues.root.path, message=why)
    applications.reject_undecided(partition, why, now_ns)
    for app in list(partition.applications.values()):
        if app.removed:
            lifecycle.end_removed(partition, app, now_ns)
        elif app.state is not ApplicationState.FAILING:
            gangs.fail(partition, app, now_ns, messages.partition_removed(partition.id))


def _update(partition: Partition, queue: Queue, config: QueueConfig) -> None:
    """Applies the configuration to a queue and its children."""
    queues.move(queue, QueueEvent.START)
    queue.wanted = None
    _set(partition, queue, config)
    named = {child.name: child for child in config.children}
    is_leaf = queue.parent is not None and not (config.parent or config.children)
    for name, child in list(queue.children.items()):
        if name in named:
            _update(partition, child, named.pop(name))
        elif child.managed or is_leaf:
            queues.drain(partition, child)
        else:
            _open_again(child)
    if queue.is_leaf is not is_leaf and not queue.is_empty:
        _put_off(partition, queue, config)
        return
    queues.set_leaf(partition, queue, is_leaf=is_leaf)
    for child_config in named.values():
        queues.add(partition, queue, child_config, managed=True)


def _set(partition: Partition, queue: Queue, config: QueueConfig) -> None:
    before = _settings(queue)
    records.limits_changed(partition, queue.path, queue.limits, config.limits)
    queue.managed = True
    if queue.policies.preemption_delay_ns != config.policies.preemption_delay_ns:
        queue.preemption_timer = queue.preemption_at_ns = 0  # the new delay sets it again
    queue.policies, queue.properties, queue.origins = config.policies, config.properties, config.origins
    queue.max_applications = config.max_applications
    queue.limits, queue.template = config.limits, config.template
    queue.submit_acl, queue.admin_acl = config.submit_acl, config.admin_acl
    if _settings(queue) != before:
        partition.note(Notice.QUEUE, queue.path, change=Change.SET, detail=Detail.QUEUE_CONFIG)
    queues.set_amounts(partition, queue, config.max, config.guaranteed)


def _settings(queue: Queue) -> tuple[object, ...]:
    """Returns the settings without an event record detail of their own."""
    acl = (queue.submit_acl, queue.admin_acl)
    return (queue.managed, queue.policies, dict(queue.properties), queue.max_applications, queue.template, acl)


def _open_again(queue: Queue) -> None:
    """Reopens a dynamic queue that may be draining, because its parent is configured again."""
    queues.move(queue, QueueEvent.START)
    if not queue.is_leaf and queue.parent is not None:
        queue.template = queue.parent.template
    for child in queue.children.values():
        _open_again(child)


def _put_off(partition: Partition, queue: Queue, config: QueueConfig) -> None:
    """Stops a queue until it is empty, because it changes between leaf and parent."""
    queue.wanted = config
    if queue.is_leaf:
        queues.move(queue, QueueEvent.STOP)
        message = messages.becomes_parent(queue.path, len(queue.applications))
    else:
        message = messages.becomes_leaf(queue.path, len(queue.children))
    partition.note(Notice.QUEUE, queue.path, message=message)


def register_manager(scheduler_state: SchedulerState, event: ManagerRegistered, now_ns: int) -> None:
    """Creates the empty partitions of a resource manager that registers."""
    _drop_partitions(scheduler_state, event.rm)
    known = scheduler_state.managers.get(event.rm)
    manager = known or ResourceManager(event.rm, event.configuration)
    manager.configuration = event.configuration
    manager.state = follow(MANAGER, manager.state, ManagerEvent.REGISTER)
    manager.is_recovering = event.awaits_barrier
    manager.deferred_timers.clear()
    manager.pending_callbacks = PendingCallbacks(
        sequence=manager.pending_callbacks.sequence
    )  # results of an earlier session are ignored
    manager.generation += 1
    scheduler_state.managers[event.rm] = manager
    for config in event.configuration.partitions:
        name = partition_id(event.rm, config.name)
        partition = new_partition(scheduler_state, name, manager, config)
        partition.since_ns = now_ns
        queues.note_tree(partition)
        scheduler_state.partitions[name] = partition


def pass_recovery_barrier(scheduler_state: SchedulerState, rm: RmId, now_ns: int) -> None:
    """Enables scheduling after recovery, and fires the timers that expired before.

    Each timer is an event of its own.
    """
    manager = scheduler_state.managers.get(rm)
    if manager is None:
        return
    manager.is_recovering = False
    for partition in scheduler_state.partitions.values():
        if partition.rm == rm:
            requeue.settle_domains(partition)
            partition.scheduling.requeue_all()
            repair.recovered(partition, now_ns)
            partition.returning.extend(gangs.returning_placeholders(partition))
    deferred_timers, manager.deferred_timers = manager.deferred_timers, []
    for timer in deferred_timers:
        scheduler_state.outbox.put(TimerSet(timer, now_ns))


def on_timer(scheduler_state: SchedulerState, timer: Timer, now_ns: int) -> None:
    """Handles a timer that fired.

    Before the recovery barrier, timers are only collected, because the event they wait for may not have been recovered
    yet (docs/internals/semantics.md, rule 19).
    """
    if timer.kind is TimerKind.MANAGER:
        manager_timed_out(scheduler_state, timer)
        return
    partition = scheduler_state.partitions.get(timer.partition)
    if partition is None:
        return
    manager = scheduler_state.managers[partition.rm]
    if manager.is_recovering:
        manager.deferred_timers.append(timer)
    else:
        timers.on_timer(partition, timer, now_ns)


def manager_lost(scheduler_state: SchedulerState, rm: RmId, now_ns: int) -> None:
    """Pauses a resource manager that lost its connection. Its state is kept until the timeout."""
    manager = scheduler_state.managers.get(rm)
    if manager is None or manager.state is not ManagerState.RUNNING:
        scheduler_state.ignore("connection lost of a resource manager that is not running")
        return
    manager.state = follow(MANAGER, manager.state, ManagerEvent.LOSE_CONNECTION)
    timer = Timer(TimerKind.MANAGER, rm, PartitionId(""), ApplicationId(""), AllocationKey(""), manager.generation)
    scheduler_state.outbox.put(TimerSet(timer, now_ns + manager.configuration.timing.manager_timeout_ns))


def manager_timed_out(scheduler_state: SchedulerState, timer: Timer) -> None:
    """Stops a resource manager that did not reconnect in time."""
    manager = scheduler_state.managers.get(timer.rm)
    if manager is None or manager.state is not ManagerState.PAUSED or manager.generation != timer.generation:
        return
    _stop(scheduler_state, manager, ManagerEvent.TIME_OUT)


def manager_left(scheduler_state: SchedulerState, rm: RmId) -> None:
    """Stops a resource manager that unregistered."""
    manager = scheduler_state.managers.get(rm)
    if manager is None or manager.state is ManagerState.STOPPED:
        scheduler_state.ignore("unregistration of an unknown resource manager")
        return
    _stop(scheduler_state, manager, ManagerEvent.LEAVE)


def _stop(scheduler_state: SchedulerState, manager: ResourceManager, event: ManagerEvent) -> None:
    manager.state = follow(MANAGER, manager.state, event)
    _drop_partitions(scheduler_state, manager.id)


def _drop_partitions(scheduler_state: SchedulerState, rm: RmId) -> None:
    for name in [name for name, partition in scheduler_state.partitions.items() if partition.rm == rm]:
        del scheduler_state.partitions[name]
