"""PodTopologySpread: required constraints, by the rules of Kubernetes 1.37."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import (
    NAMESPACE,
    TERMINATING,
    Constraints,
    Tags,
    Target,
    TargetOperator,
    TopologySpreadConstraint,
    matches,
)
from muster_core.model.ids import NodeId
from muster_core.model.specs import NodeSpec
from muster_core.placement.node_search import allowed, charge, place
from muster_core.placement.plugins.inter_pod_affinity import MOST_KEYS
from muster_core.placement.plugins.topology_spread import NO_LABEL, SKEWED, TopologySpreadScore, score, spread_filter
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import PARTITION, a_node, resources
from tests.unit.core.placement.spread_clusters import (
    DEDICATED,
    HOST,
    KEYS,
    WEB,
    ZONE,
    a_pod,
    put,
    spread,
    spreading,
    zones,
)
from tests.unit.core.placement.tables import keep_tags, named

FEW = spread()
ON_SSD = Constraints(node_selector=(("disk", "ssd"),))


def may_go(table: NodeTable, shape: RequestShape) -> str:
    return named(allowed(Snapshot(table), shape), table)


def change(table: NodeTable, node: str, **labels: str) -> None:
    table.update(replace(a_node(node, vcore=100_000), labels={HOST: node, **labels}))


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


# -- Required spread constraints agree with a simple implementation of the rules, before and after each member.

DISK = Constraints(node_selector=(("disk", "ssd"),))


@dataclass
class Plain:
    """A node as the rules see it."""

    labels: dict[str, str]
    tainted: bool
    there: list[Tags] = field(default_factory=list)


pods = st.builds(
    lambda app, namespace, terminating: a_pod(app, namespace, terminating=terminating),
    st.sampled_from(["web", "web", "db"]),
    st.sampled_from(["ns", "ns", "ns", "other"]),
    st.sampled_from([False, False, False, True]),
)
labels = st.fixed_dictionaries(
    {},
    optional={ZONE: st.sampled_from(["a", "b", "c"]), "rack": st.sampled_from(["1", "2"]), "disk": st.just("ssd")},
)
nodes = st.lists(st.builds(Plain, labels, st.booleans(), st.lists(pods, max_size=3)), min_size=1, max_size=6)
constraints = st.builds(
    lambda key, skew, selector, domains, affinity, taints: spread(
        key, skew=skew, selector=selector, domains=domains, honors_affinity=affinity, honors_taints=taints
    ),
    st.sampled_from([ZONE, ZONE, "rack", HOST]),
    st.integers(1, 2),
    st.sampled_from([WEB, WEB, WEB, (), None]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.booleans(),
    st.booleans(),
)
shapes = st.builds(
    lambda found, app, where: spreading(*found, app=app, where=where),
    st.lists(constraints, min_size=1, max_size=2),
    st.sampled_from(["web", "web", "web", "db"]),
    st.sampled_from([Constraints(), Constraints(), DISK]),
)


def table_of(plain: list[Plain]) -> NodeTable:
    """With capacity for more pods than any example places."""
    table = NodeTable()
    keep_tags(table, KEYS)
    for index, node in enumerate(plain):
        node.labels[HOST] = f"n{index}"
        taints = (DEDICATED,) if node.tainted else ()
        spec = NodeSpec(PARTITION, NodeId(f"n{index}"), resources(vcore=4000), labels=node.labels, taints=taints)
        table.add(spec, draining=False)
        put(table, spec.id, *node.there)
    return table


def counts(plain: list[Plain], shape: RequestShape, constraint: TopologySpreadConstraint) -> Counter[str]:
    """Pods that count, by domain; domains without any are there with 0."""
    keys = {one.topology for one in shape.pod_on_node.facts.inter_pod.spread}
    found: Counter[str] = Counter()
    for node in plain:
        if not keys <= node.labels.keys():
            continue
        if constraint.honors_affinity and shape.constraints.node_selector and "disk" not in node.labels:
            continue
        if constraint.honors_taints and node.tainted:
            continue
        found[node.labels[constraint.topology]] += sum(is_counted(constraint, dict(tags)) for tags in node.there)
    return found


def is_counted(constraint: TopologySpreadConstraint, tags: dict[str, str]) -> bool:
    selector = constraint.selector
    if not selector or tags[NAMESPACE] != constraint.namespace or TERMINATING in tags:
        return False
    return matches(selector, tags)


def refusal(plain: list[Plain], shape: RequestShape, at: int) -> str:
    """Why one more may not go to the node, as the rules have it; empty = it may."""
    for constraint in shape.pod_on_node.facts.inter_pod.spread:
        here = plain[at].labels.get(constraint.topology)
        if here is None:
            return NO_LABEL
        found = counts(plain, shape, constraint)
        least = min(found.values()) if len(found) >= constraint.min_domains else 0
        itself = constraint.selector is not None and matches(constraint.selector, dict(shape.pod_on_node.tags))
        if found[here] + itself - least > constraint.max_skew:
            return SKEWED
    return ""


@settings(max_examples=200)
@given(nodes, shapes, st.lists(st.integers(0, 5), max_size=8))
def test_each_node_is_refused_by_the_rules_before_and_after_each_member(
    plain: list[Plain], shape: RequestShape, members: list[int]
) -> None:
    found = spread_filter(Snapshot(table_of(plain)), shape)
    assert found is not None
    rows = np.arange(len(plain))
    for member in [*members, -1]:
        whys = [refusal(plain, shape, at) for at in range(len(plain))]
        assert found.allows().tolist() == found.allows_at(rows).tolist() == [not why for why in whys]
        for reason, refused in found.refusals():
            assert refused.tolist() == [why == reason for why in whys]
        may = [at for at, why in enumerate(whys) if not why]
        if member < 0 or not may:
            break
        at = may[member % len(may)]
        before = found.allows()
        added = found.add(at)
        plain[at].there.append(shape.pod_on_node.tags)
        changed = set(np.flatnonzero(before != found.allows()).tolist()) - {at}
        assert changed <= set(() if added is None else added.tolist())


@settings(max_examples=100)
@given(nodes, shapes, st.integers(1, 8))
def test_placing_together_equals_placing_one_by_one(plain: list[Plain], shape: RequestShape, count: int) -> None:
    table = table_of(plain)
    together, singly = Snapshot(table), Snapshot(table)
    placed = dict(place(together, shape, count, NodeSort()))
    chosen = Counter(node for _ in range(count) for node, _ in place(singly, shape, 1, NodeSort()))
    assert placed == dict(chosen)
    # What may come next is the same, too, and the same as if they had been there from the beginning.
    for node, there in placed.items():
        plain[int(node.removeprefix("n"))].there += [shape.pod_on_node.tags] * there
    whys = [refusal(plain, shape, at) for at in range(len(plain))]
    found = spread_filter(together, shape)
    assert found is not None
    assert found.allows().tolist() == [not why for why in whys]


# -- Scores of PodTopologySpread: constraints that are not required, by the rules of Kubernetes 1.37.

SOFT, WIDE_KEYS, HOSTS = spread(required=False), spread(skew=3, required=False), spread(HOST, required=False)


def preferring(table: NodeTable, shape: RequestShape, left: str = "") -> TopologySpreadScore:
    """`left`: the nodes that no filter refuses; empty = all."""
    among = np.ones(table.rows.size, dtype=np.bool_)
    if left:
        among[:] = False
        among[[table.rows.row(NodeId(name)) for name in left.split()]] = True
    found = score(Snapshot(table), shape, among)
    assert found is not None
    return found


def shares(table: NodeTable, shape: RequestShape, left: str = "") -> list[float]:
    """kube-scheduler's 0 to 100, without the plugin's weight, which is 2."""
    return [points / 2 for points in preferring(table, shape, left).points().tolist()]


def expected(sums: list[int]) -> list[int]:
    """What the rules make of the rounded sums."""
    return [100 * (max(sums) + min(sums) - one) // max(sums) for one in sums]


def rounded(*weighed: tuple[int, int]) -> int:
    """(pods, domains) of each constraint of maxSkew 1."""
    return round(sum(pods * math.log(domains + 2) for pods, domains in weighed))


def test_the_emptiest_domain_scores_100_and_the_others_less_by_their_pods() -> None:
    table = zones("a", "b", "c")
    put(table, "n0", a_pod(), a_pod())
    put(table, "n1", a_pod())
    sums = [rounded((2, 3)), rounded((1, 3)), 0]
    assert sums == [3, 2, 0]
    assert shares(table, spreading(SOFT)) == expected(sums) == [0, 33, 100]
    assert shares(table, spreading(WIDE_KEYS)) == expected([one + 2 for one in sums]) == [40, 60, 100]


def test_all_nodes_score_100_without_pods() -> None:
    assert shares(zones("a", "b"), spreading(SOFT)) == [100, 100]


def test_a_node_without_all_the_keys_scores_0_and_its_pods_do_not_count() -> None:
    table = zones("a", "b", "")
    put(table, "n0", a_pod())
    put(table, "n2", a_pod(), a_pod())
    assert shares(table, spreading(SOFT, HOSTS)) == [0, 100, 0]


def test_more_domains_weigh_more_and_only_candidate_nodes_form_domains() -> None:
    table = zones("a", "b", "c", "d", "e", "f")
    put(table, "n0", *[a_pod()] * 5)
    put(table, "n1", *[a_pod()] * 4)
    assert shares(table, spreading(SOFT)) == expected([rounded((5, 6)), rounded((4, 6)), 0, 0, 0, 0])
    left = shares(table, spreading(SOFT), "n0 n1")
    assert left[:2] == expected([rounded((5, 2)), rounded((4, 2))])


def test_pods_on_nodes_that_are_not_candidates_count() -> None:
    table = zones("a", "a", "b")
    put(table, "n0", a_pod())
    assert shares(table, spreading(SOFT), "n1 n2")[1:] == [0, 100]


def test_host_scores_ignore_node_policies_and_weigh_by_the_number_of_candidates() -> None:
    table = zones("a", "a", "b", "b")
    spec = table.record(NodeId("n0")).spec
    table.update(type(spec)(spec.partition, spec.id, spec.capacity, labels=spec.labels, taints=(DEDICATED,)))
    put(table, "n0", a_pod())
    put(table, "n1", a_pod(), a_pod())
    honoring = spread(HOST, required=False, honors_taints=True)
    assert shares(table, spreading(honoring), "n0 n1 n2")[:3] == expected([rounded((1, 3)), rounded((2, 3)), 0])
    zone = spread(required=False, honors_taints=True)
    assert shares(table, spreading(zone)) == expected([rounded((2, 2)), rounded((2, 2)), 0, 0])


def test_the_sum_of_all_constraints_is_rounded_once() -> None:
    table = zones("a", "a", "b")
    put(table, "n0", a_pod())
    put(table, "n2", a_pod(), a_pod())
    sums = [rounded((1, 2), (1, 3)), rounded((1, 2), (0, 3)), rounded((2, 2), (2, 3))]
    assert shares(table, spreading(SOFT, HOSTS)) == expected(sums)


def test_required_constraints_and_pods_without_constraints_give_no_score() -> None:
    table = zones("a")
    assert score(Snapshot(table), spreading(spread()), np.ones(1, dtype=np.bool_)) is None
    assert score(Snapshot(table), spreading(), np.ones(1, dtype=np.bool_)) is None


def test_a_node_without_free_resources_is_not_a_candidate() -> None:
    table = zones("a", "b", "c")
    put(table, "n0", *[a_pod()] * 5)
    put(table, "n1", *[a_pod()] * 4)
    table.take(NodeId("n1"), resources(vcore=40_000))
    by_use = NodeSort(NodeOrder.FAIR, (("vcore", 1.0),))
    full = Snapshot(table)
    full.take(NodeId("n2"), table.record(NodeId("n2")).spec.capacity)
    # Of two domains the fuller one has 85 points, of three 0; the points weigh 2, and 0.4 of the node is 40 points.
    assert place(full, spreading(SOFT), 1, by_use) == [("n0", 1)]
    full.take(NodeId("n0"), resources(vcore=20_000))
    assert place(full, spreading(SOFT), 1, by_use) == [("n1", 1)]


@pytest.mark.parametrize("constraint", [SOFT, HOSTS])
def test_members_placed_together_spread_until_no_even_placement_is_left(
    constraint: TopologySpreadConstraint,
) -> None:
    table = zones("a", "b", "c")
    put(table, "n0", a_pod(), a_pod())
    table.take(NodeId("n1"), table.record(NodeId("n1")).spec.capacity)
    assert dict(place(Snapshot(table), spreading(constraint), 6, NodeSort())) == {"n0": 2, "n2": 4}


@pytest.mark.parametrize("constraints", [(SOFT,), (HOSTS,), (SOFT, HOSTS), (spread(selector=(), required=False),)])
@pytest.mark.parametrize("left", ["", "n0 n2 n3"])
def test_updated_scores_after_each_member_equal_new_scores(
    constraints: tuple[TopologySpreadConstraint, ...], left: str
) -> None:
    table = zones("a", "a", "b", "c", "")
    put(table, "n2", a_pod(), a_pod())
    shape = spreading(*constraints)
    found = preferring(table, shape, left)
    snapshot = Snapshot(table)
    among = np.ones(5, dtype=np.bool_) if not left else np.array([True, False, True, True, False])
    for row in (0, 1, 3, 3, 0, 2, 4, 1):
        before = found.points().copy()
        added = found.add(row)
        charge(snapshot, shape, row)
        complete = score(snapshot, shape, among)
        assert complete is not None
        # Infeasible nodes may become feasible again: their score also depends on their domains.
        rows = np.flatnonzero(among)
        assert found.points()[rows].tolist() == complete.points()[rows].tolist()
        changed = np.flatnonzero(found.points() != before).tolist()
        assert set(changed) <= set(() if added is None else added.tolist())
