"""Storage objects as values of ``model``, and the volumes of a pod as a tag of its request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName
from muster_operator.model.pods import PodRef
from muster_operator.model.storage import (
    Attachment,
    Claim,
    ClaimRef,
    ClusterObject,
    NodeDrivers,
    ObjectKind,
    Requirement,
    Volume,
)
from muster_operator.translate.constraints import node_term
from muster_operator.translate.values import (
    NANO,
    Raw,
    canonical,
    controller,
    integer,
    items,
    mapping,
    nanos,
    objects,
    strings,
    text,
    text_bytes,
)
from muster_si import keys

#: CSI driver by in-tree plugin. The plugin name is also the provisioner of storage classes. Empty = not counted.
DRIVERS: Final[Mapping[str, str]] = {
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/azure-file": "",
    "kubernetes.io/vsphere-volume": "",
}

#: Labels of a volume that name its zones; the first one takes precedence.
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_BETWEEN_ZONES: Final = "__"
_REGION: Final = "topology.kubernetes.io/region"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"

#: By volume source: the in-tree plugin and the driver's zone label. Drivers of other sources have no zone label.
_DRIVER_ZONES: Final[Mapping[str, tuple[str, str]]] = {
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "topology.gke.io/zone"),
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"),
    "cinder": ("kubernetes.io/cinder", "topology.cinder.csi.openstack.org/zone"),
}

_UNKNOWN: Final = "UNSPECIFIED"


def driver_and_handle(source: Raw, labels: Mapping[str, str]) -> tuple[str, str] | None:
    """CSI driver and volume handle of an in-tree volume source, of a pod or a PersistentVolume with these labels.

    Returns None for other kinds, and for a name that the driver cannot use. Source: csi-translation-lib.
    """
    for field, (driver, handle_of) in SOURCES.items():
        if isinstance(source.get(field), dict):
            handle = handle_of(mapping(source[field]), labels)
            return (driver, handle) if handle else None
    return None


def _google(source: Raw, labels: Mapping[str, str]) -> str:
    """A zonal disk, or a regional disk if the labels name several zones of a region."""
    name = text(source.get("pdName"))
    written = next((labels[label] for label in _ZONE_LABELS if labels.get(label)), "")
    zones = written.split(_BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/{_UNKNOWN}/zones/{zones[0] or _UNKNOWN}/disks/{name}"
    regions = {zone.rpartition("-")[0] for zone in zones if zone.count("-") == 2}
    if len(regions) != 1 or not all(zone.count("-") == 2 for zone in zones):
        return ""
    return f"projects/{_UNKNOWN}/regions/{regions.pop()}/disks/{name}"


def _amazon(source: Raw, _: Mapping[str, str]) -> str:
    """Volume ID from ``vol-...`` or from an ``aws://`` URL that ends in it."""
    written = text(source.get("volumeID"))
    if not written.startswith("aws://"):
        return written
    try:
        name = urlsplit(written).path.strip("/")
    except ValueError:
        return ""
    return name if name.startswith("vol-") and "/" not in name else ""


def _named(field: str) -> Callable[[Raw, Mapping[str, str]], str]:
    return lambda source, _: text(source.get(field))


SOURCES: Final[Mapping[str, tuple[str, Callable[[Raw, Mapping[str, str]], str]]]] = {
    "gcePersistentDisk": (DRIVERS["kubernetes.io/gce-pd"], _google),
    "awsElasticBlockStore": (DRIVERS["kubernetes.io/aws-ebs"], _amazon),
    "azureDisk": (DRIVERS["kubernetes.io/azure-disk"], _named("diskURI")),
    "cinder": (DRIVERS["kubernetes.io/cinder"], _named("volumeID")),
    "portworxVolume": (DRIVERS["kubernetes.io/portworx-volume"], _named("volumeID")),
}


