"""Members of one shape are placed on preferred nodes where they fit, rejections are counted as in kube-scheduler."""

from dataclasses import replace

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import Constraints, Requirement, Taint, Term
from muster_core.model.decisions import ReasonKind
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import HostPort, PodOnNode, PodProperties
from muster_core.placement.node_search import AVOIDED, NO_NODES, fits_on, place, resolvable, unschedulable_reason
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, having, labelled, named, tainted

FAIR, PACKED = NodeSort(NodeOrder.FAIR), NodeSort(NodeOrder.BINPACKING)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
ONE = RequestShape(resources(vcore=1000, pods=1))


def test_fair_spreads_over_equal_nodes_in_the_order_of_their_ids() -> None:
    table = a_table(a_node("n3"), a_node("n1"), a_node("n2"))
    assert place(Snapshot(table), ONE, 5, FAIR) == [(N1, 2), (N2, 2), (N3, 1)]
    assert place(Snapshot(table), ONE, 1, FAIR) == [(N1, 1)]


def test_fair_goes_to_the_least_used_node_first() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    table.take(N1, resources(vcore=2000))
    assert place(Snapshot(table), ONE, 2, FAIR) == [(N2, 2)]
    assert place(Snapshot(table), ONE, 3, FAIR) == [(N2, 2), (N1, 1)]


def test_fair_weighs_shares_and_not_amounts() -> None:
    table = a_table(a_node("n1", vcore=2000), a_node("n2", vcore=8000))
    assert place(Snapshot(table), ONE, 5, FAIR) == [(N1, 1), (N2, 4)]


def test_binpacking_fills_the_fullest_node_first() -> None:
    table = a_table(a_node("n1"), a_node("n2"), a_node("n3"))
    table.take(N2, resources(vcore=2000))
    assert place(Snapshot(table), ONE, 1, PACKED) == [(N2, 1)]
    assert place(Snapshot(table), ONE, 7, PACKED) == [(N2, 2), (N1, 4), (N3, 1)]


def test_only_weighted_resources_decide_the_order() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    table.take(N1, resources(vcore=3000))
    table.take(N2, resources(memory=1 << 33))
    by_memory = NodeSort(NodeOrder.FAIR, (("memory", 1.0), ("vcore", 0.0)))
    request = RequestShape(resources(vcore=1, memory=1))
    assert place(Snapshot(table), request, 1, by_memory) == [(N1, 1)]
    assert place(Snapshot(table), request, 1, NodeSort(NodeOrder.FAIR, (("vcore", 1.0),))) == [(N2, 1)]


def test_pods_without_weighted_resources_are_spread_by_their_number() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    assert place(Snapshot(table), RequestShape(resources(pods=1)), 4, FAIR) == [(N1, 2), (N2, 2)]


def test_as_many_as_fit_are_placed_and_the_rest_is_not() -> None:
    table = a_table(a_node("n1", vcore=1500), a_node("n2", pods=2))
    assert place(Snapshot(table), ONE, 10, FAIR) == [(N1, 1), (N2, 2)]


def test_a_snapshot_keeps_its_placements_and_the_table_does_not_change() -> None:
    table = a_table(a_node("n1", vcore=2000))
    snapshot = Snapshot(table)
    assert place(snapshot, ONE, 1, FAIR) == [(N1, 1)]
    assert place(snapshot, ONE, 5, FAIR) == [(N1, 1)]
    assert place(snapshot, ONE, 1, FAIR) == []
    snapshot.free(N1, resources(vcore=1000, pods=1))
    assert place(snapshot, ONE, 2, FAIR) == [(N1, 1)]
    assert table.available(N1)["vcore"] == 2000


def test_a_fork_leaves_its_origin_alone_until_it_is_absorbed() -> None:
    table = a_table(a_node("n1", vcore=2000))
    snapshot = Snapshot(table)
    snapshot.take(N1, resources(vcore=500))
    fork = snapshot.fork()
    fork.take(N1, resources(vcore=1000))
    assert fits_on(snapshot, ONE, N1)
    snapshot.absorb(fork)
    assert not fits_on(snapshot, ONE, N1)


def test_an_unknown_resource_fits_on_no_node_and_creates_no_column() -> None:
    table = a_table(a_node("n1"))
    snapshot = Snapshot(table)
    gpu = RequestShape(Resources({"example.com/gpu": 1}))
    assert place(snapshot, gpu, 3, FAIR) == []
    assert place(snapshot, gpu, 1, FAIR) == []
    assert not fits_on(snapshot, gpu, N1)
    assert unschedulable_reason(snapshot, gpu).counts == (("Insufficient example.com/gpu", 1),)
    assert "example.com/gpu" not in table.columns().availables


