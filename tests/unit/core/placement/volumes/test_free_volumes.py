"""VolumeBinding (Kubernetes 1.37): the free volume for a claim that waits for its first consumer."""

from dataclasses import replace
from typing import Any

import pytest

from muster_core.model.constraints import Target, TargetOperator
from muster_core.model.storage import ClaimReference, ObjectGone, ObjectKind, Volume
from tests.unit.builders import a_node
from tests.unit.core.placement.volumes.storage_clusters import GIB, HOST, ZONE, Stored, a_claim, a_volume, on, using

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
FAST = (Target("tier", TargetOperator.IN, ("fast",)),)


@pytest.mark.parametrize(
    "volume, claim, fits",
    [
        ({}, {}, True),
        ({"of": "other"}, {}, False),
        ({"gib": 1}, {"gib": 2}, False),
        ({"gib": 3}, {"gib": 2}, True),
        ({}, {"request": None}, True),
        ({"access_modes": ("ReadWriteOnce", "ReadOnlyMany")}, {}, True),
        ({"access_modes": ("ReadOnlyMany",)}, {}, False),
        ({"mode": "Block"}, {}, False),
        ({"mode": "Block"}, {"mode": "Block"}, True),
        ({"attributes_class": "gold"}, {}, False),
        ({}, {"selector": FAST}, False),
        ({"labels": (("tier", "fast"),)}, {"selector": FAST}, True),
        ({"labels": (("tier", "fast"),)}, {}, True),
        ({}, {"selector": ()}, True),
        ({"phase": "Released"}, {}, False),
        ({"deleting": True}, {}, False),
        ({"affinity": on(HOST, "n2")}, {}, False),
        ({"reference": ClaimReference("ns/other")}, {}, False),
        ({"reference": ClaimReference("ns/c")}, {}, True),
        ({"reference": ClaimReference("ns/c", "uid-c"), "phase": "Bound"}, {}, True),
        ({"reference": ClaimReference("ns/c", "uid-of-before")}, {}, False),
        # A pre-bound volume is not checked for labels and access modes, but for everything else.
        ({"reference": ClaimReference("ns/c"), "access_modes": ("ReadOnlyMany",)}, {"selector": FAST}, True),
        ({"reference": ClaimReference("ns/c")}, {"gib": 2}, False),
        ({"reference": ClaimReference("ns/c"), "affinity": on(HOST, "n2")}, {}, False),
        ({"reference": ClaimReference("ns/c"), "mode": "Block"}, {}, False),
        ({"reference": ClaimReference("ns/c"), "of": "other"}, {}, False),
    ],
)
def test_a_claim_takes_only_a_matching_volume(volume: dict[str, Any], claim: dict[str, Any], *, fits: bool) -> None:
    stored = Stored("n1", objects=(a_volume("v", **volume), a_claim("c", **claim)))
    assert stored.reasons(using("c")) == ({} if fits else {"n1": [NONE_FREE]})


def test_the_smallest_sufficient_volume_is_chosen_and_ties_are_broken_by_name() -> None:
    volumes = (a_volume("a", 5), a_volume("c", 3), a_volume("b", 3), a_volume("d", 1))
    stored = Stored("n1", objects=(*volumes, a_claim("c", 2)))
    assert stored.choice(using("c")) == ("n1", {"c": "b"})


def test_a_volume_that_names_the_claim_is_used_instead_of_a_smaller_one() -> None:
    own = a_volume("own", 9, reference=ClaimReference("ns/c"))
    stored = Stored("n1", "n2", objects=(own, a_volume("small"), a_claim("c")))
    assert stored.choice(using("c")) == ("n1", {"c": "own"})
    stored.send(replace(own, affinity=on(HOST, "n2")))
    assert stored.free(using("c")) == "n2"


def test_a_volume_may_be_added_changed_or_deleted() -> None:
    stored, volume = Stored("n1", "n2", objects=(a_claim("c"),)), a_volume("v", affinity=on(HOST, "n1"))
    for fact, free in (
        (volume, "n1"),
        (replace(volume, affinity=on(HOST, "n2")), "n2"),
        (replace(volume, phase="Released"), ""),
        (volume, "n1"),
        (replace(volume, storage_class="other"), ""),
        (volume, "n1"),
        (replace(volume, capacity=1), ""),
        (volume, "n1"),
        (ObjectGone(ObjectKind.VOLUME, "v"), ""),
    ):
        stored.send(fact)
        assert stored.free(using("c")) == free


