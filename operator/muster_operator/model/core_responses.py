"""Messages of the core, as `si/codec.py` converts them from the Scheduler Interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from msgspec import Struct, field

from muster_operator.model.core_requests import TerminationType
from muster_operator.model.ids import NO_ALLOCATION_ID, NO_NODE, AllocationId, AppId, NodeName, PodUid
from muster_operator.model.storage import ChosenVolumes


class Part(Enum):
    """Part of the core's state in an inventory."""

    APPLICATIONS = "applications"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class HeldInCore:
    """An allocation. ``releasing``: type of its release in progress; None if there is none."""

    key: PodUid
    node: NodeName
    allocation_id: AllocationId
    releasing: TerminationType | None = None


@dataclass(frozen=True, slots=True)
class ApplicationInCore:
    """An application: the keys of its requests, and its allocations."""

    app: AppId
    asks: frozenset[PodUid]
    held: tuple[HeldInCore, ...]


@dataclass(frozen=True, slots=True)
class NodeInCore:
    """A node. ``foreign``: keys of its allocations without an application."""

    name: NodeName
    schedulable: bool
    foreign: frozenset[PodUid]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The core's state of all names greater than ``beyond`` and up to ``last``; empty = unlimited."""

    part: Part
    beyond: str = ""
    last: str = ""
    applications: tuple[ApplicationInCore, ...] = ()
    nodes: tuple[NodeInCore, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether the inventory includes the name."""
        return self.beyond < name and (not self.last or name <= self.last)


class Allocated(Struct, frozen=True, gc=False):
    """A pod gets a node. ``volumes``: volumes for its unbound claims (tag ``muster/chosen-volumes``)."""

    app: AppId
    key: PodUid
    node: NodeName
    allocation_id: AllocationId = NO_ALLOCATION_ID
    volumes: ChosenVolumes = field(default_factory=dict)


class Released(Struct, frozen=True, gc=False):
    """An allocation is to be released, or (STOPPED_BY_RM) was. An empty key means all of the application."""

    app: AppId
    key: PodUid
    termination: TerminationType
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


class AskCancelled(Struct, frozen=True, gc=False):
    """The core cancelled a request. An empty key means all of the application."""

    app: AppId
    key: PodUid
    termination: TerminationType
    message: str = ""


class AskRejected(Struct, frozen=True, gc=False):
    """The core rejected a request."""

    app: AppId
    key: PodUid
    reason: str


class AllocationRejected(Struct, frozen=True, gc=False):
    """The core rejected an existing allocation."""

    app: AppId
    key: PodUid
    reason: str


class AllocationResponse(Struct, frozen=True, gc=False):
    """An AllocationResponse. The fields are applied in this order (docs/internals/semantics.md, 1)."""

    cancelled_asks: tuple[AskCancelled, ...] = ()
    released: tuple[Released, ...] = ()
    allocated: tuple[Allocated, ...] = ()
    rejected_asks: tuple[AskRejected, ...] = ()
    rejected_allocations: tuple[AllocationRejected, ...] = ()


class ApplicationAccepted(Struct, frozen=True, gc=False):
    """The application was accepted and has a queue."""

    app: AppId


class ApplicationRejected(Struct, frozen=True, gc=False):
    """The application was rejected, with the reason for the user."""

    app: AppId
    reason: str


class ApplicationUpdated(Struct, frozen=True, gc=False):
    """The application is in a new state (one of ``muster_si.keys.APP_*``)."""

    app: AppId
    state: str
    message: str = ""


class ApplicationResponse(Struct, frozen=True, gc=False):
    """An ApplicationResponse. The fields are applied in this order."""

    rejected: tuple[ApplicationRejected, ...] = ()
    accepted: tuple[ApplicationAccepted, ...] = ()
    updated: tuple[ApplicationUpdated, ...] = ()


class NodeResponse(Struct, frozen=True, gc=False):
    """A NodeResponse. ``rejected``: reasons by node name."""

    accepted: tuple[NodeName, ...] = ()
    rejected: Mapping[NodeName, str] | None = None


class SchedulingState(StrEnum):
    """Why a request waits, or that it does not. See docs/internals/semantics.md, 6."""

    SKIPPED = "Skipped"
    SCHEDULED = "Scheduled"
    RESERVED = "Reserved"
    FAILED = "Failed"


class SchedulingStateChanged(Struct, frozen=True, gc=False):
    """The scheduling state of a request changed. ``kind``: kind of the reason (``muster_si.keys.REASON_*``).

    ``preemption_node``: the node on which preempted pods terminate for the request; empty = none.
    """

    app: AppId
    key: PodUid
    state: SchedulingState
    reason: str = ""
    kind: str = ""
    preemption_node: NodeName = NO_NODE


class SchedulingStates(Struct, frozen=True, gc=False):
    """Changed states of one callback."""

    changes: tuple[SchedulingStateChanged, ...]


class EventKind(StrEnum):
    """What a core event is about (EventRecord.Type of the Scheduler Interface)."""

    REQUEST = "REQUEST"
    APP = "APP"
    NODE = "NODE"
    QUEUE = "QUEUE"


class CoreEvent(Struct, frozen=True, gc=False):
    """A core event. ``object_id``: key of the request, or ID of the application, node or queue.

    ``reference_id``: application of the request.
    """

    kind: EventKind
    object_id: str
    reference_id: str
    message: str


class CoreEvents(Struct, frozen=True, gc=False):
    """Core events of one callback."""

    events: tuple[CoreEvent, ...]


class NodeRecommended(Struct, frozen=True, gc=False):
    """A recommendation for a node as text (NodeRecommendation of the Scheduler Interface)."""

    node: NodeName
    message: str


class Recommendations(Struct, frozen=True, gc=False):
    """Recommendations of one callback."""

    nodes: tuple[NodeRecommended, ...]


CoreResponse = AllocationResponse | ApplicationResponse | NodeResponse | SchedulingStates | CoreEvents | Recommendations
