"""Translation of Kubernetes objects to cluster events, and the resource versions of known objects.

A raw object is translated as soon as it is read and then dropped, because its value is many times smaller. A list runs
next to the watch, so that an object can arrive by both in any order. An older state never replaces a newer one, and a
deleted object is not added again by an older page.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from muster_operator.kube.watch import whole
from muster_operator.model.cluster_events import (
    AttachmentGone,
    AttachmentSeen,
    ClaimGone,
    ClaimSeen,
    ClusterEvent,
    DriversSeen,
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
from muster_operator.model.limits import REMEMBERED_DELETIONS
from muster_operator.model.settings import Settings
from muster_operator.model.storage import ClusterObject, NodeDrivers, ObjectKind
from muster_operator.translate import storage
from muster_operator.translate.nodes import read_namespace, read_node, read_priority_class
from muster_operator.translate.pod_classes import PartialPod, PodClasses
from muster_operator.translate.pods import read_pod
from muster_operator.translate.values import Raw, mapping, text

#: Kind of an object that was read individually, and can be older than the last watch event.
READ: Final = "READ"


@dataclass(slots=True)
class _OpenList:
    """A list that is not complete. `is_reset`: the store was restored, so that earlier versions cannot be compared.

    `unconfirmed`: known objects that the list has not shown yet. `deleted`: objects that the watch reported as deleted
    since the list began, so that an older page does not add them again.
    """

    unconfirmed: dict[str, str]
    is_reset: bool
    deleted: dict[str, str] = field(default_factory=dict)


class Versions:
    """Resource versions by resource and key (`key_of`)."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = defaultdict(dict)
        self._lists: dict[str, _OpenList] = {}
        self._deleted: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._listed: dict[str, str] = {}  # version of the last complete list, by resource

    def __len__(self) -> int:
        known = sum(len(of_kind) for of_kind in self._seen.values())
        return known + sum(len(one.unconfirmed) for one in self._lists.values())

    def is_news(self, plural: str, key: str, kind: str | None, version: str) -> bool:
        """Whether this state is new. Records it. `kind`: as in a watch event, READ, or None for a list."""
        if kind == READ:
            return self._is_news_read(plural, key, version)
        known, before = self._seen[plural], None
        seen = known.get(key)
        if seen is None and (one := self._lists.get(plural)) is not None:
            before = one.unconfirmed.pop(key, None)
            if before is not None and not one.is_reset:
                known[key] = seen = before
        if kind == "DELETED":
            if _is_older(version, seen):
                return False  # the list has already shown a newer object with the same name
            known.pop(key, None)
            self._remember_deleted(plural, key, version)
            return True
        if (version and version == seen) or _is_older(version, seen):
            return False
        if seen is None and before is None and self._is_deleted(plural, key, version):
            return False
        known[key] = version
        return True

    def _is_news_read(self, plural: str, key: str, version: str) -> bool:
        """As `is_news` for a single read. The object can have been deleted since; a running list confirms it later."""
        known, one = self._seen[plural], self._lists.get(plural)
        if one is not None and key not in known:
            known = one.unconfirmed
        seen = known.get(key)
        if seen is None and self._was_deleted(plural, key, version):
            return False
        if version == seen or _is_older(version, seen):
            return False
        known[key] = version
        return True

    def _was_deleted(self, plural: str, key: str, version: str) -> bool:
        """Whether an unknown object, which was read at that version, was deleted since."""
        at = self._listed.get(plural, "")
        return (plural, key) in self._deleted or (bool(at) and not _is_older(at, version))

    def begin_list(self, plural: str, *, is_reset: bool = False) -> None:
        """A list is about to be requested. An open list was abandoned. `is_reset`: the store was restored."""
        known = self._seen.pop(plural, {})
        if (open_list := self._lists.get(plural)) is not None:
            open_list.unconfirmed.update(known)
            known, is_reset = open_list.unconfirmed, is_reset or open_list.is_reset
        self._lists[plural] = _OpenList(known, is_reset)
        if is_reset:
            self._listed.pop(plural, None)
            for key in [one for one in self._deleted if one[0] == plural]:
                del self._deleted[key]

    def end_list(self, plural: str, version: str) -> Iterator[str]:
        """The list of that version is complete. Yields the keys of missed deletions; must be consumed completely."""
        one = self._lists[plural]
        while one.unconfirmed:
            key, seen = one.unconfirmed.popitem()
            if not one.is_reset and _is_older(version, seen):
                self._seen[plural][key] = seen  # newer than the list
                continue
            self._remember_deleted(plural, key, version if version.isdecimal() else seen)
            yield key
        self._listed[plural] = version
        if self._lists.get(plural) is one:
            del self._lists[plural]

    def _is_deleted(self, plural: str, key: str, version: str) -> bool:
        """Whether the state is older than the object's deletion."""
        one = self._lists.get(plural)
        at = one.deleted.get(key) if one is not None else None
        if at is None:
            at = self._deleted.get((plural, key))
        return at is not None and (version == at or _is_older(version, at))

    def _remember_deleted(self, plural: str, key: str, version: str) -> None:
        self._deleted[plural, key] = version
        if len(self._deleted) > REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)
        if (one := self._lists.get(plural)) is not None:
            one.deleted[key] = version