def test_claims_of_one_pod_use_different_volumes() -> None:
    stored = Stored("n1", "n2", objects=(a_claim("a"), a_claim("b")))
    stored.send(*(a_volume(name, affinity=on(HOST, node)) for name, node in (("v", "n1"), ("w", "n2"), ("x", "n2"))))
    assert stored.free(using("a", "b")) == "n2"
    assert stored.choice(using("b", "a")) == ("n2", {"b": "w", "a": "x"})


def test_the_smallest_claim_is_matched_first() -> None:
    stored = Stored("n1", objects=(a_claim("large", 3), a_claim("small", 1), a_volume("v", 2), a_volume("w", 3)))
    assert stored.choice(using("large", "small")) == ("n1", {"large": "w", "small": "v"})
    stored.send(ObjectGone(ObjectKind.VOLUME, "v"))
    assert stored.free(using("large", "small")) == ""


def test_claims_of_one_class_do_not_take_volumes_that_only_other_claims_match() -> None:
    fast = (("tier", "fast"),)
    stored = Stored("n1", "n2", objects=(a_claim("any"), a_claim("fast", 2, selector=FAST)))
    stored.send(a_volume("v", 2, labels=fast, affinity=on(HOST, "n1")))
    stored.send(
        *(a_volume(name, 2, labels=labels, affinity=on(HOST, "n2")) for name, labels in (("w", ()), ("x", fast)))
    )
    assert stored.reasons(using("any", "fast")) == {"n1": [NONE_FREE]}
    assert stored.choice(using("any", "fast")) == ("n2", {"any": "w", "fast": "x"})


def test_pods_of_one_plan_use_different_volumes() -> None:
    stored = Stored("n1", "n2", objects=(a_claim("a"), a_claim("b"), a_claim("c")))
    stored.send(a_volume("v", affinity=on(HOST, "n1")), a_volume("w", affinity=on(HOST, "n2")))
    snapshot = stored.snapshot()
    chosen = [stored.choice(using(name), snapshot) for name in "abc"]
    assert chosen == [("n1", {"a": "v"}), ("n2", {"b": "w"}), ("", {})]


def test_a_fork_does_not_change_its_plan_until_it_is_absorbed() -> None:
    stored = Stored("n1", objects=(a_claim("a"), a_claim("b"), a_volume("v")))
    snapshot = stored.snapshot()
    fork = snapshot.fork()
    assert stored.place(fork, using("a")) == "n1"
    assert stored.free(using("b"), fork) == ""
    assert stored.free(using("b"), snapshot) == "n1"
    snapshot.absorb(fork)
    assert stored.free(using("b"), snapshot) == ""


def test_pods_that_share_a_claim_run_where_the_volume_of_the_first_pod_is_reachable() -> None:
    stored = Stored("n1", "n2", "n3", objects=(a_claim("c"), a_volume("v", affinity=on(HOST, "n2", "n3"))))
    stored.send(a_volume("w", 2, affinity=on(HOST, "n1")))
    snapshot = stored.snapshot()
    assert stored.choice(using("c"), snapshot) == ("n1", {"c": "w"})
    assert stored.free(using("c"), snapshot) == "n1"
    stored.send(ObjectGone(ObjectKind.VOLUME, "w"))
    assert sorted(stored.place(stored.snapshot(), using("c"), 4).split()) == ["n2", "n2", "n3", "n3"]


def test_a_volume_assumed_for_one_claim_is_not_free_for_another_until_forgotten() -> None:
    stored = Stored("n1", objects=(a_claim("a"), a_claim("b"), a_volume("v")))
    stored.put("n1", using("a"))
    stored.assume("n1", a="v")
    assert stored.free(using("b")) == ""
    assert stored.free(using("a")) == "n1"
    stored.put("n1", using("a"), -1)
    assert stored.free(using("b")) == "n1"


def test_free_volumes_are_found_on_many_nodes() -> None:
    """Groups of volumes that few rows reach, and of those that many do."""
    names = [f"n{number:03d}" for number in range(100)]
    nodes = (a_node(name, labels={HOST: name, ZONE: "a" if name < "n080" else "b"}) for name in names)
    local = [a_volume(f"l{name}", 1 + int(name[1:]) % 3, affinity=on(HOST, name)) for name in names[::2]]
    zonal: list[Volume] = [a_volume("z", 2, affinity=on(ZONE, "a"))]
    claims = (a_claim("one", 2), a_claim("other", 2), a_claim("third", 2, selector=FAST))
    stored = Stored(*nodes, objects=(*local, *zonal, *claims))
    large = {
        volume.affinity[0].expressions[0].values[0] for volume in local if volume.affinity and volume.capacity > GIB
    }
    one_each = large | set(names[:80])
    assert set(stored.free(using("one")).split()) == one_each
    assert set(stored.free(using("one", "other")).split()) == {name for name in large if name < "n080"}
    assert stored.free(using("one", "third")) == ""
