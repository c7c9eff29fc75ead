"""What Kubernetes tells the agent. Facts are levels, not edges: the same one twice changes nothing (style 31)."""

from __future__ import annotations

from dataclasses import dataclass

from muster_operator.model.groups import Placement
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.namespaces import Namespace
from muster_operator.model.nodes import Node
from muster_operator.model.objects import ClusterObject
from muster_operator.model.pods import ForeignPod, Pod
from muster_operator.model.storage import Attachment, Claim, NodeDrivers, Volume


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod exists and looks like this."""

    pod: Pod | ForeignPod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod no longer exists, ours or foreign."""

    uid: PodUid


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node exists and looks like this."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node no longer exists."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """A namespace exists and carries these annotations."""

    namespace: Namespace


@dataclass(frozen=True, slots=True)
class NamespaceGone:
    """A namespace no longer exists; its pods are told one by one."""

    name: str


@dataclass(frozen=True, slots=True)
class PriorityClassSeen:
    """A priority class exists; only ``allow-preemption`` is read of it (contract 1.7)."""

    name: str
    allow_preemption: bool


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """Another object that filters read exists and looks like this, or is gone."""

    object: ClusterObject


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    """A PersistentVolume exists and looks like this."""

    volume: Volume


@dataclass(frozen=True, slots=True)
class VolumeGone:
    """A PersistentVolume no longer exists."""

    name: str


@dataclass(frozen=True, slots=True)
class ClaimGone:
    """A PersistentVolumeClaim, ``namespace/name``, no longer exists."""

    key: str


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """A PersistentVolumeClaim exists and looks like this."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class DriversSeen:
    """The CSINode of a node looks like this; without ``limits`` it is gone."""

    drivers: NodeDrivers


@dataclass(frozen=True, slots=True)
class AttachmentSeen:
    """A VolumeAttachment exists and looks like this."""

    attachment: Attachment


@dataclass(frozen=True, slots=True)
class AttachmentGone:
    """A VolumeAttachment no longer exists."""

    name: str


@dataclass(frozen=True, slots=True)
class PlacementChosen:
    """The configuration says how gangs that name no placement get their places, from now on (semantics 16)."""

    placement: Placement


StorageFact = VolumeSeen | VolumeGone | ClaimSeen | ClaimGone | DriversSeen | AttachmentSeen | AttachmentGone
ClusterFact = NamespaceSeen | NamespaceGone | PriorityClassSeen | ObjectSeen
Fact = PodSeen | PodGone | NodeSeen | NodeGone | ClusterFact | StorageFact | PlacementChosen
