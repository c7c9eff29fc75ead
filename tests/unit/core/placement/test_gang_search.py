"""Members of several shapes are placed completely or not at all, and a too small cluster is detected."""

from collections.abc import Callable
from dataclasses import replace
from random import Random  # noqa: TID251 - of a fixed seed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import Constraints
from muster_core.model.decisions import ReasonKind
from muster_core.model.ids import NodeId
from muster_core.placement.node_search import fits_on
from muster_core.placement.search.backtracking import linked, missing_on_empty_nodes, needed_first, place_all
from muster_core.placement.search.requests import MemberDemand, Places, Shortage, Work
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.function_calls import CallCounter
from tests.unit.core.placement.affinity_clusters import ZONE
from tests.unit.core.placement.gangs import Case, Class, Node, Placed, entangled_case, full_case
from tests.unit.core.placement.tables import a_table, labelled

FAIR = NodeSort()
N1, N2 = NodeId("n1"), NodeId("n2")
SMALL, LARGE = RequestShape(resources(vcore=1000, pods=1)), RequestShape(resources(vcore=3000, pods=1))
IN_A = replace(SMALL, constraints=Constraints((("zone", "a"),)))


def test_a_gang_that_fits_apart_but_not_together_is_refused_completely() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    snapshot = Snapshot(table)
    answer = place_all(snapshot, [(LARGE, 2), (SMALL, 3)], FAIR)
    assert isinstance(answer, Shortage)
    assert (answer.demand, answer.missing, answer.why.text()) == (1, 1, "0/2 nodes are available: 2 Insufficient cpu.")
    assert fits_on(snapshot, RequestShape(resources(vcore=4000)), N1)


def test_large_members_are_placed_before_small_ones_whatever_their_order() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    answer = place_all(Snapshot(table), [(SMALL, 2), (LARGE, 2)], FAIR)
    assert answer == Places((((N1, 1), (N2, 1)), ((N1, 1), (N2, 1))))


def test_members_with_fewer_nodes_to_choose_from_go_first() -> None:
    table = a_table(labelled("n1", zone="a"), labelled("n2", zone="b"))
    assert place_all(Snapshot(table), [(SMALL, 4), (IN_A, 4)], FAIR) == Places((((N2, 4),), ((N1, 4),)))


def test_members_that_did_not_fit_are_tried_first_the_next_time() -> None:
    table = a_table(labelled("n1", zone="a"), labelled("n2", zone="a"), a_node("n3", vcore=0))
    # The pinned members are placed first, one per node, and leave 3 cores for requests of 4.
    answer = place_all(Snapshot(table), [(IN_A, 2), (RequestShape(resources(vcore=4000, pods=1)), 1)], FAIR)
    assert answer == Places((((N2, 2),), ((N1, 1),)))


def test_nodes_are_packed_when_the_gang_does_not_fit_spread_out() -> None:
    table = a_table(a_node("n1", vcore=6000), a_node("n2", vcore=6000))
    # Only 3+3 and 2+2+2 fit; spreading either of them first leaves 3 and 3, or 2 and 4.
    demands = [(LARGE, 2), (RequestShape(resources(vcore=2000, pods=1)), 3)]
    assert place_all(Snapshot(table), demands, FAIR) == Places((((N1, 2),), ((N2, 3),)))


def test_the_snapshot_is_charged_with_all_members() -> None:
    table = a_table(a_node("n1"))
    snapshot = Snapshot(table)
    place_all(snapshot, [(SMALL, 1), (LARGE, 1)], FAIR)
    assert not fits_on(snapshot, RequestShape(resources(vcore=1)), N1)


def test_an_empty_demand_is_always_placed() -> None:
    assert place_all(Snapshot(a_table()), [], FAIR) == Places(())


def test_a_gang_that_fits_the_empty_cluster_has_no_shortage_when_it_is_full() -> None:
    table = a_table(a_node("n1"), a_node("n2"))
    table.take(N1, resources(vcore=4000))
    table.take(N2, resources(vcore=4000), foreign=True)
    assert missing_on_empty_nodes(table, [(LARGE, 2), (SMALL, 2)]) is None
    assert table.available(N1)["vcore"] == 0


def test_a_gang_too_large_for_the_empty_cluster_reports_the_member_and_resource() -> None:
    """The warning names member and resource."""
    table = a_table(a_node("n1"), replace(a_node("n2"), occupied=resources(vcore=2000)))
    short = missing_on_empty_nodes(table, [(SMALL, 1), (LARGE, 2)])
    assert short is not None
    assert (short.demand, short.missing, short.why.kind) == (1, 1, ReasonKind.CLUSTER)
    assert short.why.counts == (("Insufficient cpu", 2),)


def test_a_resource_that_no_node_has_is_insufficient_on_empty_nodes() -> None:
    short = missing_on_empty_nodes(a_table(a_node("n1")), [(RequestShape(resources(gpu=1)), 1)])
    assert short is not None
    assert short.why.counts == (("Insufficient gpu", 1),)


shapes = st.builds(RequestShape, st.builds(resources, st.integers(0, 4), st.integers(0, 4), st.just(1)))


