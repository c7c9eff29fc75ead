"""JSON objects of the REST interface."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

#: Memory in bytes, vcore in millicores, others as they are counted.
Amounts = dict[str, int]

#: Whole percents by resource name.
Percents = dict[str, int]
Texts = dict[str, str]
TimeNs = Annotated[int, Field(description="nanoseconds since the epoch")]


class Shape(BaseModel):
    """One JSON object of an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def encode(shape: Shape) -> bytes:
    """The JSON; what is None is left out."""
    return shape.__pydantic_serializer__.to_json(shape, exclude_none=True)


class FailureInfo(Shape):
    """The body of every answer that is no (contract 4)."""

    status_code: int
    message: str
    description: str


class LogEntry(Shape):
    """One reason why an ask waits."""

    message: str
    lastOccurrence: TimeNs
    count: int
    lack: str | None = Field(
        None, description="what is missing: quota, user quota, applications, turn, nodes, reserved, cluster"
    )
    reasons: dict[str, int] | None = Field(
        None, description="nodes by the reason why each does not do; -1 = it is of the pod, and of every node"
    )


class ReplacementInfo(Shape):
    """The placeholder whose place an ask gets when it is gone."""

    allocationID: str
    nodeId: str


class AskInfo(Shape):
    """An ask that waits, or is parked behind a placeholder that goes."""

    allocationKey: str
    allocationTags: Texts
    requestTime: TimeNs
    resource: Amounts
    pendingCount: int
    priority: str
    requiredNodeId: str
    applicationId: str
    partition: str
    placeholder: bool
    placeholderTimeout: int = Field(description="nanoseconds; 0 = none of its own")
    taskGroupName: str
    allocationLog: list[LogEntry]
    triggeredPreemption: bool
    originator: bool
    schedulingAttempted: bool
    triggeredScaleUp: bool
    is_virtual: bool | None = Field(None, description="true: the core's own ask, for the places of a Direct gang")
    replaces: ReplacementInfo | None = None


class AllocationInfo(Shape):
    """A place that was given to an application."""

    allocationKey: str
    allocationID: str
    allocationTags: Texts
    requestTime: TimeNs
    allocationTime: TimeNs
    allocationDelay: int = Field(description="nanoseconds between the two")
    resource: Amounts
    priority: str
    nodeId: str
    applicationId: str
    partition: str
    placeholder: bool
    placeholderUsed: bool
    taskGroupName: str
    preempted: bool
    originator: bool
    releasing: str | None = Field(None, description="why it is being released, until the release is confirmed")
    is_virtual: bool | None = Field(None, description="true: a place held for a member to come, with no pod in it")
    utilization: Amounts | None = Field(None, description="what it was last reported to really use")


class StateChange(Shape):
    """One change of state."""

    time: TimeNs
    applicationState: str


class TaskGroupInfo(Shape):
    """What became of a task group's placeholders."""

    taskGroupName: str
    count: int
    minResource: Amounts
    replaced: int
    timedout: int


class ResourceHistory(Shape):
    """Resource x seconds by instance type."""

    resourceUsage: dict[str, Amounts]
    preemptedResource: dict[str, Amounts]
    placeholderResource: dict[str, Amounts]


class Waiting(Shape):
    """An application that waits for something in its leaf, and what decides on its place in the order."""

    applicationID: str
    namespace: str | None = Field(None, description="namespace of its first pod")
    applicationState: str
    priority: int = Field(description="the highest of what it waits for")
    submissionTime: TimeNs
    pendingResource: Amounts
    usedResource: Amounts
    placeholderResource: Amounts = Field(description="of its placeholders")
    blocksOthers: bool = Field(
        description="the first gang in queue order that waits for quota; later applications wait behind it"
    )


class ApplicationInfo(Shape):
    """One application with its asks and allocations."""

    applicationID: str
    namespace: str | None = Field(
        None, description="namespace of its first pod; application IDs are unique per namespace"
    )
    usedResource: Amounts
    maxUsedResource: Amounts
    pendingResource: Amounts
    placeholderResource: Amounts = Field(description="of its placeholders")
    placeholderAsk: Amounts = Field(description="of its gang as a whole")
    reservedQuota: Amounts = Field(description="promised to its gang, not allocated yet")
    partition: str
    queueName: str
    submissionTime: TimeNs
    finishedTime: TimeNs | None = None
    requests: list[AskInfo]
    allocations: list[AllocationInfo]
    applicationState: str
    user: str
    groups: list[str]
    rejectedMessage: str
    stateLog: list[StateChange]
    placeholderData: list[TaskGroupInfo]
    gangSchedulingStyle: str | None = None
    gangPlacement: str | None = Field(None, description="of a gang: Reserve, Atomic or Direct")
    hasReserved: bool
    reservations: list[str]
    maxRequestPriority: int
    startTime: int = Field(description="milliseconds since the epoch, 0 = it did not start")
    resourceHistory: ResourceHistory
    backoffDeadline: TimeNs | None = None


class ForeignAllocation(Shape):
    """What another scheduler runs on a node of ours."""

    allocationKey: str
    allocationTags: Texts
    allocationTime: TimeNs
    resource: Amounts
    priority: str
    nodeId: str
    preemptable: bool


