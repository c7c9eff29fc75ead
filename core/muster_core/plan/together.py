"""Whether members of several shapes fit at the same time: whole or not at all.

The hardest shape goes first (fewest nodes allowed, then largest share of the
cluster). If one does not fit, it moves to the front and all is tried again;
after as many tries as there are shapes, the nodes are packed instead of
spread. A shape that needs others beside it (affinity, seed 001) goes last.
Bounded: it may miss a packing that an exhaustive search would find, and never
claims one that does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.ids import NodeId
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan.draft import Draft, emptied
from muster_core.plan.fit import feasible_nodes, place, shortfall
from muster_core.plan.shape import Shape
from muster_core.world.nodes import NodeTable

#: A shape and how many members have it.
Demand = tuple[Shape, int]

_MOST_TRIES = 8


@dataclass(frozen=True, slots=True)
class Places:
    """Where all members go: for each demand, in the order given, nodes and how many."""

    per_demand: tuple[tuple[tuple[NodeId, int], ...], ...]


@dataclass(frozen=True, slots=True)
class Short:
    """Which demand (by its position, of so many members) lacks how many places, and why.
    `alone`: it would even if there were no other demand.
    """

    demand: int
    missing: int
    why: Shortfall
    count: int = 0
    alone: bool = False


def place_all(draft: Draft, demands: Sequence[Demand], sort: NodeSort) -> Places | Short:
    """Places for all members, with the draft charged; or what was short, with the draft as it was:
    a demand that does not fit even alone, else the one of the first try.
    """
    first: Short | None = None
    for order in (sort, NodeSort(NodeOrder.BINPACKING, sort.weights)):
        queue = _hardest_first(draft, demands)
        for _ in range(min(len(demands), _MOST_TRIES)):
            fork = draft.fork()
            answer = _try(fork, demands, queue, order)
            if isinstance(answer, Places):
                draft.absorb(fork)
                return answer
            others = [index for index in queue if index != answer.demand]
            if _needs_others(demands[answer.demand][0]):
                first = first or answer
                queue = [*others, answer.demand]
                continue
            if queue[0] == answer.demand:
                return replace(answer, alone=True)
            first = first or answer
            queue = [answer.demand, *others]
    return first or Places(())


def _try(draft: Draft, demands: Sequence[Demand], queue: Sequence[int], sort: NodeSort) -> Places | Short:
    found: dict[int, tuple[tuple[NodeId, int], ...]] = {}
    for index in queue:
        shape, count = demands[index]
        found[index] = tuple(place(draft, shape, count, sort))
        missing = count - sum(there for _, there in found[index])
        if missing:
            return Short(index, missing, shortfall(draft, shape), count)
    return Places(tuple(found[index] for index in range(len(demands))))


def _hardest_first(draft: Draft, demands: Sequence[Demand]) -> list[int]:
    total = draft.nodes.capacity_total

    def hardness(index: int) -> tuple[bool, int, float, int]:
        shape, _ = demands[index]
        largest = max((amount / max(total[name], 1) for name, amount in shape.resources.items()), default=0.0)
        return _needs_others(shape), feasible_nodes(draft, shape), -largest, index

    return sorted(range(len(demands)), key=hardness)


def _needs_others(shape: Shape) -> bool:
    """Whether it goes only where others are: these may be members of the same gang and come first."""
    affinity = shape.affinity
    return affinity is not None and affinity.required and affinity.at_least > 0


def lacking_when_empty(nodes: NodeTable, members: Sequence[Demand]) -> Short | None:
    """What would be short if nobody but `occupied` used these nodes; None if all members fit (semantics 10)."""
    answer = place_all(emptied(nodes), members, NodeSort(NodeOrder.BINPACKING))
    if isinstance(answer, Places):
        return None
    return Short(
        answer.demand, answer.missing, Shortfall(Lack.CLUSTER, counts=answer.why.counts, nodes=answer.why.nodes)
    )
