"""Exact search for nodes for members that need nothing but resources and nodes with certain properties.

Decides node by node how many members of each class it gets. A node always gets so many that no further member fits:
a member of a later node could move there. A choice ends where the rest of the nodes has too little left, and an
arrangement of the rest is never searched twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster_core.placement import node_search
from muster_core.placement.search.requests import MemberDemand, Places, Work, rooms
from muster_core.state.snapshot import Snapshot

#: Number of members by class.
_Counts = tuple[int, ...]

#: Nodes that one search uses: of more, those that could hold the largest part of the gang.
_NODES: Final = 512

#: Choices for one node that are compared.
_CHOICES: Final = 512

#: Classes of one search.
_CLASSES: Final = 64

#: Cost of one class in a step, as a number of evaluated rows.
_STEP: Final = 100


def pack(snapshot: Snapshot, demands: Sequence[MemberDemand], work: Work) -> Places | None:
    """Returns nodes for all members and charges the snapshot, or returns None.

    Every step is charged, and the search ends when no work is left. A gang of very many classes returns None at once.
    """
    work.read(snapshot, len(demands))
    if len(demands) > _CLASSES or not work.is_left:
        return None
    names = list(dict.fromkeys(name for shape, _ in demands for name in shape.resources))
    sizes = [tuple(shape.resources[name] for name in names) for shape, _ in demands]
    fits = np.stack([rooms(snapshot, shape, node_search.allowed(snapshot, shape), count) for shape, count in demands])
    shares = (fits / np.array([count for _, count in demands])[:, None]).sum(axis=0)
    rows = np.flatnonzero(shares)
    rows = rows[np.lexsort((snapshot.nodes.rows.ranks()[rows], -shares[rows]))][:_NODES]
    work.pay(_STEP * len(demands) * len(rows))
    found = (snapshot.available(name) for name in names)
    amounts = np.stack([np.zeros(len(rows), np.int64) if one is None else np.maximum(one[rows], 0) for one in found])
    search = _PatternSearch(sizes, [count for _, count in demands], amounts.T.tolist(), fits[:, rows].T.tolist(), work)
    spots: list[list[tuple[int, int]]] = [[] for _ in demands]
    chosen = search.run()
    if chosen is None:
        return None
    for at, counts in chosen:
        for index, count in enumerate(counts):
            if count:
                spots[index].append((rows.item(at), count))
    for (shape, _), there in zip(demands, spots, strict=True):
        node_search.charge_all(snapshot, shape, there)
    node = snapshot.nodes.rows.at
    return Places(tuple(tuple((node(row), count) for row, count in there) for there in spots))


@dataclass(slots=True, eq=False)
class _PatternSearch:
    """One search. `sizes`: resources of a member, per class. `nodes`: what is free on each node; `rooms`: how many
    members of each class a node could hold by itself.
    """

    sizes: Sequence[tuple[int, ...]]
    wanted: Sequence[int]
    nodes: Sequence[Sequence[int]]
    rooms: Sequence[Sequence[int]]
    work: Work
    #: The largest request of each resource.
    _scale: tuple[int, ...] = field(init=False)
    _known: dict[tuple[tuple[int, ...], _Counts], list[_Counts]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._scale = tuple(map(max, zip(*self.sizes, strict=True)))

    def run(self) -> list[tuple[int, _Counts]] | None:
        """Returns the members of each used node, by its position. Depth-first, without recursion."""
        rooms = self.rooms
        order = sorted(range(len(rooms)), key=lambda at: (sum(rooms[at]), at))
        #: What the nodes from each position on can hold: members by class, and resources.
        rest = [(*(0 for _ in self.wanted), *(0 for _ in self.sizes[0]))]
        for at in reversed(order):
            rest.append(tuple(map(sum, zip(rest[-1], (*rooms[at], *self.nodes[at]), strict=True))))
        rest.reverse()
        failed: set[tuple[int, _Counts]] = set()
        left = tuple(self.wanted)
        taken: list[tuple[_Counts, _Counts]] = []
        ahead = [self._choices(order, 0, left, rest)]
        while ahead:
            counts = next(ahead[-1], None) if self.work.is_left else None
            if counts is None:
                ahead.pop()
                failed.add((len(ahead), left))
                if taken:
                    left, _ = taken.pop()
                continue
            after = tuple(one - other for one, other in zip(left, counts, strict=True))
            at = len(ahead)
            if not any(after):
                chosen = [*(counts for _, counts in taken), counts]
                return [(order[position], one) for position, one in enumerate(chosen)]
            if (at, after) in failed or at == len(order):
                continue
            taken.append((left, counts))
            left = after
            ahead.append(self._choices(order, at, left, rest))
        return None

    def _choices(
        self, order: Sequence[int], position: int, left: _Counts, rest: Sequence[tuple[int, ...]]
    ) -> Iterator[_Counts]:
        """Yields what the node may get, those first that leave the least free, if the nodes behind it suffice then."""
        self._pay(4)
        behind = rest[position + 1]
        asked = [sum(amounts) for amounts in zip(*self._amounts(left), strict=True)]
        classes = len(left)
        for counts in self._patterns(order[position], left):
            self._pay()
            if any(one - there > room for one, there, room in zip(left, counts, behind, strict=False)):
                continue
            used = [sum(amounts) for amounts in zip(*self._amounts(counts), strict=True)]
            if all(want - there <= room for want, there, room in zip(asked, used, behind[classes:], strict=True)):
                yield counts

    def _amounts(self, counts: _Counts) -> Iterator[tuple[int, ...]]:
        return (tuple(count * part for part in size) for size, count in zip(self.sizes, counts, strict=True))

    def _patterns(self, at: int, left: _Counts) -> list[_Counts]:
        """All numbers of members for which no further one fits, those that leave the least free first."""
        most = tuple(map(min, left, self.rooms[at]))
        key = tuple(self.nodes[at]), most
        known = self._known.get(key)
        if known is None:
            found: list[tuple[float, _Counts]] = []
            self._extend(self.nodes[at], most, (), found)
            known = self._known[key] = [counts for _, counts in sorted(found)]
        return known

    def _pay(self, steps: int = 1) -> None:
        """Charges so many steps over all classes."""
        self.work.pay(steps * _STEP * (1 + len(self.wanted)))

    def _extend(self, free: Sequence[int], most: _Counts, counts: _Counts, found: list[tuple[float, _Counts]]) -> None:
        """Adds all choices that begin with these counts to `found`, as far as there is work left."""
        index = len(counts)
        if not self.work.is_left or len(found) >= _CHOICES:
            return
        if index == len(most):
            self._pay()
            more = (
                there < limit and all(part <= left for part, left in zip(size, free, strict=True))
                for there, limit, size in zip(counts, most, self.sizes, strict=True)
            )
            if not any(more):
                found.append((sum(left / (1 + part) for left, part in zip(free, self._scale, strict=True)), counts))
            return
        size = self.sizes[index]
        limit = min(most[index], *(left // part for left, part in zip(free, size, strict=True) if part))
        self._pay()
        is_last = index + 1 == len(most) or self._holds(free, most, index)
        for count in (limit,) if is_last else range(limit, -1, -1):
            self._extend(
                [left - count * part for left, part in zip(free, size, strict=True)], most, (*counts, count), found
            )

    def _holds(self, free: Sequence[int], most: _Counts, index: int) -> bool:
        """Whether everything that is left from this class on fits, so that nothing else is a choice."""
        sizes = zip(most[index:], self.sizes[index:], strict=True)
        whole = map(sum, zip(*(tuple(count * part for part in size) for count, size in sizes), strict=True))
        return all(amount <= left for amount, left in zip(whole, free, strict=True))
