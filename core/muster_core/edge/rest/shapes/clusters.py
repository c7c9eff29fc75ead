"""Cluster, Partition, placement rule, utilization of nodes (contract 4.1)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.base import Amounts, Percents, Shape, Texts, TimeNs


class Build(Shape):
    """What a resource manager said of itself when it registered; a name it did not give is left out."""

    rmId: str
    arch: str | None = None
    buildDate: str | None = None
    buildVersion: str | None = None
    coreSHA: str | None = None
    goVersion: str | None = None
    isPluginVersion: str | None = None
    shimSHA: str | None = None
    siSHA: str | None = None


class Cluster(Shape):
    """One partition's place in the whole."""

    startTime: TimeNs
    rmBuildInformation: list[Build]
    partition: str
    clusterName: str = Field(description="always `kubernetes`")
    coreVersion: str = Field(description="of the scheduler core that answers")


class Capacity(Shape):
    """What the nodes of a partition have, and how much of it is used."""

    capacity: Amounts
    usedCapacity: Amounts
    utilization: Percents


class NodeSorting(Shape):
    """How nodes are ordered for placement."""

    type: str
    resourceWeights: dict[str, float]


class Partition(Shape):
    """One partition in numbers."""

    clusterId: str
    name: str
    state: str
    lastStateTransitionTime: TimeNs
    capacity: Capacity
    nodeSortingPolicy: NodeSorting
    applications: dict[str, int] = Field(description="by state, ended ones that are still kept included, and `total`")
    totalContainers: int
    totalNodes: int
    preemptionEnabled: bool
    quotaPreemptionEnabled: bool


class RuleFilter(Shape):
    """Whom a placement rule is for, or not for."""

    type: str
    userList: list[str]
    groupList: list[str]
    userExp: str
    groupExp: str


class Rule(Shape):
    """One placement rule that is in force."""

    name: str
    parameters: Texts
    filter: RuleFilter | None = None
    parentRule: Rule | None = None


class Bucket(Shape):
    """Nodes whose use of one resource lies in one tenth."""

    bucketName: str
    numOfNodes: int
    nodeNames: list[str]


class ResourceBuckets(Shape):
    """All nodes by their use of one resource."""

    type: str
    utilization: list[Bucket]


class ClusterUtilization(Shape):
    """All nodes of a partition by their use of each resource."""

    clusterId: str
    partition: str
    utilizations: list[ResourceBuckets]
