"""A new configuration is put in force on a running world.

Queues that stay get their new limits, new ones appear, those that are gone
drain: what runs there goes on, nothing new is let in, and they vanish when
empty. Nothing that runs is touched by a lower maximum; a waiting gang that the
new limits make impossible fails with a reason (semantics 11).
"""

from __future__ import annotations

from muster_core.engine import gangs
from muster_core.engine.applications import quota_refusal
from muster_core.model.config import PartitionConfig, QueueConfig
from muster_core.model.effects import Effect
from muster_core.model.events import ConfigurationReplaced
from muster_core.model.ids import child_path, partition_id
from muster_core.model.policies import ApplicationOrder
from muster_core.world.applications import Application
from muster_core.world.queues import Queue
from muster_core.world.world import Partition, World, make_partition


def replace(world: World, event: ConfigurationReplaced, now_ns: int) -> list[Effect]:
    """Put every partition of the new configuration in force; a partition that it no
    longer names keeps running on what it had.
    """
    manager = world.managers.get(event.rm)
    if manager is None:
        world.ignore("configuration of an unknown resource manager")
        return []
    manager.configuration = event.configuration
    effects: list[Effect] = []
    for config in event.configuration.partitions:
        name = partition_id(event.rm, config.name)
        partition = world.partitions.get(name)
        if partition is None:
            world.partitions[name] = make_partition(name, manager, config, event.configuration.timing)
            continue
        partition.timing = event.configuration.timing
        effects += _apply(partition, config, now_ns)
    return effects


def _apply(partition: Partition, config: PartitionConfig, now_ns: int) -> list[Effect]:
    partition.config = config
    # What was impossible before came from a recovery and is not this configuration's doing.
    possible = [app for app in partition.applications.values() if app.is_reserving and not _obstacle(app)]
    _update(partition, partition.queues.root, config.root)
    effects: list[Effect] = []
    for app in possible:
        if reason := _obstacle(app):
            effects += gangs.fail(partition, app, now_ns, f"the configuration changed: {reason}")
    for app in partition.applications.values():
        app.refused_at = None
    partition.misfits.clear()
    partition.stir_all()
    return effects


def _obstacle(app: Application) -> str:
    """Why the queue's configuration lets a gang never start; empty = it may."""
    if app.queue.policies.order is ApplicationOrder.FAIR:
        return f"queue {app.queue.path} now sorts its applications by fair share, which a gang cannot use"
    return quota_refusal(app.queue, app.spec)


def _update(partition: Partition, queue: Queue, config: QueueConfig) -> None:
    queue.managed = True
    queue.draining = False
    queue.max, queue.guaranteed = config.max, config.guaranteed
    queue.policies, queue.max_applications = config.policies, config.max_applications
    queue.properties, queue.limits, queue.template = config.properties, config.limits, config.template
    queue.submit_acl, queue.admin_acl = config.submit_acl, config.admin_acl
    queue.excused = not queue.max.allows(queue.allocated)
    if not queue.applications and queue.parent is not None:
        queue.is_leaf = not (config.parent or config.children or queue.children)
    named = {child.name: child for child in config.children}
    for name, child in list(queue.children.items()):
        if name in named:
            _update(partition, child, named.pop(name))
        elif child.managed:
            _drain(partition, child)
    for child_config in named.values():
        if partition.queues.get(child_path(queue.path, child_config.name)) is None and not queue.is_leaf:
            partition.queues.add(queue, child_config, managed=True)


def _drain(partition: Partition, queue: Queue) -> None:
    """Let a queue that is no longer configured run empty; at once where it is empty."""
    for child in list(queue.children.values()):
        _drain(partition, child)
    queue.draining = True
    if not queue.children and not queue.applications:
        partition.queues.remove(queue)
