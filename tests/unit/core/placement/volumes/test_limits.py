"""NodeVolumeLimits (Kubernetes 1.37): drivers that are not installed, and the attach limit of a driver on a node."""

from dataclasses import replace

import pytest

from muster_core.model.specs import NodeSpec, Volumes
from muster_core.model.storage import (
    Claim,
    NodeStorage,
    ObjectGone,
    ObjectKind,
    StorageClass,
    StorageDriver,
    Volume,
    VolumeHandle,
)
from muster_core.placement.plugins.tables import is_resolvable
from tests.unit.builders import a_node
from tests.unit.core.placement.volumes.storage_clusters import (
    DRIVER,
    Stored,
    a_claim,
    a_volume,
    attaching,
    bound,
    using,
)

FULL = "node(s) exceed max volume count"
MISSING = f"{DRIVER} CSI driver is not installed on the node"
REQUIRED = StorageDriver(DRIVER, is_required=True)


def facts(*names: str) -> tuple[Claim | Volume, ...]:
    """Bound claims c<name> of volumes v<name>."""
    return tuple(fact for name in names for fact in bound(f"c{name}", a_volume(f"v{name}")))


def test_a_node_takes_no_more_volumes_than_it_attaches() -> None:
    stored = Stored(attaching("n1", 2), attaching("n2", 1), objects=facts("1", "2", "3"))
    stored.put("n1", using("c1"))
    stored.put("n2", using("c2"))
    assert stored.reasons(using("c3")) == {"n2": [FULL]}


@pytest.mark.parametrize("spec", [a_node("n1"), attaching("n1", None)])
def test_a_node_without_a_known_limit_has_none(spec: NodeSpec) -> None:
    stored = Stored(spec, objects=facts("1", "2"))
    stored.put("n1", using("c1"))
    assert stored.free(using("c2")) == "n1"


def test_a_volume_that_pods_share_counts_once() -> None:
    stored = Stored(attaching("n1", 1), attaching("n2", 0), objects=facts("1"))
    stored.put("n1", using("c1"), 2)
    assert stored.free(using("c1")) == "n1"


def test_two_claims_of_one_handle_are_one_volume() -> None:
    (one, first), (two, second) = bound("c1", a_volume("v1")), bound("c2", a_volume("v2"))
    same = replace(second, handle=first.handle)
    stored = Stored(attaching("n1", 1), objects=(one, two, first, same))
    stored.put("n1", using("c1"))
    assert stored.free(using("c2")) == "n1"
    assert stored.free(using("c1", "c2")) == "n1"


def test_attached_volumes_without_a_pod_count_and_those_of_pods_count_once() -> None:
    stored = Stored(attaching("n1", 2, "v1", "old"), attaching("n2", 3, "v1", "old"), objects=facts("1", "2"))
    stored.put("n1", using("c1"))
    stored.put("n2", using("c1"))
    assert stored.free(using("c2")) == "n2"


def test_a_volume_of_the_pod_that_is_attached_without_a_pod_counts_twice() -> None:
    stored = Stored(attaching("n1", 1, "v1"), attaching("n2", 2, "v1"), objects=facts("1"))
    assert stored.free(using("c1")) == "n2"


def test_a_claim_without_a_volume_counts_for_the_driver_of_its_class() -> None:
    stored = Stored(attaching("n1", 1), attaching("n2", 2), objects=(a_claim("a", of="made"), a_claim("b", of="made")))
    stored.put("n1", using("a"))
    stored.put("n2", using("a"))
    assert stored.free(using("b")) == "n2"


def test_non_csi_volumes_do_not_count() -> None:
    claim, volume = bound("c1", a_volume("v1", handle=None))
    stored = Stored(attaching("n1", 0), objects=(claim, volume))
    assert stored.free(using("c1")) == "n1"


def test_inline_volumes_of_the_pod_count() -> None:
    stored = Stored(attaching("n1", 1), attaching("n2", 2))
    own = Volumes(attached=(VolumeHandle(DRIVER, "x"), VolumeHandle(DRIVER, "y")))
    assert stored.free(own) == "n2"
    stored.put("n2", own)
    assert stored.free(Volumes(attached=(VolumeHandle(DRIVER, "x"),))) == "n1 n2"


