"""Volumes of kinds that were part of Kubernetes and that a CSI driver serves today: which driver, by which handle.

As Kubernetes 1.36 translates them for what a node may attach: Google, Amazon, Azure and OpenStack disks, and Portworx.
Azure files and vSphere disks have drivers, too, but are not counted, because kube-scheduler does not count them. Where
a driver knows zones by a label of its own, a volume's zone is looked for there on nodes that name the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from muster_operator.translate.raw import Raw, mapping, strings, text

#: By the name of the old plugin, which is also the provisioner of its storage classes; empty = not counted.
DRIVERS: Final[Mapping[str, str]] = {
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/azure-file": "",
    "kubernetes.io/vsphere-volume": "",
}
#: Where a volume's labels name its zone or zones; the older one goes first.
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_BETWEEN_ZONES: Final = "__"
_REGION: Final = "topology.kubernetes.io/region"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
#: By the field of a volume: the plugin, and what its driver calls the zone. The drivers of the others do not.
_DRIVER_ZONES: Final[Mapping[str, tuple[str, str]]] = {
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "topology.gke.io/zone"),
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"),
    "cinder": ("kubernetes.io/cinder", "topology.cinder.csi.openstack.org/zone"),
}
_UNKNOWN: Final = "UNSPECIFIED"


def driver_and_handle(source: Raw, labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Driver and handle of a volume source, a pod's or a PersistentVolume's with these labels; None for other kinds.

    None also for one whose name means nothing to the driver.
    """
    for field, (driver, handle_of) in SOURCES.items():
        if isinstance(source.get(field), dict):
            handle = handle_of(mapping(source[field]), labels)
            return (driver, handle) if handle else None
    return None


def _google(source: Raw, labels: Mapping[str, str]) -> str:
    """A zone's disk, or a region's where the labels name several zones of it."""
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
    """``vol-...``, or an address that ends in it."""
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
    """Driver and handle of a PersistentVolume, of CSI or of a kind that it took over; None for others."""
    csi = mapping(spec.get("csi"))
    if csi:
        return text(csi.get("driver")), text(csi.get("volumeHandle"))
    return driver_and_handle(spec, strings(metadata.get("labels")))


def migrated(spec: Raw, metadata: Raw, terms: list[Raw] | None) -> Raw | None:
    """A PersistentVolume's `migrated` of muster_si.keys; None where its node affinity is the same everywhere.

    `terms`: its node affinity. The zone is the one that the terms name, or else the one of the labels.
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
    """Labels that the terms name, with all values they name."""
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
