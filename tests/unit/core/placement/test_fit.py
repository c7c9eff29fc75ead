"""Members of one shape are placed on preferred nodes where they fit, rejections are counted as in kube-scheduler."""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import ANYWHERE, Constraints, Requirement, Taint, Term
from muster_core.model.decisions import ReasonKind
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import HostPort, NodeSpec, PodOnNode, PodProperties, Preferences
from muster_core.placement.node_search import AVOIDED, NO_NODES, fits_on, place, resolvable, unschedulable_reason
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, having, labelled, named, tainted

FAIR, PACKED = NodeSort(NodeOrder.FAIR), NodeSort(NodeOrder.BINPACKING)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
ONE = RequestShape(resources(vcore=1000, pods=1))


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


# -- Vectorized placement agrees with a simple placer that checks one node after the other, for any table and shape.

NAMES = ("vcore", "memory", "pods")
SORTS = st.sampled_from([NodeSort(order) for order in NodeOrder])
LIKING_SORTS = st.one_of(SORTS, st.just(NodeSort(balanced=True)))
SOFT = tuple(Taint(key, "", "PreferNoSchedule") for key in ("x", "y"))
TRAITS = (
    a_node("plain"),
    replace(a_node("soft"), taints=SOFT[:1]),
    replace(a_node("softer"), taints=SOFT, images={"app:1": 2 << 30}),
    replace(a_node("loaded"), images={"app:1": 900 << 20}),
)
#: Zone a is liked more than zone b, and nodes where the image lies more than others.
WISHES = PodOnNode(
    facts=PodProperties(
        preferences=Preferences(
            terms=tuple((weight, Term((Requirement("zone", "In", (zone,)),))) for zone, weight in (("a", 9), ("b", 4))),
            images=("app:1",),
        )
    )
)
# Float rounding of shares, not of amounts.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Plain:
    """A node as the plain placer sees it."""

    name: NodeId
    capacity: Resources
    taken: Resources
    zone: str
    draining: bool


amounts = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES}).map(Resources)
nodes = st.lists(
    st.builds(
        Plain, st.integers(0, 99).map(lambda i: NodeId(f"n{i}")), amounts, amounts, st.sampled_from("ab"), st.booleans()
    ),
    max_size=8,
    unique_by=lambda node: node.name,
)
shapes = st.builds(
    RequestShape,
    st.fixed_dictionaries({"vcore": st.integers(0, 4), "memory": st.integers(0, 4), "pods": st.just(1)}).map(Resources),
    st.sampled_from([ANYWHERE, Constraints((("zone", "a"),))]),
    st.sampled_from([frozenset[NodeId](), frozenset({NodeId("n1"), NodeId("n2")})]),
)


def table_of(plain: list[Plain]) -> NodeTable:
    table = NodeTable()
    for node in plain:
        spec = replace(a_node(node.name), capacity=node.capacity, labels={"zone": node.zone})
        table.add(spec, draining=node.draining)
        table.take(node.name, node.taken)
    return table


def most_on(node: Plain, shape: RequestShape, count: int) -> int:
    """How many the plain placer puts on one node."""
    if node.draining or node.name in shape.avoid or (shape.constraints.node_selector and node.zone != "a"):
        return 0
    left = node.capacity - node.taken
    fits = 0
    while fits < count and all(left[name] >= amount for name, amount in shape.resources.items()):
        left -= shape.resources
        fits += 1
    return fits


@given(nodes, shapes, st.integers(1, 12), SORTS)
def test_as_many_members_are_placed_as_a_plain_search_can_place(
    plain: list[Plain], shape: RequestShape, count: int, sort: NodeSort
) -> None:
    most = {node.name: most_on(node, shape, count) for node in plain}
    places = dict(place(Snapshot(table_of(plain)), shape, count, sort))
    assert sum(places.values()) == min(count, sum(most.values()))
    assert all(0 < there <= most[node] for node, there in places.items())


