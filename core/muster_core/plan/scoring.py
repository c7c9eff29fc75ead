"""Which of the nodes that fit is preferred: `fair` the least used first, `binpacking` the fullest; and by facts.

`utilization` is `fair` by what nodes report to use, with what was placed since
on top; a node without a report counts as used what is allocated on it.

A node's used share is the mean over the weighted resources of what is taken of
its capacity; a resource that it does not have counts as unused. An ask for
none of the weighted resources is spread by the number of pods instead, else
all of them would end on one node. Ties go to the lowest node id (style 18).
On top come kube-scheduler's scores of what the pod itself prefers (liking/node_facts).
What nobody wrote counts only where no order is configured: images that lie on a node,
and how evenly it is used (liking/balance). All are in its measure: the share that is
used is a key of up to 1 for its 100 points (ADR 0017).

Differs: preferences in the pod's own spec are added to the configured node order, and images and balance too if no
order is configured; YuniKorn uses the order alone.

Source: contract 2.2, nodesortpolicy; Kubernetes 1.36, the default profile of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heapreplace
from typing import Final

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.facts import Preferences
from muster_core.plan.draft import Draft
from muster_core.plan.liking import node_facts
from muster_core.plan.liking.balance import Amount, Balance
from muster_core.plan.shape import Shape
from muster_core.world.columns import FloatColumn, IntColumn, most_kept
from muster_core.world.standings import Standing, Standings

#: A row and how many go there.
Fill = tuple[int, int]
#: Key, rank and position of one row.
_Place = tuple[float, int, int]
_ALL: Final = slice(None)


_BY_PODS = (("pods", 1.0),)
#: What balance is about.
_EVEN: Final = ("vcore", "memory")

#: kube-scheduler's points for a node that is as good as can be; a key of 1 is that far from best.
POINTS: Final = 100.0


def _that_count(preferences: Preferences, sort: NodeSort) -> Preferences:
    """Without images where an order of nodes is configured: the pod does not ask for them."""
    if sort.balanced or not (preferences.images or preferences.volume_images):
        return preferences
    return Preferences(preferences.terms)


class Preference:
    """How a shape sees the nodes: a key per row, the lowest is preferred."""

    __slots__ = ("_about", "_balance", "_liked", "_parts", "_ranks", "_size", "_standings")

    def __init__(self, draft: Draft, shape: Shape, sort: NodeSort) -> None:
        asked = shape.resources
        weights = sort.weights if any(asked[name] for name, weight in sort.weights if weight > 0) else _BY_PODS
        total = sum(weight for _, weight in weights)
        self._size = draft.size
        self._ranks = draft.nodes.rows.ranks()
        self._parts: list[tuple[float, int, IntColumn, IntColumn, FloatColumn]] = []
        for name, weight in weights:
            capacity, available = draft.capacity(name), draft.available(name)
            if capacity is not None and available is not None and weight > 0:
                factor = _SIGNS[sort.order] * weight / total
                whole = _whole(draft, name, capacity, sort)
                self._parts.append((factor, asked[name], whole, available, _reciprocal(draft, name, capacity)))
        preferences = _that_count(shape.occupant.facts.preferences, sort)
        liked = node_facts.points(shape.constraints, preferences, draft.nodes)
        self._liked: FloatColumn | None = liked
        self._balance = _balance(draft, shape) if sort.balanced else None
        self._standings = draft.nodes.standings if draft.is_bare else None
        wishes = None if liked is None else (shape.constraints, preferences)
        self._about: Hashable = (asked, sort, wishes)

    def keys(self, rows: IntColumn | None = None, placed: int = 0) -> FloatColumn:
        """The key of every row, or of some, as it is now, or after `placed` more."""
        at: IntColumn | slice = _ALL if rows is None else rows
        keys = np.zeros(self._size if rows is None else len(rows))
        if self._liked is not None:
            keys += self._liked[at] / -POINTS
        for factor, amount, capacity, available, reciprocal in self._parts:
            used = capacity[at] - available[at]
            if placed:
                used += placed * amount
            share = used * reciprocal[at]
            share *= factor
            keys += share
        if self._balance is not None:
            keys += self._balance.keys(at, placed)
        return keys

    def key(self, row: int, placed: int) -> float:
        """The key of one row after `placed` more: to the last bit what `keys` would say then."""
        key = 0.0 if self._liked is None else self._liked.item(row) / -POINTS
        for factor, amount, capacity, available, reciprocal in self._parts:
            used = capacity.item(row) - available.item(row) + placed * amount
            key += used * reciprocal.item(row) * factor
        if self._balance is not None:
            key += self._balance.key(row, placed)
        return key

    def ordered(self, rows: IntColumn) -> tuple[IntColumn, FloatColumn]:
        """Positions of the rows in the order of preference, and their keys in that order."""
        keys = self.keys(rows)
        order = np.lexsort((self._ranks[rows], keys))
        return order, keys[order]

    def ranks(self, rows: IntColumn) -> list[int]:
        """Each row's place among equals."""
        found: list[int] = self._ranks[rows].tolist()
        return found

    def first(self, rows: IntColumn) -> int:
        """The most preferred of the rows, of which there is at least one."""
        keys = self._of(rows)
        ties = rows[keys == keys[keys.argmin()]]
        return int(ties[self._ranks[ties].argmin()])

    def best(self, rows: IntColumn, count: int) -> IntColumn:
        """The `count` most preferred of the rows, in no order; all if there are fewer."""
        if count >= len(rows):
            return rows
        keys = self._of(rows)
        ties = rows[keys == keys.min()]
        if len(ties) >= count:  # nodes that are all alike: nothing is to be sorted
            return self._foremost(ties, count)
        edge = np.partition(keys, count - 1)[count - 1]
        inside, ties = rows[keys < edge], rows[keys == edge]
        return np.concatenate((inside, self._foremost(ties, count - len(inside))))

    def _of(self, rows: IntColumn) -> FloatColumn:
        """The keys of the rows as they are now, to be read only."""
        keys = self.keys() if self._standings is None else self._standing(self._standings)
        return keys if len(rows) == self._size else keys[rows]

    def _standing(self, standings: Standings) -> FloatColumn:
        """The keys of all rows, of which those are made anew that changed since somebody asked last."""
        known = standings.kept.get(self._about)
        changed = standings.since(known.seen) if known is not None and known.liked is self._liked else None
        if known is None or changed is None or len(changed) > self._size // 4:
            if len(standings.kept) >= most_kept(self._size, 8):
                standings.kept.clear()
            known = standings.kept[self._about] = Standing(self.keys(), self._liked, standings.now)
        elif changed:
            rows = np.array(changed, dtype=np.int64)
            known.keys[rows] = self.keys(rows)
            known.seen = standings.now
        return known.keys

    def _foremost(self, ties: IntColumn, count: int) -> IntColumn:
        """So many of rows that are equally preferred: the lowest node ids."""
        if count >= len(ties):
            return ties
        ranks = self._ranks[ties]
        if (ranks[1:] > ranks[:-1]).all():  # nodes mostly come in the order of their names
            return ties[:count]
        return ties[np.argpartition(ranks, count - 1)[:count]]