def test_an_overcommitted_node_accepts_only_pods_without_that_resource() -> None:
    table = a_table(a_node("n1", vcore=4000))
    table.take(N1, resources(vcore=3000))
    table.update(a_node("n1", vcore=1000))
    snapshot = Snapshot(table)
    assert place(snapshot, ONE, 2, FAIR) == []
    assert place(snapshot, RequestShape(resources(pods=1)), 2, FAIR) == [(N1, 2)]


def test_fits_on_checks_constraints_avoided_nodes_and_free_resources() -> None:
    table = a_table(labelled("n1", zone="a"), labelled("n2", zone="b"))
    snapshot = Snapshot(table)
    in_a = replace(ONE, constraints=Constraints((("zone", "a"),)))
    assert [fits_on(snapshot, in_a, node) for node in (N1, N2, NodeId("gone"))] == [True, False, False]
    assert not fits_on(snapshot, replace(in_a, avoid=frozenset({N1})), N1)
    snapshot.take(N1, resources(vcore=3500))
    assert not fits_on(snapshot, in_a, N1)


def test_an_avoided_node_is_left_out() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    shape = replace(ONE, avoid=frozenset({N1, NodeId("gone")}))
    assert place(Snapshot(table), shape, 10, FAIR) == [(N2, 4)]
    assert unschedulable_reason(Snapshot(table), shape).counts == ((AVOIDED, 1),)


def test_each_node_is_counted_under_the_first_filter_that_refuses_it() -> None:
    table = a_table(
        a_node("closed"),
        replace(tainted("tainted", ("k", "", "NoSchedule")), capacity=NOTHING),
        labelled("elsewhere", zone="b"),
        *(replace(labelled(f"full{i}", zone="a"), capacity=resources(vcore=i, pods=1)) for i in (1, 2)),
        replace(labelled("crowded", zone="a"), capacity=resources(vcore=4000)),
    )
    table.set_draining(NodeId("closed"), draining=True)
    why = unschedulable_reason(Snapshot(table), replace(ONE, constraints=Constraints((("zone", "a"),))))
    assert (why.kind, why.nodes) == (ReasonKind.NODES, 6)
    assert dict(why.counts) == {
        "node(s) were unschedulable": 1,
        "node(s) had untolerated taint(s)": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
        "Insufficient cpu": 2,
        "Too many pods": 1,
    }
    assert why.text().startswith("0/6 nodes are available: ")


def test_a_node_counts_once_for_each_insufficient_resource() -> None:
    table = a_table(having("n1", {"vcore": 10, "memory": 10, "pods": 0}))
    why = unschedulable_reason(Snapshot(table), RequestShape(resources(vcore=20, memory=20, pods=1)))
    assert dict(why.counts) == {"Insufficient cpu": 1, "Insufficient memory": 1, "Too many pods": 1}


def test_a_removed_node_is_not_counted() -> None:
    table = a_table(a_node("n1", vcore=1), a_node("n2", vcore=1))
    table.remove(N1)
    assert unschedulable_reason(Snapshot(table), ONE).text() == "0/1 nodes are available: 1 Insufficient cpu."
    table.remove(N2)
    assert unschedulable_reason(Snapshot(table), ONE).text() == NO_NODES
    assert place(Snapshot(table), ONE, 3, FAIR) == []


def test_preemption_can_help_on_nodes_that_are_full_and_on_no_others() -> None:
    table = a_table(
        having("free", {"vcore": 4, "pods": 9}),
        having("full", {"vcore": 4, "pods": 9}),
        having("small", {"vcore": 1, "pods": 9}),
        having("crowded", {"vcore": 4, "pods": 1}),
        replace(having("tainted", {"vcore": 4, "pods": 9}), taints=(Taint("x", "", "NoSchedule"),)),
        having("port", {"vcore": 4, "pods": 9}),
    )
    table.take(NodeId("full"), Resources({"vcore": 3}))
    table.take(NodeId("tainted"), Resources({"vcore": 3}))
    table.take(NodeId("crowded"), Resources({"pods": 1}))
    port = PodOnNode(facts=PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),)))
    table.pods_on_nodes.add(table.rows.row(NodeId("port")), port)
    shape = RequestShape(Resources({"vcore": 2, "pods": 1}), pod_on_node=port)
    assert named(resolvable(Snapshot(table), shape), table) == "crowded full port"
    nowhere = Constraints(affinity=(Term(fields=(Requirement("metadata.name", "In", ()),)),))
    assert named(resolvable(Snapshot(table), RequestShape(shape.resources, nowhere)), table) == ""
