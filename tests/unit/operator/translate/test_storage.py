"""Storage objects of Kubernetes become objects for the core (FACT_OBJECT of muster_si.keys)."""

from typing import Any

import orjson
import pytest

from muster_operator.kube.watch import decoded_object
from muster_operator.model.ids import NodeName, PodUid
from muster_operator.model.pods import PodRef
from muster_operator.model.storage import Attachment, ClaimRef, ClusterObject, Requirement
from muster_operator.translate.storage import (
    migrated,
    read_attachment,
    read_capacity,
    read_claim,
    read_driver,
    read_node_drivers,
    read_storage_class,
    read_volume,
    volumes_tag,
)
from muster_operator.translate.values import Raw
from muster_si import keys

GI = 2**30
POD = PodRef("dev", "web-0", PodUid("uid-web-0"))


def reported(fact: ClusterObject | None) -> dict[str, Any]:
    """What the core reads."""
    assert fact is not None
    found: dict[str, Any] = orjson.loads(fact.attributes[keys.FACT_OBJECT])
    return found


def volume_of(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """The object for the core of a volume with this spec."""
    volume = read_volume({"metadata": {"name": "v", "labels": labels or {}}, "spec": spec})
    assert volume is not None
    return reported(volume.reported)


def tag_of(*volumes: dict[str, Any]) -> Any:
    """The tag for the core with the volumes of a pod."""
    written = volumes_tag({"volumes": list(volumes)}, POD)
    return orjson.loads(written) if written else None


def test_a_local_volume_is_reported_with_its_node_affinity_and_claim() -> None:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    raw = {
        "metadata": {"name": "local-1", "labels": {"tier": "fast"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "storageClassName": "local",
            "local": {"path": "/mnt/a"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "claimRef": {"namespace": "dev", "name": "data", "uid": "u1", "kind": "PersistentVolumeClaim"},
        },
        "status": {"phase": "Bound"},
    }
    volume = read_volume(raw)
    assert volume is not None
    assert reported(volume.reported) == {
        "capacity": 10 * GI,
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Block",
        "storageClassName": "local",
        "labels": {"tier": "fast"},
        "nodeAffinity": [{"matchExpressions": [here]}],
        "claimRef": {"namespace": "dev", "name": "data", "uid": "u1"},
        "phase": "Bound",
        "deleting": True,
    }
    assert (volume.claim, volume.is_bound, volume.is_deleting) == (ClaimRef("dev", "data", "u1"), True, True)
    assert volume.reach == ((Requirement("kubernetes.io/hostname", "In", ("n1",)),),)


def test_the_deprecated_storage_class_annotation_wins() -> None:
    metadata = {"name": "x", "namespace": "dev", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    raw = {"metadata": metadata, "spec": {"storageClassName": "new"}}
    volume, claim = read_volume(raw), read_claim(raw)
    assert volume is not None
    assert claim is not None
    assert reported(volume.reported)["storageClassName"] == reported(claim.reported)["storageClassName"] == "old"


HANDLES = {
    "csi": ({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, ("d", "h")),
    "gce": (
        {"gcePersistentDisk": {"pdName": "x"}},
        {"topology.kubernetes.io/zone": "us-a"},
        ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a/disks/x"),
    ),
    "gce of a region": (
        {"gcePersistentDisk": {"pdName": "x"}},
        {"failure-domain.beta.kubernetes.io/zone": "us-east1-a__us-east1-b"},
        ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-east1/disks/x"),
    ),
    "aws": ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, ("ebs.csi.aws.com", "vol-1")),
    "azure": ({"azureDisk": {"diskURI": "/disks/x"}}, {}, ("disk.csi.azure.com", "/disks/x")),
    "cinder": ({"cinder": {"volumeID": "c"}}, {}, ("cinder.csi.openstack.org", "c")),
    "portworx": ({"portworxVolume": {"volumeID": "p"}}, {}, ("pxd.portworx.com", "p")),
}


@pytest.mark.parametrize("spec, labels, known", HANDLES.values(), ids=HANDLES)
def test_an_attachable_volume_is_reported_with_driver_and_handle(
    spec: dict[str, Any], labels: dict[str, str], known: tuple[str, str]
) -> None:
    csi = volume_of(labels, **spec)["csi"]
    assert (csi["driver"], csi["volumeHandle"]) == known


@pytest.mark.parametrize(
    "spec",
    [
        {"hostPath": {"path": "/x"}},
        {"azureFile": {"shareName": "s"}},
        {"vsphereVolume": {"volumePath": "p"}},
        {"awsElasticBlockStore": {"volumeID": "aws://a/b/c"}},
    ],
)
def test_volumes_that_are_not_attached_have_no_handle(spec: dict[str, Any]) -> None:
    assert "csi" not in volume_of(**spec)


def test_a_claim_is_reported_with_its_request_and_binding_state() -> None:
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}
    owners = [{"uid": "other"}, {"uid": "uid-web-0", "controller": True}]
    raw = {
        "metadata": {
            "name": "data",
            "namespace": "dev",
            "uid": "u1",
            "annotations": annotations,
            "ownerReferences": owners,
        },
        "spec": {
            "volumeName": "v",
            "storageClassName": "",
            "volumeAttributesClassName": "gold",
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": "1500m"}},
            "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
        },
        "status": {"phase": "Bound"},
    }
    claim = read_claim(raw)
    assert claim is not None
    assert claim.reported.name == "dev/data"
    assert reported(claim.reported) == {
        "uid": "u1",
        "storageClassName": "",
        "attributesClass": "gold",
        "volumeName": "v",
        "bound": True,
        "request": "1500000000n",
        "accessModes": ["ReadWriteOncePod"],
        "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
        "phase": "Bound",
        "selectedNode": "n1",
        "owner": "uid-web-0",
    }
    assert (claim.is_bound, claim.selected_node) == (True, "n1")


def test_an_empty_claim_is_reported_without_optional_fields() -> None:
    claim = read_claim({"metadata": {"name": "data", "namespace": "dev"}})
    assert claim is not None
    assert reported(claim.reported) == {"accessModes": []}
    assert not claim.is_bound


def test_a_storage_class_is_reported_as_the_api_server_sends_it() -> None:
    """Its fields are next to its metadata, and decoding must not drop them."""
    sent = {
        "metadata": {"name": "late"},
        "provisioner": "kubernetes.io/gce-pd",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    }
    assert reported(read_storage_class(decoded_object(orjson.dumps(sent)))) == {
        "provisioner": "kubernetes.io/gce-pd",
        "driver": "pd.csi.storage.gke.io",
        "bindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [[{"key": "zone", "values": ["a", "b"]}]],
    }


def test_volumes_of_a_class_count_for_its_provisioner_unless_that_is_not_counted() -> None:
    drivers = {
        name: reported(read_storage_class({"metadata": {"name": "c"}, "provisioner": name})).get("driver")
        for name in ("csi.example.com", "kubernetes.io/azure-file")
    }
    assert drivers == {"csi.example.com": "csi.example.com", "kubernetes.io/azure-file": None}


def test_a_storage_pool_is_reported_with_its_node_topology() -> None:
    sent = {
        "metadata": {"name": "p", "namespace": "kube-system"},
        "storageClassName": "late",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
        "capacity": "10Gi",
        "maximumVolumeSize": "1Gi",
    }
    pool = read_capacity(decoded_object(orjson.dumps(sent)))
    assert pool is not None
    assert pool.name == "kube-system/p"
    assert reported(pool) == {
        "storageClassName": "late",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
        "capacity": 10 * GI,
        "maximumVolumeSize": GI,
    }
    assert "nodeTopology" not in reported(read_capacity({"metadata": {"name": "p"}, "storageClassName": "late"}))


@pytest.mark.parametrize("field", ["storageCapacity", "preventPodSchedulingIfMissing"])
def test_a_driver_is_reported_with_its_settings(field: str) -> None:
    assert reported(read_driver({"metadata": {"name": "d"}, "spec": {field: True}})) == {field: True}
    assert reported(read_driver({"metadata": {"name": "d"}, "spec": {field: False}})) == {}


@pytest.mark.parametrize(
    "quantity, sent",
    [
        ("1Gi", GI),
        (7, 7),
        ("1500m", "1500000000n"),
        ("2000m", 2),
        ("1n", "1n"),
        ("0.0000000001", "1n"),  # Kubernetes rounds up to a billionth
        ("8Ei", None),
        ("x", None),
    ],
)
def test_quantities_of_storage_are_reported_exactly(quantity: str | int, sent: int | str | None) -> None:
    pool = read_capacity({"metadata": {"name": "p"}, "storageClassName": "late", "capacity": quantity})
    assert reported(pool).get("capacity") == sent


def test_a_migrated_in_tree_volume_is_marked() -> None:
    def csi_of(source: Raw) -> Raw:
        volume = read_volume({"metadata": {"name": "v"}, "spec": source})
        assert volume is not None
        found: Raw = reported(volume.reported)["csi"]
        return found

    assert csi_of({"csi": {"driver": "d", "volumeHandle": "h"}}) == {"driver": "d", "volumeHandle": "h"}
    assert csi_of({"cinder": {"volumeID": "h"}})["inTree"] is True


def test_the_attach_limit_of_a_node_is_a_number_or_unlimited() -> None:
    drivers = [{"name": "a", "allocatable": {"count": 2}}, {"name": "b"}, {"name": "c", "allocatable": {"count": 0}}]
    found = read_node_drivers({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})
    assert found is not None
    assert orjson.loads(found.limits) == {"a": 2, "b": None, "c": 0}


def test_only_attachments_of_persistent_volumes_count() -> None:
    spec = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    assert read_attachment({"metadata": {"name": "a"}, "spec": spec}) == Attachment("a", NodeName("n1"), "d", "v")
    inline = {**spec, "source": {"inlineVolumeSpec": {}}}
    assert read_attachment({"metadata": {"name": "a"}, "spec": inline}) is None


def test_claims_are_reported_in_pod_order_and_ephemeral_ones_with_the_pod_uid() -> None:
    tag = tag_of(
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
    )
    assert tag == {
        "claims": ["dev/data", "dev/web-0-scratch", "dev/data"],
        "ephemeral": {"dev/web-0-scratch": "uid-web-0"},
    }


def test_inline_disks_of_a_pod_are_reported_with_their_identity() -> None:
    tag = tag_of(
        {"gcePersistentDisk": {"pdName": "g", "readOnly": True}},
        {"awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"iscsi": {"iqn": "iqn.x", "lun": 1}},
        {"rbd": {"pool": "p", "image": "i", "monitors": ["m1", "m2"]}},
    )
    assert tag["disks"] == [
        {"kind": "gce", "id": "g", "readOnly": True},
        {"kind": "aws", "id": "vol-1", "readOnly": False},
        {"kind": "iscsi", "id": "iqn.x", "readOnly": False},
        {"kind": "rbd", "id": "p/i", "monitors": ["m1", "m2"], "readOnly": False},
    ]
    assert tag["attached"] == {
        "pd.csi.storage.gke.io": ["projects/UNSPECIFIED/zones/UNSPECIFIED/disks/g"],
        "ebs.csi.aws.com": ["vol-1"],
    }


def test_volumes_that_no_filter_looks_at_are_not_reported() -> None:
    assert tag_of({"emptyDir": {}}, {"configMap": {"name": "c"}}, {"csi": {"driver": "inline"}}) is None


# -- Zones of volumes of former in-tree drivers that a CSI driver replaced (Kubernetes 1.37).

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
