"""Storage objects are sent to the core, before applications or as attributes of nodes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster_operator.controller import recovery
from muster_operator.controller.volume_binding import reaches
from muster_operator.model.core_messages import (
    ApplicationSubmitted,
    ClusterObjectReported,
    CoreRequest,
    Node,
    NodeCreated,
    NodeUpdated,
)
from muster_operator.model.settings import Settings
from muster_operator.runtime.loop import ObjectDecoder, key_of
from muster_operator.translate.nodes import read_node
from muster_operator.translate.objects import read_deletion
from muster_operator.translate.storage import read_volume
from muster_si import keys
from tests.unit.operator.controller.driver import live, waiting, whole
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import a_node
from tests.unit.operator.controller.storage import a_claim, a_volume, claim_seen, gone, seen, volume_seen

CLASS = {"metadata": {"name": "late"}, "provisioner": "p"}
CSI_NODE = {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 2}}]}}


def an_attachment(volume: str = "disk", node: str = "n1") -> dict[str, Any]:
    spec = {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": f"attached-{volume}"}, "spec": spec}


def reported_storage(requests: list[CoreRequest]) -> list[tuple[str, bool]]:
    return [(item.fact.name, item.fact.gone) for item in requests if isinstance(item, ClusterObjectReported)]


def attributes(requests: list[CoreRequest]) -> list[dict[str, Any]]:
    """Attach limits and attached volumes in the attributes of nodes."""
    nodes = [item.node for item in requests if isinstance(item, NodeUpdated | NodeCreated)]
    tags = (keys.NODE_VOLUME_LIMITS, keys.NODE_ATTACHED)
    return [{tag: orjson.loads(node.attributes[tag]) for tag in tags if tag in node.attributes} for node in nodes]


def test_an_object_is_reported_once_per_change_and_once_when_deleted() -> None:
    driver = live()
    assert reported_storage(driver.fact(claim_seen()).requests) == [("dev/data", False)]
    assert reported_storage(driver.fact(claim_seen()).requests) == []
    assert reported_storage(driver.fact(claim_seen(selected="n1")).requests) == [("dev/data", False)]
    assert reported_storage(driver.fact(gone("persistentvolumeclaims", a_claim())).requests) == [("dev/data", True)]
    assert reported_storage(driver.fact(gone("persistentvolumeclaims", a_claim())).requests) == []


def test_a_session_reports_all_objects_before_the_first_application() -> None:
    driver = live()
    waiting(driver)
    for fact in (claim_seen(), volume_seen(), seen("storageclasses", CLASS)):
        driver.fact(fact)
    requests = whole(recovery.begin(driver.ledger, 0.0)).requests
    kinds = [type(item) for item in requests]
    assert kinds == [ClusterObjectReported] * (len(requests) - 1) + [ApplicationSubmitted]
    assert {"dev/data", "disk", "late"} <= {name for name, _ in reported_storage(requests)}


def test_a_node_is_reported_with_its_volume_limits_and_attached_volumes() -> None:
    driver = live()
    disk = volume_seen(csi={"driver": "d", "volumeHandle": "h"})
    assert attributes(driver.fact(seen("csinodes", CSI_NODE)).requests) == [{keys.NODE_VOLUME_LIMITS: {"d": 2}}]
    assert driver.fact(seen("volumeattachments", an_attachment())).requests == [], "of a volume that nobody knows yet"
    whole_node = {keys.NODE_VOLUME_LIMITS: {"d": 2}, keys.NODE_ATTACHED: {"d": ["h"]}}
    assert attributes(driver.fact(disk).requests) == [whole_node]
    assert attributes(whole(recovery.report_nodes(driver.ledger, 0.0)).requests) == [whole_node]
    assert attributes(driver.fact(node_seen(a_node(labels={"a": "b"}))).requests) == [whole_node]
    assert attributes(driver.fact(gone("volumeattachments", an_attachment())).requests) == [
        {keys.NODE_VOLUME_LIMITS: {"d": 2}}
    ]
    assert attributes(driver.fact(gone("csinodes", CSI_NODE)).requests) == [{}]


def test_a_deleted_or_moved_volume_is_no_longer_attached() -> None:
    driver = live("n1", "n2")
    driver.fact(volume_seen(csi={"driver": "d", "volumeHandle": "h"}))
    driver.fact(seen("volumeattachments", an_attachment()))
    assert attributes(driver.fact(seen("volumeattachments", an_attachment(node="n2"))).requests) == [
        {},
        {keys.NODE_ATTACHED: {"d": ["h"]}},
    ]
    assert attributes(driver.fact(gone("persistentvolumes", a_volume())).requests) == [{}]


MISSED = {
    "persistentvolumes": a_volume(),
    "persistentvolumeclaims": a_claim(),
    "storageclasses": CLASS,
    "csinodes": CSI_NODE,
    "csidrivers": {"metadata": {"name": "d"}},
    "csistoragecapacities": {"metadata": {"name": "p", "namespace": "dev"}},
    "volumeattachments": an_attachment(),
}


@pytest.mark.parametrize("plural", MISSED)
def test_a_missed_deletion_is_found_by_a_list(plural: str) -> None:
    at, raw = ObjectDecoder(Settings), MISSED[plural]
    at.begin_list(plural, is_reset=False)
    at.fact(plural, key_of(plural, raw), None, raw)
    assert list(at.end_list(plural, "1")) == []
    at.begin_list(plural, is_reset=False)
    [(_, missed)] = at.end_list(plural, "2")
    assert missed == read_deletion(plural, key_of(plural, raw))


TERMS = {
    "in": ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
    "not in": ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
    "not in what is absent": ({"key": "disk", "operator": "NotIn", "values": ["a"]}, True),
    "exists": ({"key": "zone", "operator": "Exists"}, True),
    "is absent": ({"key": "zone", "operator": "DoesNotExist"}, False),
    "greater": ({"key": "gen", "operator": "Gt", "values": ["3"]}, True),
    "less": ({"key": "gen", "operator": "Lt", "values": ["4"]}, False),
    "no number": ({"key": "zone", "operator": "Gt", "values": ["3"]}, False),
    "unknown": ({"key": "zone", "operator": "Like", "values": ["a"]}, False),
}


def a_zonal_node() -> Node:
    node = read_node(a_node(labels={"zone": "a", "gen": "4"}), Settings())
    assert node is not None
    return node


@pytest.mark.parametrize("requirement, holds", TERMS.values(), ids=TERMS)
def test_node_labels_decide_whether_a_node_reaches_a_volume(requirement: dict[str, Any], holds: object) -> None:
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    volume = read_volume(a_volume(nodeAffinity=affinity))
    assert volume is not None
    assert reaches(a_zonal_node(), volume) is holds


def test_node_selector_terms_are_ored_and_an_empty_term_matches_nothing() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    for terms, holds in (([{}], False), ([], False), ([{}, {"matchExpressions": [zone]}], True)):
        volume = read_volume(a_volume(nodeAffinity={"required": {"nodeSelectorTerms": terms}}))
        assert volume is not None
        assert reaches(a_zonal_node(), volume) is holds
