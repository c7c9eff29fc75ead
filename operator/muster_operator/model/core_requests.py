"""What the operator sends to the core."""

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
    """What a node offers (``status.allocatable``) and what filters read of it (contract 1.7).

    ``attributes`` are in the vocabulary of ``muster_si.keys``: labels, taints, host name, instance type, readiness.
    ``schedulable`` is false for a cordoned node (``spec.unschedulable``).
    """

    name: NodeName
    uid: str
    capacity: Resources
    attributes: Mapping[str, str]
    schedulable: bool = True


class TerminationType(NumberEnum):
    """Why an allocation or ask ends; the numbers of seed 003."""

    UNKNOWN = 0
    STOPPED_BY_RM = 1
    TIMEOUT = 2
    PREEMPTED_BY_SCHEDULER = 3
    PLACEHOLDER_REPLACED = 4


#: What an ask may say in addition to what it has in common with its class.
OWN_TAGS: Final = (
    keys.TAG_POD_NAME,
    keys.TAG_CREATION_TIME,
    keys.TAG_TERMINATING,
    keys.TAG_AVOID_NODES,
    keys.TAG_ALLOCATED_AT,
    keys.TAG_UNVERIFIED,
)


class AskSpec(Struct, frozen=True, gc=False):
    """One pod that wants a node: an ask, and, once it has one, the body of its allocation.

    ``app`` is None for a pod of another scheduler, which is counted on its node only (semantics 7). ``common``: those
    of its tags that its class has in common, as one object; what is beside them in ``tags`` is in ``OWN_TAGS``.
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
    """An allocation that exists in Kubernetes and that the core has to account for."""

    ask: AskSpec
    node: NodeName
    allocation_id: AllocationId = NO_ALLOCATION_ID


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """``placeholder_ask`` is empty and ``style`` blank for an application that is no gang."""

    app: AppId
    queue: str
    user: UserInfo
    tags: Mapping[str, str]
    placeholder_ask: Resources = field(default_factory=dict)
    style: str = ""
    execution_timeout_ms: int = 0


class ApplicationSubmitted(Struct, frozen=True, gc=False):
    """A new application."""

    spec: ApplicationSpec


class ApplicationRemoved(Struct, frozen=True, gc=False):
    """The last pod of an application is gone before it could complete."""

    app: AppId


class AskSubmitted(Struct, frozen=True, gc=False):
    """A pod wants a node; with a known key it replaces that ask (semantics 3)."""

    ask: AskSpec


class AskReleased(Struct, frozen=True, gc=False):
    """A pod no longer wants a node. The type is STOPPED_BY_RM, or TIMEOUT to confirm the core's own release."""

    app: AppId
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


class AllocationReported(Struct, frozen=True, gc=False):
    """A pod has a node that the core did not give it: a foreign pod, or one that came bound."""

    allocation: AllocationSpec


class AllocationReleased(Struct, frozen=True, gc=False):
    """A pod has left its node. STOPPED_BY_RM is ours; any other type confirms the core's release with the same type
    (semantics 4). ``app`` is None for a foreign pod."""

    app: AppId | None
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


class NodeCreated(Struct, frozen=True, gc=False):
    """A new node. ``drained`` = CREATE_DRAIN: it takes nothing before NodeOpened. ``existing`` are the pods on it."""

    node: Node
    drained: bool
    existing: tuple[AllocationSpec, ...] = ()


class NodeUpdated(Struct, frozen=True, gc=False):
    """Capacity or attributes of a known node changed; or ``existing``: more pods on it than its creation could say."""

    node: Node
    existing: tuple[AllocationSpec, ...] = ()


class NodeDrained(Struct, frozen=True, gc=False):
    """A node was cordoned (DRAIN_NODE)."""

    name: NodeName


class NodeOpened(Struct, frozen=True, gc=False):
    """A drained node takes pods again (DRAIN_TO_SCHEDULABLE)."""

    name: NodeName


class NodeDecommissioned(Struct, frozen=True, gc=False):
    """A node is gone, and everything on it (DECOMISSION)."""

    name: NodeName


class ClusterObjectReported(Struct, frozen=True, gc=False):
    """An object that filters read exists and looks like this, or is gone."""

    fact: ClusterObject


ApplicationRequest = ApplicationSubmitted | ApplicationRemoved
AllocationRequest = AskSubmitted | AskReleased | AllocationReported | AllocationReleased
NodeRequest = NodeCreated | NodeUpdated | NodeDrained | NodeOpened | NodeDecommissioned
CoreRequest = ApplicationRequest | AllocationRequest | NodeRequest | ClusterObjectReported
