"""Requests to the core and its responses. `si/codec.py` converts them to and from the Scheduler Interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

import msgspec

from muster_operator.model.devices import ChosenDevices
from muster_operator.model.ids import (
    NO_ALLOCATION_ID,
    NO_NODE,
    AllocationId,
    AppId,
    NodeName,
    NumberEnum,
    PodUid,
    Resources,
)
from muster_operator.model.pods import UserInfo
from muster_operator.model.storage import ChosenVolumes, ClusterObject
from muster_si import keys


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its allocatable resources and the attributes that filters need.

    ``attributes`` use the names of ``muster_si.keys``: labels, taints, host name, instance type, readiness.
    ``schedulable`` is false for a cordoned node (``spec.unschedulable``).
    """

    name: NodeName
    uid: str
    capacity: Resources
    attributes: Mapping[str, str]
    schedulable: bool = True


class TerminationType(NumberEnum):
    """Why an allocation or request ends. The numbers are those of the Scheduler Interface."""

    UNKNOWN = 0
    STOPPED_BY_RM = 1
    TIMEOUT = 2
    PREEMPTED_BY_SCHEDULER = 3
    PLACEHOLDER_REPLACED = 4


#: Tags of a request in addition to those of its class.
OWN_TAGS: Final = (
    keys.TAG_POD_NAME,
    keys.TAG_CREATION_TIME,
    keys.TAG_TERMINATING,
    keys.TAG_DELETION_TIME,
    keys.TAG_AVOID_NODES,
    keys.TAG_DEVICE_CLAIMS,
    keys.TAG_ALLOCATED_AT,
    keys.TAG_UNVERIFIED,
)


class AskSpec(msgspec.Struct, frozen=True, gc=False):
    """The request of a pod for a node; also the body of its allocation.

    ``app`` is None for a pod of another scheduler, which only uses resources of its node. ``common``: tags of the pod's
    class, as one shared object. All other entries of ``tags`` are in ``OWN_TAGS``.
    """

    key: PodUid
    app: AppId | None
    resources: Resources
    priority: int = 0
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    task_group: str = ""
    placeholder: bool = False
    originator: bool = False
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    common: Mapping[str, str] = msgspec.field(default_factory=dict)


class AllocationSpec(msgspec.Struct, frozen=True, gc=False):
    """An allocation that exists in Kubernetes and that the core has to count."""

    ask: AskSpec
    node: NodeName
    allocation_id: AllocationId = NO_ALLOCATION_ID


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """An application. ``placeholder_ask`` and ``style`` are empty if it is not a gang."""

    app: AppId
    queue: str
    user: UserInfo
    tags: Mapping[str, str]
    placeholder_ask: Resources = field(default_factory=dict)
    style: str = ""
    execution_timeout_ms: int = 0


class ApplicationSubmitted(msgspec.Struct, frozen=True, gc=False):
    """A new application, or an update of its namespace's quota."""

    spec: ApplicationSpec


class ApplicationRemoved(msgspec.Struct, frozen=True, gc=False):
    """The application is removed, because its last pod ended before it completed."""

    app: AppId


class AskSubmitted(msgspec.Struct, frozen=True, gc=False):
    """A pod requests a node. A request with the same key is replaced (docs/internals/semantics.md, 3)."""

    ask: AskSpec


class AskReleased(msgspec.Struct, frozen=True, gc=False):
    """The request of a pod is withdrawn. STOPPED_BY_RM, or TIMEOUT to confirm the core's own release."""

    app: AppId
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


class AllocationReported(msgspec.Struct, frozen=True, gc=False):
    """A pod is on a node that the core did not choose: a foreign pod, or a pod that was bound before."""

    allocation: AllocationSpec


class AllocationReleased(msgspec.Struct, frozen=True, gc=False):
    """A pod has left its node. STOPPED_BY_RM, or the type of the core's release that is confirmed.

    See docs/internals/semantics.md, 4. ``app`` is None for a foreign pod.
    """

    app: AppId | None
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


class NodeCreated(msgspec.Struct, frozen=True, gc=False):
    """A new node. ``drained`` (CREATE_DRAIN): not schedulable before NodeOpened. ``existing``: the pods on it."""

    node: Node
    drained: bool
    existing: tuple[AllocationSpec, ...] = ()


class NodeUpdated(msgspec.Struct, frozen=True, gc=False):
    """Capacity or attributes of a node changed. ``existing``: pods that did not fit into the NodeCreated message."""

    node: Node
    existing: tuple[AllocationSpec, ...] = ()


class NodeDrained(msgspec.Struct, frozen=True, gc=False):
    """A node was cordoned (DRAIN_NODE)."""

    name: NodeName


class NodeOpened(msgspec.Struct, frozen=True, gc=False):
    """A node is schedulable again (DRAIN_TO_SCHEDULABLE)."""

    name: NodeName


class NodeDecommissioned(msgspec.Struct, frozen=True, gc=False):
    """A node was deleted with all its allocations (DECOMISSION, as the Scheduler Interface spells it)."""

    name: NodeName


class ClusterObjectReported(msgspec.Struct, frozen=True, gc=False):
    """An object for the core's filters was created, changed or deleted."""

    fact: ClusterObject


ApplicationRequest = ApplicationSubmitted | ApplicationRemoved
AllocationRequest = AskSubmitted | AskReleased | AllocationReported | AllocationReleased
NodeRequest = NodeCreated | NodeUpdated | NodeDrained | NodeOpened | NodeDecommissioned
CoreRequest = ApplicationRequest | AllocationRequest | NodeRequest | ClusterObjectReported