@given(
    st.lists(st.integers(0, 8), max_size=5),
    st.lists(st.tuples(shapes, st.integers(1, 4)), max_size=4),
    st.sampled_from([NodeSort(order) for order in NodeOrder]),
)
def test_placements_of_a_gang_never_overcommit_and_include_every_member(
    sizes: list[int], demands: list[MemberDemand], sort: NodeSort
) -> None:
    table = a_table(*(replace(a_node(f"n{i}"), capacity=resources(n, n, n)) for i, n in enumerate(sizes)))
    answer = place_all(Snapshot(table), demands, sort)
    if isinstance(answer, Shortage):
        assert 0 < answer.missing <= demands[answer.demand][1]
        return
    left = {node: table.available(node) for node in table}
    for (shape, count), places in zip(demands, answer.per_demand, strict=True):
        assert sum(there for _, there in places) == count
        for node, there in places:
            left[node] = left[node].plus(shape.resources, -there)
    assert all(amount >= 0 for rest in left.values() for _, amount in rest.items())


def test_d21_the_order_of_groups_without_pod_affinity_takes_few_steps_per_group() -> None:
    def calls(groups: int) -> int:
        snapshot, demands = Snapshot(a_table(a_node("n1"))), [(SMALL, 1)] * groups
        with CallCounter() as counter:
            needed_first(snapshot, demands, range(groups))
            linked(snapshot, demands)
        return counter.calls

    assert calls(100) < 6 * calls(20)


class CountingWork(Work):
    """Counts the evaluations of all nodes."""

    evaluations = 0

    def look(self, snapshot: Snapshot, shape: RequestShape | None = None, count: int = 0) -> None:
        self.evaluations += 1
        super().look(snapshot, shape, count)


def test_d21_a_search_for_a_hundred_groups_costs_a_few_times_as_much_as_placing_each_once() -> None:
    """A search with backtracking has at least one step per group, each of which evaluates all groups."""
    table, work = a_table(*(a_node(f"n{number}", vcore=1000) for number in range(90))), CountingWork()
    demands = [(RequestShape(resources(vcore=550 + number % 7, pods=1)), 1) for number in range(100)]
    assert isinstance(place_all(Snapshot(table), demands, FAIR, work), Shortage)
    assert work.evaluations < 6 * 90


# -- The bounded search for a gang, compared with an exhaustive one: no wrong result, and nearly all solutions.

SEED = 6
ORDERS = [NodeSort(order) for order in NodeOrder]
cases = st.builds(lambda make, seed: make(Random(seed)), st.sampled_from([full_case, entangled_case]), st.integers(0))


def asked(case: Case, sort: NodeSort = ORDERS[0], in_vain: int = 0) -> Places | Shortage:
    return place_all(Snapshot(case.table()), case.demands(), sort, Work(in_vain))


def placed(answer: Places) -> Placed:
    return frozenset(
        (kind, int(node[1:]), count) for kind, spots in enumerate(answer.per_demand) for node, count in spots
    )


@settings(max_examples=60)
@given(cases, st.sampled_from(ORDERS), st.integers(0, 1))
def test_found_placements_are_valid_for_all_members_in_sequence(case: Case, sort: NodeSort, in_vain: int) -> None:
    answer = asked(case, sort, in_vain)
    if isinstance(answer, Places):
        assert case.is_reached(placed(answer))
    else:
        assert 0 < answer.missing <= case.classes[answer.demand].count
        assert answer.why.kind is ReasonKind.NODES
    assert answer == asked(case, sort, in_vain), "equal input gives equal output"


@pytest.mark.parametrize("make, count", [(full_case, 150), (entangled_case, 60)])
def test_nearly_all_gangs_that_an_exhaustive_search_can_place_are_placed(
    make: Callable[[Random], Case], count: int
) -> None:
    """The bound is 95 %. Of 300 of each kind all were found; of 200 a search by order alone found 96 % and 63 %."""
    random = Random(SEED)
    found = [case for case in (make(random) for _ in range(count)) if case.holds()]
    missed = [case for case in found if not isinstance(asked(case), Places)]
    assert len(found) >= count // 3
    assert len(missed) <= len(found) // 20, missed[:3]


def zoned(sizes: dict[str, int], *classes: Class) -> Case:
    """Nodes with four cores: this number in each zone."""
    return Case(tuple(Node(4, 9999, zone) for zone, count in sizes.items() for _ in range(count)), classes)


def zones_of(case: Case) -> set[str]:
    answer = asked(case)
    assert isinstance(answer, Places)
    return {case.nodes[node].zone for _, node, _ in placed(answer)}


MANY = {"a": 12, "b": 36, "c": 12, "d": 16, "e": 12, "f": 20}


def test_members_with_affinity_to_each_other_use_a_zone_that_fits_all_of_them() -> None:
    assert zones_of(zoned(MANY, Class("web", 120, 1, affinity=(ZONE, "web")))) == {"b"}


def test_a_pod_is_placed_in_a_zone_that_fits_all_pods_with_affinity_to_it() -> None:
    driver, workers = Class("driver", 1, 1), Class("workers", 130, 1, affinity=(ZONE, "driver"))
    assert zones_of(zoned(MANY, driver, workers)) == {"b"}


def test_a_gang_with_affinity_that_fits_no_zone_is_refused() -> None:
    answer = asked(zoned(MANY, Class("web", 160, 1, affinity=(ZONE, "web"))))
    assert isinstance(answer, Shortage)
    assert not answer.alone
