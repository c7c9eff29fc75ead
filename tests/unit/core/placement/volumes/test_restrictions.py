"""VolumeRestrictions (Kubernetes 1.37): disks that a node can use only once, and claims with ReadWriteOncePod."""

from dataclasses import replace

import pytest

from muster_core.model.specs import Volumes
from tests.unit.core.placement.volumes.storage_clusters import Stored, a_claim, a_disk, a_volume, bound, using

DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@pytest.mark.parametrize("kind", ["gce", "iscsi"])
@pytest.mark.parametrize(
    "wanted, there, free",
    [(True, True, "n1 n2"), (True, False, "n2"), (False, True, "n2"), (False, False, "n2")],
)
def test_a_disk_is_shared_only_by_read_only_pods(kind: str, free: str, *, wanted: bool, there: bool) -> None:
    stored = Stored("n1", "n2")
    stored.put("n1", a_disk(kind, "x", read_only=there))
    assert stored.free(a_disk(kind, "x", read_only=wanted)) == free


def test_a_disk_of_aws_is_never_shared() -> None:
    stored = Stored("n1", "n2")
    stored.put("n1", a_disk("aws", "x", read_only=True))
    assert stored.reasons(a_disk("aws", "x", read_only=True)) == {"n1": [DISK]}


@pytest.mark.parametrize(
    "there, free",
    [
        (a_disk("rbd", "pool/x", "m2", "m1"), "n2"),
        (a_disk("rbd", "pool/x", "m3"), "n1 n2"),
        (a_disk("rbd", "other/x", "m1"), "n1 n2"),
        (a_disk("iscsi", "pool/x"), "n1 n2"),
    ],
)
def test_an_image_of_rbd_is_the_same_if_one_monitor_is(there: Volumes, free: str) -> None:
    stored = Stored("n1", "n2")
    stored.put("n1", there)
    assert stored.free(a_disk("rbd", "pool/x", "m0", "m1")) == free


def test_members_of_one_plan_do_not_share_a_disk() -> None:
    stored = Stored("n1", "n2")
    assert stored.place(stored.snapshot(), a_disk("gce", "x"), 3) == "n1 n2"


def test_a_read_write_once_pod_claim_in_use_blocks_other_pods_on_every_node() -> None:
    claim, volume = bound("c", a_volume("v", access_modes=("ReadWriteOncePod",)), modes=("ReadWriteOncePod",))
    stored = Stored("n1", "n2", objects=(claim, volume))
    assert stored.free(using("c")) == "n1 n2"
    stored.put("n1", using("c"))
    assert stored.reasons(using("c")) == {"n1": [IN_USE], "n2": [IN_USE]}
    stored.put("n1", using("c"), -1)
    assert stored.place(stored.snapshot(), using("c"), 2) == "n1"


def test_a_disk_conflict_is_reported_before_a_claim_in_use() -> None:
    claim, volume = bound("c", a_volume("v"), modes=("ReadWriteOncePod",))
    stored = Stored("n1", "n2", objects=(claim, volume))
    both = replace(a_disk("gce", "x"), claims=("ns/c",))
    stored.put("n1", both)
    assert stored.reasons(both) == {"n1": [DISK], "n2": [IN_USE]}


def test_a_missing_claim_is_named() -> None:
    stored = Stored("n1", "n2", objects=(a_claim("c"),))
    assert stored.text(using("c", "d")) == '0/2 nodes are available: persistentvolumeclaim "d" not found.'
    assert stored.free(using("c", "d")) == ""
