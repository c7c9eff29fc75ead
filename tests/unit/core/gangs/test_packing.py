"""A gang is packed into as few values of a node label as possible, or into exactly one if that is required."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster_core.gangs.topology import best_domain, domains, missing_on_empty_domains, parts, place_packed
from muster_core.model.config import NodeSort
from muster_core.model.constraints import Constraints
from muster_core.model.ids import NodeId
from muster_core.model.specs import NodeSpec, Topology
from muster_core.placement.search.requests import MemberDemand, Places, Shortage, Work
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot, emptied
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table

FAIR = NodeSort()
REQUIRED, PREFERRED = Topology(("zone",), required=True), Topology(("zone",))
SMALL = RequestShape(resources(vcore=1000, pods=1))
TALL = RequestShape(resources(vcore=4000, pods=1))


def in_zone(name: str, zone: str, vcore: int = 4000) -> NodeSpec:
    return a_node(name, vcore, labels={"zone": zone})


def zones(**sizes: int) -> NodeTable:
    """One node per zone, with this number of cores."""
    return a_table(*(in_zone(f"n-{zone}", zone, cores * 1000) for zone, cores in sizes.items()))


def count_by_node(answer: Places | Shortage) -> dict[str, int]:
    """Number of members on each node."""
    assert isinstance(answer, Places)
    counts: dict[str, int] = {}
    for spots in answer.per_demand:
        for node, there in spots:
            counts[node] = counts.get(node, 0) + there
    return counts


def placed(
    snapshot: Snapshot, demands: list[MemberDemand], topology: Topology, held: dict[NodeId, int] | None = None
) -> Places | Shortage:
    return place_packed(snapshot, demands, FAIR, domains(snapshot, topology, held or {}), Work())


def packed(
    table: NodeTable, demands: list[MemberDemand], topology: Topology, held: dict[str, int] | None = None
) -> Places | Shortage:
    known = {NodeId(node): count for node, count in (held or {}).items()}
    return placed(Snapshot(table), demands, topology, known)


def test_the_fullest_domain_that_holds_all_members_is_taken() -> None:
    assert count_by_node(packed(zones(a=9, b=4, c=5, d=3), [(SMALL, 4)], REQUIRED)) == {"n-b": 4}


def test_of_equal_domains_the_first_by_name_is_taken() -> None:
    assert count_by_node(packed(zones(b=4, a=4), [(SMALL, 3)], PREFERRED)) == {"n-a": 3}


def test_a_domain_that_fits_each_shape_but_not_all_members_is_skipped() -> None:
    table = zones(a=5, b=8)
    assert count_by_node(packed(table, [(TALL, 1), (SMALL, 4)], REQUIRED)) == {"n-b": 5}


def test_a_gang_that_needs_two_domains_takes_the_largest_and_the_fullest_that_does() -> None:
    assert count_by_node(packed(zones(a=2, b=6, c=4, d=1), [(SMALL, 8)], PREFERRED)) == {"n-b": 6, "n-a": 2}


def test_a_gang_too_large_for_every_domain_is_refused_with_the_best_domain() -> None:
    snapshot = Snapshot(zones(a=2, b=3))
    answer = placed(snapshot, [(SMALL, 4)], REQUIRED)
    assert isinstance(answer, Shortage)
    assert (answer.domain, answer.missing, answer.count) == ("zone=b (at most 2 in zone=a)", 1, 4)
    assert answer.why.text() == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were outside the gang's topology domain."
    )
    assert snapshot.within is None


def test_a_preference_is_no_reason_to_refuse() -> None:
    table = a_table(in_zone("n-a", "a", 2000), a_node("bare", 3000))
    assert count_by_node(packed(table, [(SMALL, 5)], PREFERRED)) == {"n-a": 2, "bare": 3}


def test_nodes_without_the_label_are_in_no_required_domain() -> None:
    answer = packed(a_table(a_node("n1")), [(SMALL, 1)], REQUIRED)
    assert isinstance(answer, Shortage)
    assert answer.why.text() == "0/1 nodes are available: 1 node(s) had no label zone."


def test_the_rest_of_a_gang_uses_the_domain_with_most_of_its_members() -> None:
    table = zones(a=3, b=3, c=9)
    assert count_by_node(packed(table, [(SMALL, 2)], REQUIRED, {"n-b": 2, "n-a": 1})) == {"n-b": 2}
    assert isinstance(packed(table, [(SMALL, 4)], REQUIRED, {"n-b": 2}), Shortage)
    assert count_by_node(packed(table, [(SMALL, 5)], PREFERRED, {"n-b": 2})).keys() == {"n-a", "n-b"}


def test_a_part_of_a_gang_uses_a_domain_that_fits_the_complete_gang_when_empty() -> None:
    """Zone a has more free resources now, but would be too small if it were empty."""
    table = zones(a=4, b=8)
    table.take(NodeId("n-b"), resources(vcore=6000))
    snapshot = Snapshot(table)
    found = domains(snapshot, REQUIRED, {})
    best = best_domain(snapshot, [(SMALL, 6)], found)
    assert best is not None
    assert found.shown(best) == "zone=b"
    [part] = parts(snapshot, [(SMALL, 6)], found)
    assert part.name == "zone=b (at most 4 in zone=a)"


def test_a_part_of_a_gang_with_a_preferred_topology_fills_domain_after_domain() -> None:
    snapshot = Snapshot(zones(a=2, b=4))
    found = parts(snapshot, [(SMALL, 9)], domains(snapshot, PREFERRED, {NodeId("n-a"): 1}))
    filled = [None if part.rows is None else snapshot.nodes.rows.at(int(part.rows.argmax())) for part in found]
    assert filled == ["n-a", "n-b", None]


def test_a_gang_that_requires_a_domain_does_not_fit_a_cluster_of_small_domains() -> None:
    table = zones(a=3, b=4)
    short = missing_on_empty_domains(table, [(SMALL, 5)], REQUIRED)
    assert short is not None
    assert (short.domain, short.missing) == ("zone=b (at most 3 in zone=a)", 1)
    assert missing_on_empty_domains(table, [(SMALL, 5)], PREFERRED) is None


def test_the_fitting_domain_is_found_among_many_single_node_domains() -> None:
    table = a_table(*(in_zone(f"n{i:03}", f"z{i:03}", 4000) for i in range(300)), in_zone("big", "z-big", 9000))
    unsatisfiable = RequestShape(resources(vcore=3000, pods=1), Constraints())
    assert count_by_node(
        packed(table, [(unsatisfiable, 1), (replace(SMALL, resources=resources(vcore=2000, pods=1)), 1)], REQUIRED)
    )
    assert count_by_node(packed(table, [(unsatisfiable, 3)], REQUIRED)) == {"big": 3}


sizes = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), min_size=1, max_size=5)
wanted = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3)


@given(sizes, wanted, st.sampled_from([REQUIRED, PREFERRED]))
def test_a_required_gang_is_in_one_domain_and_none_is_overcommitted(
    nodes: list[tuple[str, int]], requested: list[tuple[int, int]], topology: Topology
) -> None:
    table = a_table(*(in_zone(f"n{i}", zone, cores * 1000) for i, (zone, cores) in enumerate(nodes)))
    demands = [(RequestShape(resources(vcore=cores * 1000, pods=1)), count) for cores, count in requested]
    answer = placed(Snapshot(table), demands, topology)
    if isinstance(answer, Shortage):
        assert topology.required or answer.missing > 0
        return
    used: dict[str, int] = {}
    for (shape, count), spots in zip(demands, answer.per_demand, strict=True):
        assert sum(there for _, there in spots) == count
        for node, there in spots:
            used[node] = used.get(node, 0) + there * shape.resources["vcore"]
    assert all(amount <= nodes[int(node[1:])][1] * 1000 for node, amount in used.items())
    assert not topology.required or len({nodes[int(node[1:])][0] for node in used}) == 1
    assert answer == placed(Snapshot(table), demands, topology)


@given(sizes, st.integers(1, 8))
def test_members_of_one_shape_are_in_as_few_domains_as_hold_them(nodes: list[tuple[str, int]], count: int) -> None:
    table = a_table(*(in_zone(f"n{i}", zone, cores * 1000) for i, (zone, cores) in enumerate(nodes)))
    answer = placed(emptied(table), [(SMALL, count)], PREFERRED)
    capacities = sorted((sum(cores for name, cores in nodes if name == zone) for zone in "abc"), reverse=True)
    fewest = next((size for size in (1, 2, 3) if sum(capacities[:size]) >= count), None)
    if fewest is None:
        assert isinstance(answer, Shortage)
        return
    assert len({nodes[int(node[1:])][0] for node in count_by_node(answer)}) == fewest
