"""Decodes cluster objects that filters read: volumes, claims, storage classes, drivers, capacities, namespaces, and
(`devices`) device slices, classes and claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Final, Literal

from msgspec import Meta, field
from msgspec.json import Decoder

from muster_core.model.devices import DeviceObject, DeviceObjectGone
from muster_core.model.ids import NodeId
from muster_core.model.storage import (
    FILESYSTEM,
    Bytes,
    Claim,
    ClaimDemand,
    ClaimReference,
    ClusterFact,
    MigratedVolume,
    NamespaceLabels,
    ObjectGone,
    ObjectKind,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
    VolumeHandle,
)
from muster_core.si import values
from muster_core.si.devices import SLICE_LIMIT, DeviceClaimDocument, DeviceClassDocument, DeviceSliceDocument
from muster_core.si.documents import (
    Document,
    LabelSelector,
    ShortText,
    TermDocument,
    TextList,
    WholeQuantity,
    pairs,
    targets,
    terms,
)
from muster_core.si.values import NAME_LIMIT, QUANTITY_LIMIT, InvalidField, decoded
from muster_si import keys, muster_pb2

#: Whole bytes, or a text in billionths of a byte.
_Quantity = WholeQuantity | Annotated[str, Meta(pattern=r"^[0-9]{1,28}n\Z")]
_BILLION: Final = 10**9


def _bytes(quantity: int | str) -> Bytes:
    """Raises InvalidField if the quantity is too large."""
    found = quantity if isinstance(quantity, int) else Fraction(int(quantity[:-1]), _BILLION)
    if found > QUANTITY_LIMIT:
        raise InvalidField("a quantity", f"is larger than {QUANTITY_LIMIT}")
    return found


class ClaimReferenceDocument(Document):
    """`claimRef` of a volume."""

    namespace: ShortText = ""
    name: ShortText = ""
    uid: ShortText = ""

    def read(self) -> ClaimReference:
        """Returns the reference."""
        return ClaimReference(f"{self.namespace}/{self.name}", self.uid)


class VolumeHandleDocument(Document):
    """`csi` of a volume."""

    driver: str = ""
    volume_handle: str = ""
    in_tree: bool = False

    def read(self) -> VolumeHandle:
        """Returns the handle."""
        return VolumeHandle(self.driver, self.volume_handle)


class MigratedVolumeDocument(Document):
    """`migrated` of a volume."""

    plugin: ShortText = ""
    node_affinity: tuple[TermDocument, ...] = ()

    def read(self) -> MigratedVolume:
        """Returns the affinity with the plugin."""
        return MigratedVolume(self.plugin, terms(self.node_affinity))


class VolumeDocument(Document):
    """A PersistentVolume."""

    capacity: _Quantity = 0
    access_modes: TextList = ()
    volume_mode: str = ""
    storage_class_name: ShortText = ""
    attributes_class: ShortText = ""
    labels: dict[str, str] = field(default_factory=dict)
    node_affinity: tuple[TermDocument, ...] | None = None
    claim_ref: ClaimReferenceDocument | None = None
    phase: ShortText = ""
    csi: VolumeHandleDocument | None = None
    migrated: MigratedVolumeDocument | None = None
    deleting: bool = False

    def read(self, name: str) -> Volume:
        """Returns the volume."""
        return Volume(
            name=name,
            capacity=_bytes(self.capacity),
            access_modes=self.access_modes,
            mode=self.volume_mode or FILESYSTEM,
            storage_class=self.storage_class_name,
            attributes_class=self.attributes_class,
            labels=pairs(self.labels),
            affinity=None if self.node_affinity is None else terms(self.node_affinity),
            reference=self.claim_ref.read() if self.claim_ref is not None else None,
            phase=self.phase,
            handle=self.csi.read() if self.csi is not None else None,
            migrated=self.migrated.read() if self.migrated is not None else None,
            deleting=self.deleting,
            is_in_tree=self.csi is not None and self.csi.in_tree,
        )


class ClaimDocument(Document):
    """A PersistentVolumeClaim."""

    uid: ShortText = ""
    storage_class_name: ShortText = ""
    attributes_class: ShortText = ""
    volume_name: ShortText = ""
    bound: bool = False
    request: _Quantity | None = None
    access_modes: TextList = ()
    volume_mode: str = ""
    selector: LabelSelector | None = None
    phase: ShortText = ""
    selected_node: ShortText | None = None
    owner: ShortText = ""
    deleting: bool = False

    def read(self, name: str) -> Claim:
        """Returns the claim. Raises InvalidField if the name has no namespace."""
        _check_two_parts(name)
        demand = ClaimDemand(
            storage_class=self.storage_class_name,
            access_modes=tuple(sorted(self.access_modes)),
            mode=self.volume_mode or FILESYSTEM,
            attributes_class=self.attributes_class,
            selector=targets(self.selector),
        )
        return Claim(
            name=name,
            uid=self.uid,
            volume=self.volume_name,
            bound=self.bound,
            request=None if self.request is None else _bytes(self.request),
            demand=demand,
            phase=self.phase,
            selected_node=None if self.selected_node is None else NodeId(self.selected_node),
            owner=self.owner,
            deleting=self.deleting,
        )


class TopologyLabel(Document):
    """Values of a label in a topology term of a storage class."""

    key: str = ""
    values: TextList = ()


class StorageClassDocument(Document):
    """A StorageClass."""

    provisioner: ShortText = ""
    driver: ShortText = ""
    binding_mode: Literal["", "Immediate", "WaitForFirstConsumer"] = ""
    allowed_topologies: tuple[tuple[TopologyLabel, ...], ...] = ()

    def read(self, name: str) -> StorageClass:
        """Returns the class."""
        return StorageClass(
            name=name,
            provisioner=self.provisioner,
            driver=self.driver,
            delayed=self.binding_mode == "WaitForFirstConsumer",
            topologies=tuple(tuple((one.key, one.values) for one in term) for term in self.allowed_topologies),
        )


class StorageDriverDocument(Document):
    """A CSIDriver."""

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False

    def read(self, name: str) -> StorageDriver:
        """Returns the driver."""
        return StorageDriver(name, self.storage_capacity, self.prevent_pod_scheduling_if_missing)


class StorageCapacityDocument(Document):
    """A CSIStorageCapacity. `maximumVolumeSize` has precedence over `capacity`, as in Kubernetes 1.37."""

    storage_class_name: ShortText = ""
    node_topology: LabelSelector | None = None
    capacity: _Quantity | None = None
    maximum_volume_size: _Quantity | None = None

    def read(self, name: str) -> StorageCapacity:
        """Returns the capacity."""
        limit = self.capacity if self.maximum_volume_size is None else self.maximum_volume_size
        size = None if limit is None else _bytes(limit)
        return StorageCapacity(name, self.storage_class_name, targets(self.node_topology), size)


StorageDocument = (
    VolumeDocument | ClaimDocument | StorageClassDocument | StorageDriverDocument | StorageCapacityDocument
)
ObjectDocument = StorageDocument | DeviceSliceDocument | DeviceClassDocument | DeviceClaimDocument


def _check_two_parts(name: str) -> None:
    namespace, slash, own = name.partition("/")
    if not (namespace and slash and own):
        raise InvalidField("name", f"is not namespace/name: {name[:NAME_LIMIT]!r}")


ClusterObject = muster_pb2.Fact

_FORMS: Final[Mapping[int, tuple[ObjectKind | DeviceObject, Decoder[ObjectDocument]]]] = {
    ClusterObject.VOLUME: (ObjectKind.VOLUME, Decoder(VolumeDocument)),
    ClusterObject.CLAIM: (ObjectKind.CLAIM, Decoder(ClaimDocument)),
    ClusterObject.STORAGE_CLASS: (ObjectKind.CLASS, Decoder(StorageClassDocument)),
    ClusterObject.STORAGE_DRIVER: (ObjectKind.DRIVER, Decoder(StorageDriverDocument)),
    ClusterObject.STORAGE_CAPACITY: (ObjectKind.CAPACITY, Decoder(StorageCapacityDocument)),
    ClusterObject.DEVICE_SLICE: (DeviceObject.SLICE, Decoder(DeviceSliceDocument)),
    ClusterObject.DEVICE_CLASS: (DeviceObject.CLASS, Decoder(DeviceClassDocument)),
    ClusterObject.DEVICE_CLAIM: (DeviceObject.CLAIM, Decoder(DeviceClaimDocument)),
}


def read_cluster_object(
    facts: Iterable[ClusterObject],
) -> tuple[tuple[ClusterFact, ...], list[muster_pb2.RejectedFact]]:
    """Returns the valid objects, and the reasons why others are invalid."""
    taken: list[ClusterFact] = []
    rejected: list[muster_pb2.RejectedFact] = []
    for fact in facts:
        try:
            taken.append(_fact(fact))
        except InvalidField as unfit:
            rejected.append(muster_pb2.RejectedFact(kind=fact.kind, name=fact.name[:NAME_LIMIT], reason=str(unfit)))
    return tuple(taken), rejected


def _fact(fact: ClusterObject) -> ClusterFact:
    if fact.kind == ClusterObject.NAMESPACE:
        return NamespaceLabels(values.long_name(fact.name, "name"), None if fact.gone else dict(fact.attributes))
    if fact.kind not in _FORMS:
        raise InvalidField("kind", f"is not known: {int(fact.kind)}")
    kind, form = _FORMS[fact.kind]
    name = values.long_name(fact.name, "name")
    if fact.gone:
        return ObjectGone(kind, name) if isinstance(kind, ObjectKind) else DeviceObjectGone(kind, name)
    at_most = SLICE_LIMIT if kind is DeviceObject.SLICE else values.TEXT_LIMIT
    found = values.of_tag(fact.attributes, keys.FACT_OBJECT, lambda text: decoded(text, form, at_most).read(name))
    if found is None:
        raise InvalidField(keys.FACT_OBJECT, "is missing")
    return found
