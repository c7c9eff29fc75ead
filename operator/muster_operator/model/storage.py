"""Volumes, claims and other cluster objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_operator.model.ids import NodeName


class ObjectKind(StrEnum):
    """What kind of object; the names of the interface's enum `Fact.Kind`."""

    NAMESPACE = "NAMESPACE"
    VOLUME = "VOLUME"
    CLAIM = "CLAIM"
    STORAGE_CLASS = "STORAGE_CLASS"
    STORAGE_DRIVER = "STORAGE_DRIVER"
    STORAGE_CAPACITY = "STORAGE_CAPACITY"


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """One object as the core knows it. ``name``: ``namespace/name`` where it lies in a namespace.

    ``attributes`` are those of its kind in ``muster_si.keys``. ``gone``: it is there no more.
    """

    kind: ObjectKind
    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Which claim: enough to address it and to be sure that it is still the same one. An empty ``uid`` is any."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``, as facts and tags name it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a volume asks of one label of a node, spelled as in Kubernetes."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume. ``claim``: whom it is for (``spec.claimRef``). ``is_bound``: phase Bound.

    ``reach``: terms of its node affinity, None = it is reached from everywhere. ``handle``: of a CSI volume, empty for
    others, also those that a CSI driver took over. ``told``: what the core is told.
    """

    name: str
    claim: ClaimRef | None
    is_bound: bool
    is_going: bool
    reach: tuple[tuple[Requirement, ...], ...] | None
    handle: str
    told: ClusterObject


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. ``volume``: the name of its volume. ``is_bound``: its binding is completed.

    ``selected_node``: for which node its volume is to be made.
    """

    ref: ClaimRef
    volume: str
    is_bound: bool
    is_going: bool
    selected_node: str
    told: ClusterObject


@dataclass(frozen=True, slots=True)
class NodeDrivers:
    """The CSINode of a node, as ``muster/volume-limits`` and ``muster/migrated-plugins``, which is empty for none."""

    node: NodeName
    limits: str
    migrated: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A VolumeAttachment: a volume that is, or is to be, attached to a node by a driver."""

    name: str
    node: NodeName
    driver: str
    volume: str


ChosenVolumes = Mapping[str, str]
"""The core's choice for a pod (``muster/chosen-volumes``): volume by claim, an empty one is to be made."""