def csi_of(spec: Raw, metadata: Raw) -> tuple[str, str] | None:
    """CSI driver and volume handle of a PersistentVolume, also if it was migrated to CSI; None for other kinds."""
    csi = mapping(spec.get("csi"))
    if csi:
        return text(csi.get("driver")), text(csi.get("volumeHandle"))
    return driver_and_handle(spec, strings(metadata.get("labels")))


def migrated(spec: Raw, metadata: Raw, terms: list[Raw] | None) -> Raw | None:
    """Field `migrated` of a PersistentVolume, see muster_si.keys. None if migration does not change its node affinity.

    `terms` is its node affinity. The zone is taken from the terms, or else from the labels.
    """
    field = next((field for field in _DRIVER_ZONES if isinstance(spec.get(field), dict)), None)
    if field is None:
        return None
    plugin, driver_zone = _DRIVER_ZONES[field]
    labels, named = strings(metadata.get("labels")), _keys(terms)
    old, new = _ZONE_LABELS
    zone = next((label for label in (new, old) if label in named), None)
    zone = zone or next((label for label in (new, old) if label in labels), new)
    found = terms or []
    if named.get(zone):
        found = _renamed(found, zone, driver_zone)
    elif zones := sorted({one.strip() for one in labels.get(zone, "").split(_BETWEEN_ZONES)} - {""}):
        is_there = {"key": driver_zone, "operator": "In", "values": zones}
        found = [{**term, "matchExpressions": [*term.get("matchExpressions", []), is_there]} for term in found or [{}]]
    if zone == old and named.get(_OLD_REGION):
        found = _renamed(found, _OLD_REGION, _REGION)
    return None if found == (terms or []) else {"plugin": plugin, "nodeAffinity": found}


def _keys(terms: list[Raw] | None) -> dict[str, list[str]]:
    """Label keys of the terms with all their values."""
    found: dict[str, list[str]] = {}
    for term in terms or []:
        for expression in term.get("matchExpressions", []):
            found.setdefault(expression["key"], []).extend(expression["values"])
    return found


def _renamed(terms: list[Raw], old: str, new: str) -> list[Raw]:
    return [
        {
            **term,
            "matchExpressions": [
                {**one, "key": new} if one["key"] == old else one for one in term.get("matchExpressions", [])
            ],
        }
        if "matchExpressions" in term
        else term
        for term in terms
    ]


#: Fields of the volume kinds that restrict the choice of a node. Nearly all volumes are of other kinds.
_MATTERING: Final = frozenset({"persistentVolumeClaim", "ephemeral", "iscsi", "rbd", *SOURCES})


def volumes_tag(spec: Raw, ref: PodRef) -> str:
    """Value of the tag for volumes; empty if no volume of the pod restricts the choice of a node.

    Raises:
        BadInputError: the volumes cannot be written as JSON.
    """
    facts: dict[str, Any] = {}
    claims: list[str] = []
    ephemeral: dict[str, str] = {}
    disks: list[Raw] = []
    attached: dict[str, list[str]] = defaultdict(list)
    for volume in [each for each in objects(spec.get("volumes")) if not _MATTERING.isdisjoint(each)]:
        if (claim := _claim(volume, ref)) is not None:
            claims.append(claim)
            if isinstance(volume.get("ephemeral"), dict):
                ephemeral[claim] = ref.uid
        if (disk := _disk(volume)) is not None:
            disks.append(disk)
        if (known := driver_and_handle(volume, {})) is not None:
            driver, handle = known
            attached[driver].append(handle)
    if claims:
        facts["claims"] = claims
    if ephemeral:
        facts["ephemeral"] = ephemeral
    if disks:
        facts["disks"] = disks
    if attached:
        facts["attached"] = attached
    return canonical("volumes", facts) if facts else ""


