"""Topology levels compared with an exhaustive search: the fewest domains at each level, the outermost level first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random  # noqa: TID251 - of a fixed seed

import pytest

from muster_core.gangs.topology import domains, place_packed
from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import Constraints
from muster_core.model.ids import NodeId
from muster_core.model.specs import Topology
from muster_core.placement.search.requests import MemberDemand, Places, Shortage, Work
from muster_core.state.snapshot import RequestShape, Snapshot
from tests.amounts import amount
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.tables import a_table

KEYS = ("zone", "rack", "kubernetes.io/hostname")
#: (cores, memory) of a node or of a member.
Size = tuple[int, int]
Counts = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`paths`: the domain of each node at each level; None = the label is missing. `classes`: members by size and zone.

    `held`: nodes with members that are already placed.
    """

    free: tuple[Size, ...]
    paths: tuple[tuple[str | None, ...], ...]
    classes: tuple[tuple[Size, str, int], ...]
    held: tuple[int, ...]
    required: bool

    @property
    def levels(self) -> int:
        return len(self.paths[0])

    @property
    def topology(self) -> Topology:
        return Topology(KEYS[: self.levels], self.required)

    def counts(self, nodes: frozenset[int]) -> Counts:
        """Number of domains at each level."""
        return tuple(len({self.paths[node][:level] for node in nodes}) for level in range(1, self.levels + 1))

    def is_valid(self, nodes: frozenset[int]) -> bool:
        """Whether a gang may be placed on these nodes as the topology says."""
        if any(None in self.paths[node] for node in nodes):
            return False
        return not self.required or self.counts(nodes | frozenset(self.held))[0] == 1

    def holds(self, nodes: frozenset[int]) -> bool:
        """Whether all members fit on these nodes."""
        members = [(size, zone) for size, zone, count in self.classes for _ in range(count)]
        seen: set[tuple[int, tuple[tuple[Size, str | None], ...]]] = set()

        def fits(index: int, free: dict[int, Size]) -> bool:
            if index == len(members):
                return True
            state = index, tuple(sorted((free[node], self.paths[node][0] or "") for node in nodes))
            if state in seen:
                return False
            seen.add(state)
            (cores, memory), zone = members[index]
            for node in nodes:
                left = free[node][0] - cores, free[node][1] - memory
                if min(left) >= 0 and zone in ("", self.paths[node][0]) and fits(index + 1, {**free, node: left}):
                    return True
            return False

        return fits(0, {node: self.free[node] for node in nodes})

    def fewest(self) -> Counts | None:
        """The fewest domains at each level, with those that are already used; None = the gang fits into none."""
        everywhere = range(len(self.free))
        sets = (frozenset(some) for size in everywhere for some in combinations(everywhere, size + 1))
        valid = [nodes for nodes in sets if self.is_valid(nodes)]
        held = frozenset(self.held)
        for nodes in sorted(valid, key=lambda nodes: (self.counts(nodes | held), -len(nodes))):
            if self.holds(nodes):
                return self.counts(nodes | held)
        return None

    def answer(self, work: Work) -> Places | Shortage:
        table = a_table(
            *(
                replace(
                    a_node(f"n{index}", labels={key: part for key, part in zip(KEYS, path, strict=False) if part}),
                    capacity=resources(*size, 99),
                )
                for index, (size, path) in enumerate(zip(self.free, self.paths, strict=True))
            )
        )
        demands: list[MemberDemand] = [
            (RequestShape(resources(*size, 1), Constraints((("zone", zone),)) if zone else Constraints()), count)
            for size, zone, count in self.classes
        ]
        snapshot = Snapshot(table)
        found = domains(snapshot, self.topology, {NodeId(f"n{node}"): 1 for node in self.held})
        return place_packed(snapshot, demands, NodeSort(NodeOrder.FAIR), found, work)


def a_case(rnd: Random) -> Case:
    """Return a cluster of up to three levels, and a gang that needs most of a few domains."""
    levels = rnd.randint(1, 3)
    paths: list[tuple[str | None, ...]] = []
    for index in range(rnd.randint(2, 7)):
        zone, rack = rnd.choice("abc"), rnd.choice("rs" if levels < 3 else "rst")
        path: list[str | None] = [*[zone, rack, f"n{index}"][:levels]]
        if rnd.random() < 0.04:
            path[rnd.randrange(min(levels, 2))] = None
        paths.append(tuple(path))
    free = tuple((rnd.randint(1, 6), rnd.randint(1, 6)) for _ in paths)
    classes = tuple(
        ((rnd.randint(1, 3), rnd.randint(0, 3)), rnd.choice("abc") if rnd.random() < 0.1 else "", rnd.randint(1, 3))
        for _ in range(rnd.randint(1, 3))
    )
    required = rnd.random() < 0.4
    labelled = [index for index, path in enumerate(paths) if None not in path]
    held = [rnd.choice(labelled)] if labelled and rnd.random() < 0.3 else []
    if held and not required and rnd.random() < 0.5:
        held.append(rnd.choice(labelled))
    return Case(free, tuple(paths), classes, tuple(held), required)


def used(case: Case, answer: Places) -> frozenset[int]:
    """The nodes that the answer uses. Fails if it is no placement of all members."""
    free = {index: list(size) for index, size in enumerate(case.free)}
    for (size, zone, count), spots in zip(case.classes, answer.per_demand, strict=True):
        assert sum(there for _, there in spots) == count
        for node, there in spots:
            row = int(node[1:])
            assert zone in ("", case.paths[row][0])
            for index in (0, 1):
                free[row][index] -= there * size[index]
    assert min(min(left) for left in free.values()) >= 0
    return frozenset(int(node[1:]) for spots in answer.per_demand for node, _ in spots)


def cases(seed: int, count: int) -> Iterator[Case]:
    rnd = Random(seed)
    return (a_case(rnd) for _ in range(count))


@pytest.mark.thorough
def test_the_fewest_domains_at_each_level_are_used() -> None:
    wrong: list[tuple[Case, Counts | None, Counts | None]] = []
    for case in cases(1, amount(400, 10_000)):
        best, answer = case.fewest(), case.answer(Work())
        found = case.counts(used(case, answer) | frozenset(case.held)) if isinstance(answer, Places) else None
        if best is None and not case.required:  # nodes without a label are used last
            assert (found is not None) == case.holds(frozenset(range(len(case.free)))), case
        elif found != best:
            wrong.append((case, best, found))
    assert not wrong, (len(wrong), wrong[0])
