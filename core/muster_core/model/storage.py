"""Volumes, claims and other cluster objects that filters read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from muster_core.model.constraints import Selector, Term
from muster_core.model.devices import DeviceFact
from muster_core.model.ids import NodeId

#: Bytes, exactly. Kubernetes stores quantities down to a billionth.
Bytes = int | Fraction

FILESYSTEM: Final = "Filesystem"

#: Access mode of volumes and claims that only one pod may use at a time.
ONE_POD: Final = "ReadWriteOncePod"
AVAILABLE: Final = "Available"
LOST: Final = "Lost"


@dataclass(frozen=True, slots=True)
class VolumeHandle:
    """A volume as its CSI driver identifies it. Two volumes with the same handle are one attachment."""

    driver: str
    id: str


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """`claimRef` of a volume. An empty `uid` refers to any claim with that name."""

    claim: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """What a claim requires of a volume besides size and name. Equal demands are satisfied by the same volumes."""

    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = FILESYSTEM
    attributes_class: str = ""
    #: None = any volume.
    selector: Selector = None


@dataclass(frozen=True, slots=True)
class MigratedVolume:
    """Node affinity of an in-tree volume on nodes whose CSI driver replaced the in-tree plugin."""

    plugin: str
    affinity: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Volume:
    """PersistentVolume. `affinity`: terms are ORed; None = every node can access it."""

    name: str
    capacity: Bytes = 0
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
    #: Whether `handle` is that of an in-tree source. It counts only on nodes with a CSINode.
    is_in_tree: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """PersistentVolumeClaim.

    `bound`: permanently bound to `volume`. `request`: size; None = not set. `selected_node` None: no node is selected
    for it. `owner`: UID of the pod that the claim was created for.
    """

    name: str
    uid: str = ""
    volume: str = ""
    bound: bool = False
    request: Bytes | None = None
    demand: ClaimDemand = ClaimDemand()
    phase: str = ""
    selected_node: NodeId | None = None
    owner: str = ""
    deleting: bool = False

    @property
    def is_bound(self) -> bool:
        """Whether the claim is bound, so that no volume must be selected."""
        return self.bound and bool(self.volume)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """StorageClass. `delayed`: WaitForFirstConsumer. `topologies`: ORed; each is a set of labels with values."""

    name: str
    provisioner: str = ""
    #: CSI driver under which its volumes count towards attach limits; empty = they do not count.
    driver: str = ""
    delayed: bool = False
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StorageDriver:
    """CSIDriver. `tells_capacity`: it publishes its capacity, and creates volumes only where capacity is left.

    `is_required`: pods with its volumes run only on nodes where it is installed.
    """

    name: str
    tells_capacity: bool = False
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """CSIStorageCapacity: the largest volume that can be created for these nodes.

    `nodes` None: no nodes. `limit` None: unknown.
    """

    name: str
    storage_class: str = ""
    nodes: Selector = None
    limit: Bytes | None = None


class ObjectKind(StrEnum):
    """Kind of a removed object."""

    VOLUME = "volume"
    CLAIM = "claim"
    CLASS = "class"
    DRIVER = "driver"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """The object was removed."""

    kind: ObjectKind
    name: str


StorageFact = Volume | Claim | StorageClass | StorageDriver | StorageCapacity | ObjectGone

#: Claim → volume; an empty volume name means that the storage class creates one.
Choice = tuple[tuple[str, str], ...]
NO_CHOICE: Final[Choice] = ()


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """What a node can attach: maximum number of volumes per CSI driver (None = no limit), and the attached volumes.

    `limits` has the drivers that are installed; None: the node has no CSINode.
    """

    limits: Mapping[str, int | None] | None
    attached: tuple[VolumeHandle, ...] = ()
    #: In-tree plugins that CSI drivers replaced on the node.
    migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamespaceLabels:
    """Present labels of a namespace; None = it was deleted."""

    name: str
    labels: Mapping[str, str] | None


ClusterFact = NamespaceLabels | StorageFact | DeviceFact
