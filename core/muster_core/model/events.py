"""Events that the core receives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from muster_core.model.config import Configuration
from muster_core.model.ids import (
    ROOT,
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    QueuePath,
    RmId,
    Termination,
    value,
)
from muster_core.model.resources import Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, NodeSpec
from muster_core.model.storage import ClusterFact


@dataclass(frozen=True, slots=True)
class ManagerRegistered:
    """A resource manager opened a session. `fenced`: nothing is scheduled for it
    before `FencePassed` (semantics 19).
    """

    rm: RmId
    configuration: Configuration
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryBarrierPassed:
    """All that the resource manager counted has arrived."""

    rm: RmId


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The way to the resource manager broke."""

    rm: RmId


@dataclass(frozen=True, slots=True)
class ManagerLeft:
    """The resource manager unregistered."""

    rm: RmId


@dataclass(frozen=True, slots=True)
class ConfigurationReplaced:
    """A new, valid configuration is to be in force."""

    rm: RmId
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class ApplicationAdded:
    """AddApplicationRequest."""

    spec: ApplicationSpec


@dataclass(frozen=True, slots=True)
class ApplicationRemoved:
    """RemoveApplicationRequest: with all its asks and allocations."""

    partition: PartitionId
    application: ApplicationId


@dataclass(frozen=True, slots=True)
class GroupsResolved:
    """The groups of a user, which were not known when applications of it came."""

    partition: PartitionId
    user: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskAdded:
    """AllocationAsk, new or replacing the one of the same key (semantics 3)."""

    spec: AskSpec


@dataclass(frozen=True, slots=True)
class AllocationReported:
    """An existing allocation outside a node's registration."""

    spec: AllocationSpec


@value
class AllocationReleased:
    """AllocationRelease from the resource manager: its own word (STOPPED_BY_RM)
    or the confirmation of the core's.

    key None = every allocation of the application; id None = every allocation
    of the key (semantics 3).
    """

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey | None
    id: AllocationId | None
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class CallbacksDeclared:
    """Which questions the resource manager wants to be asked (muster.v1, Attendance)."""

    rm: RmId
    places: bool
    victims: bool


@dataclass(frozen=True, slots=True)
class PlacementsEvaluated:
    """The answer to PlacesAsked: per place a reason against it, or empty."""

    rm: RmId
    number: int
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VictimsEvaluated:
    """The answer to VictimsAsked: whether the ask may go there once they are gone."""

    rm: RmId
    number: int
    success: bool


@dataclass(frozen=True, slots=True)
class ClusterObjectsReported:
    """Objects of the cluster beside nodes and pods are so now (muster.v1)."""

    partition: PartitionId
    facts: tuple[ClusterFact, ...]


@dataclass(frozen=True, slots=True)
class UtilizationReported:
    """UtilizationReport (seed 001): what a node, or one allocation of an application, really uses.

    It is about the node, or else about the allocation, whose identity is unique in its application only.
    """

    partition: PartitionId
    used: Resources
    node: NodeId | None
    application: ApplicationId
    allocation: AllocationId


@dataclass(frozen=True, slots=True)
class AskReleased:
    """AllocationAskRelease; key None = every ask of the application."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey | None
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """CREATE, or CREATE_DRAIN with `draining`; with what runs on it."""

    spec: NodeSpec
    draining: bool = False
    existing: tuple[AllocationSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeUpdated:
    """UPDATE: capacity, occupied resources and attributes are replaced; `existing`: more of what runs there."""

    spec: NodeSpec
    existing: tuple[AllocationSpec, ...] = ()


class NodeAction(StrEnum):
    """The actions of seed 003 that need no more than a node's id."""

    DRAIN = "DRAIN_NODE"
    OPEN = "DRAIN_TO_SCHEDULABLE"
    DECOMMISSION = "DECOMISSION"


@dataclass(frozen=True, slots=True)
class NodeActionReported:
    """DRAIN_NODE, DRAIN_TO_SCHEDULABLE or DECOMISSION."""

    partition: PartitionId
    node: NodeId
    action: NodeAction


class TimerKind(StrEnum):
    """The deadlines of the core; what rings is decided in scheduling/timers.py."""

    PLACEHOLDER = "placeholder time-out"
    WAIT = "gang wait time-out"
    STARVATION = "starvation age"
    COMPLETING = "completing time-out"
    RUN = "run time"
    ALLOCATION_RUN = "allocation run time"
    RELEASE = "unconfirmed release"
    EXPIRY = "end of the time that ended applications are kept"
    MANAGER = "connection time-out"
    BACKOFF = "back-off of an application"
    PARTITION_BACKOFF = "back-off of a partition"
    RESERVATION = "reservation delay"
    RESERVED = "reservation time-out"
    PREEMPTION = "preemption delay"
    VICTIMS = "unconfirmed preemption"
    QUOTA = "quota preemption delay"
    INQUIRY = "unanswered question"
    TAKE_OVER = "back-off of a failed take-over"
    REFUSED = "end of what a resource manager refused"


@dataclass(frozen=True, slots=True)
class Timer:
    """One deadline. It only has an effect while its subject still shows the same
    `generation`: clocks are never cancelled, they go stale.
    """

    kind: TimerKind
    rm: RmId
    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    generation: int
    #: Of a queue's clock.
    queue: QueuePath = ROOT


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A deadline that was set has come."""

    clock: Timer


Event = (
    ManagerRegistered
    | RecoveryBarrierPassed
    | ConnectionLost
    | ManagerLeft
    | ConfigurationReplaced
    | ApplicationAdded
    | ApplicationRemoved
    | GroupsResolved
    | AskAdded
    | AllocationReported
    | AllocationReleased
    | AskReleased
    | NodeAdded
    | NodeUpdated
    | NodeActionReported
    | TimerFired
    | UtilizationReported
    | ClusterObjectsReported
    | CallbacksDeclared
    | PlacementsEvaluated
    | VictimsEvaluated
)
