"""Messages to the core, which `si/codec.py` converts to the Scheduler Interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from msgspec import field as msgspec_field

from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, NumberEnum, PodUid, Resources
from muster_operator.model.pods import UserInfo
from muster_operator.model.storage import ClusterObject
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
    keys.TAG_AVOID_NODES,
    keys.TAG_ALLOCATED_AT,
    keys.TAG_UNVERIFIED,
)


class AskSpec(Struct, frozen=True, gc=False):
    """The request of a pod for a node; also the body of its allocation.

    ``app`` is None for a pod of another scheduler, which only uses resources of its node. ``common``: tags of the pod's
    class, as one shared object. All other entries of ``tags`` are in ``OWN_TAGS``.
    """

    key: PodUid
    app: AppId | None
    resources: Resources
    priority: int = 0
    tags: Mapping[str, str] = msgspec_field(default_factory=dict)
    task_group: str = ""
    placeholder: bool = False
    originator: bool = False
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    common: Mapping[str, str] = msgspec_field(default_factory=dict)


class AllocationSpec(Struct, frozen=True, gc=False):
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


class ApplicationSubmitted(Struct, frozen=True, gc=False):
    """A new application, or an update of its namespace's quota."""

    spec: ApplicationSpec


class ApplicationRemoved(Struct, frozen=True, gc=False):
    """The application is removed, because its last pod ended before it completed."""

    app: AppId


class AskSubmitted(Struct, frozen=True, gc=False):
    """A pod requests a node. A request with the same key is replaced (docs/internals/semantics.md, 3)."""

    ask: AskSpec


class AskReleased(Struct, frozen=True, gc=False):
    """The request of a pod is withdrawn. STOPPED_BY_RM, or TIMEOUT to confirm the core's own release."""

    app: AppId
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


class AllocationReported(Struct, frozen=True, gc=False):
    """A pod is on a node that the core did not choose: a foreign pod, or a pod that was bound before."""

    allocation: AllocationSpec


class AllocationReleased(Struct, frozen=True, gc=False):
    """A pod has left its node. STOPPED_BY_RM, or the type of the core's release that is confirmed.

    See docs/internals/semantics.md, 4. ``app`` is None for a foreign pod.
    """

    app: AppId | None
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


class NodeCreated(Struct, frozen=True, gc=False):
    """A new node. ``drained`` (CREATE_DRAIN): not schedulable before NodeOpened. ``existing``: the pods on it."""

    node: Node
    drained: bool
    existing: tuple[AllocationSpec, ...] = ()


class NodeUpdated(Struct, frozen=True, gc=False):
    """Capacity or attributes of a node changed. ``existing``: pods that did not fit into the NodeCreated message."""

    node: Node
    existing: tuple[AllocationSpec, ...] = ()


class NodeDrained(Struct, frozen=True, gc=False):
    """A node was cordoned (DRAIN_NODE)."""

    name: NodeName


class NodeOpened(Struct, frozen=True, gc=False):
    """A node is schedulable again (DRAIN_TO_SCHEDULABLE)."""

    name: NodeName


class NodeDecommissioned(Struct, frozen=True, gc=False):
    """A node was deleted with all its allocations (DECOMISSION, as the Scheduler Interface spells it)."""

    name: NodeName


class ClusterObjectReported(Struct, frozen=True, gc=False):
    """An object for the core's filters was created, changed or deleted."""

    fact: ClusterObject


ApplicationRequest = ApplicationSubmitted | ApplicationRemoved
AllocationRequest = AskSubmitted | AskReleased | AllocationReported | AllocationReleased
NodeRequest = NodeCreated | NodeUpdated | NodeDrained | NodeOpened | NodeDecommissioned
CoreRequest = ApplicationRequest | AllocationRequest | NodeRequest | ClusterObjectReported
