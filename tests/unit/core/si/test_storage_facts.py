"""Volumes, claims, classes, drivers and capacities are decoded completely, or rejected with the name of the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import orjson
import pytest

from muster_core.model.constraints import Requirement, Target, TargetOperator, Term
from muster_core.model.events import NodeAdded
from muster_core.model.ids import NodeId
from muster_core.model.specs import NO_PROPERTIES, Disk, HostPort, PodProperties, Preferences, Volumes
from muster_core.model.storage import (
    Claim,
    ClaimDemand,
    ClaimReference,
    ClusterFact,
    MigratedVolume,
    NodeStorage,
    ObjectGone,
    ObjectKind,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
    VolumeHandle,
)
from muster_core.si import nodes, pod_tags, storage
from muster_core.si.values import InvalidField
from muster_si import keys
from muster_si.muster_pb2 import Fact
from tests.unit.core import messages

TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
SSD = {"matchLabels": {"disk": "ssd"}}
IS_SSD = (Target("disk", TargetOperator.IN, ("ssd",)),)


def a_fact(kind: Any, name: str, **found: Any) -> Fact:
    return Fact(kind=kind, name=name, attributes={keys.FACT_OBJECT: orjson.dumps(found).decode()})


def read(*facts: Fact) -> tuple[ClusterFact, ...]:
    taken, rejected = storage.read_cluster_object(facts)
    assert rejected == []
    return taken


def refusal(fact: Fact) -> str:
    taken, (rejected,) = storage.read_cluster_object([fact])
    assert (taken, rejected.kind, rejected.name) == ((), fact.kind, fact.name[:256])
    return rejected.reason


def test_a_volume_is_read_completely() -> None:
    (found,) = read(
        a_fact(
            Fact.VOLUME,
            "v",
            capacity=5,
            accessModes=["ReadWriteOnce"],
            volumeMode="Block",
            storageClassName="fast",
            attributesClass="gold",
            labels={"zone": "a"},
            nodeAffinity=[TERM],
            claimRef={"namespace": "ns", "name": "c", "uid": "1"},
            phase="Bound",
            csi={"driver": "d", "volumeHandle": "h"},
            migrated={"plugin": "p", "nodeAffinity": [TERM]},
            deleting=True,
        )
    )
    affinity = (Term((Requirement("zone", "In", ("a",)),)),)
    assert found == Volume(
        "v",
        5,
        ("ReadWriteOnce",),
        "Block",
        "fast",
        "gold",
        (("zone", "a"),),
        affinity,
        ClaimReference("ns/c", "1"),
        "Bound",
        VolumeHandle("d", "h"),
        MigratedVolume("p", affinity),
        deleting=True,
    )


def test_a_claim_is_read_completely_and_its_access_modes_are_sorted() -> None:
    (found,) = read(
        a_fact(
            Fact.CLAIM,
            "ns/c",
            uid="1",
            storageClassName="fast",
            attributesClass="gold",
            volumeName="v",
            bound=True,
            request=7,
            accessModes=["ReadWriteOnce", "ReadOnlyMany"],
            volumeMode="Block",
            selector=SSD,
            phase="Bound",
            selectedNode="n1",
            owner="pod",
            deleting=True,
        )
    )
    demand = ClaimDemand("fast", ("ReadOnlyMany", "ReadWriteOnce"), "Block", "gold", IS_SSD)
    assert found == Claim("ns/c", "1", "v", True, 7, demand, "Bound", NodeId("n1"), "pod", deleting=True)


def test_classes_drivers_and_capacities_are_read_completely() -> None:
    found = read(
        a_fact(
            Fact.STORAGE_CLASS,
            "fast",
            provisioner="p",
            driver="d",
            bindingMode="WaitForFirstConsumer",
            allowedTopologies=[[{"key": "zone", "values": ["a", "b"]}], []],
        ),
        a_fact(Fact.STORAGE_DRIVER, "d", storageCapacity=True),
        a_fact(Fact.STORAGE_DRIVER, "e", preventPodSchedulingIfMissing=True),
        a_fact(Fact.STORAGE_CAPACITY, "ns/p", storageClassName="fast", nodeTopology=SSD, capacity=9),
        a_fact(Fact.STORAGE_CAPACITY, "ns/q", nodeTopology={}, capacity=9, maximumVolumeSize=3),
        a_fact(Fact.STORAGE_CAPACITY, "ns/r", nodeTopology={}, capacity="1500000000n"),
    )
    assert found == (
        StorageClass("fast", "p", "d", delayed=True, topologies=((("zone", ("a", "b")),), ())),
        StorageDriver("d", tells_capacity=True),
        StorageDriver("e", is_required=True),
        StorageCapacity("ns/p", "fast", IS_SSD, 9),
        StorageCapacity("ns/q", "", (), 3),
        StorageCapacity("ns/r", "", (), Fraction(3, 2)),
    )


def test_absent_fields_have_the_defaults_of_kubernetes() -> None:
    kinds = (Fact.VOLUME, Fact.CLAIM, Fact.STORAGE_CLASS, Fact.STORAGE_DRIVER, Fact.STORAGE_CAPACITY)
    found = read(*(a_fact(kind, "a/b") for kind in kinds))
    assert found == (Volume("a/b"), Claim("a/b"), StorageClass("a/b"), StorageDriver("a/b"), StorageCapacity("a/b"))


def test_a_deleted_object_needs_no_attributes() -> None:
    kinds = (Fact.VOLUME, Fact.CLAIM, Fact.STORAGE_CLASS, Fact.STORAGE_DRIVER, Fact.STORAGE_CAPACITY)
    found = read(*(Fact(kind=kind, name="a/b", gone=True) for kind in kinds))
    assert found == tuple(ObjectGone(kind, "a/b") for kind in ObjectKind)


@pytest.mark.parametrize(
    "fact, reason",
    [
        (a_fact(99, "v"), "kind is not known: 99"),
        (a_fact(Fact.VOLUME, ""), "name is missing or longer than 512 characters"),
        (a_fact(Fact.CLAIM, "c"), "muster/object: name is not namespace/name: 'c'"),
        (Fact(kind=Fact.VOLUME, name="v"), "muster/object is missing"),
        (
            a_fact(Fact.VOLUME, "v", colour="red"),
            "muster/object: the value is wrong: Object contains unknown field `colour`",
        ),
        (a_fact(Fact.VOLUME, "v", capacity=-1), "muster/object: capacity is wrong: Expected `int` >= 0"),
        *(
            (
                a_fact(Fact.VOLUME, "v", capacity=text),
                "muster/object: capacity is wrong: Expected `str` matching regex '^[0-9]{1,28}n\\\\Z'",
            )
            for text in ("1", "-1n", "1n\n", f"{'9' * 29}n", "٣n")
        ),
        (
            a_fact(Fact.VOLUME, "v", capacity=f"{2**62 * 10**9 + 1}n"),
            "muster/object: a quantity is larger than 4611686018427387904",
        ),
        (
            a_fact(Fact.VOLUME, "v", nodeAffinity={}),
            "muster/object: nodeAffinity is wrong: Expected `array | null`, got `object`",
        ),
        (a_fact(Fact.VOLUME, "v", phase="x" * 257), "muster/object: phase is wrong: Expected `str` of length <= 256"),
        (a_fact(Fact.CLAIM, "ns/c", bound="yes"), "muster/object: bound is wrong: Expected `bool`, got `str`"),
        (
            a_fact(Fact.STORAGE_CLASS, "s", bindingMode="Later"),
            "muster/object: bindingMode is wrong: Invalid enum value 'Later'",
        ),
        (
            a_fact(Fact.STORAGE_CLASS, "s", allowedTopologies=[{}]),
            "muster/object: allowedTopologies[0] is wrong: Expected `array`, got `object`",
        ),
        (
            a_fact(Fact.STORAGE_DRIVER, "d", storageCapacity=1),
            "muster/object: storageCapacity is wrong: Expected `bool`, got `int`",
        ),
        (
            a_fact(Fact.STORAGE_CAPACITY, "p", nodeTopology=[]),
            "muster/object: nodeTopology is wrong: Expected `object | null`, got `array`",
        ),
    ],
)
def test_an_invalid_object_is_rejected_with_the_name_of_the_field(fact: Fact, reason: str) -> None:
    assert refusal(fact) == reason


def test_the_volumes_of_a_pod_include_its_name_only_if_some_are_ephemeral() -> None:
    expected = {
        "claims": ["ns/b", "ns/a", "ns/b"],
        "disks": [{"kind": "rbd", "id": "pool/x", "monitors": ["m1"], "readOnly": True}],
        "attached": {"d": ["1", "2"]},
    }
    tags = {keys.TAG_NAMESPACE: "ns", keys.TAG_POD_NAME: "p", keys.TAG_VOLUMES: orjson.dumps(expected).decode()}
    volumes = Volumes(
        claims=("ns/b", "ns/a", "ns/b"),
        disks=(Disk("rbd", "pool/x", read_only=True, monitors=("m1",)),),
        attached=(VolumeHandle("d", "1"), VolumeHandle("d", "2")),
    )
    assert pod_tags.read_properties(tags).volumes == volumes
    tags[keys.TAG_VOLUMES] = '{"claims":["ns/p-v"],"ephemeral":{"ns/p-v":"uid"}}'
    own = Volumes(claims=("ns/p-v",), ephemeral=(("ns/p-v", "uid"),), pod="ns/p")
    assert pod_tags.read_properties(tags).volumes == own


def test_volume_limits_and_attached_volumes_of_a_node_are_read_and_may_be_absent() -> None:
    expected = {keys.NODE_VOLUME_LIMITS: '{"d":3,"e":null}', keys.NODE_ATTACHED: '{"d":["1"],"b":["2"]}'}
    attached = (VolumeHandle("b", "2"), VolumeHandle("d", "1"))
    assert nodes.storage(expected) == NodeStorage({"d": 3, "e": None}, attached)
    assert nodes.storage({keys.NODE_ATTACHED: '{"b":["2"]}'}) == NodeStorage(None, attached[:1])
    assert nodes.storage({keys.NODE_MIGRATED: '["b","a"]'}) == NodeStorage(None, (), ("a", "b"))
    assert nodes.storage({}) is None


@pytest.mark.parametrize("text", ['{"d":-1}', '{"d":"3"}', '{"d":true}', "[]"])
def test_a_volume_limit_that_is_not_a_number_is_rejected(text: str) -> None:
    with pytest.raises(InvalidField, match=keys.NODE_VOLUME_LIMITS):
        nodes.storage({keys.NODE_VOLUME_LIMITS: text})


# -- Node properties, and the node constraints and preferences of pods, in attributes and tags: decoded strictly.

EVERY = "0.0.0.0"  # noqa: S104 - what ports say, nobody listens there


def text(value: object) -> str:
    return orjson.dumps(value).decode()


def test_a_node_reports_its_cordon_its_features_and_its_images() -> None:
    attributes = {
        keys.NODE_UNSCHEDULABLE: "true",
        keys.NODE_FEATURES: text(["B", "A"]),
        keys.LOCAL_IMAGES: text({"app:1": 1000, "app@sha256:0": 1000}),
    }
    [event] = messages.a_decoder().nodes.read(messages.nodes(messages.a_node(attributes=attributes))).events
    assert isinstance(event, NodeAdded)
    spec = event.spec
    assert (spec.cordoned, spec.features) == (True, frozenset({"A", "B"}))
    assert spec.images == {"app:1": 1000, "app@sha256:0": 1000}
    assert keys.LOCAL_IMAGES not in spec.attributes  # the list is long, and kept once
    [event] = (
        messages.a_decoder()
        .nodes.read(messages.nodes(messages.a_node(attributes={keys.NODE_UNSCHEDULABLE: "false"})))
        .events
    )
    assert isinstance(event, NodeAdded)
    assert (event.spec.cordoned, event.spec.features, event.spec.images) == (False, frozenset(), {})


def test_a_list_of_images_may_be_longer_than_other_values() -> None:
    """By default a kubelet reports 50 images with 5 names each."""
    names = {f"{number:04}.{'x' * 570}": 2**50 for number in range(250)}
    assert len(nodes.images({keys.LOCAL_IMAGES: text(names)})) == 250


def test_a_pod_reports_its_host_ports_and_its_preferences() -> None:
    preferred = {"weight": 3, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    tags = {
        keys.CONTAINER_PORTS: text([[EVERY, "TCP", 80], ["10.0.0.1", "UDP", 65535]]),
        keys.TAG_PREFERENCES: text({"nodeAffinity": [preferred], "images": ["app:1", "app:1"]}),
    }
    assert pod_tags.read_properties(tags) == PodProperties(
        ports=(HostPort(EVERY, "TCP", 80), HostPort("10.0.0.1", "UDP", 65535)),
        preferences=Preferences(((3, Term((Requirement("zone", "Exists"),))),), ("app:1", "app:1")),
    )
    assert pod_tags.read_properties({keys.TAG_NAMESPACE: "n"}) is NO_PROPERTIES


def test_a_pod_reports_its_required_node_features() -> None:
    assert pod_tags.constraints({keys.TAG_CONSTRAINTS: text({"features": ["A", "B"]})}).features == ("A", "B")


Reader = Callable[[Mapping[str, str]], object]
NODES: list[tuple[str, Any, Reader]] = [
    (keys.LOCAL_IMAGES, [], nodes.images),
    (keys.LOCAL_IMAGES, {"app": -1}, nodes.images),
    (keys.LOCAL_IMAGES, {"app": 2**50 + 1}, nodes.images),
    (keys.LOCAL_IMAGES, {"app": "1Gi"}, nodes.images),
    (keys.LOCAL_IMAGES, {"app": True}, nodes.images),
    (keys.LOCAL_IMAGES, {"x" * nodes.IMAGES_LIMIT: 1}, nodes.images),
    (keys.NODE_FEATURES, {}, nodes.features),
    (keys.NODE_FEATURES, [1], nodes.features),
    (keys.NODE_FEATURES, ["x" * 70_000], nodes.features),
]
PODS: list[tuple[str, Any, Reader]] = [
    (keys.CONTAINER_PORTS, {}, pod_tags.read_properties),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP"]], pod_tags.read_properties),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP", 0]], pod_tags.read_properties),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP", 65_536]], pod_tags.read_properties),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP", "80"]], pod_tags.read_properties),
    (keys.CONTAINER_PORTS, [{"port": 80}], pod_tags.read_properties),
    (keys.TAG_PREFERENCES, [], pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"images": "app"}, pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"images": [1]}, pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": 101, "preference": {}}]}, pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": -1, "preference": {}}]}, pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": 1, "preference": "zone"}]}, pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": 1, "wish": {}}]}, pod_tags.read_properties),
    (keys.TAG_PREFERENCES, {"podAffinity": []}, pod_tags.read_properties),
    (keys.TAG_CONSTRAINTS, {"features": "A"}, pod_tags.constraints),
]


@pytest.mark.parametrize(
    "key, value, read", NODES + PODS, ids=lambda part: part.__name__ if callable(part) else str(part)[:40]
)
def test_an_invalid_value_is_rejected_with_a_short_message_that_names_the_key(
    key: str, value: Any, read: Reader
) -> None:
    with pytest.raises(InvalidField) as refused:
        read({key: text(value)})
    assert str(refused.value).startswith(key)
    assert len(str(refused.value)) < 400
