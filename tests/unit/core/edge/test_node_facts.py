"""What a node is, and what a pod asks and prefers of nodes, as attributes and tags carry it: read strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from muster_core.edge import fields, node_facts, pod_facts
from muster_core.edge.refusals import Unfit
from muster_core.model.constraints import Requirement, Term
from muster_core.model.events import NodeAdded
from muster_core.model.facts import NO_FACTS, HostPort, PodFacts, Preferences
from muster_si import keys
from tests.unit.core.edge import messages as m

EVERY = "0.0.0.0"  # noqa: S104 - what ports say, nobody listens there


def text(value: object) -> str:
    return orjson.dumps(value).decode()


def test_a_node_says_whether_it_is_cordoned_what_it_declares_and_which_images_lie_there() -> None:
    attributes = {
        keys.NODE_UNSCHEDULABLE: "true",
        keys.NODE_FEATURES: text(["B", "A"]),
        keys.LOCAL_IMAGES: text({"app:1": 1000, "app@sha256:0": 1000}),
    }
    [event] = m.a_decoder().nodes(m.nodes(m.a_node(attributes=attributes))).events
    assert isinstance(event, NodeAdded)
    spec = event.spec
    assert (spec.cordoned, spec.features) == (True, frozenset({"A", "B"}))
    assert spec.images == {"app:1": 1000, "app@sha256:0": 1000}
    assert keys.LOCAL_IMAGES not in spec.attributes  # the list is long, and kept once
    [event] = m.a_decoder().nodes(m.nodes(m.a_node(attributes={keys.NODE_UNSCHEDULABLE: "false"}))).events
    assert isinstance(event, NodeAdded)
    assert (event.spec.cordoned, event.spec.features, event.spec.images) == (False, frozenset(), {})


def test_a_list_of_images_may_be_longer_than_other_values() -> None:
    """A kubelet reports 50 images with 5 names each unless it is told otherwise."""
    names = {f"{number:04}.{'x' * 570}": 2**50 for number in range(250)}
    assert len(node_facts.images({keys.LOCAL_IMAGES: text(names)})) == 250


def test_a_pod_says_which_ports_it_takes_and_what_it_prefers() -> None:
    preferred = {"weight": 3, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    tags = {
        keys.CONTAINER_PORTS: text([[EVERY, "TCP", 80], ["10.0.0.1", "UDP", 65535]]),
        keys.TAG_PREFERENCES: text({"nodeAffinity": [preferred], "images": ["app:1", "app:1"]}),
    }
    assert pod_facts.read(tags) == PodFacts(
        ports=(HostPort(EVERY, "TCP", 80), HostPort("10.0.0.1", "UDP", 65535)),
        preferences=Preferences(((3, Term((Requirement("zone", "Exists"),))),), ("app:1", "app:1")),
    )
    assert pod_facts.read({keys.TAG_NAMESPACE: "n"}) is NO_FACTS


def test_a_pod_says_which_features_a_node_has_to_declare() -> None:
    assert fields.constraints({keys.TAG_CONSTRAINTS: text({"features": ["A", "B"]})}).features == ("A", "B")


Reader = Callable[[Mapping[str, str]], object]
NODES: list[tuple[str, Any, Reader]] = [
    (keys.LOCAL_IMAGES, [], node_facts.images),
    (keys.LOCAL_IMAGES, {"app": -1}, node_facts.images),
    (keys.LOCAL_IMAGES, {"app": 2**50 + 1}, node_facts.images),
    (keys.LOCAL_IMAGES, {"app": "1Gi"}, node_facts.images),
    (keys.LOCAL_IMAGES, {"app": True}, node_facts.images),
    (keys.LOCAL_IMAGES, {"x" * node_facts.IMAGES_LIMIT: 1}, node_facts.images),
    (keys.NODE_FEATURES, {}, node_facts.features),
    (keys.NODE_FEATURES, [1], node_facts.features),
    (keys.NODE_FEATURES, ["x" * 70_000], node_facts.features),
]
PODS: list[tuple[str, Any, Reader]] = [
    (keys.CONTAINER_PORTS, {}, pod_facts.read),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP"]], pod_facts.read),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP", 0]], pod_facts.read),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP", 65_536]], pod_facts.read),
    (keys.CONTAINER_PORTS, [[EVERY, "TCP", "80"]], pod_facts.read),
    (keys.CONTAINER_PORTS, [{"port": 80}], pod_facts.read),
    (keys.TAG_PREFERENCES, [], pod_facts.read),
    (keys.TAG_PREFERENCES, {"images": "app"}, pod_facts.read),
    (keys.TAG_PREFERENCES, {"images": [1]}, pod_facts.read),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": 101, "preference": {}}]}, pod_facts.read),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": -1, "preference": {}}]}, pod_facts.read),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": 1, "preference": "zone"}]}, pod_facts.read),
    (keys.TAG_PREFERENCES, {"nodeAffinity": [{"weight": 1, "wish": {}}]}, pod_facts.read),
    (keys.TAG_PREFERENCES, {"podAffinity": []}, pod_facts.read),
    (keys.TAG_CONSTRAINTS, {"features": "A"}, fields.constraints),
]


@pytest.mark.parametrize(
    "key, value, read", NODES + PODS, ids=lambda part: part.__name__ if callable(part) else str(part)[:40]
)
def test_what_cannot_be_read_is_refused_by_its_name_in_few_words(key: str, value: Any, read: Reader) -> None:
    with pytest.raises(Unfit) as refused:
        read({key: text(value)})
    assert str(refused.value).startswith(key)
    assert len(str(refused.value)) < 400
