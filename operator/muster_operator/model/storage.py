"""Volumes, claims and other cluster objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_operator.model.ids import NodeName


class ObjectKind(StrEnum):
    """Kind of an object for the core; the names of the interface's enum `Fact.Kind`."""

    NAMESPACE = "NAMESPACE"
    VOLUME = "VOLUME"
    CLAIM = "CLAIM"
    STORAGE_CLASS = "STORAGE_CLASS"
    STORAGE_DRIVER = "STORAGE_DRIVER"
    STORAGE_CAPACITY = "STORAGE_CAPACITY"
    DEVICE_SLICE = "DEVICE_SLICE"
    DEVICE_CLASS = "DEVICE_CLASS"
    DEVICE_CLAIM = "DEVICE_CLAIM"


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """An object for the core's filters. ``name``: ``namespace/name`` if it has a namespace.

    ``attributes``: those of its kind in ``muster_si.keys``. ``gone``: it was deleted.
    """

    kind: ObjectKind
    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Identifies a PersistentVolumeClaim or ResourceClaim. An empty ``uid`` matches any."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``, as in tags and objects for the core."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of a volume's node affinity, as in Kubernetes."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume. ``claim``: its ``spec.claimRef``. ``is_bound``: phase Bound. ``is_deleting``: being deleted.

    ``reach``: terms of its node affinity, None = accessible from all nodes. ``handle``: handle of a CSI volume, empty
    for others, also for migrated in-tree volumes. ``reported``: the object as reported to the core.
    """

    name: str
    claim: ClaimRef | None
    is_bound: bool
    is_deleting: bool
    reach: tuple[tuple[Requirement, ...], ...] | None
    handle: str
    reported: ClusterObject


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. ``volume``: name of its volume. ``is_bound``: the binding is completed.

    ``selected_node``: the node that its volume is provisioned for. ``is_deleting``: being deleted. ``version``: its
    resource version, 0 if it is not a number.
    """

    ref: ClaimRef
    volume: str
    is_bound: bool
    is_deleting: bool
    selected_node: str
    reported: ClusterObject
    version: int = 0


@dataclass(frozen=True, slots=True)
class NodeDrivers:
    """Values of ``muster/volume-limits`` and ``muster/migrated-plugins`` from a CSINode; the second may be empty."""

    node: NodeName
    limits: str
    migrated: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A VolumeAttachment: a volume that a driver attaches, or will attach, to a node."""

    name: str
    node: NodeName
    driver: str
    volume: str


ChosenVolumes = Mapping[str, str]
"""The core's choice for a pod (``muster/chosen-volumes``): volume by claim; empty = it is to be provisioned."""
