"""Views of clusters, partitions and nodes as JSON objects of the REST interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version as installed_version
from typing import Final

from muster_core.model.config import PlacementRule, RuleFilter
from muster_core.model.ids import RECOVERY, ApplicationId, NodeId, partition_name
from muster_core.model.specs import AllocationSpec
from muster_core.model.states import NodeState
from muster_core.placement import autoscaling
from muster_core.rest import schemas
from muster_core.rest.application_views import allocation, amounts, percents
from muster_core.runtime.sessions import Session
from muster_core.state.scheduler_state import Partition
from muster_si import keys

#: Parameter name of the value of a placement rule, as in YuniKorn.
_VALUE_NAMES: Final = {"fixed": "queue", "tag": "tagName"}
_VERSION: Final = installed_version("muster-scheduler")
_BUILD: Final = frozenset(schemas.Build.model_fields) - {"rmId"}


def cluster(partition: Partition, sessions: Iterable[Session], started_ns: int) -> schemas.ClusterInfo:
    """Returns the cluster information of one partition."""
    return schemas.ClusterInfo(
        startTime=started_ns,
        rmBuildInformation=[_build(session) for session in sessions if session.rm == partition.rm],
        partition=partition_name(partition.id),
        clusterName="kubernetes",
        coreVersion=_VERSION,
    )


def partition(item: Partition) -> schemas.PartitionInfo:
    """Returns the totals of one partition."""
    states = Counter(app.state.value for app in (*item.applications.values(), *item.history))
    capacity, used = item.nodes.capacity_total, item.queues.root.allocated
    return schemas.PartitionInfo(
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
        totalContainers=containers(item),
        totalNodes=len(item.nodes),
        preemptionEnabled=item.config.preemption,
        quotaPreemptionEnabled=item.config.quota_preemption,
    )


def containers(item: Partition) -> int:
    """Number of allocations of applications, including placeholders."""
    return sum(len(app.allocations) for app in item.applications.values())


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
    told = {name: value for name, value in session.build_info.items() if name in _BUILD}
    return schemas.Build(rmId=session.rm, **told)


_BUCKETS: Final = 10


def node(partition: Partition, name: NodeId, *, keys_only: bool = False) -> schemas.NodeInfo:
    """Returns one node. `keys_only`: list allocations by key, because a dump has them elsewhere."""
    record = partition.nodes.record(name)
    holds = partition.reservations.on(name)
    held = [f"{_name(partition, hold.application)}|{hold.key}" for hold in holds]
    spec, taken = record.spec, partition.nodes.allocated(name)
    placed = partition.placed.get(name, {}).values()
    return schemas.NodeInfo(
        nodeID=name,
        hostName=spec.attributes.get(keys.HOST_NAME, ""),
        rackName=spec.attributes.get(keys.RACK_NAME, ""),
        attributes=dict(spec.attributes),
        capacity=amounts(spec.capacity),
        allocated=amounts(taken),
        occupied=amounts(spec.occupied + record.foreign),
        available=amounts(partition.nodes.available(name)),
        utilized=percents(taken, spec.capacity),
        allocations=[item.spec.key if keys_only else allocation(item, partition) for item in placed],
        foreignAllocations=[] if keys_only else [foreign(partition.foreign[item]) for item in record.foreign_pods],
        schedulable=record.state is NodeState.SCHEDULABLE,
        isReserved=bool(held),
        reservations=held,
        state=record.state.value,
        utilization=None if record.utilization is None else amounts(record.utilization),
    )


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
    """Yields None after each node, and at last the nodes of the partition by usage in steps of 10 %, per resource.

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


def outstanding(partition: Partition) -> Iterator[schemas.OutstandingInfo]:
    """Yields the pending requests that more nodes could help, one per resources and instance type."""
    for item in autoscaling.outstanding(partition):
        yield schemas.OutstandingInfo(
            id=item.id,
            partition=partition_name(item.partition),
            resource=amounts(item.resources),
            instanceType=item.instance,
            count=item.count,
            applications=item.applications,
        )
