"""Volumes and claims and other cluster objects that filters read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_core.model.constraints import Selector, Term
from muster_core.model.ids import NodeId

FILESYSTEM: Final = "Filesystem"

#: Volume to claim, or claim to volume, that only one pod may use at a time.
ONE_POD: Final = "ReadWriteOncePod"
AVAILABLE: Final = "Available"
LOST: Final = "Lost"


@dataclass(frozen=True, slots=True)
class VolumeHandle:
    """A volume as a CSI driver knows it: two volumes with one handle are one attachment."""

    driver: str
    id: str


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """Of a volume that is, or is to be, some claim's. `uid` empty: of whichever has that name."""

    claim: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """What a claim asks of a volume, beside its size and its name; equal demands are met by the same volumes."""

    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = FILESYSTEM
    attributes_class: str = ""
    #: None = any volume.
    selector: Selector = None


@dataclass(frozen=True, slots=True)
class MigratedVolume:
    """Where a volume of a plugin that was part of Kubernetes is reached on nodes whose CSI driver took it over."""

    plugin: str
    affinity: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Volume:
    """PersistentVolume. `affinity`: terms are ORed; None = every node reaches it."""

    name: str
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = FILESYSTEM
    storage_class: str = ""
    attributes_class: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    reference: ClaimReference | None = None
    phase: str = ""
    handle: VolumeHandle | None = None
    migrated: MigratedVolume | None = None
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """PersistentVolumeClaim. `bound`: with `volume`, and for good; `request` None: of no size; `selected_node`
    None: no node was chosen for it; `owner`: UID of the pod that it was made for.
    """

    name: str
    uid: str = ""
    volume: str = ""
    bound: bool = False
    request: int | None = None
    demand: ClaimDemand = ClaimDemand()
    phase: str = ""
    selected_node: NodeId | None = None
    owner: str = ""
    deleting: bool = False

    @property
    def is_bound(self) -> bool:
        """Whether nothing is to be chosen for it any more."""
        return self.bound and bool(self.volume)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """StorageClass. `delayed`: it waits for a pod; `topologies`: ORed, each a conjunction of label and values."""

    name: str
    provisioner: str = ""
    #: The CSI driver under which its volumes count at nodes; empty = they do not.
    driver: str = ""
    delayed: bool = False
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StorageDriver:
    """CSIDriver. `tells_capacity`: where it has none left it makes nothing."""

    name: str
    tells_capacity: bool = False


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """CSIStorageCapacity: the largest volume that can be made for these nodes. `nodes` None: for none; `limit` None:
    nobody knows.
    """

    name: str
    storage_class: str = ""
    nodes: Selector = None
    limit: int | None = None


class ObjectKind(StrEnum):
    """Of what is gone."""

    VOLUME = "volume"
    CLAIM = "claim"
    CLASS = "class"
    DRIVER = "driver"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """One of them is there no more."""

    kind: ObjectKind
    name: str


StorageFact = Volume | Claim | StorageClass | StorageDriver | StorageCapacity | ObjectGone

#: Claim → volume; an empty volume is to be made by the claim's class.
Choice = tuple[tuple[str, str], ...]
NO_CHOICE: Final[Choice] = ()


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """What a node can attach: per CSI driver the most volumes (None = no limit), and what is attached to it."""

    limits: Mapping[str, int | None]
    attached: tuple[VolumeHandle, ...] = ()
    #: Plugins that were part of Kubernetes and that CSI drivers have taken over there.
    migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamespaceLabels:
    """The labels that a namespace has now; None = it is gone."""

    name: str
    labels: Mapping[str, str] | None


ClusterFact = NamespaceLabels | StorageFact
