"""VolumeBinding (Kubernetes 1.37): where a volume can be provisioned for a claim that waits for its first consumer."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from muster_core.model.constraints import Target, TargetOperator
from muster_core.model.ids import NodeId
from muster_core.model.storage import ObjectGone, ObjectKind, StorageCapacity, StorageDriver
from tests.unit.builders import a_node
from tests.unit.core.placement.volumes.storage_clusters import (
    GIB,
    HOST,
    MADE,
    ZONE,
    Stored,
    a_claim,
    a_volume,
    on,
    using,
)

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
FAST = (Target("tier", TargetOperator.IN, ("fast",)),)


def test_a_volume_is_provisioned_when_none_is_free_and_the_class_allows_it() -> None:
    stored = Stored("n1", "n2", objects=(a_claim("c", of="made"), a_volume("v", of="made", affinity=on(HOST, "n2"))))
    assert stored.free(using("c")) == "n1 n2"
    snapshot = stored.snapshot()
    assert stored.choice(using("c"), snapshot) == ("n1", {"c": ""})


@pytest.mark.parametrize(
    "topologies, free",
    [
        ((), "n1 n2 n3"),
        ((((ZONE, ("a", "b")),),), "n1 n2"),
        ((((ZONE, ("a",)), ("disk", ("ssd",))),), ""),
        ((((ZONE, ("a",)),), ((ZONE, ("b",)),)), "n1 n2"),
        (((),), ""),
    ],
)
def test_a_class_provisions_volumes_only_in_its_topologies(topologies: Any, free: str) -> None:
    nodes = (a_node("n1", labels={ZONE: "a"}), a_node("n2", labels={ZONE: "b"}), a_node("n3"))
    stored = Stored(*nodes, objects=(a_claim("c", of="made"), replace(MADE, topologies=topologies)))
    assert stored.free(using("c")) == free
    assert {why for reasons in stored.reasons(using("c")).values() for why in reasons} <= {NONE_FREE}


@pytest.mark.parametrize(
    "capacity, tells, fits",
    [
        ({"limit": GIB}, True, True),
        ({"limit": GIB - 1}, True, False),
        ({"limit": GIB - Fraction(1, 1000)}, True, True),  # as kube-scheduler, which rounds up
        ({"limit": GIB - 1 + Fraction(0)}, True, False),
        ({"limit": None}, True, False),
        ({"limit": GIB, "storage_class": "other"}, True, False),
        ({"limit": GIB, "nodes": None}, True, False),
        ({"limit": GIB, "nodes": (Target(HOST, TargetOperator.IN, ("n2",)),)}, True, False),
        ({"limit": GIB, "nodes": (Target(HOST, TargetOperator.NOT_IN, ("n2",)),)}, True, True),
        ({"limit": GIB, "nodes": (Target("disk", TargetOperator.NOT_EXIST),)}, True, True),
        ({"limit": GIB, "nodes": (Target("disk", TargetOperator.EXIST),)}, True, False),
        ({"limit": 0}, False, True),
    ],
)
def test_a_driver_that_reports_its_capacity_provisions_only_what_fits(
    capacity: dict[str, Any], *, tells: bool, fits: bool
) -> None:
    pool = StorageCapacity(**{"name": "ns/pool", "storage_class": "made", "nodes": (), **capacity})
    stored = Stored("n1", objects=(a_claim("c", of="made"), StorageDriver(MADE.provisioner, tells), pool))
    assert stored.reasons(using("c")) == ({} if fits else {"n1": [NO_SPACE]})


def test_capacity_and_driver_may_change_or_be_deleted() -> None:
    pool = StorageCapacity("ns/pool", "made", (), GIB)
    stored = Stored("n1", objects=(a_claim("c", of="made"), StorageDriver(MADE.provisioner, tells_capacity=True)))
    for fact, free in (
        (pool, "n1"),
        (replace(pool, limit=1), ""),
        (pool, "n1"),
        (ObjectGone(ObjectKind.CAPACITY, "ns/pool"), ""),
        (ObjectGone(ObjectKind.DRIVER, MADE.provisioner), "n1"),
        (ObjectGone(ObjectKind.CLASS, "made"), ""),
    ):
        stored.send(fact)
        assert stored.free(using("c")) == free


def test_a_claim_with_a_selected_node_stays_there_and_uses_no_free_volume() -> None:
    claim = a_claim("c", of="made", selected_node=NodeId("n2"))
    stored = Stored("n1", "n2", objects=(claim, a_volume("v", of="made")))
    assert stored.reasons(using("c")) == {"n1": [NONE_FREE]}
    assert stored.choice(using("c")) == ("n2", {"c": ""})
    stored.send(replace(claim, selected_node=NodeId("n9")))
    assert stored.free(using("c")) == ""


def test_pods_that_share_a_provisioned_claim_use_the_node_of_the_first_pod() -> None:
    stored = Stored("n1", "n2", objects=(a_claim("c", of="made"),))
    assert stored.place(stored.snapshot(), using("c"), 3) == "n1 n1 n1"


def test_the_first_claim_that_cannot_be_provisioned_gives_the_reason() -> None:
    objects = (a_claim("little", of="made"), a_claim("much", 2), StorageDriver(MADE.provisioner, tells_capacity=True))
    stored = Stored("n1", objects=objects)
    assert stored.reasons(using("much", "little")) == {"n1": [NO_SPACE]}
    stored.send(a_claim("little", 3, of="made"))
    assert stored.reasons(using("much", "little")) == {"n1": [NONE_FREE]}
