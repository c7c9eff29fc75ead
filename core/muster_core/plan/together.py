"""Whether members of several shapes fit at the same time: whole or not at all.

The hardest shape goes first (search/order.py). If one does not fit, it moves
to the front and all is tried again; after as many tries as there are shapes,
the nodes are filled in another way: packed instead of spread, then snugly.
Last, single places are taken back (search/members.py). A shape that needs
others beside it (affinity, seed 001) goes after them. Bounded by work and not
by time (search/work.py): it may miss a packing that an exhaustive search would
find, and never claims one that does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from muster_core.model.config import NodeOrder, NodeSort
from muster_core.model.resources import NOTHING
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan.draft import Draft, emptied
from muster_core.plan.feasibility import filters
from muster_core.plan.fit import shortfall
from muster_core.plan.search import members, order
from muster_core.plan.search.demand import Demand, Places, Short, Spots, depends_on_members
from muster_core.plan.search.fills import Fill, fills
from muster_core.plan.search.work import Work
from muster_core.world.nodes import NodeTable

_MOST_TRIES: Final = 8
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


def _try(draft: Draft, demands: Sequence[Demand], queue: Sequence[int], fill: Fill, work: Work) -> Places | Short:
    """Places in this order, with the draft charged; or what was short, with the draft as it was."""
    fork = draft.fork()
    found: dict[int, Spots] = {}
    for position, index in enumerate(queue):
        shape, count = demands[index]
        work.look(fork, shape, count)
        found[index] = fill(fork, demands[index], [demands[later] for later in queue[position + 1 :]])
        missing = count - sum(there for _, there in found[index])
        if missing:
            alone = not position and not depends_on_members(shape)
            return Short(index, missing, shortfall(fork, shape), count, alone)
    draft.absorb(fork)
    return Places(tuple(found[index] for index in range(len(demands))))


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
