"""How applications, asks, allocations, nodes, queues and partitions look to people: plain JSON values.

Shapes and names of contract 4.1, as far as the core knows the fact. Pure:
reads the world, changes nothing; called by dump.py and REST, one thing at a
time, so that no call is long. Times are nanoseconds since the epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from muster_core.edge.si_encode import partition_name
from muster_core.model.ids import ROOT, NodeId
from muster_core.model.resources import Limit, Resources
from muster_core.model.specs import AllocationSpec
from muster_core.model.states import NodeState
from muster_core.world.applications import Allocation, Application, Ask
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]

_PERCENT: Final = 100


def amounts(found: Resources | Limit) -> dict[str, Json]:
    """Amounts or bounds by name."""
    return dict(sorted(found.items()))


def texts(found: Mapping[str, str]) -> dict[str, Json]:
    """Tags, attributes, properties."""
    return dict(found)


def application(app: Application) -> dict[str, Json]:
    """One application with its asks and allocations."""
    spec, gang = app.spec, app.gang
    groups: list[Json] = [
        {
            "taskGroupName": name,
            "count": group.count,
            "minResource": amounts(group.resources),
            "replaced": group.replaced,
            "timedout": group.timed_out,
        }
        for name, group in gang.groups.items()
    ]
    return {
        "applicationID": app.id,
        "usedResource": amounts(app.allocated),
        "placeholderResource": amounts(gang.allocated),
        "placeholderAsk": amounts(spec.placeholder_ask),
        "pledgedResource": amounts(gang.pledge),
        "pendingResource": amounts(app.pending),
        "partition": partition_name(spec.partition),
        "queueName": app.queue.path,
        "submissionTime": app.submitted_ns,
        "requests": [ask(item) for item in app.asks.values()],
        "allocations": [allocation(item) for item in app.allocations.values()],
        "applicationState": app.state.value,
        "user": spec.user,
        "groups": list(spec.groups),
        "stateLog": [{"time": at, "applicationState": state.value} for at, state in app.state_log],
        "placeholderData": groups,
        "gangSchedulingStyle": spec.style.value if spec.is_gang else None,
    }


def ask(item: Ask) -> dict[str, Json]:
    """One ask that waits, or is parked behind a placeholder that goes."""
    spec, swap = item.spec, item.swap
    return {
        "allocationKey": spec.key,
        "allocationTags": texts(spec.tags),
        "requestTime": spec.created_ns,
        "resource": amounts(spec.resources),
        "pendingCount": item.left,
        "priority": str(spec.priority),
        "requiredNodeId": spec.constraints.node_name,
        "applicationId": spec.application,
        "placeholder": spec.placeholder,
        "taskGroupName": spec.group,
        "originator": spec.originator,
        "replaces": None if swap is None else {"allocationID": swap.placeholder, "nodeId": swap.node},
    }


def allocation(item: Allocation) -> dict[str, Json]:
    """One allocation of an application."""
    spec = item.spec
    return {
        "allocationKey": spec.key,
        "allocationID": item.id,
        "allocationTags": texts(spec.tags),
        "requestTime": spec.created_ns,
        "allocationTime": item.allocated_ns,
        "resource": amounts(spec.resources),
        "priority": str(spec.priority),
        "nodeId": item.node,
        "applicationId": spec.application,
        "placeholder": spec.placeholder,
        "placeholderUsed": item.replaced_placeholder,
        "taskGroupName": spec.group,
        "originator": spec.originator,
        "releasing": None if item.releasing is None else item.releasing.value,
    }


def foreign(item: AllocationSpec) -> dict[str, Json]:
    """What another scheduler runs on a node of ours."""
    return {
        "allocationKey": item.key,
        "allocationTags": texts(item.tags),
        "allocationTime": item.allocated_ns,
        "resource": amounts(item.resources),
        "priority": str(item.priority),
        "nodeId": item.node,
        "preemptable": item.allow_preempt_self,
    }


def node(partition: Partition, name: NodeId) -> dict[str, Json]:
    """One node; `allocations` are keys, so that a dump says each allocation once."""
    record = partition.nodes.record(name)
    spec, available, taken = record.spec, partition.nodes.available(name), partition.nodes.allocated(name)
    return {
        "nodeID": name,
        "attributes": texts(spec.attributes),
        "capacity": amounts(spec.capacity),
        "allocated": amounts(taken),
        "occupied": amounts(spec.occupied + record.foreign),
        "available": amounts(available),
        "utilized": {
            resource: taken[resource] * _PERCENT // amount for resource, amount in spec.capacity.items() if amount > 0
        },
        "allocations": [item.spec.key for item in partition.placed.get(name, {}).values()],
        "schedulable": record.state is NodeState.SCHEDULABLE,
        "state": record.state.value,
    }


def queue(item: Queue, partition: Partition) -> dict[str, Json]:
    """One queue with all below it. Depth is bounded by the length of a queue's path."""
    return {
        "queuename": item.path,
        "status": item.state.value,
        "partition": partition_name(partition.id),
        "pendingResource": amounts(item.pending),
        "maxResource": amounts(item.max if item.path != ROOT else Limit(dict(partition.nodes.capacity_total.items()))),
        "guaranteedResource": amounts(item.guaranteed),
        "allocatedResource": amounts(item.allocated),
        "pledgedResource": amounts(item.pledged + item.awaited),
        "isLeaf": item.is_leaf,
        "isManaged": item.managed,
        "parent": item.parent.path if item.parent else "",
        "sortingPolicy": item.policies.order.value if item.is_leaf else None,
        "maxRunningApps": item.max_applications,
        "applications": list(item.applications),
        "children": [queue(child, partition) for child in item.children.values()],
    }


def partition(item: Partition) -> dict[str, Json]:
    """One partition in numbers."""
    states = Counter(app.state.value for app in (*item.applications.values(), *item.history))
    capacity, used = item.nodes.capacity_total, item.queues.root.allocated
    return {
        "clusterId": item.rm,
        "name": partition_name(item.id),
        "state": "Active",
        "capacity": {
            "capacity": amounts(capacity),
            "usedCapacity": amounts(used),
            "utilization": {name: used[name] * _PERCENT // amount for name, amount in capacity.items() if amount > 0},
        },
        "nodeSortingPolicy": {
            "type": item.config.node_sort.order.value,
            "resourceWeights": dict(item.config.node_sort.weights),
        },
        "applications": {**states, "total": states.total()},
        "totalContainers": sum(len(app.allocations) for app in item.applications.values()),
        "totalNodes": len(item.nodes),
    }
