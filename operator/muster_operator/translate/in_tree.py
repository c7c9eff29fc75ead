"""Volumes of kinds that were part of Kubernetes and that a CSI driver serves today: which driver, by which handle.

As Kubernetes 1.36 translates them for what a node may attach: Google, Amazon, Azure and OpenStack disks, and Portworx.
Azure files and vSphere disks have drivers, too, but are not counted, because kube-scheduler does not count them. Not
done: a volume's labels and node affinity stay as they are, where Kubernetes renames the zone's label to the driver's on
nodes that say that they have the driver; such nodes have both labels, with the same value.
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
