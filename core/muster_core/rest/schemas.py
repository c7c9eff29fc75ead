"""JSON objects of the REST interface. The OpenAPI document contains these classes and their docstrings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

#: Memory in bytes, vcore in millicores, other resources as numbers.
Amounts = dict[str, int]

#: Integer percentages by resource name.
Percents = dict[str, int]
Texts = dict[str, str]
TimeNs = Annotated[int, Field(description="nanoseconds since the epoch")]


class Shape(BaseModel):
    """Base class of all JSON objects in responses. A class is built at its first use, not when the core starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def encode(shape: Shape) -> bytes:
    """Returns the JSON. Fields that are None are omitted."""
    return shape.__pydantic_serializer__.to_json(shape, exclude_none=True)


class FailureInfo(Shape):
    """Body of every response that reports a failure."""

    status_code: int
    message: str
    description: str


class LogEntry(Shape):
    """A reason why a request waits."""

    message: str
    lastOccurrence: TimeNs
    count: int
    reason: str | None = Field(
        None,
        description="what is missing: quota, user quota, applications, queue order, admission, nodes, reserved, "
        "cluster, or gang (the reservation of its gang); null = the result of a preemption attempt",
    )
    reasons: dict[str, int] | None = Field(
        None, description="number of nodes by reason; -1 = a reason of the pod itself, for every node"
    )


class ReplacementInfo(Shape):
    """The placeholder that is released before its request gets an allocation."""

    allocationID: str
    nodeId: str


class AskInfo(Shape):
    """A request that waits, including one that waits for a placeholder to be released."""

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
    placeholderTimeout: int = Field(description="nanoseconds; 0 = not set")
    taskGroupName: str
    allocationLog: list[LogEntry]
    triggeredPreemption: bool
    originator: bool
    schedulingAttempted: bool
    triggeredScaleUp: bool
    is_virtual: bool | None = Field(None, description="true: a virtual placeholder of a Direct or Auto gang")
    replaces: ReplacementInfo | None = None


class AllocationInfo(Shape):
    """An allocation of an application."""

    allocationKey: str
    allocationID: str
    allocationTags: Texts
    requestTime: TimeNs
    allocationTime: TimeNs
    allocationDelay: int = Field(description="nanoseconds between requestTime and allocationTime")
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
    releasing: str | None = Field(None, description="reason of the release until it is confirmed")
    is_virtual: bool | None = Field(
        None, description="true: a virtual placeholder of a Direct or Auto gang, which has no pod"
    )
    utilization: Amounts | None = Field(None, description="last reported utilization")
    devices: list[str] | None = Field(None, description="devices of its ResourceClaims: driver/pool/device")


class StateChange(Shape):
    """A change of the application state."""

    time: TimeNs
    applicationState: str


class TaskGroupInfo(Shape):
    """Placeholders of a task group."""

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
    """An application that waits in its leaf, with the values that decide on its position in the queue."""

    applicationID: str
    namespace: str | None = Field(None, description="namespace of its first pod")
    applicationState: str
    priority: int = Field(description="highest priority of its waiting requests")
    submissionTime: TimeNs
    pendingResource: Amounts
    usedResource: Amounts
    placeholderResource: Amounts = Field(description="allocated by its placeholders")
    blocksOthers: bool = Field(
        description="the first gang in queue order that waits for quota; later applications wait behind it"
    )


class ApplicationInfo(Shape):
    """An application with its requests and allocations."""

    applicationID: str
    namespace: str | None = Field(
        None, description="namespace of its first pod; application IDs are unique per namespace"
    )
    usedResource: Amounts
    maxUsedResource: Amounts
    pendingResource: Amounts
    placeholderResource: Amounts = Field(description="allocated by its placeholders")
    placeholderAsk: Amounts = Field(description="request of all members of its gang")
    reservedQuota: Amounts = Field(description="quota reserved for its gang and not allocated yet")
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
    gangPlacement: str | None = Field(None, description="placement mode of a gang: Reserve, Direct or Auto")
    gangProblem: str | None = Field(
        None, description="why the task groups of its pods are ignored, so that it is no gang"
    )
    gangWarnings: str | None = Field(None, description="problems of the parameters of a gang, which uses defaults")
    requestedQueue: str | None = Field(
        None, description="the queue that its pods name, if a placement rule selected another one"
    )
    membersMissing: str | None = Field(None, description="the missing members that a gang waits for")
    failureMessage: str | None = Field(None, description="why it failed")
    unsatisfiable: bool | None = Field(
        None, description="Whether queues, limits or all nodes, even if empty, can never hold the gang."
    )
    hasReserved: bool
    reservations: list[str]
    maxRequestPriority: int = Field(description="-2147483648 = no pending requests")
    startTime: int = Field(description="milliseconds since the epoch; 0 = not started")
    resourceHistory: ResourceHistory
    backoffDeadline: TimeNs | None = None


