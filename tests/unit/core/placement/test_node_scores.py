"""Scores of node properties: kube-scheduler's points, and their effect on the order of nodes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import ANYWHERE, Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import NO_PREFERENCES, HostPort, NodeSpec, PodOnNode, PodProperties, Preferences
from muster_core.placement.node_search import place
from muster_core.placement.plugins.node_properties import points
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table, having, labelled, tainted

MIB = 1 << 20
EVEN = {"vcore": 1000, "memory": 1000}


def zone(value: str) -> Term:
    return Term((Requirement("zone", "In", (value,)),))


def worth(table: NodeTable, preferences: Preferences, constraints: Constraints = ANYWHERE) -> dict[str, float] | None:
    """What each node is worth above the one that is worth least."""
    found = points(constraints, preferences, table)
    if found is None:
        return None
    by_name = {str(node): found.item(table.rows.row(node)) for node in table}
    return {name: value - min(by_name.values()) for name, value in by_name.items()}


ZONES = (labelled("a", zone="a", disk="ssd"), labelled("b", zone="b", disk="ssd"), labelled("c", zone="c"))


@pytest.mark.parametrize(
    "terms, expected",
    [
        (((10, zone("a")),), {"a": 200, "b": 0, "c": 0}),
        (((10, zone("a")), (5, zone("b"))), {"a": 200, "b": 100, "c": 0}),
        (((10, zone("a")), (5, Term((Requirement("disk", "Exists"),)))), {"a": 200, "b": 66, "c": 0}),
        (((1, zone("a")), (100, zone("nowhere"))), {"a": 200, "b": 0, "c": 0}),
        (((1, Term(fields=(Requirement("metadata.name", "In", ("b",)),))),), {"a": 0, "b": 200, "c": 0}),
        (((0, zone("a")),), None),
        (((5, Term()),), None),
        (((5, zone("nowhere")),), None),
    ],
)
def test_preferred_node_affinity_scores_200_where_most_of_its_weight_matches(
    terms: tuple[tuple[int, Term], ...], expected: dict[str, float] | None
) -> None:
    assert worth(a_table(*ZONES), Preferences(terms)) == expected


def test_scores_are_normalized_over_the_nodes_that_the_constraints_allow() -> None:
    only_b_and_c = Constraints(affinity=(zone("b"), zone("c")))
    found = points(only_b_and_c, Preferences(((10, zone("a")), (5, zone("b")))), table := a_table(*ZONES))
    assert found is not None
    assert [found.item(table.rows.row(NodeId(name))) for name in "bc"] == [200, 0]


@pytest.mark.parametrize(
    "tolerations, expected",
    [
        ((), {"clean": 300, "hard": 300, "one": 150, "two": 0}),
        ((Toleration("x", "Exists", "", "PreferNoSchedule"),), {"clean": 300, "hard": 300, "one": 300, "two": 0}),
        ((Toleration("x", "Exists", "", "NoSchedule"),), {"clean": 300, "hard": 300, "one": 150, "two": 0}),
        ((Toleration("", "Exists"),), None),
    ],
)
def test_each_untolerated_prefer_no_schedule_taint_costs_a_share_of_300_points(
    tolerations: tuple[Toleration, ...], expected: dict[str, float] | None
) -> None:
    table = a_table(
        tainted("clean"),
        tainted("one", ("x", "", "PreferNoSchedule")),
        tainted("two", ("x", "", "PreferNoSchedule"), ("y", "", "PreferNoSchedule")),
        tainted("hard", ("z", "", "NoSchedule")),
    )
    # A node with an untolerated NoSchedule taint is infeasible and does not count.
    assert worth(table, NO_PREFERENCES, Constraints(tolerations=tolerations)) == expected


def holding(name: str, **images: int) -> NodeSpec:
    """A node with these images, in MiB."""
    return replace(a_node(name), images={f"{image}:latest": size * MIB for image, size in images.items()})


@pytest.mark.parametrize(
    "images, expected",
    [
        # On one of two nodes an image counts half: (500 - 23) of 977 MiB.
        (("app:latest",), {"n1": 48, "n2": 0}),
        (("app:latest", "small:latest"), {"n1": 25, "n2": 0}),
        (("small:latest",), None),
        (("everywhere:latest",), None),
        (("huge:latest",), {"n1": 100, "n2": 0}),
        (("unknown:latest",), None),
    ],
)
def test_images_on_a_node_score_up_to_100(images: tuple[str, ...], expected: dict[str, float] | None) -> None:
    table = a_table(holding("n1", app=1000, small=40, everywhere=300, huge=9000), holding("n2", everywhere=300))
    assert worth(table, Preferences(images=images)) == expected


def test_images_of_volumes_count_and_do_not_raise_the_bound() -> None:
    """The bound is by the number of containers."""
    table = a_table(holding("n1", app=1000, model=2000), holding("n2"))
    wanted = Preferences(images=("app:latest",), volume_images=("model:latest",))
    assert worth(table, wanted) == {"n1": 100, "n2": 0}
    assert worth(table, Preferences(images=("app:latest", "model:latest"))) == {"n1": 74, "n2": 0}


def test_added_and_removed_images_change_the_score_of_a_node() -> None:
    table, wanted = a_table(holding("n1"), holding("n2")), Preferences(images=("app:latest",))
    assert worth(table, wanted) is None
    table.update(holding("n2", app=1000))
    assert worth(table, wanted) == {"n1": 0, "n2": 48}
    table.remove(NodeId("n2"))
    table.add(holding("n3"), draining=False)
    assert worth(table, wanted) is None


def test_no_scores_are_computed_without_preferences_and_taints() -> None:
    table = a_table(labelled("n1", zone="a"), a_node("n2"))
    assert points(ANYWHERE, NO_PREFERENCES, table) is None
    assert not table.points


def with_preferences(*terms: tuple[int, Term]) -> PodOnNode:
    return PodOnNode(facts=PodProperties(preferences=Preferences(terms)))


@pytest.mark.parametrize("order", NodeOrder)
def test_node_scores_apply_with_every_node_order(order: NodeOrder) -> None:
    table = a_table(labelled("a1", zone="a"), labelled("b1", zone="b"), labelled("b2", zone="b"))
    shape = RequestShape(resources(vcore=1), pod_on_node=with_preferences((1, zone("b"))))
    table.take(NodeId("b1"), resources(vcore=1000))
    expected = {NodeOrder.FAIR: "b2", NodeOrder.BINPACKING: "b1", NodeOrder.UTILIZATION: "b2"}[order]
    assert place(Snapshot(table), shape, 1, NodeSort(order)) == [(expected, 1)]


def test_a_soft_taint_outweighs_a_preferred_node_affinity() -> None:
    """3 * 100 points against 2 * 100."""
    table = a_table(labelled("liked", zone="b"), a_node("clean"))
    table.update(replace(labelled("liked", zone="b"), taints=(Taint("x", "", "PreferNoSchedule"),)))
    assert place(
        Snapshot(table), RequestShape(resources(vcore=1), pod_on_node=with_preferences((1, zone("b")))), 1, NodeSort()
    ) == [("clean", 1)]


def test_balance_prefers_the_node_with_more_equal_cpu_and_memory_usage() -> None:
    table = a_table(having("cpu-used", EVEN), having("memory-used", EVEN))
    table.take(NodeId("cpu-used"), resources(vcore=200))
    table.take(NodeId("memory-used"), resources(memory=200))
    request = RequestShape(resources(vcore=100))
    assert place(Snapshot(table), request, 1, NodeSort(balanced=True)) == [("memory-used", 1)]
    assert place(Snapshot(table), RequestShape(resources(memory=100)), 1, NodeSort(balanced=True)) == [("cpu-used", 1)]
    # Without it both are used alike, and the first by name is taken.
    assert place(Snapshot(table), request, 1, NodeSort()) == [("cpu-used", 1)]


def test_balance_decides_between_nodes_that_are_used_about_alike_only() -> None:
    """The maximum difference is half of the pod's requests, as fractions of a node."""
    table = a_table(having("cpu-used", EVEN), having("memory-used", EVEN))
    table.take(NodeId("cpu-used"), resources(vcore=200))
    table.take(NodeId("memory-used"), resources(memory=320))
    assert place(Snapshot(table), RequestShape(resources(vcore=100)), 1, NodeSort(balanced=True)) == [("cpu-used", 1)]


