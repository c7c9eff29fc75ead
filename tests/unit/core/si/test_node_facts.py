"""Node properties, and the node constraints and preferences of pods, in attributes and tags: decoded strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from muster_core.model.constraints import Requirement, Term
from muster_core.model.events import NodeAdded
from muster_core.model.specs import NO_PROPERTIES, HostPort, PodProperties, Preferences
from muster_core.si import nodes, pod_tags
from muster_core.si.values import InvalidField
from muster_si import keys
from tests.unit.core import messages

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