class ApplicationSummary(Shape):
    """An application without its requests and allocations, with their numbers and the reason of most of them."""

    applicationID: str
    namespace: str | None = None
    queueName: str
    applicationState: str
    user: str
    submissionTime: TimeNs
    finishedTime: TimeNs | None = None
    usedResource: Amounts
    pendingResource: Amounts
    placeholderResource: Amounts = Field(description="allocated by its placeholders")
    pods: int = Field(description="allocations that are no placeholders")
    placeholders: int = Field(description="allocations of placeholders and slots")
    pending: int = Field(description="missing allocations; a member and the slot that it can take are one")
    isGang: bool
    unsatisfiable: bool | None = None
    reason: str | None = Field(
        None, description="what most of its requests wait for, as in `allocationLog`; members = missing gang members"
    )
    message: str | None = Field(None, description="the message of this reason, or why it was rejected or failed")


class WaitingSummary(Shape):
    """Requests of a partition that wait for the same reason. The application has waited for it longest."""

    reason: str | None = Field(None, description="as in `allocationLog`; null = not evaluated yet")
    requests: int
    applications: int
    resource: Amounts
    applicationID: str
    namespace: str | None = None
    queueName: str
    submissionTime: TimeNs
    message: str | None = None


class ForeignAllocation(Shape):
    """An allocation of another scheduler."""

    allocationKey: str
    allocationTags: Texts
    allocationTime: TimeNs
    resource: Amounts
    priority: str
    nodeId: str
    preemptable: bool


class NodeInfo(Shape):
    """A node. In a dump `allocations` has keys, so that each allocation is listed once."""

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
    utilization: Amounts | None = Field(None, description="last reported utilization")


class NodeSummary(Shape):
    """A node with the numbers of its allocations."""

    nodeID: str
    state: str
    attributes: Texts
    capacity: Amounts
    allocated: Amounts
    occupied: Amounts
    available: Amounts
    allocations: int
    foreignAllocations: int
    reservations: int


class OutstandingInfo(Shape):
    """Pending requests with equal resources that no node has room for."""

    id: str
    partition: str
    resource: Amounts
    instanceType: str = Field(description="requested instance type; empty = any")
    count: int
    applications: int


class TemplateInfo(Shape):
    """Settings of leaf queues that are created below the queue."""

    maxApplications: int
    maxResource: Amounts
    guaranteedResource: Amounts
    properties: Texts


class QueueInfo(Shape):
    """A queue. `childNames` is always set, `children` only if they are requested."""

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
    origins: Texts = Field(
        default={}, description="where inherited properties, and `maxapplications` of a template, are set"
    )
    parent: str
    template: TemplateInfo | None = None
    childNames: list[str]
    absUsedCapacity: Percents
    maxRunningApps: int = Field(description="0 = unlimited")
    runningApps: int
    currentPriority: int = Field(description="-2147483648 = no pending requests")
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
        default=None, description="until then it may not preempt what another queue preempted from it"
    )
    unschedAskBackoff: int
    askBackoffDelay: str
    reservedQuota: Amounts = Field(description="quota reserved for incomplete gangs in the queue and below")
    children: list[QueueInfo]


class Build(Shape):
    """Build information that a resource manager sent with its registration. Names that it did not send are empty."""

    rmId: str
    arch: str = ""
    buildDate: str = ""
    buildVersion: str = ""
    coreSHA: str = ""
    goVersion: str = ""
    isPluginVersion: str = ""
    shimSHA: str = ""
    siSHA: str = ""


