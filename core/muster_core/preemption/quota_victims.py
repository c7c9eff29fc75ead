"""Selects victims for a queue above its lowered maximum.

Its usage above the maximum is divided among the child queues in proportion to their usage above their guarantees.

Differs: for a lowered maximum, a victim larger than the excess is selected if there is no smaller one; YuniKorn then
stays above the maximum.

Differs: for a lowered maximum, no victim is selected that the excess does not require; YuniKorn selects victims in each
leaf until its part of the excess is covered, which can release more than the excess."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from muster_core.model.decisions import QuotaPreemption
from muster_core.model.limits import ALLOCATIONS_PER_QUOTA_PREEMPTION
from muster_core.model.resources import NOTHING, Resources
from muster_core.preemption.candidates import Candidate, Ranking, fewest, is_eligible, positive, without_idle
from muster_core.preemption.guarantees import GuaranteeBalance, leaves_below, remaining
from muster_core.state.applications import Allocation, Application
from muster_core.state.queues import Queue
from muster_core.state.reservations import PlaceId
from muster_core.state.scheduler_state import Partition

#: Allocations that one event ranks in each leaf, at least.
_LEAST_OF_A_LEAF: Final = 16

#: This many times more allocations are read, because some of them are not eligible.
_TRIED: Final = 8


def excess(queue: Queue) -> Resources:
    """Returns the usage above the maximum after running releases have ended."""
    return queue.max.excess(remaining(queue))


def plan_for_quota(partition: Partition, queue: Queue) -> QuotaPreemption | None:
    """Selects victims for a queue above its maximum. None = it is not above it, or there are no victims.

    The work of one plan is bounded, so the plan may leave a part of the excess to the next one.
    """
    over = excess(queue)
    if not over:
        return None
    search = _QuotaSearch(partition, GuaranteeBalance(queue))
    cluster = partition.nodes.capacity_total
    shares = sorted(_shares(queue, over), key=lambda item: (-_largest(item[1], cluster), item[0].path))
    rest, surplus = over, NOTHING  # what a leaf releases above its share, because pods are whole, others need not
    for leaf, share in shares:
        if not rest or search.is_over:  # other leaves may have released more than their shares for an earlier plan
            break
        freed = search.take(leaf, positive(share - surplus), len(shares))
        rest, surplus = positive(rest - freed), positive(surplus + freed - share)
    for leaf in leaves_below(queue):
        if not rest or search.is_over:
            break
        rest = positive(rest - search.take(leaf, rest, 1))
    by_order = sorted(search.chosen.values(), key=lambda victim: _quota_victim_order(victim, over, cluster))
    victims = without_idle(by_order, over - rest)
    return QuotaPreemption(partition.id, queue.path, tuple(victim.id for victim in victims)) if victims else None


def _largest(amount: Resources, cluster: Resources) -> float:
    return max((part / max(cluster[name], 1) for name, part in amount.items()), default=0.0)


def _shares(root: Queue, over: Resources) -> list[tuple[Queue, Resources]]:
    """Returns the amount that each leaf below has to release, without what it already releases for this or another
    preemption. Several plans in a row therefore divide the excess as one would.
    """
    found: list[tuple[Queue, Resources]] = []
    waiting = [(root, Resources({name: amount + root.preempting[name] for name, amount in over.items()}))]
    while waiting:
        queue, amount = waiting.pop()
        if queue.is_leaf:
            left = positive(amount - queue.preempting) if queue.preempting else amount
            if left:
                found.append((queue, left))
            continue
        children = list(queue.children.values())
        parts: list[dict[str, int]] = [{} for _ in children]
        for name, total in amount.items():
            beyond = [max(child.allocated[name] - child.guaranteed[name], 0) for child in children]
            whole = sum(beyond)
            for part, own in zip(parts, beyond, strict=True):
                if own:
                    part[name] = total * own // whole
        waiting += [(child, Resources(part)) for child, part in zip(children, parts, strict=True)]
    return found


@dataclass(slots=True)
class _QuotaSearch:
    """Victims of a queue above its maximum, and how much work is left."""

    partition: Partition
    balance: GuaranteeBalance
    chosen: dict[PlaceId, Candidate] = field(default_factory=dict)
    #: Allocations that may still be ranked, and read.
    ranked: int = ALLOCATIONS_PER_QUOTA_PREEMPTION
    read: int = ALLOCATIONS_PER_QUOTA_PREEMPTION * _TRIED

    @property
    def is_over(self) -> bool:
        """Whether no work is left."""
        return self.ranked <= 0 or self.read <= 0

    def take(self, leaf: Queue, amount: Resources, leaves: int) -> Resources:
        """Selects victims in one of so many leaves that free the amount, or as much of it as possible. Returns what
        they free.
        """
        if self.is_over:
            return NOTHING
        at_most = min(max(ALLOCATIONS_PER_QUOTA_PREEMPTION // leaves, _LEAST_OF_A_LEAF), self.ranked)
        ranking, cluster = Ranking(self.partition), self.partition.nodes.capacity_total
        found = [ranking.candidate(app, one, one.spec.priority) for app, one in islice(self._of(leaf, amount), at_most)]
        self.ranked -= len(found)
        freed = NOTHING
        by_order = sorted(found, key=lambda candidate: _quota_victim_order(candidate, amount, cluster))
        for victim in fewest(by_order, amount, self.balance, enough=False) or ():
            self.balance.lose(leaf, victim.resources)
            self.chosen[victim.id] = victim
            freed += victim.resources
        return freed

    def _of(self, leaf: Queue, amount: Resources) -> Iterator[tuple[Application, Allocation]]:
        """Yields what may be preempted in a leaf, that of the newest application first."""
        for name in reversed(leaf.applications):
            app = self.partition.applications[name]
            used = app.allocated + app.gang.allocated
            self.read -= 1
            for one in reversed(app.allocations.values()) if any(map(used.__getitem__, amount)) else ():
                if self.read <= 0:
                    return
                self.read -= 1
                if is_eligible(one, amount) and (app.id, one.id) not in self.chosen:
                    yield app, one


#: Pods of one hour are ordered by size.
_HOUR_NS: Final = 3600 * 1_000_000_000

_QuotaVictimKey = tuple[bool, bool, bool, float, int, bool, int, tuple[float, ...], int, int]


def _quota_victim_order(candidate: Candidate, over: Resources, cluster: Resources) -> _QuotaVictimKey:
    """Returns the ordering key of a victim: the youngest hour first and the smallest within the hour, as in YuniKorn.

    Pods that were preempted before the core restarted are before all others.

    The size is the share of the cluster, largest resource first, and counts only resources above the maximum.
    """
    spec = candidate.allocation.spec
    matching = sum(1 for name in spec.resources if name in over) / max(sum(1 for _ in spec.resources), 1)
    since_ns = candidate.allocation.allocated_ns
    hour = -((spec.created_ns or since_ns) // _HOUR_NS)
    size = tuple(sorted((spec.resources[name] / max(cluster[name], 1) for name in over), reverse=True))
    opted_out = not spec.allow_preempt_self
    value = (not candidate.is_earlier_victim, spec.originator, opted_out, -matching, spec.priority)
    return *value, not spec.is_virtual, hour, size, -since_ns, -candidate.allocation.sequence
