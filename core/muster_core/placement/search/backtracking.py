"""Search for nodes for all members of a gang at the same time. Gang planning calls `place_all`.

The search first places the demands in a few orders without backtracking. If this fails, it backtracks within the budget
`Work`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.constraints import matches
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.resources import NOTHING
from muster_core.placement import node_search
from muster_core.placement.node_search import feasible_nodes, stateful_filters, unschedulable_reason
from muster_core.placement.plugins import node_properties
from muster_core.placement.search import requests
from muster_core.placement.search.patterns import pack
from muster_core.placement.search.requests import (
    MemberDemand,
    Places,
    Shortage,
    Spots,
    Work,
    depends_on_members,
    depends_on_others,
    needs_others,
    rooms,
    share,
    weight,
)
from muster_core.state import indexes
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot, emptied


def most_constrained_first(snapshot: Snapshot, demands: Sequence[MemberDemand]) -> list[int]:
    """Returns the positions of the demands, those with the fewest feasible nodes first. Demands that need others are
    last.
    """

    def hardness(index: int) -> tuple[bool, int, float, int]:
        shape, _ = demands[index]
        return needs_others(shape), feasible_nodes(snapshot, shape), -share(snapshot, shape), index

    return sorted(range(len(demands)), key=hardness)


def needed_first(snapshot: Snapshot, demands: Sequence[MemberDemand], queue: Sequence[int]) -> list[int]:
    """Moves demands that other demands need for pod affinity to the front. Those that need them follow directly."""
    needing = [(index, shape) for index, (shape, _) in enumerate(demands) if needs_others(shape)]
    needed = [
        index
        for index in queue
        if any(_needs(snapshot, one, demands[index][0]) for other, one in needing if other != index)
    ]
    needy = [index for index in queue if needs_others(demands[index][0]) and index not in needed]
    return [*needed, *needy, *(index for index in queue if index not in needed and index not in needy)]


def linked(snapshot: Snapshot, demands: Sequence[MemberDemand]) -> tuple[frozenset[int], tuple[str, ...]]:
    """Returns the demands that are linked by required pod affinity within the gang, and the topology keys of these
    terms.

    A demand of several members may be linked to itself.
    """
    keys: dict[str, None] = {}
    found: set[int] = set()
    for index, (shape, count) in enumerate(demands):
        if not needs_others(shape):
            continue
        others = (other for other, (one, _) in enumerate(demands) if _needs(snapshot, shape, one))
        wanted = {other for other in others if other != index or count > 1}
        if wanted:
            found |= {index} | wanted
            keys.update(dict.fromkeys(term.topology for term in shape.pod_on_node.facts.inter_pod.affinity))
            if shape.affinity is not None:
                keys[shape.affinity.scope] = None
    return frozenset(found), tuple(keys)


def moved(queue: Sequence[int], demands: Sequence[MemberDemand], refused: int) -> list[int]:
    """Returns the next order to try after the demand `refused` found too few nodes."""
    others = [index for index in queue if index != refused]
    return [*others, refused] if needs_others(demands[refused][0]) else [refused, *others]


def _needs(snapshot: Snapshot, shape: RequestShape, other: RequestShape) -> bool:
    pods_on_nodes = snapshot.nodes.pods_on_nodes
    if any(pods_on_nodes.is_meant(term, other.pod_on_node) for term in shape.pod_on_node.facts.inter_pod.affinity):
        return True
    affinity = shape.affinity
    if affinity is None or not affinity.required or affinity.at_least <= 0:
        return False
    return matches(affinity.targets, dict(other.pod_on_node.tags))


#: Function that places a demand and charges the snapshot. It knows the demands that are placed later.
PlacingMethod = Callable[[Snapshot, MemberDemand, Sequence[MemberDemand]], Spots]


def fills(sort: NodeSort) -> tuple[PlacingMethod, ...]:
    """Returns the ways to place a demand, in the order in which they are tried."""
    packing = NodeSort(NodeOrder.BINPACKING, sort.weights)
    return (
        (_sorted(sort), tightly) if sort.order is NodeOrder.BINPACKING else (_sorted(sort), _sorted(packing), tightly)
    )


def _sorted(sort: NodeSort) -> PlacingMethod:
    def fill(snapshot: Snapshot, demand: MemberDemand, later: Sequence[MemberDemand]) -> Spots:
        return tuple(node_search.place(snapshot, *demand, sort))

    return fill


def tightly(snapshot: Snapshot, demand: MemberDemand, later: Sequence[MemberDemand]) -> Spots:
    """Fills one node after the other, in the order of `tight_rows`."""
    shape, count = demand
    if depends_on_others(shape):
        return tuple(node_search.place(snapshot, shape, count, NodeSort(NodeOrder.BINPACKING)))
    room = rooms(snapshot, shape, node_search.allowed(snapshot, shape), count)
    ordered = tight_rows(snapshot, demand, room, later)
    until = np.cumsum(room[ordered])
    spots: list[tuple[int, int]] = []
    for row, total in zip(ordered.tolist(), until.tolist(), strict=True):
        before = total - room.item(row)
        if before >= count:
            break
        spots.append((row, min(total, count) - before))
    for row, there in spots:
        node_search.charge(snapshot, shape, row, there)
    return tuple((snapshot.nodes.rows.at(row), there) for row, there in spots)


def tight_rows(snapshot: Snapshot, demand: MemberDemand, room: IntColumn, later: Sequence[MemberDemand]) -> IntColumn:
    """Returns the rows with room for the demand.

    Rows that the fewest later demands can use are first; among these, rows with the least resources left over.
    """
    rows = np.flatnonzero(room)
    rivals = np.zeros(len(rows), dtype=np.int64)
    for other, _ in later:
        rivals += rooms(snapshot, other, node_search.allowed(snapshot, other), 1)[rows]
    shape, _ = demand
    left = weight(snapshot, shape, rows) - (room[rows] * 1e9 * _sum_of_shares(snapshot, demand)).astype(np.int64)
    return rows[np.lexsort((snapshot.nodes.rows.ranks()[rows], left, rivals))]


def _sum_of_shares(snapshot: Snapshot, demand: MemberDemand) -> float:
    total = snapshot.nodes.capacity_total
    return sum(amount / max(total[name], 1) for name, amount in demand[0].resources.items())


#: Maximum number of rows that one step tries.
_WIDTH: Final = 48

#: Maximum number of steps without backtracking.
_DEPTH: Final = 96

#: Position of the demand, row, and number of members.
_Choice = tuple[int, int, int]


def search(snapshot: Snapshot, demands: Sequence[MemberDemand], queue: Sequence[int], work: Work) -> Places | None:
    """Searches with backtracking. Returns nodes for all members and charges the snapshot, or returns None.

    For members whose placement changes the feasible nodes of others. A gang of many members returns None at once: even
    one step per member exceeds the bounds.
    """
    count, classes = sum(count for _, count in demands), len(demands)
    if count > _DEPTH or not work.covers(count * classes, snapshot):
        return None
    return _MemberSearch(snapshot, demands, queue, work).run()


class _MemberSearch:
    """One search. `_chosen`: number of members per demand and row."""

    def __init__(self, snapshot: Snapshot, demands: Sequence[MemberDemand], queue: Sequence[int], work: Work) -> None:
        self._snapshot, self._demands, self._queue, self._work = snapshot, demands, queue, work
        self._masks = [self._at_best(shape) for shape, _ in demands]
        self._left = [count for _, count in demands]
        self._chosen: dict[tuple[int, int], int] = {}
        self._seen: set[frozenset[tuple[tuple[int, int], int]]] = set()

    def run(self) -> Places | None:
        """Depth-first search with an explicit stack, so that the depth is not limited by recursion."""
        taken: list[_Choice] = []
        ahead = [self._choices()]
        while ahead:
            choice = next(ahead[-1], None)
            if choice is None or not self._work.is_left:
                ahead.pop()
                if taken:
                    self._move(taken.pop(), -1)
                continue
            self._move(choice, 1)
            if not any(self._left):
                return self._places()
            arrangement = frozenset(self._chosen.items())
            if arrangement in self._seen:
                self._move(choice, -1)
                continue
            self._seen.add(arrangement)
            taken.append(choice)
            ahead.append(self._choices())
        return None

    def _move(self, choice: _Choice, sign: int) -> None:
        index, row, count = choice
        node_search.charge(self._snapshot, self._demands[index][0], row, sign * count)
        self._left[index] -= sign * count
        indexes.count(self._chosen, (index, row), sign * count)

    def _choices(self) -> Iterator[_Choice]:
        """Returns the possible next steps; none if some demand has too little room left."""
        waiting = [index for index in self._queue if self._left[index]]
        found = {index: self._room(index) for index in waiting}
        if any(int(room.sum()) < self._left[index] for index, room in found.items()):
            return iter(())
        return self._of_first(waiting)

    def _of_first(self, waiting: Sequence[int]) -> Iterator[_Choice]:
        """Yields the rows for one member of the first demand that has a feasible node."""
        for index in waiting:
            shape, _ = self._demands[index]
            self._work.look(self._snapshot, shape, 1)
            room = rooms(self._snapshot, shape, node_search.allowed(self._snapshot, shape), self._left[index])
            later = [self._demands[other] for other in waiting if other != index]
            rows = tight_rows(self._snapshot, (shape, self._left[index]), room, later)[:_WIDTH].tolist()
            if rows:
                yield from ((index, row, 1) for row in rows)
                return

    def _room(self, index: int) -> IntColumn:
        self._work.look(self._snapshot)
        return rooms(self._snapshot, self._demands[index][0], self._masks[index], self._left[index])

    def _at_best(self, shape: RequestShape) -> BoolColumn:
        """Rows that the shape could use if all inter-pod rules were satisfied."""
        found = node_properties.allowed(shape.constraints, self._snapshot.nodes)
        return found if self._snapshot.within is None else found & self._snapshot.within

    def _places(self) -> Places:
        at = self._snapshot.nodes.rows.at
        return Places(
            tuple(
                tuple((at(row), count) for (owner, row), count in self._chosen.items() if owner == index)
                for index in range(len(self._demands))
            )
        )


_MOST_TRIES: Final = 8

#: Number of domains that are tried for linked members: this many with the least, and with the most, room.
_MOST_DOMAINS: Final = 4

#: The exact search may cost this many times as much as a search, if the first attempts were cheap.
_EXACT: Final = 4

#: Cost of the use of one node, as a number of evaluated rows.
_SPOT: Final = 30

_WHEREVER: Final[Mapping[int, BoolColumn]] = MappingProxyType({})

#: The search after the first attempt may always cost this many times as much as that attempt.
_AGAIN: Final = 3


def place_all(
    snapshot: Snapshot,
    demands: Sequence[MemberDemand],
    sort: NodeSort,
    work: Work | None = None,
    *,
    is_thorough: bool = True,
) -> Places | Shortage:
    """Returns nodes for all members and charges the snapshot, or a shortage with the snapshot unchanged.

    The shortage is of a demand that does not fit even alone, else that of the first attempt. `is_thorough`: False = it
    makes the first attempt only.
    """
    work = work or Work()
    queue = most_constrained_first(snapshot, demands)
    liked, *others = fills(sort)
    first = _try(snapshot, demands, queue, liked, work)
    if isinstance(first, Places) or not is_thorough or first.alone or not _may_hold(snapshot, demands):
        return first
    work.begin(_AGAIN)
    after = moved(queue, demands, first.demand)
    needed = needed_first(snapshot, demands, queue)
    begins = [after, needed] if needed != queue else [after]
    for begin, fill in (*((begin, liked) for begin in begins), *((queue, fill) for fill in others)):
        answer = _try_orders(snapshot, demands, begin, fill, work)
        if isinstance(answer, Places) or (answer is not None and answer.alone):
            return answer
    answer = _try_nearby_nodes(snapshot, demands, needed, liked, work)
    if answer is not None:
        return answer
    shapes = [shape for shape, _ in demands]
    if not any(depends_on_others(shape) or stateful_filters(snapshot, shape) for shape in shapes):
        work.begin_exact(_EXACT)
        return pack(snapshot, demands, work) or first
    return search(snapshot, demands, queue, work) or search(snapshot, demands, after, work) or first


def _try_orders(
    snapshot: Snapshot, demands: Sequence[MemberDemand], queue: list[int], fill: PlacingMethod, work: Work
) -> Places | Shortage | None:
    """Tries several orders. After each failure the demand that fell short moves forward. None = nothing was tried."""
    answer: Places | Shortage | None = None
    tried: set[tuple[int, ...]] = set()
    while work.is_left and tuple(queue) not in tried and len(tried) < min(len(demands), _MOST_TRIES):
        tried.add(tuple(queue))
        answer = _try(snapshot, demands, queue, fill, work)
        if isinstance(answer, Places) or answer.alone:
            break
        queue = moved(queue, demands, answer.demand)
    return answer


def _try_nearby_nodes(
    snapshot: Snapshot, demands: Sequence[MemberDemand], queue: Sequence[int], fill: PlacingMethod, work: Work
) -> Places | None:
    """Places all linked members in one domain that is chosen before any of them is placed.

    Otherwise the first member may get a domain in which the members placed later do not fit.
    """
    linked_demands, keys = linked(snapshot, demands)
    for key in keys:
        found = requests.values(snapshot, key)
        shares = requests.shares_of(snapshot, [demands[index] for index in sorted(linked_demands)], found)
        for code in found.able(shares, _MOST_DOMAINS):
            if not work.is_left:
                return None
            answer = _try(snapshot, demands, queue, fill, work, {index: found.rows(code) for index in linked_demands})
            if isinstance(answer, Places):
                return answer
    return None


def _try(
    snapshot: Snapshot,
    demands: Sequence[MemberDemand],
    queue: Sequence[int],
    fill: PlacingMethod,
    work: Work,
    within: Mapping[int, BoolColumn] = _WHEREVER,
) -> Places | Shortage:
    """Places the demands in this order. Returns nodes and charges the snapshot, or a shortage.

    `within`: the only rows that a demand may use.
    """
    fork = snapshot.fork()
    found: dict[int, Spots] = {}
    for position, index in enumerate(queue):
        shape, count = demands[index]
        later = [demands[one] for one in queue[position + 1 :]]
        work.look(fork, shape, count)
        if fill is tightly:
            work.read(fork, len(later))
        if within:
            fork.within = _both(snapshot.within, within.get(index))
        found[index] = fill(fork, demands[index], later)
        work.pay(_SPOT * len(found[index]))
        missing = count - sum(there for _, there in found[index])
        if missing:
            work.read(fork, 1)
            alone = not position and not depends_on_members(shape)
            return Shortage(index, missing, unschedulable_reason(fork, shape), count, alone)
    snapshot.absorb(fork)
    return Places(tuple(found[index] for index in range(len(demands))))


def _both(one: BoolColumn | None, other: BoolColumn | None) -> BoolColumn | None:
    """Intersection of two sets of rows; None = all rows."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _may_hold(snapshot: Snapshot, demands: Sequence[MemberDemand]) -> bool:
    """Whether the total available resources of the allowed nodes cover the total request."""
    asked, open_rows = NOTHING, np.zeros(snapshot.size, dtype=np.bool_)
    for shape, count in demands:
        asked = asked.plus(shape.resources, count)
        open_rows |= node_properties.allowed(shape.constraints, snapshot.nodes)
    if snapshot.within is not None:
        open_rows &= snapshot.within
    for name, amount in asked.items():
        column = snapshot.available(name)
        if column is None or int(np.maximum(column[open_rows], 0).sum()) < amount:
            return False
    return True


def missing_on_empty_nodes(nodes: NodeTable, members: Sequence[MemberDemand]) -> Shortage | None:
    """Returns the shortage if only foreign pods (`occupied`) used the nodes. None = all members would fit.

    See docs/internals/semantics.md, rule 10.
    """
    answer = place_all(emptied(nodes), members, NodeSort(NodeOrder.BINPACKING))
    if isinstance(answer, Places):
        return None
    counts = answer.why.counts
    return replace(answer, why=UnschedulableReason(ReasonKind.CLUSTER, counts=counts, nodes=answer.why.nodes))