def test_node_preferences_of_a_pod_are_not_recorded_for_other_pods() -> None:
    """Nearly every pod has an image. Only pods that affect other pods are recorded per node."""
    table = a_table(a_node("n1"))
    assert not table.pods_on_nodes.is_noted(with_preferences((1, zone("a"))).facts)
    assert table.pods_on_nodes.is_noted(PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),)))


def test_images_are_scored_only_with_the_default_node_order() -> None:
    table = a_table(holding("n1"), holding("n2", app=1000))
    wanted = RequestShape(
        resources(vcore=1), pod_on_node=PodOnNode(facts=PodProperties(preferences=Preferences(images=("app:latest",))))
    )
    assert place(Snapshot(table), wanted, 1, NodeSort(balanced=True)) == [("n2", 1)]
    assert place(Snapshot(table), wanted, 1, NodeSort()) == [("n1", 1)]
    assert place(Snapshot(table), wanted, 1, NodeSort(NodeOrder.BINPACKING)) == [("n1", 1)]


# -- Cached scores and rejections equal freshly computed ones, and only changed rows are evaluated again.

NAMES = [NodeId(f"n{index}") for index in range(24)]
SHAPE = RequestShape(Resources({"vcore": 100, "memory": 1 << 28, "pods": 1}))
LIKING = replace(SHAPE, pod_on_node=PodOnNode(facts=PodProperties(preferences=Preferences(images=("app:1",)))))
SORTS = [*(NodeSort(order) for order in NodeOrder), NodeSort(balanced=True)]
LARGE = Resources({"vcore": 700})


