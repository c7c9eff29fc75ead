"""Effects: messages and timers that the core emits. `si` converts them to messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster_core.model.claims import NOTHING_CHOSEN, ClaimChoice
from muster_core.model.decisions import ReasonKind
from muster_core.model.events import Timer
from muster_core.model.ids import (
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
from muster_core.model.records import AllocationsRecorded, AskRecorded, EventRecorded
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState


@value
class NewAllocation:
    """A request got its node. `chosen`: volumes and devices for its claims."""

    ask: AskSpec
    id: AllocationId
    node: NodeId
    chosen: ClaimChoice = NOTHING_CHOSEN


@value
class Release:
    """The core releases an allocation, or confirms its release (STOPPED_BY_RM).

    `at_once`: a placeholder that is replaced, and whose container need not end before that of its replacement starts.
    """

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    id: AllocationId
    termination: Termination
    message: str = ""
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class AskRelease:
    """The core cancels a request, or confirms its release."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected request or allocation, with a reason for users."""

    application: ApplicationId
    key: AllocationKey
    reason: str


@value
class AllocationResponse:
    """Message AllocationResponse."""

    rm: RmId
    new: tuple[NewAllocation, ...] = ()
    released: tuple[Release, ...] = ()
    released_asks: tuple[AskRelease, ...] = ()
    rejected_asks: tuple[Rejection, ...] = ()
    rejected_allocations: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplicationAccepted:
    """Message AcceptedApplication: the application has its leaf queue."""

    rm: RmId
    application: ApplicationId


@dataclass(frozen=True, slots=True)
class ApplicationRejected:
    """Message RejectedApplication."""

    rm: RmId
    application: ApplicationId
    reason: str


@value
class ApplicationUpdated:
    """Message UpdatedApplication: the state has changed. `at_ns`: since the epoch."""

    rm: RmId
    application: ApplicationId
    state: ApplicationState
    at_ns: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeAccepted:
    """Message AcceptedNode."""

    rm: RmId
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeRejected:
    """Message RejectedNode."""

    rm: RmId
    node: NodeId
    reason: str


class SchedulingState(StrEnum):
    """Scheduling state of a request (docs/internals/semantics.md, rule 6)."""

    SKIPPED = "SKIPPED"
    SCHEDULED = "SCHEDULED"
    RESERVED = "RESERVED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SchedulingStateChanged:
    """Message UpdateContainerSchedulingStateRequest, sent only on a change. `reason_kind`: kind of the failure.

    `preemption_node`: the node on which victims are being released for the request; None = none. `slots_timed_out`: an
    Auto gang reserves nothing for absent members of a task group any more.
    """

    rm: RmId
    application: ApplicationId
    key: AllocationKey
    state: SchedulingState
    reason: str
    reason_kind: ReasonKind | None = None
    preemption_node: NodeId | None = None
    slots_timed_out: bool = False


@dataclass(frozen=True, slots=True)
class NodeRecommended:
    """Message NodeRecommendation: advice about a node, and how much of it should remain schedulable."""

    rm: RmId
    node: NodeId
    message: str
    recommended: Resources


@dataclass(frozen=True, slots=True)
class ApplicationSummarized:
    """An application has ended: its resource usage over time, for the log.

    `times_ns`: submitted, first run (0 = never), ended. Usage is instance type → resource → units times seconds.
    """

    rm: RmId
    application: ApplicationId
    queue: QueuePath
    user: str
    state: ApplicationState
    times_ns: tuple[int, int, int]
    used: Mapping[str, Mapping[str, int]]
    preempted: Mapping[str, Mapping[str, int]]
    placeholders: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class PlacementsProposed:
    """Message PredicatesArgs with all placements of one plan: may these requests use these nodes?"""

    rm: RmId
    number: int
    places: tuple[tuple[AllocationKey, NodeId], ...]


@dataclass(frozen=True, slots=True)
class VictimsProposed:
    """Message PreemptionPredicatesArgs: may the request use the node after all victims have ended?"""

    rm: RmId
    number: int
    key: AllocationKey
    node: NodeId
    victims: tuple[AllocationKey, ...]


@dataclass(frozen=True, slots=True)
class TimerSet:
    """A timer: `TimerFired` with `timer` is due at `at_ns` since the epoch."""

    timer: Timer
    at_ns: int


Effect = (
    AllocationResponse
    | ApplicationAccepted
    | ApplicationRejected
    | ApplicationUpdated
    | NodeAccepted
    | NodeRejected
    | SchedulingStateChanged
    | NodeRecommended
    | ApplicationSummarized
    | PlacementsProposed
    | VictimsProposed
    | EventRecorded
    | AskRecorded
    | AllocationsRecorded
    | TimerSet
)
