"""Events: everything that the core receives. `si` creates them from messages."""

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
    """A resource manager has opened a session.

    `awaits_barrier`: nothing is scheduled for it before `RecoveryBarrierPassed` (docs/internals/semantics.md, rule 19).
    """

    rm: RmId
    configuration: Configuration
    awaits_barrier: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryBarrierPassed:
    """All messages that the resource manager sent before the recovery barrier have arrived."""

    rm: RmId


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection to the resource manager is closed."""

    rm: RmId


@dataclass(frozen=True, slots=True)
class ManagerLeft:
    """The resource manager unregistered."""

    rm: RmId


@dataclass(frozen=True, slots=True)
class ConfigurationReplaced:
    """A new valid configuration must be applied."""

    rm: RmId
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class ApplicationAdded:
    """Message AddApplicationRequest."""

    spec: ApplicationSpec


@dataclass(frozen=True, slots=True)
class ApplicationRemoved:
    """Message RemoveApplicationRequest: removes the application with all its requests and allocations."""

    partition: PartitionId
    application: ApplicationId


@dataclass(frozen=True, slots=True)
class GroupsResolved:
    """The groups of a user, which were unknown when its applications were added."""

    partition: PartitionId
    user: str
    groups: tuple[str, ...]


@value
class AskAdded:
    """Message AllocationAsk: a new request, or one that replaces the request with the same key."""

    spec: AskSpec


@dataclass(frozen=True, slots=True)
class AllocationReported:
    """An existing allocation, sent separately from the registration of its node."""

    spec: AllocationSpec


@value
class AllocationReleased:
    """Message AllocationRelease: the resource manager releases (STOPPED_BY_RM), or confirms a release by the core.

    `key` None = every allocation of the application; `id` None = every allocation of the key.
    """

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey | None
    id: AllocationId | None
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class CallbacksDeclared:
    """The predicate callbacks that the resource manager implements (muster.v1, Attendance)."""

    rm: RmId
    places: bool
    victims: bool


@dataclass(frozen=True, slots=True)
class PlacementsEvaluated:
    """Response to PlacementsProposed: a reason against each placement, or an empty string."""

    rm: RmId
    number: int
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VictimsEvaluated:
    """Response to VictimsProposed: whether the request may use the node."""

    rm: RmId
    number: int
    success: bool


@dataclass(frozen=True, slots=True)
class ClusterObjectsReported:
    """Present state of cluster objects other than nodes and pods (muster.v1)."""

    partition: PartitionId
    facts: tuple[ClusterFact, ...]


@dataclass(frozen=True, slots=True)
class UtilizationReported:
    """Message UtilizationReport: the real usage of a node or of one allocation.

    It is about the node if `node` is set. The ID of an allocation is unique only in its application.
    """

    partition: PartitionId
    used: Resources
    node: NodeId | None
    application: ApplicationId
    allocation: AllocationId


@dataclass(frozen=True, slots=True)
class AskReleased:
    """Message AllocationAskRelease; `key` None = every request of the application."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey | None
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """Node action CREATE, or CREATE_DRAIN with `draining`. `existing`: the allocations on the node."""

    spec: NodeSpec
    draining: bool = False
    existing: tuple[AllocationSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeUpdated:
    """Node action UPDATE: replaces capacity, occupied resources and attributes. `existing`: additional allocations."""

    spec: NodeSpec
    existing: tuple[AllocationSpec, ...] = ()


class NodeAction(StrEnum):
    """Node actions that need only the ID of the node."""

    DRAIN = "DRAIN_NODE"
    OPEN = "DRAIN_TO_SCHEDULABLE"
    DECOMMISSION = "DECOMISSION"


@dataclass(frozen=True, slots=True)
class NodeActionReported:
    """Node action DRAIN_NODE, DRAIN_TO_SCHEDULABLE or DECOMISSION."""

    partition: PartitionId
    node: NodeId
    action: NodeAction


class TimerKind(StrEnum):
    """Kinds of timers. `scheduling/timers.py` handles them."""

    PLACEHOLDER = "placeholder timeout"
    WAIT = "gang wait timeout"
    STARVATION = "starvation age"
    COMPLETING = "completing timeout"
    RUN = "run time"
    ALLOCATION_RUN = "allocation run time"
    RELEASE = "unconfirmed release"
    EXPIRY = "end of the time that ended applications are kept"
    MANAGER = "connection timeout"
    BACKOFF = "back-off of an application"
    PARTITION_BACKOFF = "back-off of a partition"
    RETRY = "next attempts of woken applications"
    RESERVATION = "reservation delay"
    RESERVED = "reservation timeout"
    PREEMPTION = "preemption delay"
    VICTIMS = "unconfirmed preemption"
    QUOTA = "quota preemption delay"
    INQUIRY = "unanswered question"
    TAKE_OVER = "back-off of a failed take-over"
    NODE_DEMAND = "end of a wait for new nodes"
    REFRESH = "next step of refreshed texts"
    REFUSED = "end of what a resource manager refused"


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer. It has an effect only while its subject still has the same `generation`.

    Timers are never cancelled. A timer with an old generation is ignored.
    """

    kind: TimerKind
    rm: RmId
    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    generation: int
    #: The queue, for a timer of a queue.
    queue: QueuePath = ROOT


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer is due."""

    timer: Timer


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