def _claim(volume: Raw, ref: PodRef) -> str | None:
    """Key of the volume's PersistentVolumeClaim. A generic ephemeral volume's claim is named after pod and volume."""
    if isinstance(volume.get("persistentVolumeClaim"), dict):
        return f"{ref.namespace}/{text(mapping(volume['persistentVolumeClaim']).get('claimName'))}"
    if isinstance(volume.get("ephemeral"), dict):
        return f"{ref.namespace}/{ref.name}-{text(volume.get('name'))}"
    return None


def _disk(volume: Raw) -> Raw | None:
    """A disk that pods on one node cannot share, or only read-only (kube-scheduler, VolumeRestrictions)."""
    for field, kind in (("gcePersistentDisk", "gce"), ("awsElasticBlockStore", "aws"), ("iscsi", "iscsi")):
        if isinstance(volume.get(field), dict):
            source = mapping(volume[field])
            name = text(source.get({"gce": "pdName", "aws": "volumeID", "iscsi": "iqn"}[kind]))
            return {"kind": kind, "id": name, "readOnly": source.get("readOnly") is True}
    if not isinstance(volume.get("rbd"), dict):
        return None
    source = mapping(volume["rbd"])
    return {
        "kind": "rbd",
        "id": f"{text(source.get('pool'))}/{text(source.get('image'))}",
        "monitors": [text(monitor) for monitor in items(source.get("monitors"))],
        "readOnly": source.get("readOnly") is True,
    }


#: The deprecated annotation for the storage class. As in Kubernetes, it takes precedence over the field.
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

#: Annotation of a CSINode: comma-separated in-tree plugins that are migrated to CSI on this node.
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_EXPRESSION_FIELDS: Final = ("key", "operator", "values")


def _metadata_spec_name(raw: Raw) -> tuple[Raw, Raw, str]:
    """Metadata, spec and name of an object. The name is empty if the object is invalid."""
    metadata = mapping(raw.get("metadata"))
    return metadata, mapping(raw.get("spec")), text(metadata.get("name"))


def for_core(
    kind: ObjectKind, name: str, fields: dict[str, Any], limit_bytes: int = limits.FACT_BYTES
) -> ClusterObject:
    """The object for the core, without fields that are None or False; 0 and empty texts are kept.

    An object that is too large for the core is sent as deleted, so that pods that need it wait.
    """
    present = {field: value for field, value in fields.items() if value is not None and value is not False}
    written = canonical(kind.value, present)
    if text_bytes(written) > limit_bytes:
        return ClusterObject(kind, name, gone=True)
    return ClusterObject(kind, name, {keys.FACT_OBJECT: written})


def _bytes(value: Any) -> int | str | None:
    """Converts a quantity to bytes, or to the text ``<billionths>n`` if they are not a whole number.

    Returns None if it is missing or invalid.
    """
    if value is None:
        return None
    try:
        nano = nanos("storage", value)
    except BadInputError:
        return None
    return f"{nano}n" if nano % NANO else nano // NANO


def _class_of(metadata: Raw, spec: Raw) -> str | None:
    older = strings(metadata.get("annotations")).get(_CLASS)
    if older is not None:
        return older
    written = spec.get("storageClassName")
    return text(written) if isinstance(written, str) else None


def _modes(spec: Raw) -> list[str]:
    return [text(mode) for mode in items(spec.get("accessModes"))]


def _selector(written: Any) -> Raw | None:
    """Translates a label selector. Returns None if there is none; an empty selector matches everything."""
    if not isinstance(written, dict):
        return None
    selector: Raw = {}
    if labels := strings(written.get("matchLabels")):
        selector["matchLabels"] = labels
    expressions = [
        {field: entry[field] for field in _EXPRESSION_FIELDS if entry.get(field)}
        for entry in objects(written.get("matchExpressions"))
    ]
    if expressions:
        selector["matchExpressions"] = expressions
    return selector


def _optional(value: Any) -> str | None:
    return text(value) or None


