"""PodTopologySpread: required constraints, by the rules of Kubernetes 1.37."""

from dataclasses import replace

import pytest

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import Constraints, Target, TargetOperator, TopologySpreadConstraint
from muster_core.model.ids import NodeId
from muster_core.placement.node_search import allowed, place, unschedulable_reason
from muster_core.placement.plugins.inter_pod_affinity import MOST_KEYS
from muster_core.placement.plugins.topology_spread import NO_LABEL, SKEWED
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import Places
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node
from tests.unit.core.placement.spread_clusters import DEDICATED, HOST, WEB, ZONE, a_pod, put, spread, spreading, zones
from tests.unit.core.placement.tables import named

ON_SSD = Constraints(node_selector=(("disk", "ssd"),))
FEW, MANY, WIDE = spread(), spread(skew=3), spread(skew=2)


def may_go(table: NodeTable, shape: RequestShape) -> str:
    return named(allowed(Snapshot(table), shape), table)


def change(table: NodeTable, node: str, **labels: str) -> None:
    table.update(replace(a_node(node, vcore=100_000), labels={HOST: node, **labels}))


@pytest.mark.parametrize(
    "constraint, expected",
    [
        (FEW, "n2"),  # 2 + 1 - 0 and 1 + 1 - 0 are more than 1
        (WIDE, "n1 n2"),
        (MANY, "n0 n1 n2"),
    ],
)
def test_a_domain_with_the_pod_is_at_most_max_skew_above_the_least(
    constraint: TopologySpreadConstraint, expected: str
) -> None:
    table = zones("a", "b", "c")
    put(table, "n0", a_pod(), a_pod())
    put(table, "n1", a_pod())
    assert may_go(table, spreading(constraint)) == expected


def test_a_pod_that_does_not_match_its_own_selector_adds_no_skew() -> None:
    table = zones("a", "b")
    put(table, "n0", a_pod())
    assert may_go(table, spreading(FEW, app="web")) == "n1"
    assert may_go(table, spreading(FEW, app="db")) == "n0 n1"


def test_pods_of_other_namespaces_and_terminating_pods_do_not_count() -> None:
    table = zones("a", "b")
    put(table, "n0", a_pod(namespace="other"), a_pod(terminating=True), a_pod("db"))
    assert may_go(table, spreading(FEW)) == "n0 n1"


def test_all_nodes_of_a_domain_count_together_and_full_ones_too() -> None:
    table = zones("a", "a", "b")
    put(table, "n0", a_pod())
    table.take(NodeId("n0"), a_node("n0", vcore=100_000).capacity)
    assert may_go(table, spreading(FEW)) == "n2"


def test_the_minimum_is_0_if_there_are_fewer_domains_than_min_domains() -> None:
    table = zones("a", "b")
    put(table, "n0", a_pod())
    put(table, "n1", a_pod())
    assert may_go(table, spreading(spread(domains=2))) == "n0 n1"
    assert may_go(table, spreading(spread(domains=3))) == ""
    assert may_go(table, spreading(spread(domains=3, skew=2))) == "n0 n1"


def test_an_empty_or_absent_selector_counts_no_pods() -> None:
    table = zones("a", "b")
    put(table, "n0", a_pod(), a_pod())
    assert may_go(table, spreading(spread(selector=()))) == "n0 n1"
    assert may_go(table, spreading(spread(selector=None))) == "n0 n1"
    assert len(place(Snapshot(table), spreading(spread(selector=())), 9, NodeSort())) == 2


def test_a_pod_without_the_label_matches_not_in_and_does_not_exist() -> None:
    table = zones("a", "b")
    put(table, "n0", (("kubernetes.io/meta/namespace", "ns"),))
    selector = (Target("app", TargetOperator.NOT_IN, ("db",)), Target("app", TargetOperator.NOT_EXIST))
    assert may_go(table, spreading(spread(selector=selector[:1]))) == "n1"
    assert may_go(table, spreading(spread(selector=selector[1:]), app="web")) == "n0 n1"
    put(table, "n0", (("kubernetes.io/meta/namespace", "ns"),))
    assert may_go(table, spreading(spread(selector=selector[1:]), app="web")) == "n1"


@pytest.mark.parametrize("constraint, expected", [(spread(), "n0"), (spread(honors_affinity=False), "")])
def test_node_affinity_policy_decides_whether_excluded_nodes_form_domains(
    constraint: TopologySpreadConstraint, expected: str
) -> None:
    table = zones("a", "b")
    change(table, "n0", zone="a", disk="ssd")
    put(table, "n0", a_pod())
    assert may_go(table, spreading(constraint, where=ON_SSD)) == expected
    # The node of a DaemonSet pod is set by such an affinity.
    made_for = replace(spreading(constraint), required=NodeId("n0"))
    assert may_go(table, made_for) == expected


@pytest.mark.parametrize("constraint, expected", [(spread(honors_taints=True), "n0"), (spread(), "")])
def test_node_taints_policy_decides_whether_tainted_nodes_form_domains(
    constraint: TopologySpreadConstraint, expected: str
) -> None:
    table = zones("a", "b")
    table.update(replace(table.record(NodeId("n1")).spec, taints=(DEDICATED,)))
    put(table, "n0", a_pod())
    assert may_go(table, spreading(constraint)) == expected


