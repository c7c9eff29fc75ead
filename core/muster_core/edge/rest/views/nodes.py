"""Nodes, what runs on them, and how they are spread by use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from muster_core.edge.rest.shapes import clusters, nodes
from muster_core.edge.rest.views.amounts import amounts, percents
from muster_core.edge.rest.views.applications import allocation
from muster_core.edge.si_encode import partition_name
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.specs import AllocationSpec
from muster_core.model.states import NodeState
from muster_core.plan import autoscaling
from muster_core.world.world import Partition
from muster_si import keys

_BUCKETS: Final = 10


def node(partition: Partition, name: NodeId, *, keys_only: bool = False) -> nodes.Node:
    """One node; `keys_only`: what runs on it by its key, for it is said elsewhere."""
    record = partition.nodes.record(name)
    holds = partition.reservations.on(name)
    held = [f"{_name(partition, hold.application)}|{hold.key}" for hold in holds]
    spec, taken = record.spec, partition.nodes.allocated(name)
    placed = partition.placed.get(name, {}).values()
    return nodes.Node(
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
        foreignAllocations=[] if keys_only else [foreign(partition.foreign[item]) for item in record.foreigners],
        schedulable=record.state is NodeState.SCHEDULABLE,
        isReserved=bool(held),
        reservations=held,
        state=record.state.value,
        utilization=None if record.utilization is None else amounts(record.utilization),
    )


def _name(partition: Partition, application: ApplicationId) -> str:
    app = partition.applications.get(application)
    return application if app is None else app.name


def all_nodes(partition: Partition, choose: Callable[[list[NodeId]], Iterable[NodeId]]) -> Iterator[nodes.Node]:
    """The chosen ones, one at a time."""
    for name in choose(list(partition.nodes)):
        if name in partition.nodes:
            yield node(partition, name)


def foreign(item: AllocationSpec) -> nodes.ForeignAllocation:
    """What another scheduler runs on a node of ours."""
    return nodes.ForeignAllocation(
        allocationKey=item.key,
        allocationTags=dict(item.tags),
        allocationTime=item.allocated_ns,
        resource=amounts(item.resources),
        priority=str(item.priority),
        nodeId=item.node,
        preemptable=item.allow_preempt_self,
    )


def by_use(partition: Partition) -> Iterator[clusters.ClusterUtilization | None]:
    """None after each node, so that others may run; at last the nodes of a partition in tenths of use,
    for every resource that any of them has.
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
                # As YuniKorn counts: 10 % is the end of the first tenth, not the beginning of the second.
                tenth = -(-used[resource] * _BUCKETS // amount) - 1
                tenths[min(max(tenth, 0), _BUCKETS - 1)].append(name)
    yield clusters.ClusterUtilization(
        clusterId=partition.rm,
        partition=partition_name(partition.id),
        utilizations=[
            clusters.ResourceBuckets(
                type=resource,
                utilization=[
                    clusters.Bucket(bucketName=f"{10 * at}-{10 * at + 10}%", numOfNodes=len(names), nodeNames=names)
                    for at, names in enumerate(tenths)
                ],
            )
            for resource, tenths in sorted(found.items())
        ],
    )


def outstanding(partition: Partition) -> Iterator[nodes.Outstanding]:
    """What an autoscaler may help with, one shape at a time."""
    for item in autoscaling.outstanding(partition):
        yield nodes.Outstanding(
            id=item.id,
            partition=partition_name(item.partition),
            resource=amounts(item.resources),
            instanceType=item.instance,
            count=item.count,
            applications=item.applications,
        )
