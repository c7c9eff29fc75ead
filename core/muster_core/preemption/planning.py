"""Selects victims for requests of queues below their guarantee, for DaemonSet pods and for lowered quotas.

For a gang, resources for every incomplete member are found, or no victim is selected. A DaemonSet pod may preempt on
its node regardless of guarantees. Usage above a lowered maximum is divided among the child queues in proportion to
their usage above their guarantees.

Differs: a pod that requires a node never preempts pods of its own application; YuniKorn does.

Differs: victims may together be smaller than the request if the free resources of the node cover the rest, because then
fewer pods are preempted; YuniKorn does not preempt in this case.

Differs: for a lowered maximum, a victim larger than the excess is selected if there is no smaller one; YuniKorn then
stays above the maximum.

Differs: for a lowered maximum, no victim is selected that the excess does not require; YuniKorn selects victims in each
leaf until its part of the excess is covered, which can release more than the excess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import Preemption, QuotaPreemption
from muster_core.model.ids import AllocationKey, NodeId, QueuePath
from muster_core.model.limits import ALLOCATIONS_PER_QUOTA_PREEMPTION, MEMBERS_PER_PREEMPTION
from muster_core.model.resources import NOTHING, Resources
from muster_core.placement import node_search
from muster_core.placement.node_reservations import lift
from muster_core.preemption.candidates import (
    Candidate,
    CandidatePool,
    Ranking,
    in_the_way,
    is_eligible,
    may_run_without,
    move,
    permitted_by_guarantees,
    releasing_on,
    victim_leaves,
    youngest_first,
)
from muster_core.preemption.guarantees import GuaranteeBalance, fence, leaves_below, remaining
from muster_core.queues import quota
from muster_core.state.applications import Application, Ask
from muster_core.state.queues import Queue
from muster_core.state.reservations import PlaceId
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import RequestShape, Snapshot, shape_of

#: Texts of YuniKorn's allocation log.
NO_RIGHT: Final = messages.preemption_without_right()
NO_HELP: Final = messages.preemption_without_help()
TOO_SHORT: Final = messages.preemption_falls_short()
EXHAUSTED: Final = messages.preemption_exhausted()

#: Nodes that one attempt evaluates, and the minimum per member of a gang.
_MOST_NODES: Final = 24
_LEAST_NODES: Final = 4

#: The subset of them where victims are needed for filters and not only for resources.
_MOST_CLEARED: Final = 4


def guarantee_refusal(partition: Partition, app: Application, asks: list[Ask]) -> str:
    """Returns why no victims are searched: too many members, or no entitlement. Empty = a search may help.

    The cost does not grow with the number of members of a request.
    """
    if sum(map(_places, asks)) > MEMBERS_PER_PREEMPTION:
        return EXHAUSTED
    amount = asked(asks)
    if fence(app, amount) is None or quota.is_beyond_limits(partition, app, amount):
        return NO_RIGHT
    return ""


def asked(asks: list[Ask]) -> Resources:
    """Total of the requested resources."""
    return sum((ask.spec.resources.times(_places(ask)) for ask in asks), NOTHING)


def _places(ask: Ask) -> int:
    """Number of members of a virtual placeholder request that is not split yet; 1 for all others."""
    return ask.left if ask.spec.is_virtual else 1


def plan_for_guarantee(
    partition: Partition, app: Application, asks: list[Ask], excluded: Iterable[QueuePath], now_ns: int
) -> Preemption | str:
    """Selects victims so that all requests get a node. Returns the decision, or why preemption does not help.

    `excluded`: leaves without victims.
    """
    refused = guarantee_refusal(partition, app, asks)
    amount = asked(asks)
    bound = fence(app, amount)
    if refused or bound is None:
        return refused or NO_RIGHT
    leaves = victim_leaves(bound.root, amount, (*excluded, app.queue.path))
    priority = min(ask.spec.priority for ask in asks)
    pool = CandidatePool(partition, leaves, app.queue, priority=priority, amount=amount)
    found = pool.sample()
    if not found:
        return NO_HELP
    path = frozenset(queue.path for queue in app.queue.path_up)
    balance = GuaranteeBalance(partition.queues.root, amount, path)
    search = _VictimSearch(partition, _snapshot(partition, asks), pool, found, balance, now_ns)
    places: list[tuple[AllocationKey, NodeId]] = []
    for ask in asks:
        node = search.place(ask, max(_MOST_NODES // len(asks), _LEAST_NODES))
        if node is None:
            return TOO_SHORT if search.chosen or search.freed_some else NO_HELP
        places.append((ask.spec.key, node))
    if not search.free_elsewhere(bound.need):
        return TOO_SHORT
    if not search.chosen:
        return NO_HELP  # releases that are already running make enough room
    return Preemption(partition.id, app.id, tuple(places), tuple(search.chosen))


def _snapshot(partition: Partition, asks: list[Ask]) -> Snapshot:
    """Returns a snapshot of the schedulable nodes for requests that preempt.

    Node reservations do not count, except those for other requests that preempted or that require their node. Pods of
    these requests are planned on their nodes.
    """
    own = {(ask.spec.application, ask.spec.key) for ask in asks}
    snapshot = Snapshot(partition.nodes)
    snapshot.within = snapshot.schedulable
    for name, reservation in partition.reservations.by_ask.items():
        if name in own or not (reservation.preempted or reservation.required):
            snapshot.free(reservation.node, reservation.resources)
        else:
            snapshot.enter(
                partition.nodes.rows.row(reservation.node),
                partition.applications[name[0]].asks[name[1]].kind.pod_on_node,
            )
    return snapshot


@dataclass(frozen=True, slots=True)
class _Solution:
    """Victims on one node. The lowest `key` is the best."""

    key: tuple[int, int, int, int, float, int]
    node: NodeId
    victims: tuple[Candidate, ...]


@dataclass(slots=True)
class _VictimSearch:
    """State of the search over all requests."""

    partition: Partition
    snapshot: Snapshot
    pool: CandidatePool
    found: list[Candidate]
    balance: GuaranteeBalance
    now_ns: int
    chosen: dict[PlaceId, Candidate] = field(default_factory=dict)
    freed_some: bool = False

    def place(self, ask: Ask, at_most: int) -> NodeId | None:
        """Returns the node for one request and selects the victims there, if any. None = no node."""
        shape = shape_of(ask.kind)
        spots = node_search.place(self.snapshot, shape, 1, self.partition.config.node_sort)
        if spots:
            return spots[0][0]
        solutions = [one for node in self._nodes(shape, at_most) if (one := self._solve(node, shape))]
        if not solutions:
            return None
        best = min(solutions, key=lambda solution: solution.key)
        for victim in best.victims:
            self._choose(victim)
        node_search.charge(self.snapshot, shape, self._row(best.node))
        return best.node

    def free_elsewhere(self, need: Resources) -> bool:
        """Selects further victims on any node until the queues have enough quota too."""
        lacking = positive(need - sum((victim.resources for victim in self.chosen.values()), NOTHING))
        if not lacking:
            return True
        left = [candidate for candidate in self.found if candidate.id not in self.chosen]
        more = fewest(left, lacking, self.balance)
        for victim in more or ():
            self._choose(victim)
        return more is not None

    def _nodes(self, shape: RequestShape, at_most: int) -> list[NodeId]:
        """Returns nodes with candidates that are large enough and whose filters allow the request, or may after
        preemption.
        """
        allowed = node_search.allowed(self.snapshot, shape)
        may_help = allowed | node_search.resolvable(self.snapshot, shape)
        nodes = self.snapshot.nodes
        found: dict[NodeId, None] = {}
        to_clear = 0
        for candidate in self.found:
            node = candidate.allocation.node
            row = self._row(node)
            if candidate.id in self.chosen or node in found or not may_help[row]:
                continue
            if nodes.record(node).spec.capacity.covers(shape.resources) and (allowed[row] or to_clear < _MOST_CLEARED):
                found[node] = None
                to_clear += not allowed[row]
                if len(found) >= at_most:
                    break
        return list(found)

    def _solve(self, node: NodeId, shape: RequestShape) -> _Solution | None:
        candidates = [one for one in self.pool.on(node) if one.id not in self.chosen]
        victims = in_the_way(self.snapshot, shape, node, permitted_by_guarantees(candidates, self.balance))
        if victims is None:
            return None
        left = [one for one in candidates if one not in victims]
        more = self._more(node, shape, left, victims)
        if more and not may_run_without(self.snapshot, shape, node, [*victims, *more]):
            left = [one for one in left if may_run_without(self.snapshot, shape, node, [*victims, one])]
            more = self._more(node, shape, left, victims)
        if more is None or not may_run_without(self.snapshot, shape, node, victims := [*victims, *more]):
            return None
        self.freed_some = True
        lost = [victim for victim in victims if not victim.is_earlier_victim]
        key = (
            sum(victim.is_protected for victim in lost),
            len({victim.app.id for victim in lost if victim.breaks_gang}),
            max((victim.priority for victim in lost), default=-(2**31)),
            len(lost),
            sum(victim.cost for victim in lost),
            int(self.snapshot.nodes.rows.ranks()[self._row(node)]),
        )
        return _Solution(key, node, tuple(victims))

    def _more(
        self, node: NodeId, shape: RequestShape, candidates: list[Candidate], victims: list[Candidate]
    ) -> list[Candidate] | None:
        """Returns the candidates that free the missing resources in addition to the victims. None = not enough."""
        room = {
            name: column.item(self._row(node))
            for name in shape.resources
            if (column := self.snapshot.available(name)) is not None
        }
        freed = sum((victim.resources for victim in victims), NOTHING)
        for victim in victims:
            self.balance.lose(victim.app.queue, victim.resources)
        freed += releasing_on(self.partition, node, self.now_ns)
        more = fewest(candidates, positive(shape.resources - Resources(room) - freed), self.balance)
        for victim in victims:
            self.balance.lose(victim.app.queue, victim.resources, -1)
        return more

    def _row(self, node: NodeId) -> int:
        return self.snapshot.nodes.rows.row(node)

    def _choose(self, victim: Candidate) -> None:
        self.chosen[victim.id] = victim
        self.balance.lose(victim.app.queue, victim.resources)
        self.snapshot.free(victim.allocation.node, victim.resources)
        move(self.snapshot, victim, -1)


def fewest(
    candidates: list[Candidate], lacking: Resources, balance: GuaranteeBalance, *, enough: bool = True
) -> list[Candidate] | None:
    """Returns the first candidates that free the missing resources within all guarantees, without unneeded ones.

    None = they free too little; without `enough` they are returned anyway. `balance` is unchanged afterwards.
    """
    victims: list[Candidate] = []
    rest = lacking
    for candidate in candidates:
        if not rest:
            break
        leaf, amount = candidate.app.queue, candidate.resources
        if any(amount[name] for name in rest) and balance.may_release(leaf, amount):
            balance.lose(leaf, amount)
            victims.append(candidate)
            rest = positive(rest - amount)
    for victim in victims:
        balance.lose(victim.app.queue, victim.resources, -1)
    return None if rest and enough else _without_idle(victims, lacking - rest)


def _without_idle(victims: list[Candidate], lacking: Resources) -> list[Candidate]:
    """Removes victims that are not needed, the last in order first."""
    freed = sum((victim.resources for victim in victims), NOTHING)
    kept: list[Candidate] = []
    for victim in reversed(victims):
        if (freed - victim.resources).covers(lacking):
            freed -= victim.resources
        else:
            kept.append(victim)
    return kept[::-1]


def positive(amounts: Resources) -> Resources:
    """The amounts above 0."""
    return Resources({name: amount for name, amount in amounts.items() if amount > 0})


#: Text of YuniKorn's allocation log.
NO_HELP_ON_NODE: Final = messages.preemption_on_node_without_help()


def plan_for_required_node(partition: Partition, app: Application, ask: Ask, now_ns: int) -> Preemption | str:
    """Selects victims on the required node of a DaemonSet pod. Returns the decision, or why there is none."""
    node, asked = ask.spec.required_node, ask.spec.resources
    if node not in partition.nodes or quota.quota_refusal(partition, app, asked) is not None:
        return NO_HELP_ON_NODE  # quotas and limits apply to it like to any other request
    snapshot, shape = Snapshot(partition.nodes), shape_of(ask.kind)
    lift(partition, snapshot, ask.kind, 1)
    own = partition.reservations.by_ask.get((app.id, ask.spec.key))
    if own is not None and own.required:
        snapshot.free(own.node, own.resources)
    candidates = _candidates(partition, app, ask)
    victims = in_the_way(snapshot, shape, node, candidates)
    if victims is None:
        return NO_HELP_ON_NODE
    row = partition.nodes.rows.row(node)
    room = {name: column.item(row) for name in asked if (column := snapshot.available(name)) is not None}
    freed = sum((one.resources for one in victims), releasing_on(partition, node, now_ns))
    lacking = positive(asked - Resources(room) - freed)
    for candidate in candidates:
        if not lacking:
            break
        if candidate not in victims and any(candidate.resources[name] for name in lacking):
            victims.append(candidate)
            lacking = positive(lacking - candidate.resources)
    if lacking or not victims or not may_run_without(snapshot, shape, node, victims):
        return NO_HELP_ON_NODE
    return Preemption(partition.id, app.id, ((ask.spec.key, node),), tuple(victim.id for victim in victims))


def _candidates(partition: Partition, app: Application, ask: Ask) -> list[Candidate]:
    """Returns the allocations on the node that may be preempted for the request, in the order of preemption."""
    there = list(reversed(partition.placed.get(ask.spec.required_node, {}).values()))
    ranking = Ranking(partition)
    pairs = ((partition.applications[one.spec.application], one) for one in there)
    found = (
        ranking.candidate(owner, one, one.spec.priority)
        for owner, one in pairs
        if owner is not app and is_eligible(one, ask.spec.resources) and one.spec.priority <= ask.spec.priority
    )
    return sorted(found, key=_node_victim_order)


def _node_victim_order(candidate: Candidate) -> tuple[bool, bool, bool, int, bool, int, float, int]:
    spec = candidate.allocation.spec
    since = -candidate.allocation.allocated_ns
    first = not candidate.is_earlier_victim, spec.originator, not spec.allow_preempt_self, spec.priority
    return *first, not spec.is_virtual, since, candidate.cost, candidate.key[-1]


#: Minimum number of allocations that are evaluated per leaf.
_LEAST_OF_A_LEAF: Final = 16

#: This many times more allocations are read, because some of them are not eligible.
_TRIED: Final = 8


def excess(queue: Queue) -> Resources:
    """Returns the usage above the maximum after running releases have ended."""
    return queue.max.excess(remaining(queue))


def plan_for_quota(partition: Partition, queue: Queue) -> QuotaPreemption | None:
    """Selects victims for a queue above its maximum. None = it is not above it, or there are no victims."""
    over = excess(queue)
    if not over:
        return None
    balance = GuaranteeBalance(queue)
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
    # Each leaf rounds its share up to complete victims, so together they may free more than the excess.
    cluster = partition.nodes.capacity_total
    by_order = sorted(chosen.values(), key=lambda victim: _quota_victim_order(victim, over, cluster))
    victims = _without_idle(by_order, over - rest)
    return QuotaPreemption(partition.id, queue.path, tuple(victim.id for victim in victims)) if victims else None


def _shares(root: Queue, over: Resources) -> list[tuple[Queue, Resources]]:
    """Returns the amount that each leaf below has to release."""
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
    balance: GuaranteeBalance,
    chosen: dict[PlaceId, Candidate],
    at_most: int,
) -> Resources:
    """Selects victims in one leaf that free the amount, or as much of it as possible. Returns what they free."""
    ranking = Ranking(partition)
    found = (
        ranking.candidate(app, one, one.spec.priority)
        for app, one in islice(youngest_first(partition, leaf), at_most * _TRIED)
        if (app.id, one.id) not in chosen and is_eligible(one, amount)
    )
    cluster = partition.nodes.capacity_total
    candidates = sorted(islice(found, at_most), key=lambda candidate: _quota_victim_order(candidate, amount, cluster))
    freed = NOTHING
    for victim in fewest(candidates, amount, balance, enough=False) or ():
        balance.lose(leaf, victim.resources)
        chosen[victim.id] = victim
        freed += victim.resources
    return freed


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
    return *value, not spec.is_virtual, hour, size, -since_ns, candidate.key[-1]
