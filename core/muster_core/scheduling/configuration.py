"""Resource managers that register or leave, and a new configuration that is applied.

Differs: a queue on demand is open again when the queue it hangs below comes back into the configuration, and follows
changed templates for what is made below it.
"""

from __future__ import annotations

from typing import Final

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
from muster_core.scheduling import applications, gangs, lifecycle, preemption, queues, records, timers
from muster_core.state import ordering
from muster_core.state.queues import Queue
from muster_core.state.reservations import PendingCallbacks
from muster_core.state.scheduler_state import Partition, ResourceManager, SchedulerState, new_partition

_WHY: Final = "is not configured any more"
_New = ApplicationAdded | NodeAdded | NodeUpdated | AskAdded | AllocationReported


def reject_closed_partition(scheduler_state: SchedulerState, event: Event) -> None:
    """Tell the resource manager; what only ends something there is left without effect."""
    if isinstance(event, _New):
        for rm, manager in scheduler_state.managers.items():
            if manager.state is ManagerState.RUNNING and is_partition_of(rm, event.spec.partition):
                scheduler_state.outbox.put(_refusal(rm, event))
                return
    scheduler_state.ignore("event for a partition that does not exist")


def _refusal(rm: RmId, event: _New) -> Effect:
    why = f"partition {event.spec.partition} {_WHY}"
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
    """Put every partition of the new configuration in force, and close those that it no longer names."""
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
    """Forget partitions that are no longer configured, once they have neither applications nor nodes."""
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
    partition.timing, partition.tracking = configuration.timing, configuration.tracking
    _apply(partition, config, now_ns)


def _apply(partition: Partition, config: PartitionConfig, now_ns: int) -> None:
    was = preemption.current_quotas(partition)
    partition.config = config
    _update(partition, partition.queues.root, config.root)
    order_changed(partition)
    applications.reconsider_groups(partition, now_ns)
    lifecycle.place_recovered(partition)
    preemption.reconsider(partition, was, now_ns)


def order_changed(partition: Partition) -> None:
    """Maximums, limits or policies are others now: priorities are shown again, and everybody is asked again."""
    ordering.recount(partition.queues.by_path.values())
    partition.scheduling.renew_all()
    partition.unschedulable_classes.clear()
    partition.preemptions.epoch += 1
    partition.contention.growths += 1
    partition.requeue_all()


def _close(partition: Partition, now_ns: int) -> None:
    """Let nothing new into the partition, and end what runs there (contract 6.3)."""
    if partition.is_closing:
        return
    queues.drain(partition, partition.queues.root)
    partition.since_ns = now_ns
    partition.note(Notice.QUEUE, partition.queues.root.path, message=f"partition {partition.id} is being removed")
    applications.reject_undecided(partition, f"partition {partition.id} is being removed", now_ns)
    for app in list(partition.applications.values()):
        if app.state is not ApplicationState.FAILING:
            gangs.fail(partition, app, now_ns, f"partition {partition.id} was removed")


def _update(partition: Partition, queue: Queue, config: QueueConfig) -> None:
    """Give a queue, new in the configuration or not, its settings and its children."""
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
        queue.preemption_clock = queue.preemption_at_ns = 0  # it is set again, by the new delay
    queue.policies, queue.properties = config.policies, config.properties
    queue.max_applications = config.max_applications
    queue.limits, queue.template = config.limits, config.template
    queue.submit_acl, queue.admin_acl = config.submit_acl, config.admin_acl
    if _settings(queue) != before:
        partition.note(Notice.QUEUE, queue.path, change=Change.SET, detail=Detail.QUEUE_CONFIG)
    queues.set_amounts(partition, queue, config.max, config.guaranteed)


def _settings(queue: Queue) -> tuple[object, ...]:
    """What has no detail of its own in what is noted."""
    acl = (queue.submit_acl, queue.admin_acl)
    return (queue.managed, queue.policies, dict(queue.properties), queue.max_applications, queue.template, acl)


def _open_again(queue: Queue) -> None:
    """A queue made on demand, whose parent stays: it may have been draining with it."""
    queues.move(queue, QueueEvent.START)
    if not queue.is_leaf and queue.parent is not None:
        queue.template = queue.parent.template
    for child in queue.children.values():
        _open_again(child)


