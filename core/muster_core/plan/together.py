"""Whether members of several shapes fit at the same time: whole or not at all.

The hardest shape goes first (search/order.py). If one does not fit, it moves
to the front and all is tried again; after as many tries as there are shapes,
the nodes are filled in another way: packed instead of spread, then snugly.
Members that want each other near are then put into one domain together. Last,
single places are taken back (search/members.py). A shape that needs others
beside it (affinity) goes after them. Bounded by work and not by time
(search/work.py): it may miss a packing that an exhaustive search would find,
and never claims one that does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.resources import NOTHING
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan.draft import Draft, emptied
from muster_core.plan.feasibility import filters
from muster_core.plan.fit import shortfall
from muster_core.plan.search import domains, members, order
from muster_core.plan.search.demand import Demand, Places, Short, Spots, depends_on_members
from muster_core.plan.search.fills import Fill, fills
from muster_core.plan.search.work import Work
from muster_core.world.columns import BoolColumn
from muster_core.world.nodes import NodeTable

_MOST_TRIES: Final = 8
#: Domains in which members that want each other near are tried: so many of the fullest, and of the emptiest.
_MOST_DOMAINS: Final = 4
_WHEREVER: Final[Mapping[int, BoolColumn]] = MappingProxyType({})
#: So many times the work of the first try is always allowed.
_AGAIN: Final = 3


def place_all(draft: Draft, demands: Sequence[Demand], sort: NodeSort, work: Work | None = None) -> Places | Short:
    """Places for all members, with the draft charged; or what was short, with the draft as it was:
    a demand that does not fit even alone, else the one of the first try.
    """
    work = work or Work()
    queue = order.hardest_first(draft, demands)
    liked, *others = fills(sort)
    first = _try(draft, demands, queue, liked, work)
    if isinstance(first, Places) or first.alone or not _may_hold(draft, demands):
        return first
    work.begin(_AGAIN)
    after = order.moved(queue, demands, first.demand)
    needed = order.needed_first(draft, demands, queue)
    begins = [after, needed] if needed != queue else [after]
    for begin, fill in (*((begin, liked) for begin in begins), *((queue, fill) for fill in others)):
        answer = _in_turn(draft, demands, begin, fill, work)
        if isinstance(answer, Places) or (answer is not None and answer.alone):
            return answer
    answer = _near_each_other(draft, demands, needed, liked, work)
    if answer is not None:
        return answer
    return members.search(draft, demands, queue, work) or members.search(draft, demands, after, work) or first


def _in_turn(
    draft: Draft, demands: Sequence[Demand], queue: list[int], fill: Fill, work: Work
) -> Places | Short | None:
    """Try, and try again with who was short before the others; None = nothing was tried."""
    answer: Places | Short | None = None
    tried: set[tuple[int, ...]] = set()
    while work.is_left and tuple(queue) not in tried and len(tried) < min(len(demands), _MOST_TRIES):
        tried.add(tuple(queue))
        answer = _try(draft, demands, queue, fill, work)
        if isinstance(answer, Places) or answer.alone:
            break
        queue = order.moved(queue, demands, answer.demand)
    return answer


def _near_each_other(
    draft: Draft, demands: Sequence[Demand], queue: Sequence[int], fill: Fill, work: Work
) -> Places | None:
    """Places with those that want each other near in one domain, chosen before any of them has a place: who goes
    first knows nothing of the room that those need who come after.
    """
    linked, keys = order.linked(draft, demands)
    for key in keys:
        found = domains.values(draft, key)
        shares = domains.shares_of(draft, [demands[index] for index in sorted(linked)], found)
        for code in found.able(shares, _MOST_DOMAINS):
            if not work.is_left:
                return None
            answer = _try(draft, demands, queue, fill, work, {index: found.rows(code) for index in linked})
            if isinstance(answer, Places):
                return answer
    return None


def _try(
    draft: Draft,
    demands: Sequence[Demand],
    queue: Sequence[int],
    fill: Fill,
    work: Work,
    within: Mapping[int, BoolColumn] = _WHEREVER,
) -> Places | Short:
    """Places in this order, with the draft charged; or what was short, with the draft as it was. `within`: rows that
    a demand keeps to.
    """
    fork = draft.fork()
    found: dict[int, Spots] = {}
    for position, index in enumerate(queue):
        shape, count = demands[index]
        work.look(fork, shape, count)
        if within:
            fork.within = _both(draft.within, within.get(index))
        found[index] = fill(fork, demands[index], [demands[later] for later in queue[position + 1 :]])
        missing = count - sum(there for _, there in found[index])
        if missing:
            alone = not position and not depends_on_members(shape)
            return Short(index, missing, shortfall(fork, shape), count, alone)
    draft.absorb(fork)
    return Places(tuple(found[index] for index in range(len(demands))))


def _both(one: BoolColumn | None, other: BoolColumn | None) -> BoolColumn | None:
    """Rows of both; None = all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _may_hold(draft: Draft, demands: Sequence[Demand]) -> bool:
    """Whether there is enough of everything in all, for those who may go anywhere near it."""
    asked, open_rows = NOTHING, np.zeros(draft.size, dtype=np.bool_)
    for shape, count in demands:
        asked = asked.plus(shape.resources, count)
        open_rows |= filters.allowed(shape.constraints, draft.nodes)
    if draft.within is not None:
        open_rows &= draft.within
    for name, amount in asked.items():
        column = draft.available(name)
        if column is None or int(np.maximum(column[open_rows], 0).sum()) < amount:
            return False
    return True


def lacking_when_empty(nodes: NodeTable, members: Sequence[Demand]) -> Short | None:
    """What would be short if nobody but `occupied` used these nodes; None if all members fit (semantics 10)."""
    answer = place_all(emptied(nodes), members, NodeSort(NodeOrder.BINPACKING))
    if isinstance(answer, Places):
        return None
    counts = answer.why.counts
    return replace(answer, why=Shortfall(Lack.CLUSTER, counts=counts, nodes=answer.why.nodes))
