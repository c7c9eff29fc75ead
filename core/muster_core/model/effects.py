"""Effects that the core sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
from muster_core.model.storage import NO_CHOICE, Choice


@value
class NewAllocation:
    """One ask got its place; encoded from the ask and these. `volumes`: what its claims that are not bound get."""

    ask: AskSpec
    id: AllocationId
    node: NodeId
    volumes: Choice = NO_CHOICE


@value
class Release:
    """An allocation is to go (core's word), or its going is confirmed (STOPPED_BY_RM)."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    id: AllocationId
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class AskRelease:
    """An ask is taken back by the core, or its release is confirmed."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    termination: Termination
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected ask or allocation, with a reason for people."""

    application: ApplicationId
    key: AllocationKey
    reason: str


@dataclass(frozen=True, slots=True)
class AllocationResponse:
    """One AllocationResponse."""

    rm: RmId
    new: tuple[NewAllocation, ...] = ()
    released: tuple[Release, ...] = ()
    released_asks: tuple[AskRelease, ...] = ()
    rejected_asks: tuple[Rejection, ...] = ()
    rejected_allocations: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplicationAccepted:
    """AcceptedApplication: the application has its leaf queue."""

    rm: RmId
    application: ApplicationId


@dataclass(frozen=True, slots=True)
class ApplicationRejected:
    """RejectedApplication."""

    rm: RmId
    application: ApplicationId
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationUpdated:
    """UpdatedApplication: a change of state, `at_ns` since the epoch."""

    rm: RmId
    application: ApplicationId
    state: ApplicationState
    at_ns: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeAccepted:
    """AcceptedNode."""

    rm: RmId
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeRejected:
    """RejectedNode."""

    rm: RmId
    node: NodeId
    reason: str


class SchedulingState(StrEnum):
    """Of an ask (seed 003, semantics 6)."""

    SKIPPED = "SKIPPED"
    SCHEDULED = "SCHEDULED"
    RESERVED = "RESERVED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SchedulingStateChanged:
    """UpdateContainerSchedulingStateRequest; said on change only. `lack`: of a "no", what it is for."""

    rm: RmId
    application: ApplicationId
    key: AllocationKey
    state: SchedulingState
    reason: str
    lack: ReasonKind | None = None


@dataclass(frozen=True, slots=True)
class NodeRecommended:
    """NodeRecommendation (seed 001): what the resource manager might do about a node, in words, and how much
    of it should be offered for scheduling.
    """

    rm: RmId
    node: NodeId
    message: str
    recommended: Resources


@dataclass(frozen=True, slots=True)
class ApplicationSummarized:
    """An application is over: what it used over time, for the log (contract 6.5).

    `times_ns`: submitted, first run (0 = never), ended. Uses are instance type → resource → units times seconds.
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
    """PredicatesArgs (seed 003), all of one plan at once: may these asks go to these nodes?"""

    rm: RmId
    number: int
    places: tuple[tuple[AllocationKey, NodeId], ...]


@dataclass(frozen=True, slots=True)
class VictimsProposed:
    """PreemptionPredicatesArgs (seed 003): may the ask go to the node once all the victims are gone?"""

    rm: RmId
    number: int
    key: AllocationKey
    node: NodeId
    victims: tuple[AllocationKey, ...]


@dataclass(frozen=True, slots=True)
class TimerSet:
    """`clock` is to come back as `ClockRang` at `at_ns` since the epoch."""

    clock: Timer
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
