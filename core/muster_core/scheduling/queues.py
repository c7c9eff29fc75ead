"""Changes to the queue tree: dynamic queues, amounts, draining and removal.

`applications`, `configuration` and `lifecycle` call it. A dynamic queue is created by a placement rule, not by the
configuration.

Differs: a dynamic queue, or one that is no longer configured, is removed as soon as it is empty; YuniKorn looks for
such queues every ten seconds.

Differs: a leaf with applications that the configuration makes a parent is Stopped, and becomes a parent when its
applications have ended; YuniKorn keeps it a leaf and ignores the children.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_core.model import messages
from muster_core.model.config import QueueConfig
from muster_core.model.ids import RECOVERY, QueuePath, parent_path, queue_name
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import NamespaceQuota
from muster_core.model.states import QUEUE, QueueEvent, follow
from muster_core.queues.placement_rules import Chosen
from muster_core.scheduling import records, reporting
from muster_core.state.queues import Queue, QueueTree
from muster_core.state.scheduler_state import Partition
from muster_core.state.users import LimitSubject, LimitSubjectKind

_NO_QUOTA: Final = NamespaceQuota()
_BY_NAMESPACE: Final = "the annotation namespace.maxApps"


# -- dynamic queues -------------------------------------------------------------


def leaf_on_demand(tree: QueueTree, path: QueuePath, quota: NamespaceQuota) -> QueueConfig:
    """Returns the configuration of a new dynamic leaf: the template of its parent, then the namespace quota."""
    name = queue_name(path)
    template = nearest(tree, parent_path(path)).template
    if path == RECOVERY or (template is None and quota == _NO_QUOTA):
        return QueueConfig(name)
    leaf = QueueConfig(name)
    if template is not None:
        leaf = QueueConfig(
            name,
            max=template.max,
            guaranteed=template.guaranteed,
            max_applications=template.max_applications,
            properties=template.properties,
            policies=template.policies,
            origins=dict.fromkeys(("maxapplications", *template.properties), f"childtemplate of {template.origin}"),
        )
    if quota.max_applications is not None:
        leaf = replace(leaf, origins={**leaf.origins, "maxapplications": _BY_NAMESPACE})
    return replace(
        leaf,
        max=leaf.max if quota.max is None else quota.max,
        guaranteed=leaf.guaranteed if quota.guaranteed is None else quota.guaranteed,
        max_applications=leaf.max_applications if quota.max_applications is None else quota.max_applications,
    )


def nearest(tree: QueueTree, path: QueuePath) -> Queue:
    """Returns the queue of that path, or the nearest existing queue above it."""
    while (queue := tree.get(path)) is None:
        path = parent_path(path)
    return queue


def open_leaf(partition: Partition, chosen: Chosen, leaf: QueueConfig) -> Queue:
    """Creates the missing queues on the path to the chosen leaf. `leaf` is the configuration of the last one."""
    tree = partition.queues
    for path in chosen.create:
        parent = tree.by_path[parent_path(path)]
        config = leaf if path == chosen.path else QueueConfig(queue_name(path), parent=True, template=parent.template)
        add(partition, parent, config, managed=False)
    return tree.by_path[chosen.path]


def apply_quota(partition: Partition, leaf: Queue, quota: NamespaceQuota) -> bool:
    """Applies a namespace quota to a dynamic leaf. Returns whether anything changed.

    Values that the namespace does not set stay. Configured queues and the recovery queue are not changed.
    """
    if not _follows_namespaces(leaf) or quota == _NO_QUOTA:
        return False
    most = maximum(leaf, quota)
    least = leaf.guaranteed if quota.guaranteed is None else quota.guaranteed
    count = leaf.max_applications if quota.max_applications is None else quota.max_applications
    if (most, least, count) == (leaf.max, leaf.guaranteed, leaf.max_applications):
        return False
    if count != leaf.max_applications:
        leaf.origins = {**leaf.origins, "maxapplications": _BY_NAMESPACE}
    leaf.max_applications = count
    set_amounts(partition, leaf, most, least)
    reporting.bounds_changed(partition, map(partition.applications.__getitem__, leaf.applications))
    partition.requeue_queue(leaf.path)
    return True


def maximum(leaf: Queue, quota: NamespaceQuota) -> Limit:
    """Returns the maximum of the leaf with this namespace quota applied."""
    return leaf.max if quota.max is None or not _follows_namespaces(leaf) else quota.max


def _follows_namespaces(leaf: Queue) -> bool:
    return not leaf.managed and not leaf.is_recovery


# -- changes --------------------------------------------------------------------


def note_tree(partition: Partition) -> None:
    """Records events for all queues of a new partition."""
    _note_all(partition, partition.queues.root, Change.ADD)


def add(partition: Partition, parent: Queue, config: QueueConfig, *, managed: bool) -> None:
    """Adds a queue with all its children below `parent`."""
    _note_all(partition, partition.queues.add(parent, config, managed=managed), Change.ADD)


def remove(partition: Partition, queue: Queue) -> None:
    """Removes an empty queue, also from the scheduling queue."""
    partition.queues.remove(queue)
    partition.scheduling.removed(queue)
    partition.reservations.without_node.pop(queue.path, None)
    partition.grown.pop(LimitSubject(LimitSubjectKind.QUEUE, "", queue.path), None)
    _note(partition, queue, Change.REMOVE)


def set_amounts(partition: Partition, queue: Queue, most: Limit, guaranteed: Resources) -> None:
    """Sets maximum and guarantee. Allocations above a lower maximum stay."""
    if most != queue.max:
        queue.max = most
        amounts = Resources(dict(most.items()))
        partition.note(Notice.QUEUE, queue.path, change=Change.SET, detail=Detail.QUEUE_MAX, resource=amounts)
    if guaranteed != queue.guaranteed:
        queue.guaranteed = guaranteed
        detail = Detail.QUEUE_GUARANTEED
        partition.note(Notice.QUEUE, queue.path, change=Change.SET, detail=detail, resource=guaranteed)
    queue.tolerated = queue.max.excess(queue.allocated)
    partition.scheduling.moved(queue)
    partition.preemptions.epoch += 1
    partition.contention.wake_ups += 1


def set_leaf(partition: Partition, queue: Queue, *, is_leaf: bool) -> None:
    """Changes an empty queue to a leaf or to a parent."""
    if queue.is_leaf is is_leaf:
        return
    queue.is_leaf = is_leaf
    text = messages.queue_type(str(is_leaf).lower())
    partition.note(Notice.QUEUE, queue.path, change=Change.SET, detail=Detail.QUEUE_TYPE, message=text)


def move(queue: Queue, event: QueueEvent) -> None:
    """Makes one transition of the queue state table."""
    queue.state = follow(QUEUE, queue.state, event)


def drain(partition: Partition, queue: Queue) -> None:
    """Stops a queue and all queues below it from accepting applications. Each queue is removed when it is empty."""
    for child in list(queue.children.values()):
        drain(partition, child)
    queue.wanted = None
    move(queue, QueueEvent.REMOVE)
    if queue.is_empty and queue.parent is not None:
        remove(partition, queue)


# -- changes postponed until a queue is empty --------------------------------------


def settle(partition: Partition, leaf: Queue) -> None:
    """Updates the queues of the path after an application left.

    Removes empty queues that are draining or dynamic, and applies postponed changes.
    """
    for queue in list(leaf.path_up):
        if not queue.is_empty or queue.parent is None:
            return
        if queue.managed and not queue.draining:
            reshape(partition, queue)
            return
        remove(partition, queue)


def reshape(partition: Partition, queue: Queue) -> None:
    """Changes an empty queue to the parent or leaf that the configuration defines."""
    wanted, queue.wanted = queue.wanted, None
    if wanted is None:
        return
    move(queue, QueueEvent.START)
    set_leaf(partition, queue, is_leaf=not (wanted.parent or wanted.children))
    for child in wanted.children:
        add(partition, queue, child, managed=True)


def _note_all(partition: Partition, queue: Queue, change: Change) -> None:
    _note(partition, queue, change)
    for child in queue.children.values():
        _note_all(partition, child, change)


def _note(partition: Partition, queue: Queue, change: Change) -> None:
    detail = Detail.NONE if queue.managed else Detail.QUEUE_DYNAMIC
    partition.note(Notice.QUEUE, queue.path, change=change, detail=detail)
    before, now = ((), queue.limits) if change is Change.ADD else (queue.limits, ())
    records.limits_changed(partition, queue.path, before, now)
