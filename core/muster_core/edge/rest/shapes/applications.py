"""Application, ask, allocation (contract 4.1)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.base import Amounts, Shape, Texts, TimeNs


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


class Swap(Shape):
    """The placeholder whose place an ask gets when it is gone."""

    allocationID: str
    nodeId: str


class Ask(Shape):
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
    podless: bool | None = Field(None, description="true: the core's own ask, for the places of a Direct gang")
    replaces: Swap | None = None


class Allocation(Shape):
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
    releasing: str | None = Field(None, description="why it was told to go, while it has not confirmed")
    podless: bool | None = Field(None, description="true: a place held for a member to come, with no pod in it")
    utilization: Amounts | None = Field(None, description="what it was last reported to really use")


class StateChange(Shape):
    """One change of state."""

    time: TimeNs
    applicationState: str


class TaskGroup(Shape):
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
    blocksOthers: bool = Field(description="a gang whose turn it is: what did not start yet waits behind it")


class Application(Shape):
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
    pledgedResource: Amounts = Field(description="promised to its gang, not allocated yet")
    partition: str
    queueName: str
    submissionTime: TimeNs
    finishedTime: TimeNs | None = None
    requests: list[Ask]
    allocations: list[Allocation]
    applicationState: str
    user: str
    groups: list[str]
    rejectedMessage: str
    stateLog: list[StateChange]
    placeholderData: list[TaskGroup]
    gangSchedulingStyle: str | None = None
    gangPlacement: str | None = Field(None, description="of a gang: Reserve, Atomic or Direct")
    hasReserved: bool
    reservations: list[str]
    maxRequestPriority: int
    startTime: int = Field(description="milliseconds since the epoch, 0 = it did not start")
    resourceHistory: ResourceHistory
    backoffDeadline: TimeNs | None = None
