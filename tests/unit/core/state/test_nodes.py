"""The node table keeps consistent sums, reports when something may newly fit, and reuses rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_core.model.constraints import Taint
from muster_core.model.errors import DuplicateSubject, UnknownSubject
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NodeSpec
from muster_core.model.states import NodeState
from muster_core.state.columns import most_kept
from muster_core.state.nodes import Cells, Domains, NodeTable
from tests.unit.builders import a_node, resources

N1, N2 = NodeId("n1"), NodeId("n2")


def a_table(*specs: NodeSpec) -> NodeTable:
    table = NodeTable()
    for spec in specs:
        table.add(spec, draining=False)
    return table


def test_a_new_node_has_its_capacity_minus_occupied_resources() -> None:
    table = a_table(replace(a_node("n1", vcore=4000), occupied=resources(vcore=500)))
    assert table.available(N1)["vcore"] == 3500
    assert table.allocated(N1) == NOTHING
    assert table.capacity_total["vcore"] == 4000


def test_released_resources_are_available_again() -> None:
    table = a_table(a_node("n1", vcore=4000, pods=10))
    before = table.available(N1)
    table.take(N1, resources(vcore=1000, pods=1), 3)
    assert table.available(N1)["vcore"] == 1000
    assert table.allocated(N1) == resources(vcore=3000, pods=3)
    table.give_back(N1, resources(vcore=1000, pods=1), 3)
    assert table.available(N1) == before


def test_foreign_and_occupied_amounts_are_distinguished_from_allocated_ones() -> None:
    table = a_table(replace(a_node("n1", vcore=4000), occupied=resources(vcore=100)))
    table.take(N1, resources(vcore=200), foreign=True)
    table.take(N1, resources(vcore=1000))
    assert table.available(N1)["vcore"] == 2700
    assert table.allocated(N1) == resources(vcore=1000)
    assert table.record(N1).foreign == resources(vcore=200)
    table.give_back(N1, resources(vcore=200), foreign=True)
    assert table.record(N1).foreign == NOTHING


def test_capacity_may_shrink_below_the_allocated_resources() -> None:
    table = a_table(a_node("n1", vcore=4000))
    table.take(N1, resources(vcore=3000))
    table.update(a_node("n1", vcore=2000))
    assert table.available(N1)["vcore"] == -1000
    assert table.allocated(N1) == resources(vcore=3000)
    assert table.capacity_total["vcore"] == 2000


def test_an_allocation_of_a_resource_that_no_node_has_is_counted_and_comes_back() -> None:
    table = a_table(a_node("n1"))
    table.take(N1, Resources({"example.com/gpu": 2}))
    assert table.available(N1)["example.com/gpu"] == -2
    table.give_back(N1, Resources({"example.com/gpu": 2}))
    assert table.available(N1)["example.com/gpu"] == 0


def test_a_removed_node_removes_its_capacity_and_columns() -> None:
    table = a_table(replace(a_node("n1"), capacity=Resources({"vcore": 1, "example.com/gpu": 4})), a_node("n2"))
    table.take(N1, resources(vcore=1))
    table.remove(N1)
    assert (list(table), N1 in table, len(table)) == ([N2], False, 1)
    assert table.capacity_total == table.record(N2).spec.capacity
    assert "example.com/gpu" not in table.columns().capacities
    assert not table.columns().open[0]


def test_a_reused_row_starts_empty() -> None:
    table = a_table(replace(a_node("n1"), labels={"zone": "a"}, taints=(Taint("k", "v", "NoSchedule"),)))
    table.take(N1, resources(vcore=4000))
    table.remove(N1)
    assert table.add(a_node("n2", vcore=100), draining=False) == 0
    assert table.available(N2)["vcore"] == 100
    assert table.labels.column("zone") is None
    assert list(table.taints) == []
    assert table.rows.at(0) == N2


def test_the_table_grows_beyond_its_first_size() -> None:
    table = a_table(*(replace(a_node(f"n{i}", vcore=i + 1), labels={"i": str(i)}) for i in range(100)))
    assert [table.available(node)["vcore"] for node in table] == list(range(1, 101))
    column = table.labels.column("i")
    assert column is not None
    assert column.has_any(["99"], 100).nonzero()[0].tolist() == [99]
    assert table.columns().open.all()


def test_ranks_follow_the_node_ids_and_not_the_rows() -> None:
    table = a_table(a_node("b"), a_node("c"), a_node("a"))
    assert table.rows.ranks().tolist() == [1, 2, 0]
    table.remove(NodeId("b"))
    assert table.rows.ranks().tolist() == [3, 1, 0]


def test_a_duplicate_or_unknown_node_is_rejected() -> None:
    table = a_table(a_node("n1"))
    with pytest.raises(DuplicateSubject):
        table.add(a_node("n1"), draining=False)
    for ask in (table.record, table.remove, table.available, table.allocated, table.rows.row):
        with pytest.raises(UnknownSubject):
            ask(N2)
    with pytest.raises(UnknownSubject):
        table.take(N2, resources(vcore=1))
    with pytest.raises(UnknownSubject):
        table.update(a_node("n2"))


def test_draining_closes_a_node_and_opening_advances_the_epoch() -> None:
    table = NodeTable()
    table.add(a_node("n1"), draining=True)
    assert table.record(N1).state is NodeState.DRAINING
    assert not table.columns().open.any()
    epoch = table.epoch
    table.set_draining(N1, draining=False)
    assert table.record(N1).state is NodeState.SCHEDULABLE
    assert table.columns().open.all()
    assert table.epoch > epoch


LABELLED = replace(a_node("n1"), labels={"a": "1"})


@pytest.mark.parametrize(
    "change, may_fit, facts",
    [
        (a_node("n1", vcore=5000), True, False),
        (a_node("n1", vcore=3000), False, False),
        (replace(a_node("n1"), occupied=resources(vcore=1)), False, False),
        (LABELLED, True, True),
        (replace(a_node("n1"), taints=(Taint("k", "", "NoSchedule"),)), True, True),
        (replace(a_node("n1"), attributes={"ready": "true"}), False, False),
        (a_node("n1"), False, False),
    ],
    ids=["more", "less", "occupied", "label", "taint", "attribute", "nothing"],
)
def test_an_update_reports_whether_something_may_fit_and_whether_facts_changed(
    change: NodeSpec, *, may_fit: bool, facts: bool
) -> None:
    table = a_table(a_node("n1"))
    epochs = table.epoch, table.facts_epoch
    table.update(change)
    assert (table.epoch > epochs[0], table.facts_epoch > epochs[1]) == (may_fit, facts)
    assert table.record(N1).spec is change


def test_only_releasing_resources_advances_the_epoch() -> None:
    table = a_table(a_node("n1"))
    epoch = table.epoch
    table.take(N1, resources(vcore=1))
    assert table.epoch == epoch
    table.give_back(N1, resources(vcore=1))
    assert table.epoch == epoch + 1


names = st.sampled_from(["n1", "n2", "n3", "n4"])
amounts = st.dictionaries(st.sampled_from(["vcore", "memory", "gpu"]), st.integers(0, 9)).map(Resources)
labels = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]))
taints = st.lists(st.builds(Taint, st.sampled_from("xy"), st.just(""), st.just("NoSchedule")), max_size=3).map(tuple)


@given(st.lists(st.tuples(names, st.sampled_from(["put", "remove", "take"]), amounts, labels, taints), max_size=30))
def test_the_columns_agree_with_a_plain_dictionary_of_nodes(
    steps: list[tuple[str, str, Resources, dict[str, str], tuple[Taint, ...]]],
) -> None:
    table, plain, taken = NodeTable(), dict[NodeId, NodeSpec](), dict[NodeId, Resources]()
    for name, step, amount, label, taint in steps:
        node = NodeId(name)
        spec = replace(a_node(name), capacity=amount, labels=label, taints=taint)
        if step == "put":
            table.update(spec) if node in table else table.add(spec, draining=False)
            plain[node] = spec
            taken.setdefault(node, NOTHING)
        elif node in table:
            if step == "take":
                table.take(node, amount)
                taken[node] += amount
            else:
                table.remove(node)
                del plain[node], taken[node]
    assert set(table) == set(plain)
    size = table.rows.size
    for node, spec in plain.items():
        row = table.rows.row(node)
        assert table.available(node) == spec.capacity - taken[node]
        assert table.allocated(node) == taken[node]
        for key in "ab":
            column = table.labels.column(key)
            for value in "12":
                has = column is not None and bool(column.has_any([value], size)[row])
                assert has == (spec.labels.get(key) == value)
        assert {t for t in table.taints if table.taints.rows(t, size)[row]} == set(spec.taints)
    assert table.capacity_total == sum((spec.capacity for spec in plain.values()), NOTHING)


# -- Memory limits of cached results for all nodes.


@pytest.mark.parametrize("rows, each", [(15_000, 8), (100_000, 8), (15_000, 7)])
def test_a_large_cluster_caches_fewer_results_to_stay_within_128_mib(rows: int, each: int) -> None:
    assert 100 < most_kept(rows, each) <= 128 * 2**20 / (rows * each)


def test_a_small_or_empty_cluster_caches_4096_results() -> None:
    assert most_kept(500, 8) == most_kept(0, 8) == 4096


# -- Cells of several topology keys: rows share a cell exactly if they are in the same domains.


def test_rows_in_different_domains_never_share_a_cell_however_many_keys_are_combined() -> None:
    size, values = 4096, 1023
    codes = {f"key{index}": np.zeros(size, dtype=np.int32) for index in range(7)}
    for column in codes.values():
        column[:values] = np.arange(values)  # so that each key has so many values
        column[values:] = 0
    # The first of seven keys weighs 2**60: 16 of it are 0 in 64 bits.
    codes["key0"][-1] = 16
    cells = Cells({key: Domains(column) for key, column in codes.items()}, size)
    assert cells.of[-1] != cells.of[-2]
    assert cells.of[-2] == cells.of[-3]
    assert cells.count == values + 1