@given(nodes, shapes, st.integers(2, 12), SORTS)
def test_placing_together_equals_placing_one_by_one(
    plain: list[Plain], shape: RequestShape, count: int, sort: NodeSort
) -> None:
    table = table_of(plain)
    singly: Counter[NodeId] = Counter()
    snapshot = Snapshot(table)
    for _ in range(count):
        singly.update(dict(place(snapshot, shape, 1, sort)))
    assert list(singly.items()) == place(Snapshot(table), shape, count, sort)


@given(nodes, shapes, st.integers(2, 12), LIKING_SORTS, st.lists(st.sampled_from(TRAITS), min_size=8, max_size=8))
def test_placing_together_equals_placing_one_by_one_with_node_scores(
    plain: list[Plain], shape: RequestShape, count: int, sort: NodeSort, traits: list[NodeSpec]
) -> None:
    table = table_of(plain)
    for node, trait in zip(plain, traits, strict=False):
        spec = table.record(node.name).spec
        table.update(replace(spec, taints=trait.taints, images=trait.images))
    request = replace(shape, pod_on_node=WISHES)
    singly: Counter[NodeId] = Counter()
    snapshot = Snapshot(table)
    for _ in range(count):
        singly.update(dict(place(snapshot, request, 1, sort)))
    assert list(singly.items()) == place(Snapshot(table), request, count, sort)


@given(nodes, shapes, st.integers(1, 12))
def test_fair_never_skips_a_less_used_node_with_free_resources(
    plain: list[Plain], shape: RequestShape, count: int
) -> None:
    places = dict(place(Snapshot(table_of(plain)), shape, count, NodeSort()))
    weighted = ("vcore", "memory") if shape.resources["vcore"] or shape.resources["memory"] else ("pods",)

    def share(node: Plain, placed: int) -> float:
        used = node.taken.plus(shape.resources, placed)
        return sum(used[name] / max(node.capacity[name], 1) * bool(node.capacity[name]) for name in weighted)

    by_name = {node.name: node for node in plain}
    ends = [
        share(node, places.get(node.name, 0)) for node in plain if most_on(node, shape, 99) > places.get(node.name, 0)
    ]
    # Only tables whose nodes have every weighted resource: the score of a used but missing resource is undefined.
    if all(node.capacity[name] for node in plain for name in weighted):
        for name, there in places.items():
            assert all(share(by_name[name], there - 1) <= end + TOLERANCE for end in ends)


@given(nodes, st.lists(st.tuples(shapes, st.integers(1, 5)), max_size=5), SORTS)
def test_a_discarded_snapshot_does_not_change_the_table(
    plain: list[Plain], plans: list[tuple[RequestShape, int]], sort: NodeSort
) -> None:
    table = table_of(plain)
    before = {node: table.available(node) for node in table}
    epochs = table.epoch, table.facts_epoch
    snapshot = Snapshot(table)
    charged = dict(before)
    for shape, count in plans:
        for node, there in place(snapshot, shape, count, sort):
            charged[node] = charged[node].plus(shape.resources, -there)
    assert {node: table.available(node) for node in table} == before
    assert (table.epoch, table.facts_epoch) == epochs
    for node, left in charged.items():
        row = table.rows.row(node)
        for name in NAMES:
            column = snapshot.available(name)
            assert left[name] == (0 if column is None else column[row])


@given(nodes, shapes)
def test_the_unschedulable_reason_counts_exactly_the_nodes_that_do_not_fit(
    plain: list[Plain], shape: RequestShape
) -> None:
    table = table_of(plain)
    snapshot = Snapshot(table)
    unschedulable_classes = [node.name for node in plain if not fits_on(snapshot, shape, node.name)]
    assert [node.name for node in plain if not most_on(node, shape, 1)] == unschedulable_classes
    why = unschedulable_reason(snapshot, shape)
    largest = max((count for _, count in why.counts), default=0)
    assert why.nodes == len(plain)
    assert largest <= len(unschedulable_classes) <= sum(count for _, count in why.counts)