def _balance(draft: Draft, shape: Shape) -> Balance | None:
    """None where no node has one of the two, or the pod asks for neither: all of these would go to one node."""
    amounts: list[Amount] = []
    for name in _EVEN:
        capacity, available = draft.capacity(name), draft.available(name)
        if capacity is not None and available is not None:
            amounts.append((capacity, available, _reciprocal(draft, name, capacity)))
    asked = shape.resources[_EVEN[0]], shape.resources[_EVEN[1]]
    return Balance(amounts[0], amounts[1], asked) if len(amounts) == len(_EVEN) and any(asked) else None


def _whole(draft: Draft, name: str, capacity: IntColumn, sort: NodeSort) -> IntColumn:
    """What is used is this less what is available."""
    measured = draft.nodes.measured(name) if sort.order is NodeOrder.UTILIZATION else None
    return capacity if measured is None else capacity + measured


def _reciprocal(draft: Draft, name: str, capacity: IntColumn) -> FloatColumn:
    known = draft.nodes.reciprocals.get(name)
    if known is None:
        known = draft.nodes.reciprocals[name] = 1.0 / np.maximum(capacity, 1)
    return known


def spread(preference: Preference, rows: IntColumn, room: IntColumn, count: int) -> list[Fill]:
    """One after the other onto the node that is least used at that moment. `room`: of each of the rows, 1 or more."""
    order, keys = preference.ordered(rows)
    rows, room = rows[order], room[order]
    after = preference.keys(rows, 1)
    if count <= len(rows) and after[:count].min() > keys[count - 1]:
        # Whoever got one is less preferred from then on than all who are still to get theirs: one each, and done.
        return [(row, 1) for row in rows[:count].tolist()]
    heap = list(zip(keys.tolist(), preference.ranks(rows), range(len(rows)), strict=True))
    return _one_by_one(preference, heap, (rows.tolist(), room.tolist(), after.tolist()), count)


def _one_by_one(
    preference: Preference, heap: list[_Place], known: tuple[list[int], list[int], list[float]], count: int
) -> list[Fill]:
    """`heap`: in the order of preference; `known`: row, room, and key after the first place, of each position."""
    rows, room, after = known
    placed: dict[int, int] = {}
    while count and heap:
        _, rank, at = heap[0]
        count -= 1
        row = rows[at]
        placed[row] = there = placed.get(row, 0) + 1
        if there < room[at]:
            heapreplace(heap, (after[at] if there == 1 else preference.key(row, there), rank, at))
        else:
            heappop(heap)
    return list(placed.items())


def pack(preference: Preference, rows: IntColumn, room: IntColumn, count: int) -> list[Fill]:
    """Node after node, the fullest first, each until nothing more fits. `room`: of each of the rows."""
    order, _ = preference.ordered(rows)
    fills: list[Fill] = []
    for row, most in zip(rows[order].tolist(), room[order].tolist(), strict=True):
        if not count:
            break
        there = min(most, count)
        fills.append((row, there))
        count -= there
    return fills


Filler = Callable[[Preference, IntColumn, IntColumn, int], list[Fill]]
_SIGNS: Final = {NodeOrder.FAIR: 1.0, NodeOrder.BINPACKING: -1.0, NodeOrder.UTILIZATION: 1.0}
FILLERS: Final[dict[NodeOrder, Filler]] = {
    NodeOrder.FAIR: spread,
    NodeOrder.BINPACKING: pack,
    NodeOrder.UTILIZATION: spread,
}
