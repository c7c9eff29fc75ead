"""What the core sends to the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from msgspec import Struct, field

from muster_operator.model.core_requests import TerminationType
from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, PodUid
from muster_operator.model.storage import ChosenVolumes


class Part(Enum):
    """What is looked at."""

    APPLICATIONS = "applications"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class HeldInCore:
    """An allocation. ``going``: how it is being released, None = it stays."""

    key: PodUid
    node: NodeName
    allocation_id: AllocationId
    going: TerminationType | None = None


@dataclass(frozen=True, slots=True)
class ApplicationInCore:
    """An application: the keys of its asks, and its allocations."""

    app: AppId
    asks: frozenset[PodUid]
    held: tuple[HeldInCore, ...]


@dataclass(frozen=True, slots=True)
class NodeInCore:
    """A node. ``foreign``: keys of what is on it without belonging to an application."""

    name: NodeName
    schedulable: bool
    foreign: frozenset[PodUid]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All names of one part beyond one up to another; empty = from the first, to the last."""

    part: Part
    beyond: str = ""
    last: str = ""
    applications: tuple[ApplicationInCore, ...] = ()
    nodes: tuple[NodeInCore, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether a name of its part would be in it."""
        return self.beyond < name and (not self.last or name <= self.last)


class Allocated(Struct, frozen=True, gc=False):
    """A pod gets a node. ``volumes``: what its unbound claims are to get (semantics 21, ``muster/chosen-volumes``)."""

    app: AppId
    key: PodUid
    node: NodeName
    allocation_id: AllocationId = NO_ALLOCATION_ID
    volumes: ChosenVolumes = field(default_factory=dict)


class Released(Struct, frozen=True, gc=False):
    """An allocation has to go, or (STOPPED_BY_RM) is confirmed as gone. An empty key means all of the application."""

    app: AppId
    key: PodUid
    termination: TerminationType
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


class AskCancelled(Struct, frozen=True, gc=False):
    """The core gave up an ask. An empty key means all of the application."""

    app: AppId
    key: PodUid
    termination: TerminationType
    message: str = ""


class AskRejected(Struct, frozen=True, gc=False):
    """The core refuses an ask."""

    app: AppId
    key: PodUid
    reason: str


class AllocationRejected(Struct, frozen=True, gc=False):
    """The core refuses an existing allocation."""

    app: AppId
    key: PodUid
    reason: str


class AllocationResponse(Struct, frozen=True, gc=False):
    """One AllocationResponse, applied in the order of the fields (semantics 1)."""

    cancelled_asks: tuple[AskCancelled, ...] = ()
    released: tuple[Released, ...] = ()
    allocated: tuple[Allocated, ...] = ()
    rejected_asks: tuple[AskRejected, ...] = ()
    rejected_allocations: tuple[AllocationRejected, ...] = ()


class ApplicationAccepted(Struct, frozen=True, gc=False):
    """The application has a queue."""

    app: AppId


class ApplicationRejected(Struct, frozen=True, gc=False):
    """The application is refused, with the reason for the user."""

    app: AppId
    reason: str


class ApplicationUpdated(Struct, frozen=True, gc=False):
    """The application is in a new state (one of ``muster_si.keys.APP_*``)."""

    app: AppId
    state: str
    message: str = ""


class ApplicationResponse(Struct, frozen=True, gc=False):
    """One ApplicationResponse, applied in the order of the fields."""

    rejected: tuple[ApplicationRejected, ...] = ()
    accepted: tuple[ApplicationAccepted, ...] = ()
    updated: tuple[ApplicationUpdated, ...] = ()


class NodeResponse(Struct, frozen=True, gc=False):
    """One NodeResponse. ``rejected`` maps a node's name to the reason."""

    accepted: tuple[NodeName, ...] = ()
    rejected: Mapping[NodeName, str] | None = None


class SchedulingState(StrEnum):
    """What keeps an ask waiting, or not (semantics 6)."""

    SKIPPED = "Skipped"
    SCHEDULED = "Scheduled"
    RESERVED = "Reserved"
    FAILED = "Failed"


class SchedulingStateChanged(Struct, frozen=True, gc=False):
    """The scheduling state of one ask changed."""

    app: AppId
    key: PodUid
    state: SchedulingState
    reason: str = ""


class SchedulingStates(Struct, frozen=True, gc=False):
    """One callback's worth of changed states."""

    changes: tuple[SchedulingStateChanged, ...]


class EventKind(StrEnum):
    """What a core event is about (seed 003, EventRecord.Type)."""

    REQUEST = "REQUEST"
    APP = "APP"
    NODE = "NODE"
    QUEUE = "QUEUE"


class CoreEvent(Struct, frozen=True, gc=False):
    """A core event. ``object_id``: the ask's key of a request, the application, node or queue itself;
    ``reference_id``: the application of a request."""

    kind: EventKind
    object_id: str
    reference_id: str
    message: str


class CoreEvents(Struct, frozen=True, gc=False):
    """One callback's worth of core events."""

    events: tuple[CoreEvent, ...]


class NodeRecommended(Struct, frozen=True, gc=False):
    """What might be done about a node, in words (seed 001, NodeRecommendation)."""

    node: NodeName
    message: str


class Recommendations(Struct, frozen=True, gc=False):
    """One callback's worth of recommendations."""

    nodes: tuple[NodeRecommended, ...]


CoreResponse = AllocationResponse | ApplicationResponse | NodeResponse | SchedulingStates | CoreEvents | Recommendations
