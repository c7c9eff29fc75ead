"""InterPodAffinity beyond the comparison with a simple search: plans, namespaces by label, reasons, and changes."""

import pytest

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import Selector, TargetOperator
from muster_core.model.ids import NodeId
from muster_core.placement.node_search import allowed, charge, place, unschedulable_reason
from muster_core.placement.plugins.inter_pod_affinity import (
    AFFINITY_NOT_MET,
    ANTI_AFFINITY_NOT_MET,
    EXISTING_ANTI_AFFINITY_NOT_MET,
)
from muster_core.placement.plugins.tables import is_resolvable
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node
from tests.unit.core.placement.affinity_clusters import HOST, ZONE, a_pod, among, put, term, wanting, zones
from tests.unit.core.placement.tables import named

FAIR = NodeSort(NodeOrder.FAIR)
WEB = a_pod()


def may_go(table: NodeTable, shape: RequestShape) -> str:
    return named(allowed(Snapshot(table), shape), table)


def rejections(table: NodeTable, shape: RequestShape) -> dict[str, int]:
    return dict(unschedulable_reason(Snapshot(table), shape).counts)


def two_zones() -> NodeTable:
    """Two nodes in zone a, one in b, one in none; a web pod on the first."""
    table = zones("a", "a", "b", "")
    put(table, "n0", WEB)
    return table


def test_pods_with_anti_affinity_to_each_other_get_a_domain_each() -> None:
    table = zones("a", "b", "a", "")
    assert place(Snapshot(table), wanting(a_pod(anti_affinity=(term(topology=HOST),))), 9, FAIR) == [
        (NodeId(f"n{index}"), 1) for index in range(4)
    ]
    snapshot, shape = Snapshot(table), wanting(a_pod(anti_affinity=(term(),)), vcore=2000)
    assert dict(place(snapshot, shape, 9, FAIR)) == {NodeId("n0"): 1, NodeId("n1"): 1, NodeId("n3"): 4}
    assert dict(unschedulable_reason(snapshot, shape).counts) == {ANTI_AFFINITY_NOT_MET: 3, "Insufficient cpu": 1}


def test_members_of_one_plan_see_each_other_and_assumed_victims_do_not_count() -> None:
    table = zones("a", "b")
    snapshot = Snapshot(table)
    charge(snapshot, wanting(a_pod("db", anti_affinity=(term(),))), row=0)
    assert named(allowed(snapshot, wanting(WEB)), table) == "n1"
    assert named(allowed(snapshot, wanting(a_pod(affinity=(term("db"),)))), table) == ""
    assert named(allowed(snapshot, wanting(a_pod("cache", affinity=(term("db"),)))), table) == "n0"
    lonely = a_pod(anti_affinity=(term(),))
    put(table, "n0", lonely)
    snapshot = Snapshot(table)
    snapshot.enter(0, lonely, -1)
    assert named(allowed(snapshot, wanting(lonely)), table) == "n0 n1"


@pytest.mark.parametrize(
    "of, own, theirs",
    [
        (None, "blue", "blue"),
        ((), "blue red yellow", "blue red yellow"),
        (among("team", "one"), "blue red", "blue red"),
        (among("team", operator=TargetOperator.EXIST), "blue red", "blue red"),
        (among("kubernetes.io/metadata.name", "yellow"), "blue yellow", "blue yellow"),
        (among("team", "one", operator=TargetOperator.NOT_IN), "blue yellow", "blue yellow"),
    ],
)
def test_a_term_applies_to_the_namespaces_that_it_names_and_selects(of: Selector, own: str, theirs: str) -> None:
    one = term(topology=HOST, namespaces=("blue",), of=of)
    for namespace in ("red", "blue", "yellow"):
        table = zones("a", "b")
        table.pods_on_nodes.namespace("red", {"team": "one"})
        table.pods_on_nodes.namespace("yellow", {})
        put(table, "n0", a_pod(namespace=namespace))
        assert (may_go(table, wanting(a_pod("cache", anti_affinity=(one,)))) == "n1") == (namespace in own)
        table = zones("a", "b")
        table.pods_on_nodes.namespace("red", {"team": "one"})
        table.pods_on_nodes.namespace("yellow", {})
        put(table, "n0", a_pod("cache", anti_affinity=(one,)))
        assert (may_go(table, wanting(a_pod(namespace=namespace))) == "n1") == (namespace in theirs)


def test_a_namespace_selector_uses_the_current_labels() -> None:
    table = two_zones()
    shape = wanting(a_pod("cache", affinity=(term(namespaces=(), of=among("team", "one")),)))
    assert may_go(table, shape) == ""
    table.pods_on_nodes.namespace("red", {"team": "one"})
    assert may_go(table, shape) == "n0 n1"
    table.pods_on_nodes.namespace("red", None)
    assert may_go(table, shape) == ""


def test_preemption_may_help_against_anti_affinity_but_not_with_affinity() -> None:
    assert [
        is_resolvable(reason) for reason in (AFFINITY_NOT_MET, ANTI_AFFINITY_NOT_MET, EXISTING_ANTI_AFFINITY_NOT_MET)
    ] == [False, True, True]


def test_a_domain_changes_with_the_labels_of_its_nodes_and_is_deleted_with_them() -> None:
    table = zones("a", "b")
    put(table, "n0", WEB)
    shape = wanting(a_pod("cache", affinity=(term(),)))
    assert may_go(table, shape) == "n0"
    table.update(a_node("n1", vcore=8000, labels={ZONE: "a"}))
    assert may_go(table, shape) == "n0 n1"
    table.pods_on_nodes.remove(0, WEB)
    table.remove(NodeId("n0"))
    assert may_go(table, shape) == ""
    assert rejections(table, shape) == {AFFINITY_NOT_MET: 1}
