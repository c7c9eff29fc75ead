"""Zones of volumes of former in-tree drivers that a CSI driver replaced (Kubernetes 1.37)."""

from __future__ import annotations

from typing import Any

import pytest

from muster_operator.translate.storage import migrated

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
GKE = "topology.gke.io/zone"
DISK = {"gcePersistentDisk": {"pdName": "x"}}


def term(**labels: list[str]) -> dict[str, Any]:
    keys = {"zone": ZONE, "old": OLD_ZONE, "old_region": OLD_REGION, "region": REGION, "gke": GKE, "disk": "disk"}
    return {
        "matchExpressions": [{"key": keys[key], "operator": "In", "values": values} for key, values in labels.items()]
    }


@pytest.mark.parametrize(
    "labels, terms, expected",
    [
        ({}, None, None),
        ({}, [term(disk=["ssd"])], None),
        ({ZONE: "a"}, None, [term(gke=["a"])]),
        ({ZONE: "b__ a __"}, None, [term(gke=["a", "b"])]),
        ({OLD_ZONE: "a"}, None, [term(gke=["a"])]),
        ({OLD_ZONE: "b", ZONE: "a"}, None, [term(gke=["a"])]),
        ({ZONE: "a"}, [term(disk=["ssd"]), term(disk=["hdd"])], [term(disk=[d], gke=["a"]) for d in ("ssd", "hdd")]),
        ({ZONE: "a"}, [term(zone=["b"])], [term(gke=["b"])]),
        ({}, [term(old=["b"], old_region=["r"])], [term(gke=["b"], region=["r"])]),
        ({}, [term(zone=["b"], old_region=["r"])], [term(gke=["b"], old_region=["r"])]),
    ],
)
def test_zone_labels_are_migrated_to_the_topology_key_of_the_driver(
    labels: dict[str, str], terms: list[Any] | None, expected: list[Any] | None
) -> None:
    found = migrated(DISK, {"labels": labels}, terms)
    assert found == (None if expected is None else {"plugin": "kubernetes.io/gce-pd", "nodeAffinity": expected})


def test_volumes_of_drivers_with_kubernetes_zone_labels_are_not_migrated() -> None:
    assert migrated({"azureDisk": {"diskURI": "x"}}, {"labels": {ZONE: "a"}}, None) is None
    assert migrated({"csi": {"driver": "d"}}, {"labels": {ZONE: "a"}}, None) is None