def key_of(plural: str, raw: Raw | PartialPod) -> str:
    """Identifies an object of a resource: a pod by its UID, others by name or `namespace/name`."""
    if isinstance(raw, PartialPod):
        return raw.metadata.uid
    metadata = mapping(raw.get("metadata"))
    if plural == "pods":
        return text(metadata.get("uid"))
    namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
    return f"{namespace}/{name}" if namespace else name


def version_of(raw: Raw | PartialPod) -> str:
    """The resource version; empty if there is none."""
    if isinstance(raw, PartialPod):
        return raw.metadata.resource_version
    return text(mapping(raw.get("metadata")).get("resourceVersion"))


def _is_older(version: str, seen: str | None) -> bool:
    """Compares numeric versions, which Kubernetes 1.35 guarantees for its own resources. Others are never older."""
    if not seen or not version.isdecimal() or not seen.isdecimal():
        return False
    return len(version) < len(seen) or (len(version) == len(seen) and version < seen)


DELETED: Final = "DELETED"


def fact_of(plural: str, kind: str | None, raw: Raw, settings: Settings) -> ClusterEvent | None:
    """The event of an object. None for an invalid object or a resource that is not watched."""
    if kind == DELETED:
        return gone(plural, key_of(plural, raw))
    reader = _READERS.get(plural)
    return reader(raw, settings) if reader is not None else None


def gone(plural: str, key: str) -> ClusterEvent | None:
    """The event of a deletion. `key`: see `key_of`.

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
        case _:
            return gone_of_storage(plural, key)


def gone_of_storage(plural: str, key: str) -> ClusterEvent | None:
    """The event of a deleted storage object."""
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
TOLD_BY_THEMSELVES: Final[Mapping[str, ObjectKind]] = {
    "storageclasses": ObjectKind.STORAGE_CLASS,
    "csidrivers": ObjectKind.STORAGE_DRIVER,
    "csistoragecapacities": ObjectKind.STORAGE_CAPACITY,
}

_READERS: Final[Mapping[str, Callable[[Raw, Settings], ClusterEvent | None]]] = {
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


class ObjectDecoder:
    """Translates watched objects to events. `settings` returns the present settings."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._versions, self._classes = Versions(), PodClasses()

    def fact(self, plural: str, key: str, kind: str | None, raw: Raw | PartialPod) -> ClusterEvent | None:
        """The event of an object. None if its state is not new, as for most objects of a list, or is not used."""
        if not self._versions.is_news(plural, key, kind, version_of(raw)):
            return None
        if not isinstance(raw, PartialPod):
            return fact_of(plural, kind, raw, self._settings())
        if kind != DELETED and (pod := self._classes.read(raw, self._settings())) is not None:
            return PodSeen(pod)
        return fact_of(plural, kind, whole(raw), self._settings())

    def begin_list(self, plural: str, *, is_reset: bool) -> None:
        """A list is about to be requested. `is_reset`: the store was restored, so that older versions can follow."""
        self._versions.begin_list(plural, is_reset=is_reset)

    def end_list(self, plural: str, version: str) -> Iterator[tuple[str, ClusterEvent | None]]:
        """The list is complete. Yields missed deletions by key; must be consumed completely."""
        for key in self._versions.end_list(plural, version):
            yield key, gone(plural, key)
