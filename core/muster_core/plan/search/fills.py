"""Ways to place all members of one shape, best liked first: as the partition sorts nodes, packed, or snugly.

Snug is packed with an eye on the others: nodes that the fewest of the shapes
still to come may use go first, then those on which least is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.search.demand import Demand, Spots, is_entangled, rooms, weight
from muster_core.world.columns import IntColumn

#: Places for a demand, with those that come after it; the draft is charged.
Fill = Callable[[Draft, Demand, Sequence[Demand]], Spots]


def fills(sort: NodeSort) -> tuple[Fill, ...]:
    """In the order in which they are tried."""
    packing = NodeSort(NodeOrder.BINPACKING, sort.weights)
    return (_sorted(sort), snugly) if sort.order is NodeOrder.BINPACKING else (_sorted(sort), _sorted(packing), snugly)


def _sorted(sort: NodeSort) -> Fill:
    def fill(draft: Draft, demand: Demand, later: Sequence[Demand]) -> Spots:
        return tuple(fit.place(draft, *demand, sort))

    return fill


def snugly(draft: Draft, demand: Demand, later: Sequence[Demand]) -> Spots:
    """Node after node, each until nothing more fits."""
    shape, count = demand
    if is_entangled(shape):
        return tuple(fit.place(draft, shape, count, NodeSort(NodeOrder.BINPACKING)))
    room = rooms(draft, shape, fit.allowed(draft, shape), count)
    ordered = snug_rows(draft, demand, room, later)
    until = np.cumsum(room[ordered])
    spots: list[tuple[int, int]] = []
    for row, total in zip(ordered.tolist(), until.tolist(), strict=True):
        before = total - room.item(row)
        if before >= count:
            break
        spots.append((row, min(total, count) - before))
    for row, there in spots:
        fit.charge(draft, shape, row, there)
    return tuple((draft.nodes.rows.at(row), there) for row, there in spots)


def snug_rows(draft: Draft, demand: Demand, room: IntColumn, later: Sequence[Demand]) -> IntColumn:
    """The rows with room: first where the fewest of those to come have any, then where least is left over."""
    rows = np.flatnonzero(room)
    rivals = np.zeros(len(rows), dtype=np.int64)
    for other, _ in later:
        rivals += rooms(draft, other, fit.allowed(draft, other), 1)[rows]
    shape, _ = demand
    left = weight(draft, shape, rows) - (room[rows] * 1e9 * _sum_of_shares(draft, demand)).astype(np.int64)
    return rows[np.lexsort((draft.nodes.rows.ranks()[rows], left, rivals))]


def _sum_of_shares(draft: Draft, demand: Demand) -> float:
    total = draft.nodes.capacity_total
    return sum(amount / max(total[name], 1) for name, amount in demand[0].resources.items())
