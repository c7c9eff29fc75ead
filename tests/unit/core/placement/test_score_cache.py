"""Cached scores and rejections equal freshly computed ones, and only changed rows are evaluated again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.specs import PodOnNode, PodProperties, Preferences
from muster_core.placement.node_search import place
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node
from tests.unit.core.placement.tables import a_table

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
