"""Clusters, partitions and their placement rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version as installed_version
from typing import Final

from muster_core.edge.rest.shapes import clusters as shapes
from muster_core.edge.rest.views.amounts import amounts, percents
from muster_core.edge.session import Session
from muster_core.edge.si_encode import partition_name
from muster_core.model.config import PlacementRule, RuleFilter
from muster_core.model.ids import RECOVERY
from muster_core.world.world import Partition

#: Of a rule's value, by the rule's name (contract 4.1).
_VALUE_NAMES: Final = {"fixed": "queue", "tag": "tagName"}
_VERSION: Final = installed_version("muster-scheduler")
_BUILD: Final = frozenset(shapes.Build.model_fields) - {"rmId"}


def cluster(partition: Partition, sessions: Iterable[Session], started_ns: int) -> shapes.Cluster:
    """One partition's place in the whole."""
    return shapes.Cluster(
        startTime=started_ns,
        rmBuildInformation=[_build(session) for session in sessions if session.rm == partition.rm],
        partition=partition_name(partition.id),
        clusterName="kubernetes",
        coreVersion=_VERSION,
    )


def partition(item: Partition) -> shapes.Partition:
    """One partition in numbers."""
    states = Counter(app.state.value for app in (*item.applications.values(), *item.history))
    capacity, used = item.nodes.capacity_total, item.queues.root.allocated
    return shapes.Partition(
        clusterId=item.rm,
        name=partition_name(item.id),
        state=item.queues.root.state.value,
        lastStateTransitionTime=item.since_ns,
        capacity=shapes.Capacity(
            capacity=amounts(capacity), usedCapacity=amounts(used), utilization=percents(used, capacity)
        ),
        nodeSortingPolicy=shapes.NodeSorting(
            type=item.config.node_sort.order.value, resourceWeights=dict(item.config.node_sort.weights)
        ),
        applications={**states, "total": states.total()},
        totalContainers=containers(item),
        totalNodes=len(item.nodes),
        preemptionEnabled=item.config.preemption,
        quotaPreemptionEnabled=item.config.quota_preemption,
    )


def containers(item: Partition) -> int:
    """Allocations of applications, placeholders too."""
    return sum(len(app.allocations) for app in item.applications.values())


def rules(item: Partition) -> Iterator[shapes.Rule]:
    """The rules in force, in their order; the one for recovered applications is always there, and last."""
    for rule in item.config.rules or (PlacementRule("provided"),):
        yield _rule(rule)
    yield shapes.Rule(name="recovery", parameters={"queue": RECOVERY})


def _rule(rule: PlacementRule) -> shapes.Rule:
    parameters = {"create": "true" if rule.create else "false"}
    if rule.name in _VALUE_NAMES:
        parameters[_VALUE_NAMES[rule.name]] = rule.value
    return shapes.Rule(
        name=rule.name,
        parameters=parameters,
        filter=None if rule.filter is None else _filter(rule.filter),
        parentRule=None if rule.parent is None else _rule(rule.parent),
    )


def _filter(found: RuleFilter) -> shapes.RuleFilter:
    return shapes.RuleFilter(
        type="allow" if found.allow else "deny",
        userList=sorted(found.users),
        groupList=sorted(found.groups),
        userExp=found.user_expression,
        groupExp=found.group_expression,
    )


def _build(session: Session) -> shapes.Build:
    told = {name: value for name, value in session.build_info.items() if name in _BUILD}
    return shapes.Build(rmId=session.rm, **told)