class NodeInfo(Shape):
    """One node. In a dump `allocations` are keys, so that each allocation is said once."""

    nodeID: str
    hostName: str
    rackName: str
    attributes: Texts
    capacity: Amounts
    allocated: Amounts
    occupied: Amounts
    available: Amounts
    utilized: Percents
    allocations: list[AllocationInfo | str]
    foreignAllocations: list[ForeignAllocation]
    schedulable: bool
    isReserved: bool
    reservations: list[str]
    state: str
    utilization: Amounts | None = Field(None, description="what it was last reported to really use")


class OutstandingInfo(Shape):
    """Places of one shape that no node has room for (seed 001, AutoScalingMetrics)."""

    id: str
    partition: str
    resource: Amounts
    instanceType: str = Field(description="the kind of machine asked for; empty = any")
    count: int
    applications: int


class TemplateInfo(Shape):
    """What a leaf made on demand below the queue gets."""

    maxApplications: int
    maxResource: Amounts
    guaranteedResource: Amounts
    properties: Texts


class QueueInfo(Shape):
    """One queue; its `children` where they were asked for, their names always."""

    queuename: str = Field(description="the full path")
    status: str
    partition: str
    pendingResource: Amounts
    maxResource: Amounts
    guaranteedResource: Amounts
    allocatedResource: Amounts
    preemptingResource: Amounts
    headroom: Amounts
    isLeaf: bool
    isManaged: bool
    properties: Texts
    parent: str
    template: TemplateInfo | None = None
    childNames: list[str]
    absUsedCapacity: Percents
    maxRunningApps: int = Field(description="0 = unlimited")
    runningApps: int
    currentPriority: int
    allocatingAcceptedApps: list[str]
    sortingPolicy: str
    prioritySorting: bool
    preemptionEnabled: bool
    isPreemptionFence: bool
    preemptionDelay: str
    quotaPreemptionDelay: str
    isPriorityFence: bool
    priorityOffset: int
    isQuotaPreemptionRunning: bool
    quotaPreemptionStartTime: TimeNs | None = None
    preemptionPausedUntil: TimeNs | None = Field(
        default=None, description="till when it may not take back what another queue took from it in turns"
    )
    unschedAskBackoff: int
    askBackoffDelay: str
    reservedQuota: Amounts = Field(description="promised to gangs below here that are not whole yet")
    children: list[QueueInfo]


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


class ClusterInfo(Shape):
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


class PartitionInfo(Shape):
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


class RuleFilterInfo(Shape):
    """Whom a placement rule is for, or not for."""

    type: str
    userList: list[str]
    groupList: list[str]
    userExp: str
    groupExp: str


class RuleInfo(Shape):
    """One placement rule that is in force."""

    name: str
    parameters: Texts
    filter: RuleFilterInfo | None = None
    parentRule: RuleInfo | None = None


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


class Quantity(Shape):
    """One amount, as protobuf's JSON has it."""

    value: int


class EventResource(Shape):
    """Amounts of an event, as protobuf's JSON has them."""

    resources: dict[str, Quantity]


class Event(Shape):
    """One record (contract 6.1)."""

    type: int
    objectID: str
    referenceID: str | None = None
    message: str | None = None
    timestampNano: TimeNs
    eventChangeType: int
    eventChangeDetail: int | None = None
    resource: EventResource


class EventBatch(Shape):
    """Records of one answer; null where the first one asked for is not kept."""

    InstanceUUID: str
    LowestID: int
    HighestID: int = Field(description="-1 while there was none")
    EventRecords: list[Event] | None


class ApplicationCount(Shape):
    """Applications that ran at a minute."""

    timestamp: TimeNs
    totalApplications: str


class ContainerCount(Shape):
    """Allocations there were at a minute."""

    timestamp: TimeNs
    totalContainers: str


class HealthCheck(Shape):
    """One check and what it found."""

    Name: str
    Succeeded: bool
    Description: str
    DiagnosisMessage: str


class Health(Shape):
    """The last result of the checks in the background."""

    Healthy: bool
    HealthChecks: list[HealthCheck]


class Config(Shape):
    """The configuration in force, with the names of its file written as YuniKorn's JSON has them."""

    Partitions: list[dict[str, object]]
    Checksum: str
    Extra: Texts = Field(description="the settings that are not in the files")
    DeadlockDetectionEnabled: bool
    DeadlockTimeoutSeconds: int


class ValidationInfo(Shape):
    """Whether a configuration may be put in force."""

    allowed: bool
    reason: str | None = None
    checksum: str | None = None
    checksumMatch: bool | None = None


class LogLevelInfo(Shape):
    """From what on the log is written."""

    level: str = Field(description="debug, info, warning or error")


class UsageTree(Shape):
    """One queue's part of somebody's usage, and the queues below it."""

    queuePath: str
    resourceUsage: Amounts
    runningApplications: list[str]
    maxResources: Amounts | None = None
    maxApplications: int = Field(description="0 = unlimited")
    children: list[UsageTree]


class UserUsage(Shape):
    """What one user uses."""

    userName: str
    groups: Texts = Field(description="application -> the group whose limit it counts against")
    queues: UsageTree


class GroupUsage(Shape):
    """What the applications of one group use."""

    groupName: str
    applications: list[str]
    queues: UsageTree
