"""Views of queues, users and groups as JSON objects of the REST interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.config import ChildTemplate, PreemptionPolicy, PriorityPolicy, QuotaLimit
from muster_core.model.ids import ROOT, partition_name
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.states import ApplicationState
from muster_core.rest import schemas
from muster_core.rest.application_views import amounts, percents, span
from muster_core.rest.schemas import encode
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition

_NO_CHILDREN = b'"children":[]}'


def queue(item: Queue, partition: Partition) -> schemas.QueueInfo:
    """Returns one queue without its children."""
    policies = item.policies
    bound = _max(item, partition)
    return schemas.QueueInfo(
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
        reservedQuota=amounts(item.reserved_quota + item.requested_quota),
        children=[],
    )


def tree(item: Queue, partition: Partition) -> Iterator[bytes]:
    """Yields the JSON of a queue with its subtree. The recovery queue is omitted, as in YuniKorn."""
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
    """Returns the minimum of what is left of the maximums from the queue to root. The maximum of root is the cluster
    size.
    """
    left = _max(item, partition).room(item.allocated)
    for above in item.path_up():
        left = left.narrowed(_max(above, partition).room(above.allocated))
    return left


def _max(item: Queue, partition: Partition) -> Limit:
    """The maximum of the queue. For root it is the total capacity of the nodes."""
    return item.max if item.path != ROOT else Limit(dict(partition.nodes.capacity_total.items()))


def _allocating(item: Queue, partition: Partition) -> list[str]:
    apps = [partition.applications[name] for name in item.applications]
    return [app.name for app in apps if app.state is ApplicationState.ACCEPTED and app.allocations]


def _template(found: ChildTemplate) -> schemas.TemplateInfo:
    return schemas.TemplateInfo(
        maxApplications=found.max_applications,
        maxResource=amounts(found.max),
        guaranteedResource=amounts(found.guaranteed),
        properties=dict(found.properties),
    )


_EVERYBODY: Final = "*"


@dataclass(slots=True)
class _QueueUsage:
    """Usage of one queue by one user or group."""

    used: Resources = NOTHING
    running: list[str] = field(default_factory=list)


def by_user(partition: Partition) -> dict[str, list[Application]]:
    """Live applications by user, sorted by user name."""
    found: dict[str, list[Application]] = {}
    for app in partition.applications.values():
        found.setdefault(app.spec.user, []).append(app)
    return dict(sorted(found.items()))


def by_group(partition: Partition) -> dict[str, list[Application]]:
    """Live applications by group that has a limit, sorted by group name."""
    found: dict[str, list[Application]] = {}
    for app in partition.applications.values():
        if group := partition.users.group_of(app):
            found.setdefault(group, []).append(app)
    return dict(sorted(found.items()))


def user(partition: Partition, name: str, apps: Iterable[Application]) -> schemas.UserUsage:
    """Returns the usage of one user."""
    live = list(apps)
    return schemas.UserUsage(
        userName=name,
        groups={app.name: group for app in live if (group := partition.users.group_of(app))},
        queues=_tree(live, name, is_group=False),
    )


def group(name: str, apps: Iterable[Application]) -> schemas.GroupUsage:
    """Returns the usage of the applications of one group."""
    live = list(apps)
    return schemas.GroupUsage(
        groupName=name, applications=[app.name for app in live], queues=_tree(live, name, is_group=True)
    )


def _tree(apps: Iterable[Application], name: str, *, is_group: bool) -> schemas.UsageTree:
    parts: dict[str, _QueueUsage] = {}
    below: dict[str, dict[str, Queue]] = {}
    top: Queue | None = None
    for app in apps:
        used = app.allocated + app.gang.allocated
        for queue in app.queue.path_up():
            part = parts.setdefault(queue.path, _QueueUsage())
            part.used += used
            if app.counted:
                part.running.append(app.name)
            if queue.parent is None:
                top = queue
            else:
                below.setdefault(queue.parent.path, {})[queue.path] = queue

    def branch(queue: Queue) -> schemas.UsageTree:
        part, limit = parts[queue.path], _limit(queue, name, is_group=is_group)
        return schemas.UsageTree(
            queuePath=queue.path,
            resourceUsage=amounts(part.used),
            runningApplications=part.running,
            maxResources=amounts(limit.max) if limit else None,
            maxApplications=limit.max_applications if limit else 0,
            children=[branch(child) for child in below.get(queue.path, {}).values()],
        )

    if top is None:
        return schemas.UsageTree(queuePath="", resourceUsage={}, runningApplications=[], maxApplications=0, children=[])
    return branch(top)


def _limit(queue: Queue, name: str, *, is_group: bool) -> QuotaLimit | None:
    """Returns the limit with this name, or else the wildcard limit."""
    for wanted in (name, _EVERYBODY):
        for limit in queue.limits:
            if wanted in (limit.groups if is_group else limit.users):
                return limit
    return None
