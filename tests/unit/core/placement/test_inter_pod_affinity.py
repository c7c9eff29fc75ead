"""InterPodAffinity: required terms of the pod and of existing pods, by the rules of Kubernetes 1.37."""

from collections.abc import Iterable

import pytest

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import PodTerm, Selector, TargetOperator
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
from tests.unit.builders import a_node, resources
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


@pytest.mark.parametrize(
    "affinity, expected",
    [
        ((term(),), "n0 n1"),
        ((term(topology=HOST),), "n0"),
        ((term(), term(topology=HOST)), "n0"),
        ((term("db"),), ""),
        ((term(), term("db")), ""),  # one pod has to match all terms
        ((PodTerm(ZONE, ()),), ""),  # an empty selector, but no namespace
        ((PodTerm(ZONE, (), ("red",)),), "n0 n1"),
        ((PodTerm(ZONE, None, ("red",)),), ""),  # no selector matches no pod
    ],
)
def test_affinity_allows_the_domains_of_pods_that_match_all_terms(affinity: Iterable[PodTerm], expected: str) -> None:
    assert may_go(two_zones(), wanting(a_pod("cache", affinity=affinity))) == expected


@pytest.mark.parametrize(
    "anti_affinity, expected",
    [
        ((term(),), "n2 n3"),
        ((term(topology=HOST),), "n1 n2 n3"),
        ((term("db"),), "n0 n1 n2 n3"),
        ((term("db"), term()), "n2 n3"),  # any of the terms is enough
        ((term(topology="rack"),), "n0 n1 n2 n3"),
        ((PodTerm(ZONE, None, ("red",)),), "n0 n1 n2 n3"),
    ],
)
def test_anti_affinity_refuses_the_domains_of_pods_that_match_a_term(
    anti_affinity: Iterable[PodTerm], expected: str
) -> None:
    assert may_go(two_zones(), wanting(a_pod("cache", anti_affinity=anti_affinity))) == expected
    # The other way round: the pod that is there has the terms, and the new one is what they mean.
    table = zones("a", "a", "b", "")
    put(table, "n0", a_pod("cache", anti_affinity=anti_affinity))
    assert may_go(table, wanting(WEB)) == expected


@pytest.mark.parametrize(
    "topologies, expected", [((ZONE,), "n0 n1 n2"), ((ZONE, HOST), "n0 n1 n2"), ((ZONE, "rack"), "")]
)
def test_the_first_pod_of_a_series_needs_a_node_with_every_topology_key(
    topologies: Iterable[str], expected: str
) -> None:
    affinity = tuple(term(topology=topology) for topology in topologies)
    table = zones("a", "a", "b", "")
    assert may_go(table, wanting(a_pod(affinity=affinity))) == expected
    assert may_go(table, wanting(a_pod("db", affinity=affinity))) == ""
    # One that is on a node without any of the keys is in no domain: it is as if it were not there.
    put(table, "n3", WEB)
    affinity = (term(),)
    assert may_go(table, wanting(a_pod(affinity=affinity))) == "n0 n1 n2"


def test_pods_of_a_series_use_the_domain_of_the_first_pod() -> None:
    shape = wanting(a_pod(affinity=(term(),)))
    placed = dict(place(Snapshot(zones("a", "b", "a")), shape, 12, FAIR))
    assert placed == {NodeId("n0"): 6, NodeId("n2"): 6}


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


def test_a_node_counts_under_the_first_rule_that_it_breaks() -> None:
    table = zones("a", "b", "c", "d", "")
    put(table, "n1", WEB, a_pod("db"))
    put(table, "n2", WEB, a_pod("guard", anti_affinity=(term("cache"),)))
    put(table, "n3", WEB)
    shape = wanting(a_pod("cache", affinity=(term(),), anti_affinity=(term("db"),)))
    assert rejections(table, shape) == {
        AFFINITY_NOT_MET: 2,
        ANTI_AFFINITY_NOT_MET: 1,
        EXISTING_ANTI_AFFINITY_NOT_MET: 1,
    }
    assert may_go(table, shape) == "n3"
    # Resources are checked before.
    table.take(NodeId("n1"), resources(vcore=8000))
    assert rejections(table, shape) == {AFFINITY_NOT_MET: 2, "Insufficient cpu": 1, EXISTING_ANTI_AFFINITY_NOT_MET: 1}


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
