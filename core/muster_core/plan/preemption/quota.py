"""Victims where a queue uses more than its maximum, for that was lowered under it (contract 10.3).

What is over is dealt to the queues below in proportion to what they use beyond
their guarantees, rounded down, down to the leaves; what a leaf cannot give
another one gives. No ask has to wait for it, and neither fences nor priorities
between queues count. In a leaf those that are no originator go first, then
those that did not opt out, then who frees most of what is over; then the lower
priority, a place without a pod, the younger, the smaller. No queue falls below its guarantee.

Bounded: of many allocations only the youngest are looked at; while the queue
stays over its maximum for that, the next ones follow at once.

Differs: for a lowered maximum a victim larger than what is over goes too, if nothing smaller is left; YuniKorn stays
over the maximum then.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from muster_core.model.decisions import QuotaPreemption
from muster_core.model.limits import ALLOCATIONS_PER_QUOTA_PREEMPTION
from muster_core.model.resources import NOTHING, Resources
from muster_core.plan.preemption.candidates import Candidate, Ranking, is_eligible, youngest_first
from muster_core.plan.preemption.guarantee import fewest, positive
from muster_core.plan.preemption.rights import Balance, leaves_below, remaining
from muster_core.world.preemptions import PlaceId
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: At least so many allocations of each leaf are looked at.
_LEAST_OF_A_LEAF: Final = 16
#: So many times more are looked at for that, of which some may not go.
_TRIED: Final = 8


def excess(queue: Queue) -> Resources:
    """By how much the queue is over its maximum once what was told to go is gone."""
    return queue.max.excess(remaining(queue))


def plan(partition: Partition, queue: Queue) -> QuotaPreemption | None:
    """Who has to go; None = nothing is over, or nobody may."""
    over = excess(queue)
    if not over:
        return None
    balance = Balance(queue)
    chosen: dict[PlaceId, Candidate] = {}
    leaves = list(leaves_below(queue))
    at_most = max(ALLOCATIONS_PER_QUOTA_PREEMPTION // len(leaves), _LEAST_OF_A_LEAF)
    rest = over
    for leaf, share in _shares(queue, over):
        rest = positive(rest - _take(partition, leaf, share, balance, chosen, at_most))
    for leaf in leaves:
        if not rest or len(chosen) >= ALLOCATIONS_PER_QUOTA_PREEMPTION:
            break
        rest = positive(rest - _take(partition, leaf, rest, balance, chosen, at_most))
    return QuotaPreemption(partition.id, queue.path, tuple(chosen)) if chosen else None


def _shares(root: Queue, over: Resources) -> list[tuple[Queue, Resources]]:
    """What each leaf below is to give."""
    found: list[tuple[Queue, Resources]] = []
    waiting = [(root, over)]
    while waiting:
        queue, amount = waiting.pop()
        if queue.is_leaf:
            found.append((queue, amount))
            continue
        children = list(queue.children.values())
        beyond = [positive(remaining(child) - child.guaranteed) for child in children]
        whole = sum(beyond, NOTHING)
        for child, own in zip(children, beyond, strict=True):
            part = Resources({name: total * own[name] // whole[name] for name, total in amount.items() if whole[name]})
            if part:
                waiting.append((child, part))
    return found


def _take(
    partition: Partition,
    leaf: Queue,
    amount: Resources,
    balance: Balance,
    chosen: dict[PlaceId, Candidate],
    at_most: int,
) -> Resources:
    """Choose victims of one leaf until it gave the amount, or as much of it as it can; returns what they free."""
    ranking = Ranking(partition)
    found = (
        ranking.candidate(app, one, one.spec.priority)
        for app, one in islice(youngest_first(partition, leaf), at_most * _TRIED)
        if (app.id, one.id) not in chosen and is_eligible(one, amount)
    )
    candidates = sorted(islice(found, at_most), key=lambda candidate: _order(candidate, amount))
    freed = NOTHING
    for victim in fewest(candidates, amount, balance, enough=False) or ():
        balance.lose(leaf, victim.resources)
        chosen[victim.id] = victim
        freed += victim.resources
    return freed


def _order(candidate: Candidate, over: Resources) -> tuple[bool, bool, float, int, bool, int, float, int]:
    spec = candidate.allocation.spec
    matching = sum(1 for name in spec.resources if name in over) / max(sum(1 for _ in spec.resources), 1)
    since = -candidate.allocation.allocated_ns
    opted_out = not spec.allow_preempt_self
    value = (spec.originator, opted_out, -matching, spec.priority)
    return *value, not spec.podless, since, candidate.cost, candidate.key[-1]
