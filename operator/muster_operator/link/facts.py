"""A raw object of a watch stream as the fact it is (style 23: raw objects end in `translate`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from muster_operator.link.versions import key_of
from muster_operator.model.facts import (
    AttachmentGone,
    AttachmentSeen,
    ClaimGone,
    ClaimSeen,
    DriversSeen,
    Fact,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
    VolumeGone,
    VolumeSeen,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.objects import ClusterObject, ObjectKind
from muster_operator.model.settings import Settings
from muster_operator.model.storage import NodeDrivers
from muster_operator.translate import storage
from muster_operator.translate.namespaces import read_namespace, read_priority_class
from muster_operator.translate.nodes import read_node
from muster_operator.translate.pods import read_pod
from muster_operator.translate.raw import Raw

DELETED: Final = "DELETED"


def fact_of(plural: str, kind: str | None, raw: Raw, settings: Settings) -> Fact | None:
    """What a watch event says; None for an object that cannot be read or a resource that is not watched."""
    if kind == DELETED:
        return gone(plural, key_of(plural, raw))
    reader = _READERS.get(plural)
    return reader(raw, settings) if reader is not None else None


def gone(plural: str, key: str) -> Fact | None:
    """That an object is gone: a pod's UID, another's name, with its namespace in front where it lies in one.

    A priority class that is gone is still the one its pods were made with: no fact.
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
        case _:
            return gone_of_storage(plural, key)


def gone_of_storage(plural: str, key: str) -> Fact | None:
    """That an object of storage is gone: its name, with its namespace in front where it lies in one."""
    match plural:
        case "persistentvolumes":
            return VolumeGone(key)
        case "persistentvolumeclaims":
            return ClaimGone(key)
        case "csinodes":
            return DriversSeen(NodeDrivers(NodeName(key), ""))
        case "volumeattachments":
            return AttachmentGone(key)
        case _ if plural in TOLD_BY_THEMSELVES:
            return ObjectSeen(ClusterObject(TOLD_BY_THEMSELVES[plural], key, gone=True))
        case _:
            return None


def _pod(raw: Raw, settings: Settings) -> Fact | None:
    pod = read_pod(raw, settings)
    return None if pod is None else PodSeen(pod)


def _node(raw: Raw, settings: Settings) -> Fact | None:
    node = read_node(raw, settings)
    return None if node is None else NodeSeen(node)


def _namespace(raw: Raw, _: Settings) -> Fact | None:
    namespace = read_namespace(raw)
    return None if namespace is None else NamespaceSeen(namespace)


def _priority_class(raw: Raw, _: Settings) -> Fact | None:
    return read_priority_class(raw)


T = TypeVar("T")


def _seen(read: Callable[[Raw], T | None], fact: Callable[[T], Fact]) -> Callable[[Raw, Settings], Fact | None]:
    """A reader of objects that settings do not matter to."""

    def reader(raw: Raw, _: Settings) -> Fact | None:
        found = read(raw)
        return None if found is None else fact(found)

    return reader


#: Objects of which nothing is known but what the core is told.
TOLD_BY_THEMSELVES: Final[Mapping[str, ObjectKind]] = {
    "storageclasses": ObjectKind.STORAGE_CLASS,
    "csidrivers": ObjectKind.STORAGE_DRIVER,
    "csistoragecapacities": ObjectKind.STORAGE_CAPACITY,
}
_READERS: Final[Mapping[str, Callable[[Raw, Settings], Fact | None]]] = {
    "pods": _pod,
    "nodes": _node,
    "namespaces": _namespace,
    "priorityclasses": _priority_class,
    "persistentvolumes": _seen(storage.read_volume, VolumeSeen),
    "persistentvolumeclaims": _seen(storage.read_claim, ClaimSeen),
    "storageclasses": _seen(storage.read_storage_class, ObjectSeen),
    "csidrivers": _seen(storage.read_driver, ObjectSeen),
    "csistoragecapacities": _seen(storage.read_capacity, ObjectSeen),
    "csinodes": _seen(storage.read_node_drivers, DriversSeen),
    "volumeattachments": _seen(storage.read_attachment, AttachmentSeen),
}
