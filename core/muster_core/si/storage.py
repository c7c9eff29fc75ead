"""Decodes cluster objects that filters read: volumes, claims, storage classes, drivers, capacities, namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from muster_core.model.ids import NodeId
from muster_core.model.storage import (
    FILESYSTEM,
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
    StorageFact,
    Volume,
    VolumeHandle,
)
from muster_core.si import values
from muster_core.si.pod_tags import selector
from muster_core.si.values import (
    NAME_LIMIT,
    InvalidField,
    Object,
    an_object,
    each,
    flag,
    number,
    one_of,
    only,
    pairs,
    parsed,
    text_of,
    texts,
)
from muster_si import keys, muster_pb2

_BINDING_MODES: Final = frozenset({"Immediate", "WaitForFirstConsumer"})

_VOLUME_FIELDS: Final = frozenset(
    {
        "capacity",
        "accessModes",
        "volumeMode",
        "storageClassName",
        "attributesClass",
        "labels",
        "nodeAffinity",
        "claimRef",
        "phase",
        "csi",
        "migrated",
        "deleting",
    }
)

_CLAIM_FIELDS: Final = frozenset(
    {
        "uid",
        "storageClassName",
        "attributesClass",
        "volumeName",
        "bound",
        "request",
        "accessModes",
        "volumeMode",
        "selector",
        "phase",
        "selectedNode",
        "owner",
        "deleting",
    }
)

Reader = Callable[[str, Object], StorageFact]


def read_storage_object(reader: Reader, name: str, attributes: Mapping[str, str]) -> StorageFact:
    """Decodes the object with the decoder of its kind."""
    text = attributes.get(keys.FACT_OBJECT)
    if not text:
        raise InvalidField(keys.FACT_OBJECT, "is missing")
    try:
        return reader(name, an_object(parsed(text), "the value"))
    except InvalidField as unfit:
        raise unfit.inside(keys.FACT_OBJECT) from unfit


def volume(name: str, found: Object) -> Volume:
    """Decodes a PersistentVolume."""
    only(found, _VOLUME_FIELDS)
    affinity, reference, csi = found.get("nodeAffinity"), found.get("claimRef"), found.get("csi")
    migrated = found.get("migrated")
    return Volume(
        name=name,
        capacity=number(found, "capacity"),
        access_modes=texts(found, "accessModes"),
        mode=text_of(found, "volumeMode") or FILESYSTEM,
        storage_class=_name_of(found, "storageClassName"),
        attributes_class=_name_of(found, "attributesClass"),
        labels=pairs(found.get("labels"), "labels"),
        affinity=None if affinity is None else each(affinity, "nodeAffinity", values.term),
        reference=None if reference is None else _reference(an_object(reference, "claimRef")),
        phase=_name_of(found, "phase"),
        handle=None if csi is None else _handle(an_object(csi, "csi")),
        migrated=None if migrated is None else _migrated(an_object(migrated, "migrated")),
        deleting=flag(found, "deleting"),
    )


def claim(name: str, found: Object) -> Claim:
    """Decodes a PersistentVolumeClaim."""
    only(found, _CLAIM_FIELDS)
    _two_parts(name)
    demand = ClaimDemand(
        storage_class=_name_of(found, "storageClassName"),
        access_modes=tuple(sorted(texts(found, "accessModes"))),
        mode=text_of(found, "volumeMode") or FILESYSTEM,
        attributes_class=_name_of(found, "attributesClass"),
        selector=selector(found, "selector", ""),
    )
    return Claim(
        name=name,
        uid=_name_of(found, "uid"),
        volume=_name_of(found, "volumeName"),
        bound=flag(found, "bound"),
        request=number(found, "request") if "request" in found else None,
        demand=demand,
        phase=_name_of(found, "phase"),
        selected_node=NodeId(_name_of(found, "selectedNode")) if "selectedNode" in found else None,
        owner=_name_of(found, "owner"),
        deleting=flag(found, "deleting"),
    )


def storage_class(name: str, found: Object) -> StorageClass:
    """Decodes a StorageClass."""
    only(found, frozenset({"provisioner", "driver", "bindingMode", "allowedTopologies"}))
    mode = one_of(found, "bindingMode", _BINDING_MODES) if found.get("bindingMode") else "Immediate"
    return StorageClass(
        name=name,
        provisioner=_name_of(found, "provisioner"),
        driver=_name_of(found, "driver"),
        delayed=mode == "WaitForFirstConsumer",
        topologies=_topologies(found),
    )


def driver(name: str, found: Object) -> StorageDriver:
    """Decodes a CSIDriver."""
    only(found, frozenset({"storageCapacity"}))
    return StorageDriver(name, flag(found, "storageCapacity"))


def capacity(name: str, found: Object) -> StorageCapacity:
    """Decodes a CSIStorageCapacity. `maximumVolumeSize` has precedence over `capacity`, as in Kubernetes 1.36."""
    only(found, frozenset({"storageClassName", "nodeTopology", "capacity", "maximumVolumeSize"}))
    limits = [number(found, field) for field in ("maximumVolumeSize", "capacity") if field in found]
    return StorageCapacity(
        name=name,
        storage_class=_name_of(found, "storageClassName"),
        nodes=selector(found, "nodeTopology", ""),
        limit=limits[0] if limits else None,
    )


def _reference(found: Object) -> ClaimReference:
    only(found, frozenset({"namespace", "name", "uid"}))
    return ClaimReference(f"{_name_of(found, 'namespace')}/{_name_of(found, 'name')}", _name_of(found, "uid"))


def _handle(found: Object) -> VolumeHandle:
    only(found, frozenset({"driver", "volumeHandle"}))
    return VolumeHandle(text_of(found, "driver"), text_of(found, "volumeHandle"))


def _migrated(found: Object) -> MigratedVolume:
    only(found, frozenset({"plugin", "nodeAffinity"}))
    return MigratedVolume(_name_of(found, "plugin"), each(found.get("nodeAffinity") or [], "nodeAffinity", values.term))


def _topologies(found: Object) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]:
    terms = found.get("allowedTopologies") or []
    if not isinstance(terms, list):
        raise InvalidField("allowedTopologies", "is not a list")
    return tuple(each(term, "allowedTopologies", _topology) for term in terms)


def _topology(found: Object) -> tuple[str, tuple[str, ...]]:
    only(found, frozenset({"key", "values"}))
    return text_of(found, "key"), texts(found, "values")


def _name_of(found: Object, field: str) -> str:
    name = text_of(found, field)
    if len(name) > NAME_LIMIT:
        raise InvalidField(field, f"is longer than {NAME_LIMIT} characters")
    return name


def _two_parts(name: str) -> None:
    namespace, slash, own = name.partition("/")
    if not (namespace and slash and own):
        raise InvalidField("name", f"is not namespace/name: {name[:NAME_LIMIT]!r}")


ClusterObject = muster_pb2.Fact

_READERS: Final[Mapping[int, tuple[ObjectKind, Reader]]] = {
    ClusterObject.VOLUME: (ObjectKind.VOLUME, volume),
    ClusterObject.CLAIM: (ObjectKind.CLAIM, claim),
    ClusterObject.STORAGE_CLASS: (ObjectKind.CLASS, storage_class),
    ClusterObject.STORAGE_DRIVER: (ObjectKind.DRIVER, driver),
    ClusterObject.STORAGE_CAPACITY: (ObjectKind.CAPACITY, capacity),
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
    if fact.kind not in _READERS:
        raise InvalidField("kind", f"is not known: {int(fact.kind)}")
    kind, reader = _READERS[fact.kind]
    name = values.long_name(fact.name, "name")
    return ObjectGone(kind, name) if fact.gone else read_storage_object(reader, name, fact.attributes)
