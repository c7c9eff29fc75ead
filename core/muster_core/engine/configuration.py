"""A new configuration is put in force on a running world.

Queues that stay get their new settings, new ones appear, those that are gone
drain: what runs there goes on, nothing new is let in, and they vanish when
empty. What cannot be while something runs waits until that is gone: a leaf
with applications becomes a parent, and a parent with queues a leaf, when the
last of them has left. Nothing that runs is touched by a lower maximum, and no
application fails by it: a gang that the new settings make impossible waits
with the reason (semantics 11). A partition that is no longer named ends what runs in it.

Differs: a queue on demand is open again when the queue it hangs below comes back into the configuration, and follows
changed templates for what is made below it.
"""

from __future__ import annotations

from muster_core.engine import applications, gangs, notes, queues, quota, recovered
from muster_core.model.config import PartitionConfig, QueueConfig
from muster_core.model.events import ConfigurationReplaced
from muster_core.model.ids import partition_id
from muster_core.model.notes import Change, Detail, Notice
from muster_core.model.states import ApplicationState, QueueEvent
from muster_core.world import priorities
from muster_core.world.queues import Queue
from muster_core.world.world import Manager, Partition, World, make_partition


def replace(world: World, event: ConfigurationReplaced, now_ns: int) -> None:
    """Put every partition of the new configuration in force, and close those that it no longer names."""
    manager = world.managers.get(event.rm)
    if manager is None:
        world.ignore("configuration of an unknown resource manager")
        return
    manager.configuration = event.configuration
    for config in event.configuration.partitions:
        _put_in_force(world, manager, config, now_ns)
    named = {partition_id(event.rm, config.name) for config in event.configuration.partitions}
    for partition in world.partitions.values():
        if partition.rm == event.rm and partition.id not in named:
            _close(partition, now_ns)


def drop_closed(world: World) -> None:
    """Forget partitions that are no longer configured, once they have neither applications nor nodes."""
    closed = [
        name
        for name, partition in world.partitions.items()
        if not partition.applications and partition.is_closing and not len(partition.nodes)
    ]
    for name in closed:
        del world.partitions[name]


def _put_in_force(world: World, manager: Manager, config: PartitionConfig, now_ns: int) -> None:
    name, configuration = partition_id(manager.id, config.name), manager.configuration
    partition = world.partitions.get(name)
    if partition is None:
        partition = world.partitions[name] = make_partition(world, name, manager, config)
        partition.since_ns = now_ns
        queues.note_tree(partition)
        return
    if partition.is_closing:  # configured again
        partition.since_ns = now_ns
    partition.timing, partition.tracking = configuration.timing, configuration.tracking
    _apply(partition, config, now_ns)


def _apply(partition: Partition, config: PartitionConfig, now_ns: int) -> None:
    was = quota.standing(partition)
    partition.config = config
    _update(partition, partition.queues.root, config.root)
    order_changed(partition)
    applications.reconsider_groups(partition, now_ns)
    recovered.place_again(partition)
    quota.reconsider(partition, was, now_ns)


def order_changed(partition: Partition) -> None:
    """Maximums, limits or policies are others now: priorities are shown anew, and everybody is asked again."""
    priorities.recount(partition.queues.by_path.values())
    partition.scheduling.renew_all()
    partition.misfits.clear()
    partition.preemptions.epoch += 1
    partition.contention.growths += 1
    partition.stir_all()


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
    notes.limits_changed(partition, queue.path, queue.limits, config.limits)
    queue.managed = True
    if queue.policies.preemption_delay_ns != config.policies.preemption_delay_ns:
        queue.preemption_clock = queue.preemption_at_ns = 0  # it is set anew, by the new delay
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
        what = f"becomes a parent queue when its applications ({len(queue.applications)} now) are gone"
    else:
        what = f"becomes a leaf when the queues below it ({len(queue.children)} now) are gone"
    partition.note(Notice.QUEUE, queue.path, message=f"queue {queue.path} {what}; until then it takes nothing new")