def read_volume(raw: Raw) -> Volume | None:
    """Translates a PersistentVolume. Returns None if the object has no name."""
    metadata, spec, name = _metadata_spec_name(raw)
    if not name:
        return None
    phase = text(mapping(raw.get("status")).get("phase"))
    claim, terms, csi = _claim_ref(spec), _node_terms(spec), csi_of(spec, metadata)
    is_deleting = bool(metadata.get("deletionTimestamp"))
    fields: dict[str, Any] = {
        "capacity": _bytes(mapping(spec.get("capacity")).get("storage")),
        "accessModes": _modes(spec),
        "volumeMode": _optional(spec.get("volumeMode")),
        "storageClassName": _class_of(metadata, spec),
        "attributesClass": _optional(spec.get("volumeAttributesClassName")),
        "labels": strings(metadata.get("labels")) or None,
        "nodeAffinity": terms,
        "claimRef": _claim_fields(claim),
        "phase": phase or None,
        "csi": _csi_fields(csi, is_in_tree=not mapping(spec.get("csi"))),
        "migrated": migrated(spec, metadata, terms),
        "deleting": is_deleting,
    }
    return Volume(
        name=name,
        claim=claim,
        is_bound=phase == "Bound",
        is_deleting=is_deleting,
        reach=_reach(terms),
        handle=text(mapping(spec.get("csi")).get("volumeHandle")),
        reported=for_core(ObjectKind.VOLUME, name, fields),
    )


def _csi_fields(csi: tuple[str, str] | None, *, is_in_tree: bool) -> Raw | None:
    if csi is None:
        return None
    driver, handle = csi
    return {"driver": driver, "volumeHandle": handle} | ({"inTree": True} if is_in_tree else {})


def _claim_ref(spec: Raw) -> ClaimRef | None:
    ref = spec.get("claimRef")
    if not isinstance(ref, dict):
        return None
    return ClaimRef(text(ref.get("namespace")), text(ref.get("name")), text(ref.get("uid")))


def _claim_fields(claim: ClaimRef | None) -> dict[str, str] | None:
    if claim is None:
        return None
    return {"namespace": claim.namespace, "name": claim.name} | ({"uid": claim.uid} if claim.uid else {})


def _node_terms(spec: Raw) -> list[Raw] | None:
    required = mapping(spec.get("nodeAffinity")).get("required")
    if not isinstance(required, dict):
        return None
    return [node_term(term) for term in objects(required.get("nodeSelectorTerms"))]


def _reach(terms: list[Raw] | None) -> tuple[tuple[Requirement, ...], ...] | None:
    if terms is None:
        return None
    return tuple(
        tuple(
            Requirement(one["key"], one["operator"], tuple(one["values"])) for one in term.get("matchExpressions", [])
        )
        for term in terms
    )


def read_claim(raw: Raw) -> Claim | None:
    """Translates a PersistentVolumeClaim. Returns None if the object has no name."""
    metadata, spec, name = _metadata_spec_name(raw)
    if not name:
        return None
    ref = ClaimRef(text(metadata.get("namespace")), name, text(metadata.get("uid")))
    annotations = strings(metadata.get("annotations"))
    volume, is_deleting = text(spec.get("volumeName")), bool(metadata.get("deletionTimestamp"))
    is_bound = BIND_COMPLETED in annotations
    fields: dict[str, Any] = {
        "uid": ref.uid or None,
        "storageClassName": _class_of(metadata, spec),
        "attributesClass": _optional(spec.get("volumeAttributesClassName")),
        "volumeName": volume or None,
        "bound": is_bound,
        "request": _bytes(mapping(mapping(spec.get("resources")).get("requests")).get("storage")),
        "accessModes": _modes(spec),
        "volumeMode": _optional(spec.get("volumeMode")),
        "selector": _selector(spec.get("selector")),
        "phase": _optional(mapping(raw.get("status")).get("phase")),
        "selectedNode": annotations.get(SELECTED_NODE),
        "deleting": is_deleting,
        "owner": controller(metadata)[0] or None,
    }
    return Claim(
        ref=ref,
        volume=volume,
        is_bound=is_bound and bool(volume),
        is_deleting=is_deleting,
        selected_node=annotations.get(SELECTED_NODE, ""),
        reported=for_core(ObjectKind.CLAIM, ref.key, fields),
        version=version_of(raw),
    )