def _put_off(partition: Partition, queue: Queue, config: QueueConfig) -> None:
    """What the queue is to be waits until it is empty; nothing new is let in meanwhile."""
    queue.wanted = config
    if queue.is_leaf:
        queues.move(queue, QueueEvent.STOP)
        what = f"becomes a parent queue when its applications ({len(queue.applications)} now) have ended"
    else:
        what = f"becomes a leaf when the queues below it ({len(queue.children)} now) are removed"
    partition.note(Notice.QUEUE, queue.path, message=f"queue {queue.path} {what}; until then it takes nothing new")


def register_manager(scheduler_state: SchedulerState, event: ManagerRegistered, now_ns: int) -> None:
    """Open an empty world for this resource manager."""
    _drop_partitions(scheduler_state, event.rm)
    known = scheduler_state.managers.get(event.rm)
    manager = known or ResourceManager(event.rm, event.configuration)
    manager.configuration = event.configuration
    manager.state = follow(MANAGER, manager.state, ManagerEvent.REGISTER)
    manager.fence_up = event.fenced
    manager.overdue.clear()
    manager.pending_callbacks = PendingCallbacks(
        sequence=manager.pending_callbacks.sequence
    )  # no answer of an earlier session is one to this
    manager.generation += 1
    scheduler_state.managers[event.rm] = manager
    for config in event.configuration.partitions:
        name = partition_id(event.rm, config.name)
        partition = new_partition(scheduler_state, name, manager, config)
        partition.since_ns = now_ns
        queues.note_tree(partition)
        scheduler_state.partitions[name] = partition


def pass_recovery_barrier(scheduler_state: SchedulerState, rm: RmId, now_ns: int) -> None:
    """The whole state was received: scheduling may begin, and timers that expired before fire again, each by itself."""
    manager = scheduler_state.managers.get(rm)
    if manager is None:
        return
    manager.fence_up = False
    for partition in scheduler_state.partitions.values():
        if partition.rm == rm:
            partition.requeue_all()
            partition.returning.extend(gangs.returning_placeholders(partition))
    overdue, manager.overdue = manager.overdue, []
    for clock in overdue:
        scheduler_state.outbox.put(TimerSet(clock, now_ns))


def manager_heard(scheduler_state: SchedulerState, clock: Timer, now_ns: int) -> None:
    """A deadline came. Behind the recovery barrier nothing is decided: an event that would be too late may
    only not have been received yet (semantics 19).
    """
    if clock.kind is TimerKind.MANAGER:
        manager_timed_out(scheduler_state, clock)
        return
    partition = scheduler_state.partitions.get(clock.partition)
    if partition is None:
        return
    manager = scheduler_state.managers[partition.rm]
    if manager.fence_up:
        manager.overdue.append(clock)
    else:
        timers.on_timer(partition, clock, now_ns)


def manager_lost(scheduler_state: SchedulerState, rm: RmId, now_ns: int) -> None:
    """Pause: nothing is scheduled for it, its world is kept until the clock rings."""
    manager = scheduler_state.managers.get(rm)
    if manager is None or manager.state is not ManagerState.RUNNING:
        scheduler_state.ignore("connection lost of a resource manager that is not running")
        return
    manager.state = follow(MANAGER, manager.state, ManagerEvent.LOSE_CONNECTION)
    clock = Timer(TimerKind.MANAGER, rm, PartitionId(""), ApplicationId(""), AllocationKey(""), manager.generation)
    scheduler_state.outbox.put(TimerSet(clock, now_ns + manager.configuration.timing.manager_timeout_ns))


def manager_timed_out(scheduler_state: SchedulerState, clock: Timer) -> None:
    """It did not come back in time: stopped."""
    manager = scheduler_state.managers.get(clock.rm)
    if manager is None or manager.state is not ManagerState.PAUSED or manager.generation != clock.generation:
        return
    _stop(scheduler_state, manager, ManagerEvent.TIME_OUT)


def manager_left(scheduler_state: SchedulerState, rm: RmId) -> None:
    """It unregistered: stopped."""
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
