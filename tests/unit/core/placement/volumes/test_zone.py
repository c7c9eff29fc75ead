"""VolumeZone (Kubernetes 1.37): zone and region labels of volumes and nodes."""

import pytest

from muster_core.model.storage import ObjectGone, ObjectKind
from tests.unit.builders import a_node
from tests.unit.core.placement.volumes.storage_clusters import ZONE, Stored, a_volume, bound, using

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
CONFLICT = "node(s) had no available volume zone"


def stored(volume_labels: dict[str, str], **nodes: dict[str, str]) -> Stored:
    """A claim c of a volume with labels, and nodes with theirs."""
    volume = a_volume("v", labels=tuple(sorted(volume_labels.items())))
    return Stored(*(a_node(name, labels=labels) for name, labels in nodes.items()), objects=bound("c", volume))


def test_a_node_in_another_zone_is_refused_and_one_without_a_zone_is_not() -> None:
    found = stored({ZONE: "a"}, n1={ZONE: "a"}, n2={ZONE: "b"}, n3={"disk": "ssd"})
    assert found.reasons(using("c")) == {"n2": [CONFLICT]}


@pytest.mark.parametrize(
    "of_volume, of_node, fits",
    [
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__ b "}, {ZONE: "b"}, True),
        ({ZONE: "a____b"}, {ZONE: "c"}, True),  # an invalid label is ignored
        ({ZONE: "a"}, {REGION: "north"}, False),
        ({ZONE: "a", REGION: "north"}, {ZONE: "a", REGION: "south"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({}, {ZONE: "a"}, True),
    ],
)
def test_every_zone_label_of_the_volume_must_match_the_node(
    of_volume: dict[str, str], of_node: dict[str, str], *, fits: bool
) -> None:
    assert bool(stored(of_volume, n1=of_node).free(using("c"))) is fits


def test_a_missing_volume_blocks_the_pod_on_every_node() -> None:
    found = stored({ZONE: "a"}, n1={ZONE: "a"}, n2={})
    found.send(ObjectGone(ObjectKind.VOLUME, "v"))
    assert found.text(using("c")) == '0/2 nodes are available: persistentvolume "v" not found.'
    assert found.free(using("c")) == ""


def test_zones_are_ignored_for_an_ephemeral_volume() -> None:
    volume = a_volume("v", labels=((ZONE, "a"),))
    found = Stored(a_node("n1", labels={ZONE: "b"}), objects=bound("p-c", volume, owner="uid-p"))
    assert found.free(using("p-c", ephemeral=(("ns/p-c", "uid-p"),), pod="ns/p")) == "n1"
