"""Raw objects of storage become what the agent works with and what the core is told (FACT_OBJECT of muster_si.keys)."""

from __future__ import annotations

from typing import Any, Final

from muster_operator.model import limits
from muster_operator.model.errors import BadInputError
from muster_operator.model.ids import NodeName
from muster_operator.model.objects import ClusterObject, ObjectKind
from muster_operator.model.storage import Attachment, Claim, ClaimRef, NodeDrivers, Requirement, Volume
from muster_operator.translate.canonical import canonical
from muster_operator.translate.constraints import node_term
from muster_operator.translate.in_tree import DRIVERS, csi_of, migrated
from muster_operator.translate.quantities import NANO, nanos
from muster_operator.translate.raw import Raw, integer, items, mapping, objects, strings, text, text_bytes
from muster_si import keys

#: Where the class of volumes and claims was written before it was a field; it still wins.
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: On a CSINode: the plugins, separated by commas, that CSI drivers have taken over there.
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_EXPRESSION_FIELDS: Final = ("key", "operator", "values")


def _named(raw: Raw) -> tuple[Raw, Raw, str]:
    """Metadata, spec and name; without a name it is no object."""
    metadata = mapping(raw.get("metadata"))
    return metadata, mapping(raw.get("spec")), text(metadata.get("name"))


def _told(kind: ObjectKind, name: str, fields: dict[str, Any]) -> ClusterObject:
    """Fields that say nothing are left out; numbers and empty texts that were written say something.

    An object that is too large for the core counts as absent there: who needs it waits.
    """
    said = {field: value for field, value in fields.items() if value is not None and value is not False}
    written = canonical(kind.value, said)
    if text_bytes(written) > limits.FACT_BYTES:
        return ClusterObject(kind, name, gone=True)
    return ClusterObject(kind, name, {keys.FACT_OBJECT: written})


def _bytes(value: Any) -> int | None:
    """A quantity in bytes, rounded up; None where there is none that can be read."""
    if value is None:
        return None
    try:
        return -(-nanos("storage", value) // NANO)
    except BadInputError:
        return None


def _class_of(metadata: Raw, spec: Raw) -> str | None:
    older = strings(metadata.get("annotations")).get(_CLASS)
    if older is not None:
        return older
    written = spec.get("storageClassName")
    return text(written) if isinstance(written, str) else None


def _modes(spec: Raw) -> list[str]:
    return [text(mode) for mode in items(spec.get("accessModes"))]


def _selector(written: Any) -> Raw | None:
    """A label selector, None where there is none; an empty one selects everything."""
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
    """The PersistentVolume, None for an object that is none."""
    metadata, spec, name = _named(raw)
    if not name:
        return None
    phase = text(mapping(raw.get("status")).get("phase"))
    claim, terms, csi = _claim_ref(spec), _node_terms(spec), csi_of(spec, metadata)
    is_going = bool(metadata.get("deletionTimestamp"))
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
        "csi": {"driver": csi[0], "volumeHandle": csi[1]} if csi is not None else None,
        "migrated": migrated(spec, metadata, terms),
        "deleting": is_going,
    }
    return Volume(
        name=name,
        claim=claim,
        is_bound=phase == "Bound",
        is_going=is_going,
        reach=_reach(terms),
        handle=text(mapping(spec.get("csi")).get("volumeHandle")),
        told=_told(ObjectKind.VOLUME, name, fields),
    )


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
    """The PersistentVolumeClaim, None for an object that is none."""
    metadata, spec, name = _named(raw)
    if not name:
        return None
    ref = ClaimRef(text(metadata.get("namespace")), name, text(metadata.get("uid")))
    annotations = strings(metadata.get("annotations"))
    volume, is_going = text(spec.get("volumeName")), bool(metadata.get("deletionTimestamp"))
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
        "deleting": is_going,
        "owner": _controller(metadata),
    }
    return Claim(
        ref=ref,
        volume=volume,
        is_bound=is_bound and bool(volume),
        is_going=is_going,
        selected_node=annotations.get(SELECTED_NODE, ""),
        told=_told(ObjectKind.CLAIM, ref.key, fields),
    )


def _controller(metadata: Raw) -> str | None:
    owners = objects(metadata.get("ownerReferences"))
    return next((text(owner.get("uid")) for owner in owners if owner.get("controller") is True), None)


def read_storage_class(raw: Raw) -> ClusterObject | None:
    """The StorageClass, None for an object that is none."""
    _, _, name = _named(raw)
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
    return _told(ObjectKind.STORAGE_CLASS, name, fields)


def read_driver(raw: Raw) -> ClusterObject | None:
    """The CSIDriver, None for an object that is none."""
    _, spec, name = _named(raw)
    return (
        _told(ObjectKind.STORAGE_DRIVER, name, {"storageCapacity": spec.get("storageCapacity") is True})
        if name
        else None
    )


def read_capacity(raw: Raw) -> ClusterObject | None:
    """The CSIStorageCapacity, None for an object that is none."""
    metadata, _, name = _named(raw)
    if not name:
        return None
    fields: dict[str, Any] = {
        "storageClassName": text(raw.get("storageClassName")),
        "nodeTopology": _selector(raw.get("nodeTopology")),
        "capacity": _bytes(raw.get("capacity")),
        "maximumVolumeSize": _bytes(raw.get("maximumVolumeSize")),
    }
    return _told(ObjectKind.STORAGE_CAPACITY, f"{text(metadata.get('namespace'))}/{name}", fields)


def read_node_drivers(raw: Raw) -> NodeDrivers | None:
    """The CSINode, None for an object that is none."""
    metadata, spec, name = _named(raw)
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
    """How many volumes the driver attaches, -1 = as many as anybody likes."""
    return integer(mapping(driver.get("allocatable")).get("count"), default=-1)


def read_attachment(raw: Raw) -> Attachment | None:
    """The VolumeAttachment; None for an object that is none, and for one of a pod's own volume: it does not count."""
    _, spec, name = _named(raw)
    volume = text(mapping(spec.get("source")).get("persistentVolumeName"))
    node, driver = text(spec.get("nodeName")), text(spec.get("attacher"))
    return Attachment(name, NodeName(node), driver, volume) if name and volume and node and driver else None
