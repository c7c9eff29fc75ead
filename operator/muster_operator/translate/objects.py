"""Any watched object as a cluster event. `runtime/loop` calls it for each new state of an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from muster_operator.model import names
from muster_operator.model.cluster_events import (
    AttachmentGone,
    AttachmentSeen,
    ClaimGone,
    ClaimSeen,
    ClusterEvent,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    DeviceSliceGone,
    DeviceSliceSeen,
    DriversSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodGroupGone,
    PodGroupSeen,
    PodSeen,
    TaintRuleGone,
    TaintRuleSeen,
    VolumeGone,
    VolumeSeen,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.settings import Settings
from muster_operator.model.storage import ClusterObject, NodeDrivers, ObjectKind
from muster_operator.translate import devices, storage
from muster_operator.translate.membership import read_group, read_labelled_group
from muster_operator.translate.nodes import read_namespace, read_node, read_priority_class
from muster_operator.translate.pods import read_pod
from muster_operator.translate.values import Raw


def read_object(plural: str, raw: Raw, settings: Settings) -> ClusterEvent | None:
    """The event of an object. None for an invalid object or a resource that is not watched."""
    reader = _READERS.get(plural)
    return reader(raw, settings) if reader is not None else None


def read_deletion(plural: str, key: str) -> ClusterEvent | None:
    """The event of a deletion. `key`: the UID of a pod; the name of others, or `namespace/name`.

    Deleted priority classes are ignored, because their pods keep the priority that they were created with.
    """
    match plural:
        case _ if not key:
            return None
        case "pods":
            return PodGone(PodUid(key))
        case "nodes":
            return NodeGone(NodeName(key))
        case "namespaces":
            return NamespaceGone(key)
        case "podgroups":
            return PodGroupGone(key)
        case names.LABELLED_POD_GROUPS:
            namespace, _, name = key.partition("/")
            return PodGroupGone(f"{namespace}/{names.LABEL_POD_GROUP}={name}")
        case _:
            return _storage_deletion(plural, key)


def _storage_deletion(plural: str, key: str) -> ClusterEvent | None:
    """The event of a deleted object of storage or devices."""
    match plural:
        case "persistentvolumes":
            return VolumeGone(key)
        case "persistentvolumeclaims":
            return ClaimGone(key)
        case "csinodes":
            return DriversSeen(NodeDrivers(NodeName(key), ""))
        case "volumeattachments":
            return AttachmentGone(key)
        case "resourceslices":
            return DeviceSliceGone(key)
        case "devicetaintrules":
            return TaintRuleGone(key)
        case "deviceclasses":
            return DeviceClassGone(key)
        case "resourceclaims":
            return DeviceClaimGone(key)
        case _ if plural in REPORTED_OBJECTS:
            return ObjectSeen(ClusterObject(REPORTED_OBJECTS[plural], key, gone=True))
        case _:
            return None


def _pod(raw: Raw, settings: Settings) -> ClusterEvent | None:
    pod = read_pod(raw, settings)
    return None if pod is None else PodSeen(pod)


def _node(raw: Raw, settings: Settings) -> ClusterEvent | None:
    node = read_node(raw, settings)
    return None if node is None else NodeSeen(node)


def _namespace(raw: Raw, _: Settings) -> ClusterEvent | None:
    namespace = read_namespace(raw)
    return None if namespace is None else NamespaceSeen(namespace)


def _priority_class(raw: Raw, _: Settings) -> ClusterEvent | None:
    return read_priority_class(raw)


T = TypeVar("T")


def _seen(
    read: Callable[[Raw], T | None], fact: Callable[[T], ClusterEvent]
) -> Callable[[Raw, Settings], ClusterEvent | None]:
    """A reader of objects whose translation does not depend on settings."""

    def reader(raw: Raw, _: Settings) -> ClusterEvent | None:
        found = read(raw)
        return None if found is None else fact(found)

    return reader


#: Objects that the controller does not use itself and only reports to the core.
REPORTED_OBJECTS: Final[Mapping[str, ObjectKind]] = {
    "storageclasses": ObjectKind.STORAGE_CLASS,
    "csidrivers": ObjectKind.STORAGE_DRIVER,
    "csistoragecapacities": ObjectKind.STORAGE_CAPACITY,
}

_READERS: Final[Mapping[str, Callable[[Raw, Settings], ClusterEvent | None]]] = {
    "pods": _pod,
    "nodes": _node,
    "namespaces": _namespace,
    "priorityclasses": _priority_class,
    "podgroups": _seen(read_group, PodGroupSeen),
    names.LABELLED_POD_GROUPS: _seen(read_labelled_group, PodGroupSeen),
    "persistentvolumes": _seen(storage.read_volume, VolumeSeen),
    "persistentvolumeclaims": _seen(storage.read_claim, ClaimSeen),
    "storageclasses": _seen(storage.read_storage_class, ObjectSeen),
    "csidrivers": _seen(storage.read_driver, ObjectSeen),
    "csistoragecapacities": _seen(storage.read_capacity, ObjectSeen),
    "csinodes": _seen(storage.read_node_drivers, DriversSeen),
    "volumeattachments": _seen(storage.read_attachment, AttachmentSeen),
    "resourceslices": _seen(devices.read_slice, DeviceSliceSeen),
    "devicetaintrules": _seen(devices.read_taint_rule, TaintRuleSeen),
    "deviceclasses": _seen(devices.read_class, DeviceClassSeen),
    "resourceclaims": _seen(devices.read_claim, DeviceClaimSeen),
}
