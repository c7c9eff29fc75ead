"""Scores of PodTopologySpread: constraints that are not required, by the rules of Kubernetes 1.37."""

import math

import numpy as np
import pytest

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import TopologySpreadConstraint
from muster_core.model.ids import NodeId
from muster_core.placement.node_search import charge, place
from muster_core.placement.plugins.topology_spread import TopologySpreadScore, score
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import resources
from tests.unit.core.placement.spread_clusters import DEDICATED, HOST, a_pod, put, spread, spreading, zones

SOFT, WIDE, HOSTS = spread(required=False), spread(skew=3, required=False), spread(HOST, required=False)


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
    assert shares(table, spreading(WIDE)) == expected([one + 2 for one in sums]) == [40, 60, 100]


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
        anew = score(snapshot, shape, among)
        assert anew is not None
        # Infeasible nodes may become feasible again: their score also depends on their domains.
        rows = np.flatnonzero(among)
        assert found.points()[rows].tolist() == anew.points()[rows].tolist()
        changed = np.flatnonzero(found.points() != before).tolist()
        assert set(changed) <= set(() if added is None else added.tolist())