class InventoryPart(Enum):
    """The objects that an inventory request asks for."""

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

    part: InventoryPart
    beyond: str = ""
    last: str = ""
    applications: tuple[ApplicationInCore, ...] = ()
    nodes: tuple[NodeInCore, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether the inventory includes the name."""
        return self.beyond < name and (not self.last or name <= self.last)


class Allocated(msgspec.Struct, frozen=True, gc=False):
    """A pod gets a node. ``volumes``: volumes for its unbound claims (tag ``muster/chosen-volumes``).

    ``devices``: devices for its ResourceClaims that are not allocated (tag ``muster/chosen-devices``).
    """

    app: AppId
    key: PodUid
    node: NodeName
    allocation_id: AllocationId = NO_ALLOCATION_ID
    volumes: ChosenVolumes = msgspec.field(default_factory=dict)
    devices: tuple[ChosenDevices, ...] = ()


class Released(msgspec.Struct, frozen=True, gc=False):
    """An allocation is to be released, or (STOPPED_BY_RM) was. An empty key means all of the application.

    ``at_once``: a placeholder that is replaced. Its pod is deleted without waiting for the end of its container.
    """

    app: AppId
    key: PodUid
    termination: TerminationType
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""
    at_once: bool = False


class AskCancelled(msgspec.Struct, frozen=True, gc=False):
    """The core cancelled a request. An empty key means all of the application."""

    app: AppId
    key: PodUid
    termination: TerminationType
    message: str = ""


class AskRejected(msgspec.Struct, frozen=True, gc=False):
    """The core rejected a request."""

    app: AppId
    key: PodUid
    reason: str


class AllocationRejected(msgspec.Struct, frozen=True, gc=False):
    """The core rejected an existing allocation."""

    app: AppId
    key: PodUid
    reason: str


class AllocationResponse(msgspec.Struct, frozen=True, gc=False):
    """An AllocationResponse. The fields are applied in this order (docs/internals/semantics.md, 1)."""

    cancelled_asks: tuple[AskCancelled, ...] = ()
    released: tuple[Released, ...] = ()
    allocated: tuple[Allocated, ...] = ()
    rejected_asks: tuple[AskRejected, ...] = ()
    rejected_allocations: tuple[AllocationRejected, ...] = ()


class ApplicationAccepted(msgspec.Struct, frozen=True, gc=False):
    """The application was accepted and has a queue."""

    app: AppId


class ApplicationRejected(msgspec.Struct, frozen=True, gc=False):
    """The application was rejected, with the reason for the user."""

    app: AppId
    reason: str


class ApplicationUpdated(msgspec.Struct, frozen=True, gc=False):
    """The application is in a new state (one of ``muster_si.keys.APP_*``)."""

    app: AppId
    state: str
    message: str = ""


class ApplicationResponse(msgspec.Struct, frozen=True, gc=False):
    """An ApplicationResponse. The fields are applied in this order."""

    rejected: tuple[ApplicationRejected, ...] = ()
    accepted: tuple[ApplicationAccepted, ...] = ()
    updated: tuple[ApplicationUpdated, ...] = ()


class NodeResponse(msgspec.Struct, frozen=True, gc=False):
    """A NodeResponse. ``rejected``: reasons by node name."""

    accepted: tuple[NodeName, ...] = ()
    rejected: Mapping[NodeName, str] | None = None


class SchedulingState(StrEnum):
    """Why a request waits, or that it does not. See docs/internals/semantics.md, 6."""

    SKIPPED = "Skipped"
    SCHEDULED = "Scheduled"
    RESERVED = "Reserved"
    FAILED = "Failed"


class SchedulingStateChanged(msgspec.Struct, frozen=True, gc=False):
    """The scheduling state of a request changed. ``kind``: kind of the reason (``muster_si.keys.REASON_*``).

    ``preemption_node``: the node on which preempted pods terminate for the request; empty = none.
    """

    app: AppId
    key: PodUid
    state: SchedulingState
    reason: str = ""
    kind: str = ""
    preemption_node: NodeName = NO_NODE


class SchedulingStates(msgspec.Struct, frozen=True, gc=False):
    """Changed states of one callback."""

    changes: tuple[SchedulingStateChanged, ...]


class EventKind(StrEnum):
    """What a core event is about (EventRecord.Type of the Scheduler Interface)."""

    REQUEST = "REQUEST"
    APP = "APP"
    NODE = "NODE"
    QUEUE = "QUEUE"


class CoreEvent(msgspec.Struct, frozen=True, gc=False):
    """A core event. ``object_id``: key of the request, or ID of the application, node or queue.

    ``reference_id``: application of the request.
    """

    kind: EventKind
    object_id: str
    reference_id: str
    message: str


class CoreEvents(msgspec.Struct, frozen=True, gc=False):
    """Core events of one callback."""

    events: tuple[CoreEvent, ...]


class NodeRecommended(msgspec.Struct, frozen=True, gc=False):
    """A recommendation for a node as text (NodeRecommendation of the Scheduler Interface)."""

    node: NodeName
    message: str


class Recommendations(msgspec.Struct, frozen=True, gc=False):
    """Recommendations of one callback."""

    nodes: tuple[NodeRecommended, ...]


CoreResponse = AllocationResponse | ApplicationResponse | NodeResponse | SchedulingStates | CoreEvents | Recommendations
