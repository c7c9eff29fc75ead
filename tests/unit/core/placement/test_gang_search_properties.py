"""The bounded search for a gang, compared with an exhaustive one: no wrong result, and nearly all solutions."""

from collections.abc import Callable
from random import Random  # noqa: TID251 - of a fixed seed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.decisions import ReasonKind
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import Places, Shortage, Work
from muster_core.state.snapshot import Snapshot
from tests.unit.core.placement.affinity_clusters import ZONE
from tests.unit.core.placement.gangs import Case, Class, Node, Placed, entangled_case, full_case

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
