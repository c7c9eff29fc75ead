"""Orders to Kubernetes. The link carries them out, each at least once, and reports how it went (``results``).

Retries belong to the link: 409, 429, 5xx and time-outs are tried again there and only a final answer is reported.
All are safe to repeat: creates have names that follow from the gang, deletes and binds name the pod's UID.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from muster_operator.model.groups import PlaceholderSpec
from muster_operator.model.ids import NodeName
from muster_operator.model.pods import PodRef
from muster_operator.model.storage import ClaimRef


@dataclass(frozen=True, slots=True)
class CreatePlaceholder:
    """Create a placeholder pod with our field manager. 409 AlreadyExists is a final answer here, not a retry."""

    spec: PlaceholderSpec


@dataclass(frozen=True, slots=True)
class BindPod:
    """Bind a pod to a node through the binding subresource, once and never blindly again (semantics 20)."""

    pod: PodRef
    node: NodeName
    placeholder: bool = False


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod with its UID as precondition; 404 and a UID conflict are success. ``reason`` is for the log.

    ``at_once``: grace period 0, for placeholders; otherwise the pod's own.
    """

    pod: PodRef
    reason: str
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class FailPod:
    """Set ``status.phase=Failed`` with this reason on a pod that never got a node (contract 6.2)."""

    pod: PodRef
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Set the condition PodScheduled=False with this reason (contract 6.2)."""

    pod: PodRef
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class MarkResumed:
    """Note on the originator that the gang's reservation is over, so that a restart makes no placeholders again."""

    originator: PodRef


@dataclass(frozen=True, slots=True)
class MarkDisrupted:
    """Set the condition DisruptionTarget=True on a pod that is preempted, before it is deleted.

    A Job's podFailurePolicy tells a preemption from a failure of the program by it (Kubernetes, pod disruptions).
    """

    pod: PodRef
    message: str


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """Write on a free volume that it is for this claim, as kube-scheduler does; ``undo``: that it is free again.

    A volume that is another claim's by then is refused with 409, and undone is only what has not been bound yet.
    """

    pod: PodRef
    claim: ClaimRef
    volume: str
    undo: bool = False


@dataclass(frozen=True, slots=True)
class SelectNode:
    """Write on a claim for which node its volume is to be made; ``undo``: for none. As for ClaimVolume otherwise."""

    pod: PodRef
    claim: ClaimRef
    node: NodeName
    undo: bool = False


class Subject(StrEnum):
    """The kind of object that an event is about."""

    POD = "Pod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    CONFIG_MAP = "ConfigMap"
    LEASE = "Lease"


class EventType(StrEnum):
    """The two types that Kubernetes knows."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Importance(IntEnum):
    """What a full event queue drops first (architecture 7)."""

    PROGRESS = 0
    RESULT = 1
    PROBLEM = 2


@dataclass(frozen=True, slots=True)
class PostEvent:
    """A Kubernetes event (events.k8s.io/v1) that a user acts on (semantics 28).

    ``namespace`` and ``uid`` are empty for what is in no namespace. Events of equal non-empty ``series`` are one event
    whose note and count move on; an empty one stands alone. ``at``: when it happened, epoch seconds (0 = now); the
    pool notes it, for an event may wait.
    """

    subject: Subject
    namespace: str
    name: str
    uid: str
    type: EventType
    reason: str
    action: str
    note: str
    importance: Importance = Importance.RESULT
    series: str = ""
    at: float = field(default=0.0, compare=False)


PodCommand = BindPod | DeletePod | FailPod | SetCondition | MarkResumed | MarkDisrupted
StorageCommand = ClaimVolume | SelectNode
Command = CreatePlaceholder | PodCommand | StorageCommand | PostEvent