def version_of(raw: Raw) -> int:
    """The resource version of an object, 0 if it is not a number."""
    found = text(mapping(raw.get("metadata")).get("resourceVersion"))
    return int(found) if found.isascii() and found.isdecimal() and len(found) <= limits.VERSION_DIGITS else 0


def read_storage_class(raw: Raw) -> ClusterObject | None:
    """Translates a StorageClass. Returns None if the object has no name."""
    _, _, name = _metadata_spec_name(raw)
    if not name:
        return None
    provisioner = text(raw.get("provisioner"))
    topologies = [
        [
            {"key": text(entry.get("key")), "values": [text(value) for value in items(entry.get("values"))]}
            for entry in objects(term.get("matchLabelExpressions"))
        ]
        for term in objects(raw.get("allowedTopologies"))
    ]
    fields: dict[str, Any] = {
        "provisioner": provisioner,
        "driver": DRIVERS.get(provisioner, provisioner) or None,
        "bindingMode": _optional(raw.get("volumeBindingMode")),
        "allowedTopologies": topologies or None,
    }
    return for_core(ObjectKind.STORAGE_CLASS, name, fields)


def read_driver(raw: Raw) -> ClusterObject | None:
    """Translates a CSIDriver. Returns None if the object has no name."""
    _, spec, name = _metadata_spec_name(raw)
    if not name:
        return None
    opt_ins = ("storageCapacity", "preventPodSchedulingIfMissing")
    return for_core(ObjectKind.STORAGE_DRIVER, name, {field: spec.get(field) is True for field in opt_ins})


def read_capacity(raw: Raw) -> ClusterObject | None:
    """Translates a CSIStorageCapacity. Returns None if the object has no name."""
    metadata, _, name = _metadata_spec_name(raw)
    if not name:
        return None
    fields: dict[str, Any] = {
        "storageClassName": text(raw.get("storageClassName")),
        "nodeTopology": _selector(raw.get("nodeTopology")),
        "capacity": _bytes(raw.get("capacity")),
        "maximumVolumeSize": _bytes(raw.get("maximumVolumeSize")),
    }
    return for_core(ObjectKind.STORAGE_CAPACITY, f"{text(metadata.get('namespace'))}/{name}", fields)


def read_node_drivers(raw: Raw) -> NodeDrivers | None:
    """Translates a CSINode. Returns None if the object has no name."""
    metadata, spec, name = _metadata_spec_name(raw)
    if not name:
        return None
    limits = {
        text(driver.get("name")): count if (count := _count(driver)) >= 0 else None
        for driver in objects(spec.get("drivers"))
    }
    written = strings(metadata.get("annotations")).get(_MIGRATED, "")
    plugins = sorted({plugin for plugin in written.split(",") if plugin})
    return NodeDrivers(NodeName(name), canonical("drivers", limits), canonical("plugins", plugins) if plugins else "")


def _count(driver: Raw) -> int:
    """Maximum number of volumes that the driver attaches; -1 = no limit."""
    return integer(mapping(driver.get("allocatable")).get("count"), default=-1)


def read_attachment(raw: Raw) -> Attachment | None:
    """Translates a VolumeAttachment. Returns None if it is incomplete or has an inline volume, which does not count."""
    _, spec, name = _metadata_spec_name(raw)
    volume = text(mapping(spec.get("source")).get("persistentVolumeName"))
    node, driver = text(spec.get("nodeName")), text(spec.get("attacher"))
    return Attachment(name, NodeName(node), driver, volume) if name and volume and node and driver else None