def allocate(table: NodeTable, node: NodeId) -> None:
    table.take(node, LARGE)


def allocate_on_many(table: NodeTable, node: NodeId) -> None:
    table.take_all(dict.fromkeys(list(table)[:8], 1), LARGE)


def release(table: NodeTable, node: NodeId) -> None:
    table.give_back(node, LARGE)


def grow(table: NodeTable, node: NodeId) -> None:
    spec = table.record(node).spec
    table.update(replace(spec, capacity=spec.capacity + LARGE))


def load_an_image(table: NodeTable, node: NodeId) -> None:
    table.update(replace(table.record(node).spec, images={"app:1": 900 << 20}))


def report(table: NodeTable, node: NodeId) -> None:
    table.report(node, Resources({"vcore": 1500}))


def exchange(table: NodeTable, node: NodeId) -> None:
    table.remove(node)
    table.add(a_node(node, 3000), draining=False)


CHANGES = [allocate, allocate_on_many, release, grow, load_an_image, report, exchange]


@given(
    st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(NAMES)), max_size=12),
    st.sampled_from([SHAPE, LIKING]),
    st.sampled_from(SORTS),
    st.integers(1, 30),
)
def test_cached_scores_choose_the_same_nodes_as_new_scores(
    changes: list[tuple[object, NodeId]], shape: RequestShape, sort: NodeSort, count: int
) -> None:
    table = a_table(*(a_node(name) for name in NAMES))
    for change, node in changes:
        assert callable(change)
        change(table, node)
        remembered = place(Snapshot(table), shape, count, sort)
        kept = dict(table.score_cache.kept)
        table.score_cache.kept.clear()
        assert remembered == place(Snapshot(table), shape, count, sort)
        table.score_cache.kept.update(kept)


def test_only_changed_rows_are_scored_again() -> None:
    table = a_table(*(a_node(name) for name in NAMES))
    place(Snapshot(table), SHAPE, 3, NodeSort())
    (before,) = table.score_cache.kept.values()
    table.take(NAMES[5], LARGE)
    assert table.score_cache.since(before.seen) == [table.rows.row(NAMES[5])]
    place(Snapshot(table), SHAPE, 3, NodeSort())
    (after,) = table.score_cache.kept.values()
    assert after is before
    assert table.score_cache.since(after.seen) == []


def test_assumptions_of_a_plan_are_not_cached() -> None:
    table = a_table(*(a_node(name) for name in NAMES))
    snapshot = Snapshot(table)
    place(snapshot, SHAPE, 20, NodeSort())
    place(snapshot, SHAPE, 20, NodeSort())
    assert not any((one.keys != 0).any() for one in table.score_cache.kept.values())


@pytest.mark.parametrize("count", [1, 10, 24, 60])
def test_equal_nodes_get_one_pod_each_in_name_order_before_any_gets_two(count: int) -> None:
    names = sorted(NAMES)
    table = a_table(*(a_node(name, 20_000) for name in reversed(names)))
    places = place(Snapshot(table), SHAPE, count, NodeSort())
    assert [node for node, _ in places] == names[:count]
    assert {there for _, there in places} <= ({1} if count <= len(names) else {2, 3})
