"""What Kubernetes reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from muster_operator.model.core_requests import Node
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import ForeignPod, Placement, Pod
from muster_operator.model.signing import SigningKeys
from muster_operator.model.storage import Attachment, Claim, ClusterObject, NodeDrivers, Volume


@dataclass(frozen=True, slots=True)
class Namespace:
    """``tags`` go into every application of the namespace (contract 1.6, 1.9); ``problems`` are ignored annotations.

    ``labels`` are what the namespace selectors of pods read.
    """

    name: str
    tags: Mapping[str, str]
    problems: tuple[str, ...] = ()
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


class PodSeen(Struct, frozen=True, gc=False):
    """A pod exists and looks like this."""

    pod: Pod | ForeignPod


class PodGone(Struct, frozen=True, gc=False):
    """A pod no longer exists, ours or foreign."""

    uid: PodUid


class NodeSeen(Struct, frozen=True, gc=False):
    """A node exists and looks like this."""

    node: Node


class NodeGone(Struct, frozen=True, gc=False):
    """A node no longer exists."""

    name: NodeName


class NamespaceSeen(Struct, frozen=True, gc=False):
    """A namespace exists and carries these annotations."""

    namespace: Namespace


class NamespaceGone(Struct, frozen=True, gc=False):
    """A namespace no longer exists; its pods are told one by one."""

    name: str


class PriorityClassSeen(Struct, frozen=True, gc=False):
    """A priority class exists; only ``allow-preemption`` is read of it (contract 1.7)."""

    name: str
    allow_preemption: bool


class ObjectSeen(Struct, frozen=True, gc=False):
    """Another object that filters read exists and looks like this, or is gone."""

    object: ClusterObject


class VolumeSeen(Struct, frozen=True, gc=False):
    """A PersistentVolume exists and looks like this."""

    volume: Volume


class VolumeGone(Struct, frozen=True, gc=False):
    """A PersistentVolume no longer exists."""

    name: str


class ClaimGone(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim, ``namespace/name``, no longer exists."""

    key: str


class ClaimSeen(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim exists and looks like this."""

    claim: Claim


class DriversSeen(Struct, frozen=True, gc=False):
    """The CSINode of a node looks like this; without ``limits`` it is gone."""

    drivers: NodeDrivers


class AttachmentSeen(Struct, frozen=True, gc=False):
    """A VolumeAttachment exists and looks like this."""

    attachment: Attachment


class AttachmentGone(Struct, frozen=True, gc=False):
    """A VolumeAttachment no longer exists."""

    name: str


class KeysSeen(Struct, frozen=True, gc=False):
    """These keys sign and verify from now on."""

    keys: SigningKeys


class PlacementChosen(Struct, frozen=True, gc=False):
    """The configuration says how gangs that name no placement get their places, from now on (semantics 16)."""

    placement: Placement


StorageEvent = VolumeSeen | VolumeGone | ClaimSeen | ClaimGone | DriversSeen | AttachmentSeen | AttachmentGone
ObjectEvent = NamespaceSeen | NamespaceGone | PriorityClassSeen | ObjectSeen
ClusterEvent = PodSeen | PodGone | NodeSeen | NodeGone | ObjectEvent | StorageEvent | PlacementChosen | KeysSeen
