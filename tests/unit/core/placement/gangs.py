"""Small clusters and gangs, and an exhaustive search that is independent of the core's columns, snapshots and filters.

Members are placed one after the other, in any order, by the rules of kube-scheduler: resources, the selected zone,
affinity (the first pod of a kind may start), and anti-affinity in both directions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 - the caller has the seed

from muster_core.model.constraints import Constraints
from muster_core.placement.search.requests import MemberDemand
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape
from tests.unit.builders import a_node, resources
from tests.unit.core.placement.affinity_clusters import APP, HOST, ZONE, a_pod, term
from tests.unit.core.placement.tables import a_table, keep_tags

#: Number of members by class and node.
Placed = frozenset[tuple[int, int, int]]


@dataclass(frozen=True)
class Node:
    """The capacity of a node."""

    cores: int
    memory: int
    zone: str


@dataclass(frozen=True)
class Class:
    """Pods of the app `name`. `affinity`, `anti_affinity`: a topology key and the app of the term."""

    name: str
    count: int
    cores: int
    memory: int = 1
    zone: str = ""
    affinity: tuple[str, str] | None = None
    anti_affinity: tuple[str, str] | None = None


@dataclass(frozen=True)
class Case:
    """A cluster and a gang."""

    nodes: tuple[Node, ...]
    classes: tuple[Class, ...]

    def domain(self, node: int, key: str) -> str:
        return self.nodes[node].zone if key == ZONE else f"n{node}"

    def table(self) -> NodeTable:
        table = a_table(
            *(
                replace(
                    a_node(f"n{index}", labels={ZONE: node.zone, HOST: f"n{index}"}),
                    capacity=resources(node.cores, node.memory, 99),
                )
                for index, node in enumerate(self.nodes)
            )
        )
        keep_tags(table, (APP, "kubernetes.io/meta/namespace"))
        return table

    def demands(self) -> list[MemberDemand]:
        return [(_shape(one), one.count) for one in self.classes]

    def steps(self, placed: Placed) -> Iterator[Placed]:
        """Yield the placements with one more member on each feasible node."""
        counts = {(kind, node): count for kind, node, count in placed}
        for kind, one in enumerate(self.classes):
            if sum(count for (other, _), count in counts.items() if other == kind) < one.count:
                for node in range(len(self.nodes)):
                    if self.may_go(counts, kind, node):
                        more = counts | {(kind, node): counts.get((kind, node), 0) + 1}
                        yield frozenset((*key, count) for key, count in more.items())

    def may_go(self, counts: dict[tuple[int, int], int], kind: int, node: int) -> bool:
        one, here = self.classes[kind], self.nodes[node]
        cores = sum(self.classes[k].cores * count for (k, n), count in counts.items() if n == node)
        memory = sum(self.classes[k].memory * count for (k, n), count in counts.items() if n == node)
        if cores + one.cores > here.cores or memory + one.memory > here.memory or one.zone not in ("", here.zone):
            return False
        if one.affinity is not None:
            key, app = one.affinity
            known = {self.domain(n, key) for k, n in counts if self.classes[k].name == app}
            if self.domain(node, key) not in known and (known or app != one.name):
                return False
        return not any(self._keep_apart(kind, node, k, n) for k, n in counts)

    def _keep_apart(self, kind: int, node: int, other: int, there: int) -> bool:
        pairs = ((self.classes[kind].anti_affinity, other), (self.classes[other].anti_affinity, kind))
        return any(
            anti_affinity is not None
            and self.classes[meant].name == anti_affinity[1]
            and self.domain(node, anti_affinity[0]) == self.domain(there, anti_affinity[0])
            for anti_affinity, meant in pairs
        )

    def holds(self) -> bool:
        """Whether all members can be placed."""
        wanted = sum(one.count for one in self.classes)
        seen: set[Placed] = set()
        ahead: list[Placed] = [frozenset()]
        while ahead:
            placed = ahead.pop()
            if sum(count for _, _, count in placed) == wanted:
                return True
            for more in self.steps(placed):
                if more not in seen:
                    seen.add(more)
                    ahead.append(more)
        return False

    def is_reached(self, placed: Placed) -> bool:
        """Whether exactly this placement can be reached member by member."""
        wanted = {(kind, node): count for kind, node, count in placed}
        seen: set[Placed] = set()
        ahead: list[Placed] = [frozenset()]
        while ahead:
            now = ahead.pop()
            if now == placed:
                return True
            for more in self.steps(now):
                if more not in seen and all(wanted.get((kind, node), 0) >= count for kind, node, count in more):
                    seen.add(more)
                    ahead.append(more)
        return False


def _shape(one: Class) -> RequestShape:
    affinity = [term(one.affinity[1], one.affinity[0])] if one.affinity else []
    anti_affinity = [term(one.anti_affinity[1], one.anti_affinity[0])] if one.anti_affinity else []
    constraints = Constraints(((ZONE, one.zone),)) if one.zone else Constraints()
    return RequestShape(
        resources(one.cores, one.memory, 1),
        constraints,
        pod_on_node=a_pod(one.name, affinity=affinity, anti_affinity=anti_affinity),
    )


def full_case(rnd: Random) -> Case:
    """Return nodes that the members fill completely or nearly, so that few arrangements fit."""
    kinds = [
        Class(f"c{index}", 0, rnd.randint(1, 5), rnd.randint(1, 5), rnd.choice(["", "", "a", "b"]))
        for index in range(rnd.randint(2, 4))
    ]
    counts = [0] * len(kinds)
    nodes = []
    for _ in range(rnd.randint(2, 4)):
        zone = rnd.choice("ab")
        there = [kind for kind in range(len(kinds)) if kinds[kind].zone in ("", zone)]
        chosen = [rnd.choice(there) for _ in range(rnd.randint(1, 3))] if there else []
        for kind in chosen:
            counts[kind] += 1
        slack = rnd.choice([0, 0, 1])
        cores, memory = (sum(getattr(kinds[kind], name) for kind in chosen) + slack for name in ("cores", "memory"))
        nodes.append(Node(max(cores, 1), max(memory, 1), zone))
    classes = (replace(kind, count=count) for kind, count in zip(kinds, counts, strict=True) if count)
    return Case(tuple(nodes), tuple(classes))


def entangled_case(rnd: Random) -> Case:
    """Return classes with affinity and anti-affinity to each other."""
    names = [f"c{index}" for index in range(rnd.randint(2, 3))]
    keys = (ZONE, HOST)

    def about(share: float) -> tuple[str, str] | None:
        return (rnd.choice(keys), rnd.choice(names)) if rnd.random() < share else None

    nodes = tuple(Node(rnd.randint(1, 4), 99, rnd.choice("ab")) for _ in range(rnd.randint(2, 4)))
    classes = tuple(
        Class(name, rnd.randint(1, 2), rnd.randint(1, 2), affinity=about(0.6), anti_affinity=about(0.4))
        for name in names
    )
    return Case(nodes, classes)
