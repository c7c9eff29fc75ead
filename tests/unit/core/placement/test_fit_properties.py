"""Vectorized placement agrees with a simple placer that checks one node after the other, for any table and shape."""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import ANYWHERE, Constraints, Requirement, Taint, Term
from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import NodeSpec, PodOnNode, PodProperties, Preferences
from muster_core.placement.node_search import fits_on, place, unschedulable_reason
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node

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
