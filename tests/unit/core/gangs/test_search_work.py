"""The work of one search for nodes is bounded, whatever the gang and the topology. Counted in function calls."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster_core.gangs.topology import domains, place_packed
from muster_core.model.config import NodeSort
from muster_core.model.constraints import Constraints
from muster_core.model.specs import Topology
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import MemberDemand, Places, Work
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.unit.builders import a_node, resources
from tests.unit.core.function_calls import CallCounter
from tests.unit.core.placement.tables import a_table

HOST = "kubernetes.io/hostname"
#: Calls of one search, about 100 ms, and of most repeated ones.
MOST, MOST_AGAIN = 600_000, 90_000


def nodes(count: int, cores: Sequence[int], memory: int = 10) -> NodeTable:
    """Nodes with hostname, racks of 10, zones of 100, and a label `half` of two values."""
    return a_table(
        *(
            replace(
                a_node(
                    f"n{i}", labels={HOST: f"n{i}", "rack": f"r{i // 10}", "zone": f"z{i // 100}", "half": "ab"[i % 2]}
                ),
                capacity=resources(cores[i % len(cores)], memory, 9_999),
            )
            for i in range(count)
        )
    )


def member(cores: int, memory: int = 1, half: str = "") -> RequestShape:
    return RequestShape(resources(cores, memory, 1), Constraints((("half", half),)) if half else Constraints())


def halves(count: int) -> list[MemberDemand]:
    return [(member(6, half=half), count // 2) for half in "ab"]


def never(count: int) -> list[MemberDemand]:
    """Members of which only one fits per node of 10 cores, more of them than nodes."""
    return [(member(6), count * 8 // 10), (member(5), count // 2)]


def groups(count: int) -> list[MemberDemand]:
    """Three large members that do not fit on two nodes of 100 cores, and small ones of so many sizes."""
    return [*((member(cores), 1) for cores in (70, 60, 50)), *((member(0, 2 + size), 1) for size in range(count))]


def odd(classes: int, each: int) -> list[MemberDemand]:
    """Members whose sizes almost fill nodes of 1,000 cores."""
    return [(member(201 + 37 * index % 300), each) for index in range(classes)]


UNEVEN = (10, 11, 12, 13, 14, 15, 16)
LEVELS = ("zone", "rack", HOST)


@pytest.mark.parametrize(
    "table, demands, keys, is_placed",
    [
        (nodes(200, UNEVEN), halves(200), (HOST,), True),
        (nodes(200, UNEVEN), halves(40), (HOST,), True),
        (nodes(1_500, UNEVEN), halves(900), LEVELS, True),
        (nodes(1_500, UNEVEN, 16), [(member(4, 1), 700), (member(1, 4), 700)], LEVELS, True),
        (nodes(1_500, UNEVEN, 16), [(member(4, 1), 700), (member(1, 4), 700)], ("rack",), True),
        (nodes(1_500, UNEVEN, 16), [(member(1 + i % 4, 1 + i // 2), 90) for i in range(8)], LEVELS, True),
        (nodes(100, (10,)), never(100), (HOST,), False),
        (nodes(500, (10,)), never(500), (HOST,), False),
        (nodes(500, (10,)), never(500), LEVELS, False),
        (nodes(2, (100,), 9_999), groups(20), (), False),
        (nodes(2, (100,), 9_999), groups(96), (), False),
        (nodes(2, (100,), 99_999), groups(300), (), False),
        (nodes(8, (1_000,), 99), odd(12, 2), (), False),
        (nodes(600, (1_000,), 99), odd(60, 35), (), False),
        (nodes(600, (1_000,), 99), odd(60, 35), LEVELS, False),
    ],
)
@pytest.mark.parametrize("failures", [0, 1])
def test_the_work_of_one_search_is_bounded(
    table: NodeTable, demands: list[MemberDemand], keys: tuple[str, ...], *, is_placed: bool, failures: int
) -> None:
    snapshot = Snapshot(table)
    found = domains(snapshot, Topology(keys), {}) if keys else None
    with CallCounter() as counter:
        if found is None:
            answer = place_all(snapshot, demands, NodeSort(), Work(failures))
        else:
            answer = place_packed(snapshot, demands, NodeSort(), found, Work(failures))
    assert isinstance(answer, Places) == is_placed
    assert counter.calls <= (MOST_AGAIN if failures else MOST)
