"""Events: changes of Kubernetes objects, as `translate` and the inbox create them for the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from muster_operator.model.core_messages import Node
from muster_operator.model.devices import DeviceClaim, DeviceClass, DeviceSlice, TaintRule
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pod_groups import PodGroup
from muster_operator.model.pods import ForeignPod, Placement, Pod
from muster_operator.model.signing import SigningKeys
from muster_operator.model.storage import Attachment, Claim, ClusterObject, NodeDrivers, Volume


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace. ``tags`` are added to every application of the namespace, as in YuniKorn.

    ``problems``: reasons of ignored annotations. ``misspelt``: labels, annotations and resources without effect.
    ``labels``: for the namespace selectors of pods. ``uid``: a namespace that is created again under the same name has
    another one.
    """

    name: str
    tags: Mapping[str, str]
    problems: tuple[str, ...] = ()
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    misspelt: tuple[str, ...] = ()


class PodSeen(Struct, frozen=True, gc=False):
    """A pod was created or changed."""

    pod: Pod | ForeignPod


class PodGone(Struct, frozen=True, gc=False):
    """A pod was deleted, of this or another scheduler."""

    uid: PodUid


class NodeSeen(Struct, frozen=True, gc=False):
    """A node was created or changed."""

    node: Node


class NodeGone(Struct, frozen=True, gc=False):
    """A node was deleted."""

    name: NodeName


class NamespaceSeen(Struct, frozen=True, gc=False):
    """A namespace was created or changed."""

    namespace: Namespace


class NamespaceGone(Struct, frozen=True, gc=False):
    """A namespace was deleted. Its pods have events of their own."""

    name: str


class PriorityClassSeen(Struct, frozen=True, gc=False):
    """A priority class was created or changed. Only its annotation ``allow-preemption`` is used, as in YuniKorn."""

    name: str
    allow_preemption: bool


class PodGroupSeen(Struct, frozen=True, gc=False):
    """A PodGroup was created or changed."""

    group: PodGroup


class PodGroupGone(Struct, frozen=True, gc=False):
    """A PodGroup, ``namespace/name``, was deleted."""

    key: str


class ObjectSeen(Struct, frozen=True, gc=False):
    """Another object for the core's filters was created, changed or deleted."""

    object: ClusterObject


class VolumeSeen(Struct, frozen=True, gc=False):
    """A PersistentVolume was created or changed."""

    volume: Volume


class VolumeGone(Struct, frozen=True, gc=False):
    """A PersistentVolume was deleted."""

    name: str


class ClaimGone(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim, ``namespace/name``, was deleted."""

    key: str


class ClaimSeen(Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim was created or changed."""

    claim: Claim


class DriversSeen(Struct, frozen=True, gc=False):
    """The CSINode of a node was created or changed; without ``limits`` it was deleted."""

    drivers: NodeDrivers


class AttachmentSeen(Struct, frozen=True, gc=False):
    """A VolumeAttachment was created or changed."""

    attachment: Attachment


class AttachmentGone(Struct, frozen=True, gc=False):
    """A VolumeAttachment was deleted."""

    name: str


class DeviceSliceSeen(Struct, frozen=True, gc=False):
    """A ResourceSlice was created or changed."""

    slice: DeviceSlice


class DeviceSliceGone(Struct, frozen=True, gc=False):
    """A ResourceSlice was deleted."""

    name: str


class TaintRuleSeen(Struct, frozen=True, gc=False):
    """A DeviceTaintRule was created or changed."""

    rule: TaintRule


class TaintRuleGone(Struct, frozen=True, gc=False):
    """A DeviceTaintRule was deleted."""

    name: str


class DeviceClassSeen(Struct, frozen=True, gc=False):
    """A DeviceClass was created or changed."""

    device_class: DeviceClass


class DeviceClassGone(Struct, frozen=True, gc=False):
    """A DeviceClass was deleted."""

    name: str


class DeviceClaimSeen(Struct, frozen=True, gc=False):
    """A ResourceClaim was created or changed."""

    claim: DeviceClaim


class DeviceClaimGone(Struct, frozen=True, gc=False):
    """A ResourceClaim, ``namespace/name``, was deleted."""

    key: str


class KeysSeen(Struct, frozen=True, gc=False):
    """The signing keys were read or have changed."""

    keys: SigningKeys


class PlacementChosen(Struct, frozen=True, gc=False):
    """The configured placement mode of gangs has changed; None = none is set. See docs/internals/semantics.md, 16."""

    placement: Placement | None


StorageEvent = VolumeSeen | VolumeGone | ClaimSeen | ClaimGone | DriversSeen | AttachmentSeen | AttachmentGone
DeviceEvent = (
    DeviceSliceSeen
    | DeviceSliceGone
    | TaintRuleSeen
    | TaintRuleGone
    | DeviceClassSeen
    | DeviceClassGone
    | DeviceClaimSeen
    | DeviceClaimGone
)
ObjectEvent = NamespaceSeen | NamespaceGone | PriorityClassSeen | ObjectSeen
PodGroupEvent = PodGroupSeen | PodGroupGone
OtherEvent = (
    PodGone
    | NodeSeen
    | NodeGone
    | ObjectEvent
    | PodGroupEvent
    | StorageEvent
    | DeviceEvent
    | PlacementChosen
    | KeysSeen
)
ClusterEvent = PodSeen | OtherEvent

#: Events after which the object does not exist.
DELETIONS: Final = (
    *(PodGone, NodeGone, NamespaceGone, PodGroupGone),
    *(VolumeGone, ClaimGone, AttachmentGone, DeviceClassGone, DeviceClaimGone, DeviceSliceGone, TaintRuleGone),
)
