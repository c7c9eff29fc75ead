"""Views of applications, queues, users, nodes and partitions as JSON objects of the REST interface.

Differs: `allocationLog` has the results of preemption attempts, and one entry for each kind of reason for which the
requests of the class have waited since this request was created, the present reason last. `count` is how often they
began to wait for it; YuniKorn counts the scheduling attempts for each message. Earlier messages are in the events.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from typing import Final, TypeVar

from muster_core.model import messages
from muster_core.model.config import (
    ChildTemplate,
    PlacementRule,
    PreemptionPolicy,
    PriorityPolicy,
    QuotaLimit,
    RuleFilter,
)
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.devices import DeviceId, PodClaim
from muster_core.model.ids import RECOVERY, ROOT, ApplicationId, NodeId, Termination, partition_name
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import AllocationSpec, NodeSpec
from muster_core.model.states import ApplicationState, NodeState
from muster_core.placement import autoscaling
from muster_core.placement.devices.explanation import on_node
from muster_core.queues.placement_rules import is_requested
from muster_core.rest import schemas
from muster_core.rest.http import Pieces, array
from muster_core.rest.schemas import encode
from muster_core.runtime.sessions import Session
from muster_core.state import ordering
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition
from muster_si import keys

T = TypeVar("T")

#: Objects that are read or sorted before other work may run, at 1 to 10 us each.
_STEPS: Final = 500

_PERCENT: Final = 100
_SECOND: Final = 1_000_000_000
_UNITS: Final = ((3600 * _SECOND, "h"), (60 * _SECOND, "m"))


def amounts(found: Resources | Limit) -> dict[str, int]:
    """Amounts or limits by resource name."""
    return dict(sorted(found.items()))


def percents(used: Resources, whole: Resources | Limit) -> dict[str, int]:
    """Used share in percent of every resource in `whole`."""
    return {name: used[name] * _PERCENT // amount for name, amount in sorted(whole.items()) if amount > 0}


def span(nanoseconds: int) -> str:
    """Formats a duration like Go: `30s`, `1m30s`, `1h0m0s`."""
    if nanoseconds % _SECOND:
        return f"{nanoseconds / _SECOND:g}s"
    text, rest = "", nanoseconds
    for unit, letter in _UNITS:
        if rest >= unit or text:
            text += f"{rest // unit}{letter}"
            rest %= unit
    return f"{text}{rest // _SECOND}s"


_MILLISECOND: Final = 1_000_000


#: What the requests and allocations replace. No text in JSON contains it, because its quotation marks are not escaped.
_NO_PODS: Final = b'"requests":[],"allocations":[]'


def application(app: Application, partition: Partition, now_ns: int) -> Pieces:
    """Yields the JSON of one application, live or ended. Each request and allocation is a part."""
    head, _, tail = encode(_application(app, partition)).partition(_NO_PODS)
    yield head + b'"requests":'
    yield from array(ask(app, item, now_ns, partition) for item in list(app.asks.values()))
    yield b',"allocations":'
    yield from array(allocation(item, partition) for item in list(app.allocations.values()))
    yield tail


def _application(app: Application, partition: Partition) -> schemas.ApplicationInfo:
    """Returns an application without its requests and allocations."""
    spec, gang = app.spec, app.gang
    held = [f"{reservation.node}|{reservation.key}" for reservation in partition.reservations.of(app.id)]
    return schemas.ApplicationInfo(
        applicationID=app.name,
        namespace=spec.namespace or None,
        usedResource=amounts(app.allocated),
        maxUsedResource=amounts(app.peak),
        pendingResource=amounts(app.pending),
        placeholderResource=amounts(gang.allocated),
        placeholderAsk=amounts(spec.placeholder_ask),
        reservedQuota=amounts(gang.quota_reservation),
        partition=partition_name(spec.partition),
        queueName=app.queue.path,
        submissionTime=app.oldest_ns,
        finishedTime=app.ended_ns or None,
        requests=[],
        allocations=[],
        applicationState=app.state.value,
        user=spec.user,
        groups=list(spec.groups),
        rejectedMessage=app.rejected_message,
        stateLog=[schemas.StateChange(time=at, applicationState=state.value) for at, state in app.state_log],
        placeholderData=_groups(app),
        gangSchedulingStyle=spec.style.value if spec.is_gang else None,
        gangPlacement=spec.gang_placement.value if spec.is_gang else None,
        gangProblem=spec.tags.get(keys.APP_TAG_GANG_PROBLEM),
        gangWarnings=spec.tags.get(keys.APP_TAG_GANG_WARNINGS),
        requestedQueue=None if app.queue.is_recovery or is_requested(spec.queue, app.queue.path) else spec.queue,
        membersMissing=(gang.members_missing or None) if app.is_reserving else None,
        failureMessage=app.failure_message or None,
        unsatisfiable=app.is_reserving and bool(gang.impossible or gang.exceeds_nodes) if spec.is_gang else None,
        hasReserved=bool(held),
        reservations=held,
        maxRequestPriority=ordering.LOWEST_PRIORITY if app.priorities.top is None else app.priorities.top,
        startTime=app.started_ns // _MILLISECOND,
        resourceHistory=_history(app),
        backoffDeadline=app.backoff_until_ns or None,
    )


def all_of(apps: Iterable[Application], partition: Partition, now_ns: int) -> Iterator[Pieces]:
    """Yields the applications one at a time."""
    for app in list(apps):
        yield application(app, partition, now_ns)


def ask(app: Application, item: Ask, now_ns: int, partition: Partition) -> schemas.AskInfo:
    """Returns one request that waits, including one that waits for a placeholder to be released."""
    spec, replacement = item.spec, item.replacement
    return schemas.AskInfo(
        allocationKey=spec.key,
        allocationTags=dict(spec.tags),
        requestTime=spec.created_ns,
        resource=amounts(spec.resources),
        pendingCount=item.left,
        priority=str(spec.priority),
        requiredNodeId=spec.required_node or spec.constraints.node_name,
        applicationId=app.name,
        partition=partition_name(spec.partition),
        placeholder=spec.placeholder,
        placeholderTimeout=spec.timeout_ns if spec.placeholder else 0,
        taskGroupName=spec.group,
        allocationLog=_reasons(partition, app, item, now_ns),
        triggeredPreemption=item.triggered,
        originator=spec.originator,
        schedulingAttempted=item.reported_kind is not None,
        triggeredScaleUp=item.reported_kind in (ReasonKind.NODES, ReasonKind.CLUSTER)
        and not partition.node_demand.is_refused(app, item),
        is_virtual=spec.is_virtual or None,
        replaces=None
        if replacement is None
        else schemas.ReplacementInfo(allocationID=replacement.placeholder, nodeId=replacement.node),
    )


def allocation(item: Allocation, partition: Partition) -> schemas.AllocationInfo:
    """Returns one allocation of an application."""
    spec = item.spec
    app = partition.applications.get(spec.application)
    return schemas.AllocationInfo(
        allocationKey=spec.key,
        allocationID=item.id,
        allocationTags=dict(spec.tags),
        requestTime=spec.created_ns,
        allocationTime=item.allocated_ns,
        allocationDelay=max(item.allocated_ns - spec.created_ns, 0) if spec.created_ns else 0,
        resource=amounts(spec.resources),
        priority=str(spec.priority),
        nodeId=item.node,
        applicationId=app.name if app is not None else spec.application,
        partition=partition_name(partition.id),
        placeholder=spec.placeholder,
        placeholderUsed=item.replaced_placeholder,
        taskGroupName=spec.group,
        preempted=item.releasing is Termination.PREEMPTED_BY_SCHEDULER,
        originator=spec.originator,
        releasing=None if item.releasing is None else item.releasing.value,
        is_virtual=spec.is_virtual or None,
        utilization=None if item.utilization is None else amounts(item.utilization),
        devices=[str(one) for one in _devices(partition, spec.facts.devices)] or None,
    )


def _devices(partition: Partition, claims: Iterable[PodClaim]) -> Iterator[DeviceId]:
    known = partition.nodes.pods_on_nodes.devices
    for one in claims:
        found = known.allocation(one)
        yield from (result.device for result in found.results) if found is not None else ()


def waiting(leaf: Queue, apps: Iterable[Application | None]) -> Iterator[schemas.Waiting | None]:
    """Yields these waiting applications of a leaf one at a time. None stays in the list."""
    for app in apps:
        yield (
            None
            if app is None
            else schemas.Waiting(
                applicationID=app.name,
                namespace=app.spec.namespace or None,
                applicationState=app.state.value,
                priority=app.shown or 0,
                submissionTime=app.oldest_ns,
                pendingResource=amounts(app.pending),
                usedResource=amounts(app.allocated),
                placeholderResource=amounts(app.gang.allocated),
                blocksOthers=app.id in leaf.blockers,
            )
        )


def in_scheduling_order(leaf: Queue, partition: Partition) -> Iterator[Application | None]:
    """Yields the waiting applications of a leaf in the order of its policy, and None after a number of steps."""
    heap: list[tuple[ordering.SortKey, Application]] = []
    for number, name in enumerate(list(leaf.waiting), 1):
        if number % _STEPS == 0:
            yield None
        if (app := partition.applications.get(name)) is not None:
            heap.append((ordering.application_key(partition, app), app))
    heapq.heapify(heap)
    while heap:
        if len(heap) % _STEPS == 0:
            yield None
        yield heapq.heappop(heap)[1]


def with_state(partition: Partition, state: str) -> list[Application]:
    """Returns the applications that are `active`, `rejected` or `completed`; `completed` includes failed ones."""
    if state == "active":
        return list(partition.applications.values())
    wants_rejected = state == "rejected"
    return [app for app in partition.history if (app.state is ApplicationState.REJECTED) == wants_rejected]


def _groups(app: Application) -> list[schemas.TaskGroupInfo]:
    return [
        schemas.TaskGroupInfo(
            taskGroupName=name,
            count=group.count,
            minResource=amounts(group.resources),
            replaced=group.replaced,
            timedout=group.timed_out,
        )
        for name, group in app.gang.groups.items()
    ]


#: Reason of pods that wait for the reservation of their gang. Its placeholders have a `ReasonKind`.
GANG: Final = "gang"


def _reasons(partition: Partition, app: Application, item: Ask, now_ns: int) -> list[schemas.LogEntry]:
    """Returns the results of preemption attempts and the earlier reasons, each oldest first, and the present reason."""
    log = [
        schemas.LogEntry(message=message, lastOccurrence=at_ns, count=times)
        for message, (times, at_ns) in (item.attempts or {}).items()
    ]
    why = partition.node_demand.refusal(app, item) or app.refusals.get(item.kind)
    if why is not None and item.replacement is None:
        earlier = app.earlier_refusals.get(item.kind, {})
        for times, at_ns, before in earlier.values():
            if before.kind is not why.kind and at_ns >= item.spec.created_ns:
                log.append(_entry(before, at_ns, times))
        log.append(_entry(why, now_ns, 1 + (earlier[why.kind][0] if why.kind in earlier else 0)))
    elif why is None and app.is_reserving and not item.spec.placeholder:
        message = messages.held_back_by_gang(reason_of_gang(app))
        log.append(schemas.LogEntry(message=message, lastOccurrence=now_ns, count=1, reason=GANG))
    return log


def _entry(why: UnschedulableReason, at_ns: int, times: int) -> schemas.LogEntry:
    return schemas.LogEntry(
        message=why.text(), lastOccurrence=at_ns, count=times, reason=why.kind.value, reasons=dict(why.counts) or None
    )


def reason_of_gang(app: Application) -> str:
    """Returns why the reservation of a gang is incomplete."""
    if never := app.gang.impossible or app.gang.members_missing:
        return never
    if not app.placeholder_asks:
        return messages.members_not_requested()
    return next((why.text() for kind, why in app.refusals.items() if kind.placeholder), messages.not_evaluated())


def _history(app: Application) -> schemas.ResourceHistory:
    return schemas.ResourceHistory(
        resourceUsage=app.used.seconds(),
        preemptedResource=app.preempted.seconds(),
        placeholderResource=app.placeholder_consumption.seconds(),
    )


def queue(item: Queue, partition: Partition) -> schemas.QueueInfo:
    """Returns one queue without its children."""
    policies = item.policies
    bound = _max(item, partition)
    return schemas.QueueInfo(
        queuename=item.path,
        status=item.state.value,
        partition=partition_name(partition.id),
        pendingResource=amounts(partition.shown_pending(item)),
        maxResource=amounts(bound),
        guaranteedResource=amounts(item.guaranteed),
        allocatedResource=amounts(item.allocated),
        preemptingResource=amounts(item.preempting),
        headroom=amounts(headroom(item, partition)),
        isLeaf=item.is_leaf,
        isManaged=item.managed,
        properties=dict(item.properties),
        origins={key: origin for key in item.origins if (origin := item.set_elsewhere(key))},
        parent=item.parent.path if item.parent else "",
        template=None if item.template is None or item.is_leaf else _template(item.template),
        childNames=[child.path for child in item.children.values()],
        absUsedCapacity=percents(item.allocated, bound),
        maxRunningApps=item.max_applications,
        runningApps=item.running,
        currentPriority=ordering.LOWEST_PRIORITY if item.shown is None else item.shown,
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
        reservedQuota=amounts(partition.shown_reserved(item)),
        children=[],
    )


def tree(item: Queue, partition: Partition) -> Iterator[bytes]:
    """Yields the JSON of a queue with its subtree. The recovery queue is omitted, as in YuniKorn."""
    children = [child for child in item.children.values() if not child.is_recovery]
    yield from _with_children(queue(item, partition), (tree(child, partition) for child in children))


def _with_children(parent: schemas.QueueInfo | schemas.UsageTree, children: Iterable[Pieces]) -> Pieces:
    """Yields the JSON of a parent whose `children`, the last field, is empty, with these children."""
    yield encode(parent).removesuffix(b"[]}")
    yield from array(children)
    yield b"}"


def headroom(item: Queue, partition: Partition) -> Limit:
    """Returns the minimum of what is left of the maximums from the queue to root. The maximum of root is the cluster
    size.
    """
    left = _max(item, partition).room(item.allocated)
    for above in item.path_up:
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


#: Yields nothing, where other work may run, and returns the result.
Steps = Generator[bytes, None, T]


@dataclass(slots=True)
class _QueueUsage:
    """Usage of one queue by one user or group, and the queues below it that have a usage."""

    used: Resources = NOTHING
    running: list[str] = field(default_factory=list)
    below: dict[str, Queue] = field(default_factory=dict)


def by_user(partition: Partition) -> Steps[dict[str, list[Application]]]:
    """Live applications by user, sorted by user name."""
    return _by_name(partition, lambda app: app.spec.user)


def by_group(partition: Partition) -> Steps[dict[str, list[Application]]]:
    """Live applications by group that has a limit, sorted by group name."""
    return _by_name(partition, partition.users.group_of)


def _by_name(partition: Partition, name_of: Callable[[Application], str]) -> Steps[dict[str, list[Application]]]:
    found: dict[str, list[Application]] = {}
    for number, app in enumerate(list(partition.applications.values()), 1):
        if number % _STEPS == 0:
            yield b""
        if name := name_of(app):
            found.setdefault(name, []).append(app)
    return dict(sorted(found.items()))


_NO_USAGE: Final = schemas.UsageTree(
    queuePath="", resourceUsage={}, runningApplications=[], maxApplications=0, children=[]
)


def user(partition: Partition, name: str, apps: list[Application]) -> Pieces:
    """Yields the JSON of the usage of one user. Each queue is a part."""
    groups: dict[str, str] = {}
    for number, app in enumerate(apps, 1):
        if number % _STEPS == 0:
            yield b""
        if group := partition.users.group_of(app):
            groups[app.name] = group
    head = schemas.UserUsage(userName=name, groups=groups, queues=_NO_USAGE)
    yield encode(head).removesuffix(encode(_NO_USAGE) + b"}")
    yield from _usage(apps, name, is_group=False)
    yield b"}"


def group(name: str, apps: list[Application]) -> Pieces:
    """Yields the JSON of the usage of the applications of one group. Each queue is a part."""
    head = schemas.GroupUsage(groupName=name, applications=[app.name for app in apps], queues=_NO_USAGE)
    yield encode(head).removesuffix(encode(_NO_USAGE) + b"}")
    yield from _usage(apps, name, is_group=True)
    yield b"}"


def _usage(apps: list[Application], name: str, *, is_group: bool) -> Pieces:
    parts: dict[str, _QueueUsage] = {}
    top: Queue | None = None
    for number, app in enumerate(apps, 1):
        if number % _STEPS == 0:
            yield b""
        used = app.allocated + app.gang.allocated
        under: Queue | None = None
        for queue in app.queue.path_up:
            part = parts.setdefault(queue.path, _QueueUsage())
            part.used += used
            if app.counted:
                part.running.append(app.name)
            if under is not None:
                part.below[under.path] = under
            top = under = queue

    def branch(queue: Queue) -> Pieces:
        part, limit = parts[queue.path], _limit(queue, name, is_group=is_group)
        head = schemas.UsageTree(
            queuePath=queue.path,
            resourceUsage=amounts(part.used),
            runningApplications=part.running,
            maxResources=amounts(limit.max) if limit else None,
            maxApplications=limit.max_applications if limit else 0,
            children=[],
        )
        yield from _with_children(head, (branch(child) for child in part.below.values()))

    yield from [encode(_NO_USAGE)] if top is None else branch(top)


def _limit(queue: Queue, name: str, *, is_group: bool) -> QuotaLimit | None:
    """Returns the limit with this name, or else the wildcard limit."""
    for wanted in (name, _EVERYBODY):
        for limit in queue.limits:
            if wanted in (limit.groups if is_group else limit.users):
                return limit
    return None


#: Parameter name of the value of a placement rule, as in YuniKorn.
_VALUE_NAMES: Final = {"fixed": "queue", "tag": "tagName"}
_VERSION: Final = installed_version("muster-scheduler")
_BUILD: Final = frozenset(schemas.Build.model_fields) - {"rmId"}


def cluster(partition: Partition, sessions: Iterable[Session], started_ns: int) -> schemas.ClusterInfo:
    """Returns the cluster information of one partition."""
    own = [session for session in sessions if session.rm == partition.rm]
    loaded = next((session.loaded for session in own), None)
    return schemas.ClusterInfo(
        startTime=started_ns,
        rmBuildInformation=list(map(_build, own)),
        partition=partition_name(partition.id),
        clusterName="kubernetes",
        coreVersion=_VERSION,
        configChecksum=loaded.configuration.checksum if loaded and not loaded.is_default else None,
        rejectedConfiguration=(loaded.extra.get(keys.EXTRA_REJECTED, "").splitlines() or None) if loaded else None,
    )


def partition(item: Partition) -> Iterator[schemas.PartitionInfo | None]:
    """Yields the totals of one partition, and None before."""
    states, containers = Counter[str](), 0
    for number, app in enumerate([*item.applications.values(), *item.history], 1):
        if number % _STEPS == 0:
            yield None
        states[app.state.value] += 1
        containers += len(app.allocations)
    capacity, used = item.nodes.capacity_total, item.queues.root.allocated
    yield schemas.PartitionInfo(
        clusterId=item.rm,
        name=partition_name(item.id),
        state=item.queues.root.state.value,
        lastStateTransitionTime=item.since_ns,
        capacity=schemas.Capacity(
            capacity=amounts(capacity), usedCapacity=amounts(used), utilization=percents(used, capacity)
        ),
        nodeSortingPolicy=schemas.NodeSorting(
            type=item.config.node_sort.order.value, resourceWeights=dict(item.config.node_sort.weights)
        ),
        applications={**states, "total": states.total()},
        totalContainers=containers,
        totalNodes=len(item.nodes),
        preemptionEnabled=item.config.preemption,
        quotaPreemptionEnabled=item.config.quota_preemption,
    )


def rules(item: Partition) -> Iterator[schemas.RuleInfo]:
    """Yields the active placement rules in their order. The recovery rule always exists and is last."""
    for rule in item.config.rules or (PlacementRule("provided"),):
        yield _rule(rule)
    yield schemas.RuleInfo(name="recovery", parameters={"queue": RECOVERY})


def _rule(rule: PlacementRule) -> schemas.RuleInfo:
    parameters = {"create": "true" if rule.create else "false"}
    if rule.name in _VALUE_NAMES:
        parameters[_VALUE_NAMES[rule.name]] = rule.value
    return schemas.RuleInfo(
        name=rule.name,
        parameters=parameters,
        filter=None if rule.filter is None else _filter(rule.filter),
        parentRule=None if rule.parent is None else _rule(rule.parent),
    )


def _filter(found: RuleFilter) -> schemas.RuleFilterInfo:
    return schemas.RuleFilterInfo(
        type="allow" if found.allow else "deny",
        userList=sorted(found.users),
        groupList=sorted(found.groups),
        userExp=found.user_expression,
        groupExp=found.group_expression,
    )


def _build(session: Session) -> schemas.Build:
    fields = {name: value for name, value in session.build_info.items() if name in _BUILD}
    return schemas.Build(rmId=session.rm, **fields)


_BUCKETS: Final = 10

#: Node attributes that YuniKorn names differently than the Scheduler Interface.
_ATTRIBUTES: Final = {keys.HOST_NAME: "si.io/hostname", keys.RACK_NAME: "si.io/rackname"}


def node(partition: Partition, name: NodeId, *, keys_only: bool = False) -> schemas.NodeInfo:
    """Returns one node. `keys_only`: list allocations by key, because a dump has them elsewhere."""
    record = partition.nodes.record(name)
    reservations = partition.reservations.on(name)
    held = [f"{_name(partition, reservation.application)}|{reservation.key}" for reservation in reservations]
    spec, (capacity, taken) = record.spec, with_devices(partition, name)
    placed = partition.placed.get(name, {}).values()
    return schemas.NodeInfo(
        nodeID=name,
        hostName=spec.attributes.get(keys.HOST_NAME, ""),
        rackName=spec.attributes.get(keys.RACK_NAME, ""),
        attributes=attributes(partition, spec),
        capacity=amounts(capacity),
        allocated=amounts(taken),
        occupied=amounts(spec.occupied + record.foreign),
        available=dict.fromkeys(capacity, 0) | amounts(capacity - taken - spec.occupied - record.foreign),
        utilized=percents(taken, capacity),
        allocations=[item.spec.key if keys_only else allocation(item, partition) for item in placed],
        foreignAllocations=[] if keys_only else [foreign(partition.foreign[item]) for item in record.foreign_pods],
        schedulable=record.state is NodeState.SCHEDULABLE,
        isReserved=bool(held),
        reservations=held,
        state=record.state.value,
        utilization=None if record.utilization is None else amounts(record.utilization),
    )


def with_devices(partition: Partition, name: NodeId) -> tuple[Resources, Resources]:
    """Returns the capacity of a node and what is allocated of it, with the devices in its slices by class."""
    devices, used = on_node(partition.nodes, name)
    return partition.nodes.record(name).spec.capacity + devices, partition.nodes.allocated(name) + used


def attributes(partition: Partition, spec: NodeSpec) -> dict[str, str]:
    """Returns labels and attributes of a node with the names of YuniKorn."""
    named = {_ATTRIBUTES.get(name, name): text for name, text in spec.attributes.items()}
    own = {name: text for name, text in named.items() if not name.startswith(keys.NODE_LABEL_PREFIX)}
    return {keys.INSTANCE_TYPE: "", **spec.labels, **own, keys.NODE_PARTITION: partition.id}


def _name(partition: Partition, application: ApplicationId) -> str:
    app = partition.applications.get(application)
    return application if app is None else app.name


def all_nodes(partition: Partition, choose: Callable[[list[NodeId]], Iterable[NodeId]]) -> Iterator[schemas.NodeInfo]:
    """Yields the selected nodes one at a time."""
    for name in choose(list(partition.nodes)):
        if name in partition.nodes:
            yield node(partition, name)


def foreign(item: AllocationSpec) -> schemas.ForeignAllocation:
    """Returns an allocation of another scheduler on a node."""
    return schemas.ForeignAllocation(
        allocationKey=item.key,
        allocationTags=dict(item.tags),
        allocationTime=item.allocated_ns,
        resource=amounts(item.resources),
        priority=str(item.priority),
        nodeId=item.node,
        preemptable=item.allow_preempt_self,
    )


def by_use(partition: Partition) -> Iterator[schemas.ClusterUtilization | None]:
    """Yields None after each node, and finally the nodes of the partition by usage in steps of 10 %, per resource.

    The caller may run other work after each None.
    """
    found: dict[str, list[list[str]]] = {}
    for name in list(partition.nodes):
        yield None
        if name not in partition.nodes:
            continue
        capacity, used = partition.nodes.record(name).spec.capacity, partition.nodes.allocated(name)
        for resource, amount in capacity.items():
            if amount > 0:
                tenths = found.setdefault(resource, [[] for _ in range(_BUCKETS)])
                # As in YuniKorn, 10 % belongs to the first step and not to the second.
                tenth = -(-used[resource] * _BUCKETS // amount) - 1
                tenths[min(max(tenth, 0), _BUCKETS - 1)].append(name)
    yield schemas.ClusterUtilization(
        clusterId=partition.rm,
        partition=partition_name(partition.id),
        utilizations=[
            schemas.ResourceBuckets(
                type=resource,
                utilization=[
                    schemas.Bucket(bucketName=f"{10 * at}-{10 * at + 10}%", numOfNodes=len(names), nodeNames=names)
                    for at, names in enumerate(tenths)
                ],
            )
            for resource, tenths in sorted(found.items())
        ],
    )


def outstanding(partition: Partition) -> Iterator[schemas.OutstandingInfo | None]:
    """Yields the pending requests that more nodes could help, one per resources and instance type, and None before."""
    for found in autoscaling.outstanding_in_steps(partition):
        yield None
        for item in found or ():
            yield schemas.OutstandingInfo(
                id=item.id,
                partition=partition_name(item.partition),
                resource=amounts(item.resources),
                instanceType=item.instance,
                count=item.count,
                applications=item.applications,
            )