class ClusterInfo(Shape):
    """The scheduler and the resource manager of one partition."""

    startTime: TimeNs
    rmBuildInformation: list[Build]
    partition: str
    clusterName: str = Field(description="always `kubernetes`")
    coreVersion: str = Field(description="version of the scheduler core")
    configChecksum: str | None = Field(None, description="checksum of the active queues.yaml; null = the default")
    rejectedConfiguration: list[str] | None = Field(
        None, description="the first errors of the ConfigMaps as they are now, if they are not active"
    )


class Capacity(Shape):
    """Capacity of the nodes of a partition and its usage."""

    capacity: Amounts
    usedCapacity: Amounts
    utilization: Percents


class NodeSorting(Shape):
    """Order in which nodes are preferred."""

    type: str
    resourceWeights: dict[str, float]


class PartitionInfo(Shape):
    """Totals of one partition."""

    clusterId: str
    name: str
    state: str
    lastStateTransitionTime: TimeNs
    capacity: Capacity
    nodeSortingPolicy: NodeSorting
    applications: dict[str, int] = Field(
        description="number by state, including ended applications that are still stored, and `total`"
    )
    totalContainers: int
    totalNodes: int
    preemptionEnabled: bool
    quotaPreemptionEnabled: bool


class RuleFilterInfo(Shape):
    """Users and groups that a placement rule applies to, or does not apply to."""

    type: str
    userList: list[str]
    groupList: list[str]
    userExp: str
    groupExp: str


class RuleInfo(Shape):
    """An active placement rule."""

    name: str
    parameters: Texts
    filter: RuleFilterInfo | None = None
    parentRule: RuleInfo | None = None


class Bucket(Shape):
    """Nodes whose usage of one resource is in one range."""

    bucketName: str
    numOfNodes: int
    nodeNames: list[str]


class ResourceBuckets(Shape):
    """Nodes by their usage of one resource."""

    type: str
    utilization: list[Bucket]


class ClusterUtilization(Shape):
    """Nodes of a partition by their usage of each resource."""

    clusterId: str
    partition: str
    utilizations: list[ResourceBuckets]


class Quantity(Shape):
    """An amount, in the JSON mapping of protobuf."""

    value: int


class EventResource(Shape):
    """Amounts of an event, in the JSON mapping of protobuf."""

    resources: dict[str, Quantity]


class EventRecord(Shape):
    """An event record."""

    type: int
    objectID: str
    referenceID: str | None = None
    message: str | None = None
    timestampNano: TimeNs
    eventChangeType: int
    eventChangeDetail: int | None = None
    resource: EventResource


class EventBatch(Shape):
    """Event records; null if the first requested record is no longer stored."""

    InstanceUUID: str
    LowestID: int
    HighestID: int = Field(description="-1 = no events yet")
    EventRecords: list[EventRecord] | None


class ApplicationCount(Shape):
    """Number of running applications at one minute."""

    timestamp: TimeNs
    totalApplications: str


class ContainerCount(Shape):
    """Number of allocations at one minute."""

    timestamp: TimeNs
    totalContainers: str


class HealthCheck(Shape):
    """Result of one health check."""

    Name: str
    Succeeded: bool
    Description: str
    DiagnosisMessage: str


class Health(Shape):
    """Result of the last health checks."""

    Healthy: bool
    HealthChecks: list[HealthCheck]


class Config(Shape):
    """The active configuration, with the key names of YuniKorn's JSON."""

    Partitions: list[dict[str, object]]
    Checksum: str
    Extra: Texts = Field(description="settings outside queues.yaml")
    DeadlockDetectionEnabled: bool
    DeadlockTimeoutSeconds: int


class ValidationInfo(Shape):
    """Whether a configuration is valid."""

    allowed: bool
    reason: str | None = None
    checksum: str | None = None
    checksumMatch: bool | None = None


class LogLevelInfo(Shape):
    """Lowest level that is logged."""

    level: str = Field(description="debug, info, warning or error")


class UsageTree(Shape):
    """Usage of one queue by a user or group, with the queues below it."""

    queuePath: str
    resourceUsage: Amounts
    runningApplications: list[str]
    maxResources: Amounts | None = None
    maxApplications: int = Field(description="0 = unlimited")
    children: list[UsageTree]


class UserUsage(Shape):
    """Usage of one user."""

    userName: str
    groups: Texts = Field(description="application -> the group whose limit it counts towards")
    queues: UsageTree


class GroupUsage(Shape):
    """Usage of the applications of one group."""

    groupName: str
    applications: list[str]
    queues: UsageTree