def test_a_claim_reported_later_counts_for_existing_pods() -> None:
    stored = Stored(attaching("n1", 1), objects=facts("1"))
    stored.put("n1", using("c2"))
    assert stored.free(using("c1")) == "n1"
    stored.send(*facts("2"))
    assert stored.free(using("c1")) == ""
    stored.send(ObjectGone(ObjectKind.CLAIM, "ns/c2"))
    assert stored.free(using("c1")) == "n1"


def test_a_raised_volume_limit_frees_the_node() -> None:
    stored = Stored(attaching("n1", 1), objects=facts("1", "2"))
    stored.put("n1", using("c1"))
    assert stored.free(using("c2")) == ""
    stored.table.update(attaching("n1", 2))
    assert stored.free(using("c2")) == "n1"


def test_members_of_one_plan_count() -> None:
    stored = Stored(attaching("n1", 1), attaching("n2", 1), objects=facts("1", "2", "3"))
    snapshot = stored.snapshot()
    places = [stored.place(snapshot, using(name)) for name in ("c1", "c2", "c3")]
    assert places == ["n1", "n2", ""]
    assert stored.reasons(using("c3"), snapshot) == {"n1": [FULL], "n2": [FULL]}


def test_members_that_share_a_volume_go_to_one_full_node_together() -> None:
    stored = Stored(attaching("n1", 1), attaching("n2", 0), objects=facts("1"))
    assert stored.place(stored.snapshot(), using("c1"), 3) == "n1 n1 n1"


def without_driver(name: str) -> NodeSpec:
    """A node with a CSINode that does not have the driver."""
    return replace(a_node(name), storage=NodeStorage({"other.example.com": 1}))


def test_a_required_driver_is_installed_on_the_node() -> None:
    specs = (attaching("n1", None), without_driver("n2"), a_node("n3"))
    stored = Stored(*specs, objects=(*facts("1"), StorageDriver(DRIVER)))
    assert stored.free(using("c1")) == "n1 n2 n3"
    stored.send(REQUIRED)
    assert stored.free(using("c1")) == "n1"
    assert stored.reasons(using("c1")) == {"n2": [MISSING], "n3": [MISSING]}
    assert is_resolvable(MISSING)  # as in kube-scheduler, although the end of a pod does not help
    assert stored.free(using()) == "n1 n2 n3"
    stored.table.update(attaching("n3", 2))
    stored.table.update(without_driver("n1"))
    assert stored.free(using("c1")) == "n3"


def test_a_driver_that_is_installed_nowhere_leaves_no_node() -> None:
    assert Stored("n1", objects=(*facts("1"), REQUIRED)).reasons(using("c1")) == {"n1": [MISSING]}


def test_a_missing_driver_precedes_a_full_node() -> None:
    other = a_volume("other", handle=VolumeHandle("other.example.com", "x"))
    objects = (*facts("1"), *bound("c2", other), REQUIRED)
    full = replace(a_node("n1"), storage=NodeStorage({"other.example.com": 0}))
    assert Stored(full, objects=objects).reasons(using("c1", "c2")) == {"n1": [MISSING]}


def test_an_in_tree_volume_requires_nothing_of_a_node_without_a_csi_node() -> None:
    (claim, volume), migrated = bound("c1", a_volume("v1")), StorageClass("old", "in-tree", DRIVER, delayed=True)
    objects = (claim, replace(volume, is_in_tree=True), migrated, a_claim("late", of="old"), REQUIRED)
    stored = Stored(without_driver("n1"), a_node("n2"), objects=objects)
    inline = Volumes(attached=(VolumeHandle(DRIVER, "x"),))
    for volumes in (using("c1"), using("late"), inline):
        assert stored.reasons(volumes)["n1"] == [MISSING]
        assert "n2" not in stored.reasons(volumes) or MISSING not in stored.reasons(volumes)["n2"]
    stored.send(*facts("2"))
    assert stored.reasons(using("c1", "c2"))["n2"] == [MISSING]