def test_pods_on_nodes_outside_of_domains_do_not_count_but_the_nodes_are_filtered() -> None:
    table = zones("a", "a", "b")
    change(table, "n0", zone="a", disk="ssd")
    change(table, "n2", zone="b", disk="ssd")
    put(table, "n1", a_pod(), a_pod())
    assert may_go(table, spreading(FEW, where=ON_SSD)) == "n0 n2"
    assert may_go(table, spreading(spread(honors_affinity=False), where=ON_SSD)) == "n2"


def test_only_nodes_with_the_keys_of_all_constraints_make_domains() -> None:
    table = zones("a", "b")
    change(table, "n1", zone="b", rack="r1")
    put(table, "n1", a_pod())
    # n0 has no rack: its zone is no domain, so n1's is the least itself.
    assert may_go(table, spreading(FEW, spread("rack"))) == "n1"
    assert may_go(table, spreading(FEW)) == "n0"


def test_every_constraint_is_to_be_met() -> None:
    table = zones("a", "a", "b", "b")
    put(table, "n0", a_pod())
    put(table, "n2", a_pod(), a_pod())
    assert may_go(table, spreading(FEW)) == "n0 n1"
    assert may_go(table, spreading(spread(HOST))) == "n1 n3"
    assert may_go(table, spreading(FEW, spread(HOST))) == "n1"


@pytest.mark.parametrize(
    "constraints, expected",
    [
        ((FEW,), {NO_LABEL: 1, SKEWED: 1}),
        ((spread("rack"),), {NO_LABEL: 3}),
        ((spread(selector=None), FEW), {NO_LABEL: 1, SKEWED: 1}),
        ((FEW, spread("rack")), {NO_LABEL: 3}),  # no node has both keys, so there is no domain to be full
    ],
)
def test_a_node_without_the_key_is_distinguished_from_one_in_a_full_domain(
    constraints: tuple[TopologySpreadConstraint, ...], expected: dict[str, int]
) -> None:
    table = zones("a", "b", "")
    put(table, "n0", a_pod())
    assert dict(unschedulable_reason(Snapshot(table), spreading(*constraints)).counts) == expected


def test_a_full_domain_is_reported_before_a_missing_key_of_a_later_constraint() -> None:
    table = zones("a", "b")
    change(table, "n1", zone="b", rack="r1")
    put(table, "n1", a_pod())
    # With a rack there is only zone b, and with two wanted its least is 0.
    constraints = (spread(domains=2), spread("rack"))
    assert dict(unschedulable_reason(Snapshot(table), spreading(*constraints)).counts) == {SKEWED: 1, NO_LABEL: 1}


@pytest.mark.parametrize("order", list(NodeOrder))
def test_members_placed_together_keep_the_skew_at_every_step(order: NodeOrder) -> None:
    table = zones("a", "a", "b", "c")
    put(table, "n3", a_pod(), a_pod())
    shape = spreading(FEW)
    snapshot = Snapshot(table)
    per_zone = {"a": 0, "b": 0, "c": 2}
    for count in (1, 3, 1, 2):
        for node, there in place(snapshot, shape, count, NodeSort(order)):
            per_zone[table.record(node).spec.labels[ZONE]] += there
        assert max(per_zone.values()) - min(per_zone.values()) <= (2 if sum(per_zone.values()) < 5 else 1)
    assert sorted(per_zone.values()) == [3, 3, 3]


def test_a_full_zone_limits_the_other_zones_by_the_skew() -> None:
    table = zones("a", "b", "c")
    table.take(NodeId("n1"), a_node("n1", vcore=98_000).capacity)
    snapshot = Snapshot(table)
    placed = dict(place(snapshot, spreading(FEW), 99, NodeSort()))
    assert placed == {"n0": 3, "n1": 2, "n2": 3}
    why = dict(unschedulable_reason(snapshot, spreading(FEW)).counts)
    assert why[SKEWED] == 2


def test_classes_of_one_plan_see_each_other_in_the_snapshot() -> None:
    table = zones("a", "b", vcore=3000)
    web = spreading(FEW)
    large = replace(web, resources=a_node("n", vcore=2000, pods=0).capacity)
    answer = place_all(Snapshot(table), [(web, 2), (large, 2)], NodeSort())
    assert isinstance(answer, Places)
    assert [dict(spots) for spots in answer.per_demand] == [{"n0": 1, "n1": 1}, {"n0": 1, "n1": 1}]


def test_added_and_removed_domains_are_considered() -> None:
    table = zones("a", "b", "c")
    put(table, "n0", a_pod())
    put(table, "n1", a_pod())
    assert may_go(table, spreading(FEW)) == "n2"
    table.remove(NodeId("n2"))
    assert may_go(table, spreading(FEW)) == "n0 n1"
    change(table, "n1", zone="a")
    assert may_go(table, spreading(FEW)) == "n0 n1"
    table.add(replace(a_node("n9"), labels={ZONE: "d"}), draining=True)
    assert may_go(table, spreading(FEW)) == ""


def test_all_expressions_of_the_selector_must_match() -> None:
    table = zones("a", "b")
    put(table, "n0", a_pod())
    both = (*WEB, Target("app", TargetOperator.NOT_IN, ("web",)))
    assert may_go(table, spreading(spread(selector=both))) == "n0 n1"


def test_the_number_of_cached_topology_keys_is_limited() -> None:
    table = zones("a", "b")
    for number in range(MOST_KEYS + 1):
        assert may_go(table, spreading(spread(f"key-{number}"))) == ""
        place(Snapshot(table), spreading(spread(f"key-{number}", required=False)), 1, NodeSort())
    assert len(table.domains) <= MOST_KEYS
    assert len(table.cells) <= MOST_KEYS
