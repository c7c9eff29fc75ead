"""VolumeBinding (Kubernetes 1.37): bound claims, and claims that make all nodes infeasible."""

from dataclasses import replace
from typing import Any

import pytest

from muster_core.model.constraints import Requirement, Target, TargetOperator, Term
from muster_core.model.storage import Claim, MigratedVolume, NodeStorage, ObjectGone, ObjectKind, StorageClass
from tests.unit.builders import a_node
from tests.unit.core.placement.volumes.storage_clusters import (
    HOST,
    ZONE,
    Stored,
    a_claim,
    a_volume,
    attaching,
    bound,
    on,
    using,
)

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
FAST = (Target("tier", TargetOperator.IN, ("fast",)),)


@pytest.mark.parametrize(
    "claim, reason",
    [
        (a_claim("c", of="now"), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", of="unknown"), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", of=""), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", volume="v"), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", deleting=True), 'persistentvolumeclaim "c" is being deleted'),
        (
            a_claim("c", volume="v", bound=True, phase="Lost"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
    ],
)
def test_a_claim_that_no_node_can_satisfy_is_reported_for_the_pod(claim: Claim, reason: str) -> None:
    stored = Stored("n1", "n2", objects=(claim, StorageClass("now", "maker"), a_volume("v")))
    assert stored.text(using("c")) == f"0/2 nodes are available: {reason}."
    assert stored.free(using("c")) == ""


def test_a_claim_of_an_ephemeral_volume_is_awaited_and_must_belong_to_the_pod() -> None:
    stored, mine = Stored("n1"), using("p-v", ephemeral=(("ns/p-v", "uid-p"),), pod="ns/p")
    missing = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
    assert stored.text(mine) == f"0/1 nodes are available: {missing}."
    stored.send(a_claim("p-v", of="made", owner="uid-q"))
    assert "PVC ns/p-v was not created for pod ns/p (pod is not owner)" in stored.text(mine)
    stored.send(a_claim("p-v", of="made", owner="uid-p"))
    assert stored.free(mine) == "n1"


def test_the_first_claim_that_cannot_be_used_is_named() -> None:
    stored = Stored("n1", objects=(a_claim("a", of="made"), a_claim("b", deleting=True), a_claim("c", phase="Lost")))
    assert 'persistentvolumeclaim "b" is being deleted' in stored.text(using("a", "b", "c"))


@pytest.mark.parametrize(
    "affinity, free",
    [
        (None, "n1 n2"),
        (on(HOST, "n1"), "n1"),
        (on(HOST, "n1") + on(HOST, "n2"), "n1 n2"),
        ((), ""),
        ((Term(),), ""),
        ((Term((Requirement(HOST, "NotIn", ("n1",)),)),), "n2"),
        # kube-scheduler shows volumes a node's labels and no fields: these refuse nothing.
        ((Term(fields=(Requirement("metadata.name", "In", ("n1",)),)),), "n1 n2"),
        ((Term(on(HOST, "n2")[0].expressions, (Requirement("metadata.name", "In", ("n1",)),)),), "n2"),
    ],
)
def test_a_bound_volume_is_reached_from_the_nodes_that_its_affinity_names(affinity: Any, free: str) -> None:
    stored = Stored("n1", "n2", objects=bound("c", a_volume("v", affinity=affinity)))
    assert stored.free(using("c")) == free
    assert {why for reasons in stored.reasons(using("c")).values() for why in reasons} <= {NOT_REACHED}


def test_every_bound_volume_has_to_be_reached() -> None:
    one, other = bound("a", a_volume("v", affinity=on(HOST, "n1"))), bound("b", a_volume("w", affinity=on(HOST, "n2")))
    stored = Stored("n1", "n2", objects=(*one, *other))
    assert stored.reasons(using("a", "b")) == {"n1": [NOT_REACHED], "n2": [NOT_REACHED]}


def test_a_deleted_ephemeral_volume_is_reported_per_node() -> None:
    stored = Stored("n1", "n2", objects=bound("p-v", a_volume("v"), owner="uid-p"))
    stored.send(ObjectGone(ObjectKind.VOLUME, "v"))
    mine = using("p-v", ephemeral=(("ns/p-v", "uid-p"),), pod="ns/p")
    assert stored.text(mine) == f"0/2 nodes are available: 2 {GONE}."


def test_a_volume_migrated_to_csi_uses_the_labels_of_the_driver_on_migrated_nodes() -> None:
    volume = a_volume("v", affinity=on(ZONE, "a"), migrated=MigratedVolume("plugin", on("driver/zone", "a")))
    nodes = (a_node(name, labels={ZONE: "a"}) for name in ("n1", "n2", "n3"))
    stored = Stored(*nodes, objects=bound("c", volume))
    taken_over = NodeStorage({}, migrated=("other", "plugin"))
    stored.table.update(replace(a_node("n1", labels={ZONE: "a"}), storage=taken_over))
    stored.table.update(replace(a_node("n2", labels={"driver/zone": "a"}), storage=taken_over))
    assert stored.free(using("c")) == "n2 n3"
    stored.table.update(a_node("n2", labels={"driver/zone": "a"}))
    assert stored.reasons(using("c")) == {"n1": [NOT_REACHED], "n2": [NOT_REACHED]}


def test_a_node_that_changes_its_labels_reaches_other_volumes() -> None:
    stored = Stored("n1", objects=bound("c", a_volume("v", affinity=on(ZONE, "a"))))
    assert stored.free(using("c")) == ""
    stored.table.update(a_node("n1", labels={ZONE: "a"}))
    assert stored.free(using("c")) == "n1"


def test_a_node_may_be_refused_for_bound_and_for_unbound_claims() -> None:
    claim, volume = bound("a", a_volume("v", affinity=on(HOST, "n2")))
    stored = Stored("n1", "n2", objects=(claim, volume, a_claim("b")))
    assert stored.reasons(using("a", "b")) == {"n1": [NOT_REACHED, NONE_FREE], "n2": [NONE_FREE]}
    assert stored.text(using("a", "b")) == f"0/2 nodes are available: 1 {NOT_REACHED}, 2 {NONE_FREE}."


def test_filters_run_in_the_order_of_kube_scheduler() -> None:
    """Resources first, then disks, limits, binding and zones."""
    labels = ((ZONE, "a"),)
    claim, volume = bound("c", a_volume("v", affinity=on("disk", "ssd"), labels=labels))
    full = replace(attaching("n1", 0), labels={ZONE: "b"})
    far = a_node("n2", labels={ZONE: "b"})
    wrong = a_node("n3", labels={ZONE: "b", "disk": "ssd"})
    stored = Stored(full, far, wrong, objects=(claim, volume))
    assert stored.reasons(using("c")) == {
        "n1": ["node(s) exceed max volume count"],
        "n2": [NOT_REACHED],
        "n3": ["node(s) had no available volume zone"],
    }
