"""Queues: one, or the tree of a partition piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from muster_core.edge.rest.shapes import queues as shapes
from muster_core.edge.rest.shapes.base import encode
from muster_core.edge.rest.views.amounts import amounts, percents, span
from muster_core.edge.si_encode import partition_name
from muster_core.model.config import ChildTemplate
from muster_core.model.ids import ROOT
from muster_core.model.policies import PreemptionPolicy, PriorityPolicy
from muster_core.model.resources import Limit
from muster_core.model.states import ApplicationState
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

_NO_CHILDREN = b'"children":[]}'


def queue(item: Queue, partition: Partition) -> shapes.Queue:
    """One queue, without what is below it."""
    policies = item.policies
    bound = _max(item, partition)
    return shapes.Queue(
        queuename=item.path,
        status=item.state.value,
        partition=partition_name(partition.id),
        pendingResource=amounts(item.pending),
        maxResource=amounts(bound),
        guaranteedResource=amounts(item.guaranteed),
        allocatedResource=amounts(item.allocated),
        preemptingResource=amounts(item.preempting),
        headroom=amounts(headroom(item, partition)),
        isLeaf=item.is_leaf,
        isManaged=item.managed,
        properties=dict(item.properties),
        parent=item.parent.path if item.parent else "",
        template=None if item.template is None else _template(item.template),
        childNames=[child.path for child in item.children.values()],
        absUsedCapacity=percents(item.allocated, bound),
        maxRunningApps=item.max_applications,
        runningApps=item.running,
        currentPriority=item.shown or 0,
        allocatingAcceptedApps=_allocating(item, partition),
        sortingPolicy=policies.order.value,
        prioritySorting=policies.sorts_by_priority,
        preemptionEnabled=partition.config.preemption and policies.preemption is not PreemptionPolicy.DISABLED,
        isPreemptionFence=policies.preemption is PreemptionPolicy.FENCE,
        preemptionDelay=span(policies.preemption_delay_ns),
        quotaPreemptionDelay=span(policies.quota_preemption_delay_ns),
        isPriorityFence=policies.priority is PriorityPolicy.FENCE,
        priorityOffset=policies.priority_offset,
        isQuotaPreemptionRunning=bool(item.quota_running),
        quotaPreemptionStartTime=item.quota_at_ns or None,
        preemptionPausedUntil=partition.preemptions.paused_until_ns(item.path) or None,
        unschedAskBackoff=policies.backoff_after,
        askBackoffDelay=span(policies.backoff_delay_ns),
        pledgedResource=amounts(item.pledged + item.awaited),
        children=[],
    )


def tree(item: Queue, partition: Partition) -> Iterator[bytes]:
    """One queue with all below it, in pieces; the queue of recovered applications is not shown (contract 2.10)."""
    yield encode(queue(item, partition)).removesuffix(_NO_CHILDREN) + b'"children":['
    before = b""
    for child in list(item.children.values()):
        if child.is_recovery:
            continue
        yield before
        yield from tree(child, partition)
        before = b","
    yield b"]}"


def headroom(item: Queue, partition: Partition) -> Limit:
    """What may still be taken here: the tightest of the queues up to the root, which has what the nodes have."""
    left = _max(item, partition).room(item.allocated)
    for above in item.path_up():
        left = left.narrowed(_max(above, partition).room(above.allocated))
    return left


def _max(item: Queue, partition: Partition) -> Limit:
    """The root's maximum is what the nodes have."""
    return item.max if item.path != ROOT else Limit(dict(partition.nodes.capacity_total.items()))


def _allocating(item: Queue, partition: Partition) -> list[str]:
    apps = [partition.applications[name] for name in item.applications]
    return [app.name for app in apps if app.state is ApplicationState.ACCEPTED and app.allocations]


def _template(found: ChildTemplate) -> shapes.Template:
    return shapes.Template(
        maxApplications=found.max_applications,
        maxResource=amounts(found.max),
        guaranteedResource=amounts(found.guaranteed),
        properties=dict(found.properties),
    )
