"""Selects victims for requests of queues below their guarantee, for DaemonSet pods and for lowered quotas.

For a gang, resources for every incomplete member are found, or no victim is selected. A DaemonSet pod may preempt on
its node without a guarantee of its own. Usage above a lowered maximum is divided among the child queues in proportion
to their usage above their guarantees.

Differs: a pod that requires a node never preempts pods of its own application, and respects fences, guarantees,
`preemption.policy: disabled` and the opt-out of pods unless its queue has `preemption.daemonsets`; YuniKorn does not.

Differs: victims may together be smaller than the request if the free resources of the node cover the rest, because then
fewer pods are preempted; YuniKorn does not preempt in this case.

Differs: for a lowered maximum, a victim larger than the excess is selected if there is no smaller one; YuniKorn then
stays above the maximum.

Differs: for a lowered maximum, no victim is selected that the excess does not require; YuniKorn selects victims in each
leaf until its part of the excess is covered, which can release more than the excess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import combinations, islice
from typing import Final

import numpy as np

from muster_core.model import messages
from muster_core.model.decisions import Preemption, QuotaPreemption
from muster_core.model.ids import AllocationKey, NodeId, QueuePath
from muster_core.model.limits import (
    ALLOCATIONS_PER_PREEMPTION,
    ALLOCATIONS_PER_QUOTA_PREEMPTION,
    MEMBERS_PER_PREEMPTION,
)
from muster_core.model.resources import NOTHING, Resources, is_of_devices
from muster_core.placement import node_search
from muster_core.placement.node_reservations import lift
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import Places, Work
from muster_core.preemption.candidates import (
    Candidate,
    CandidatePool,
    Eligible,
    NodePool,
    Rank,
    Ranking,
    in_the_way,
    is_eligible,
    may_run_without,
    move,
    permitted_by_guarantees,
    releasing_on,
)
from muster_core.preemption.guarantees import GuaranteeBalance, fence, leaves_below, remaining
from muster_core.queues import quota
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import PlaceId, UselessRows
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import RequestShape, Snapshot, shape_of

#: Texts of YuniKorn's allocation log.
NO_RIGHT: Final = messages.preemption_without_right()
NO_HELP: Final = messages.preemption_without_help()
TOO_SHORT: Final = messages.preemption_falls_short()
EXHAUSTED: Final = messages.preemption_exhausted()

#: The next attempt continues the search. Never reported.
CUT_SHORT: Final = "the search for victims continues"

#: Nodes where one attempt selects victims, and the minimum per member of a gang.
_MOST_NODES: Final = 24
_LEAST_NODES: Final = 4

#: Nodes where one attempt selects victims for all its requests together, beyond these.
_MOST_SOLVED: Final = 128

#: The subset of them where victims are needed for filters and not only for resources.
_MOST_CLEARED: Final = 4

#: Candidates that are compared to preempt fewer pods for a gang, and the cost of one comparison in evaluated rows.
_MOST_COMPARED: Final = 16
_COMPARISON: Final = 800

#: Candidates that one attempt ranks to free quota on any node.
_MOST_RANKED: Final = 1000


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
    partition: Partition,
    app: Application,
    asks: list[Ask],
    excluded: Iterable[QueuePath],
    now_ns: int,
    examined: UselessRows,
) -> Preemption | str:
    """Selects victims so that all requests get a node. Returns the decision, or why preemption does not help.

    `excluded`: leaves without victims. `examined`: nodes that earlier attempts of the same search left; grows. The
    answer `CUT_SHORT` means that the work of one attempt did not suffice, and that the next one continues.
    """
    refused = guarantee_refusal(partition, app, asks)
    amount = asked(asks)
    bound = fence(app, amount)
    if refused or bound is None:
        return refused or NO_RIGHT
    priority = min(ask.spec.priority for ask in asks)
    pool = CandidatePool(partition, bound.root, app.queue, priority=priority, amount=amount, excluded=excluded)
    balance = GuaranteeBalance(partition.queues.root, amount, frozenset(queue.path for queue in app.queue.path_up))
    kinds = len({ask.kind for ask in asks})
    search = _VictimSearch(partition, _snapshot(partition, asks), pool, balance, now_ns, examined, kinds)
    known = sum(map(len, examined.values()))
    places: list[tuple[AllocationKey, NodeId]] = []
    for ask in asks:
        node = search.place(ask, max(_MOST_NODES // len(asks), _LEAST_NODES))
        if node is None:
            break
        places.append((ask.spec.key, node))
    else:
        if search.free_elsewhere(bound.need):
            # Without victims, releases that are already running make enough room.
            if not search.chosen:
                return NO_HELP
            fewer = _with_fewer(search, asks, bound.need, list(search.chosen.values()))
            return fewer or Preemption(partition.id, app.id, tuple(places), tuple(search.chosen))
        search.freed_some = True
    if len(asks) > 1 and (fewer := _with_fewer(search, asks, bound.need, None)) is not None:
        return fewer
    if search.is_cut_short:
        return CUT_SHORT if sum(map(len, examined.values())) > known else EXHAUSTED
    return TOO_SHORT if search.chosen or search.freed_some else NO_HELP


def _with_fewer(
    search: _VictimSearch, asks: list[Ask], need: Resources, chosen: list[Candidate] | None
) -> Preemption | None:
    """Returns a decision with the fewest victims, if these are fewer than `chosen`, and no worse otherwise.

    Victims were chosen for one member after the other. This search places all members together, on nodes where a few
    candidates are. `chosen`: None = no victims were found for all members.
    """
    if chosen is not None and len(chosen) == 1:
        return None
    partition, balance = search.partition, replace(search.balance, lost={})
    snapshot = _snapshot(partition, asks)
    kinds = list(dict.fromkeys(ask.kind for ask in asks))
    ranked = [row for kind in kinds if kind in search.rows for row in search.rows[kind][1]]
    others = np.flatnonzero(snapshot.schedulable)[:_MOST_NODES].tolist()
    nodes = map(snapshot.nodes.rows.at, dict.fromkeys([*search.used, *ranked[:_MOST_NODES], *others]))
    found: list[Candidate] = []
    for node in nodes:
        pool = search.pool.on(node)
        if len(found) + len(pool) <= _MOST_COMPARED:
            found += pool
        if leaving := releasing_on(partition, node, search.now_ns):
            snapshot.free(node, leaving)
    worst = max(map(_worth, chosen)) if chosen else None
    able = sorted((one for one in found if worst is None or _worth(one) <= worst), key=lambda one: one.key)
    columns = {name: snapshot.available(name) for name in asked(asks)}
    free = {name: int(np.maximum(one, 0).sum()) for name, one in columns.items() if one is not None}
    lacking = positive(asked(asks) - Resources(free))
    demands = [(shape_of(kind), sum(ask.kind == kind for ask in asks)) for kind in kinds]
    work = Work()
    for count in range(1, len(chosen) if chosen else len(able) + 1):
        for victims in combinations(able, count):
            if not work.is_left:
                return None
            work.pay(_COMPARISON)
            freed = sum((one.resources for one in victims), NOTHING)
            if positive(need - freed) or positive(lacking - freed):
                continue
            if len(permitted_by_guarantees(list(victims), balance)) < count:
                continue
            fork = snapshot.fork()
            for one in victims:
                fork.free(one.allocation.node, one.resources)
                move(fork, one, -1)
            part = work.part()
            answer = place_all(fork, demands, partition.config.node_sort, part)
            work.end(part)
            if isinstance(answer, Places):
                keys = {kind: iter([ask.spec.key for ask in asks if ask.kind == kind]) for kind in kinds}
                places = [
                    (next(keys[kind]), node)
                    for kind, spots in zip(kinds, answer.per_demand, strict=True)
                    for node, there in spots
                    for _ in range(there)
                ]
                app = asks[0].spec.application
                return Preemption(partition.id, app, tuple(places), tuple(one.id for one in victims))
    return None


def _worth(candidate: Candidate) -> tuple[bool, bool, int]:
    """What must not become worse in order to preempt fewer pods."""
    return candidate.is_protected, candidate.breaks_gang, candidate.priority


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
    row: int
    victims: tuple[Candidate, ...]


@dataclass(slots=True)
class _VictimSearch:
    """State of the search over all requests.

    Nodes are chosen first, from columns: those that could hold the request once everything that may end has ended.
    Candidates are read on these nodes only, so pods elsewhere do not matter, however many they are.
    """

    partition: Partition
    snapshot: Snapshot
    pool: CandidatePool
    balance: GuaranteeBalance
    now_ns: int
    examined: UselessRows
    #: Number of classes of the requests. Each may read an equal part of the allocations.
    kinds: int
    chosen: dict[PlaceId, Candidate] = field(default_factory=dict)
    freed_some: bool = False
    #: A bound left out nodes that may have victims.
    is_cut_short: bool = False
    #: Rows where this plan selected victims for a request.
    used: set[int] = field(default_factory=set)
    #: Nodes where victims may still be selected for requests that found none on the best nodes.
    solves: int = _MOST_SOLVED
    #: Allocations that may still be read.
    left: int = ALLOCATIONS_PER_PREEMPTION
    #: By class: the rows whose filters allow it or may after preemption, and the useful ones, the best first.
    rows: dict[AskClass, tuple[BoolColumn, list[int]]] = field(default_factory=dict)

    def place(self, ask: Ask, at_most: int) -> NodeId | None:
        """Returns the node for one request and selects the victims there, if any. None = no node."""
        shape = shape_of(ask.kind)
        spots = node_search.place(self.snapshot, shape, 1, self.partition.config.node_sort)
        if spots:
            return spots[0][0]
        allowed = node_search.allowed(self.snapshot, shape)
        solutions: list[_Solution] = []
        tried = to_clear = 0
        useful = self._useful_rows(ask.kind, shape, allowed)
        # Where this plan placed a member already, there is seldom enough left for another one.
        for row in sorted(useful, key=self.used.__contains__):
            is_enough = tried >= at_most and (solutions or not self.solves)
            if is_enough or (not allowed[row] and to_clear == _MOST_CLEARED):
                self.is_cut_short = self.is_cut_short or not solutions
                continue
            tried += 1
            self.solves = max(self.solves - 1, 0)
            to_clear += not allowed[row]
            solution = self._solve(row, shape)
            if solution is not None:
                solutions.append(solution)
            elif not self.chosen:  # with chosen victims, guarantees and not the node may be the reason
                self._useless(ask.kind).add(row)
        if not solutions:
            return None
        best = min(solutions, key=lambda solution: solution.key)
        for victim in best.victims:
            self._choose(victim)
        self.used.add(best.row)
        node_search.charge(self.snapshot, shape, best.row)
        return self.snapshot.nodes.rows.at(best.row)

    def free_elsewhere(self, need: Resources) -> bool:
        """Selects further victims on any node until the queues have enough quota too."""
        lacking = positive(need - sum((victim.resources for victim in self.chosen.values()), NOTHING))
        if not lacking:
            return True
        used = np.zeros(self.snapshot.size, dtype=np.bool_)
        for name in lacking:
            if is_of_devices(name):  # pods anywhere may have them
                used[:] = True
            capacity, available = self.snapshot.capacity(name), self.snapshot.available(name)
            if capacity is not None and available is not None:
                used |= capacity > available
        found = [
            one
            for _, eligible in self._read(None, np.flatnonzero(used), ALLOCATIONS_PER_PREEMPTION)
            for one in eligible
            if any(map(one.allocation.spec.resources.__getitem__, lacking))
        ]
        self.is_cut_short = self.is_cut_short or len(found) > _MOST_RANKED
        best = nsmallest(_MOST_RANKED, found, key=lambda one: one.rank)
        left = [one for one in map(self.pool.candidate, best) if one.id not in self.chosen]
        more = fewest(sorted(left, key=lambda candidate: candidate.key), lacking, self.balance)
        for victim in more or ():
            self._choose(victim)
        return more is not None

    def _useful_rows(self, kind: AskClass, shape: RequestShape, allowed: BoolColumn) -> Iterable[int]:
        """Returns the rows where candidates free enough, the best candidates first, except those known to be useless.

        The rows are ranked again only if the filters changed, because of victims and requests of the same plan.
        """
        may_help = allowed | node_search.resolvable(self.snapshot, shape)
        known = self.rows.get(kind)
        if known is None or not np.array_equal(known[0], may_help):
            known = self.rows[kind] = may_help, self._ranked(kind, shape, np.flatnonzero(may_help), allowed)
        useless = self._useless(kind)
        return [row for row in known[1] if row not in useless]

    def _useless(self, kind: AskClass | None) -> set[int]:
        return self.examined.setdefault(kind, set())

    def _ranked(self, kind: AskClass, shape: RequestShape, rows: IntColumn, allowed: BoolColumn) -> list[int]:
        for name, amount in shape.resources.items():
            at_best = self.snapshot.at_best(name, rows)
            rows = rows[:0] if at_best is None else rows[at_best >= amount]
        lacking = np.zeros(len(rows))
        for name, amount in shape.resources.items():
            available = self.snapshot.available_at(name, rows)
            if available is not None:
                share = (amount - available) / max(self.partition.nodes.capacity_total[name], 1)
                np.maximum(lacking, share, out=lacking)
        earlier = np.isin(rows, self._earlier_rows())
        order = rows[np.lexsort((self.snapshot.nodes.rows.ranks()[rows], lacking, ~allowed[rows], ~earlier))]
        read = min(self.left, ALLOCATIONS_PER_PREEMPTION // self.kinds)
        ranked: list[tuple[Rank, int, int]] = []
        for row, eligible in self._read(kind, order, read):
            rank = self._last_needed(row, shape, eligible)
            if rank is None:
                self._useless(kind).add(row)
            else:
                ranked.append((rank, len(ranked), row))
        return [row for _, _, row in sorted(ranked)]

    def _earlier_rows(self) -> list[int]:
        apps, earlier = self.partition.applications, self.partition.preemptions.earlier_victims
        return [self._row(apps[app].allocations[key].node) for app, key in earlier]

    def _read(self, kind: AskClass | None, rows: IntColumn, at_most: int) -> Iterator[tuple[int, list[Eligible]]]:
        """Yields the rows with what may be preempted there. Remembers rows without, and stops after `at_most`."""
        useless, at, placed = self._useless(kind), self.snapshot.nodes.rows.at, self.partition.placed
        for row in rows.tolist():
            if row in useless:
                continue
            if at_most <= 0:
                self.is_cut_short = True
                return
            node = at(row)
            read = 1 + len(placed.get(node, ()))
            at_most -= read
            self.left -= read
            eligible = list(self.pool.eligible_on(node))
            if eligible:
                yield row, eligible
            else:
                useless.add(row)

    def _last_needed(self, row: int, shape: RequestShape, eligible: list[Eligible]) -> Rank | None:
        """Returns the rank of the last that has to go, if those of the lowest rank go first. None = all do not suffice.

        Guarantees and filters are not evaluated.
        """
        lacking: dict[str, int] = {}
        leaving = releasing_on(self.partition, self.snapshot.nodes.rows.at(row), self.now_ns)
        for name, amount in shape.resources.items():
            available = self.snapshot.available(name)
            short = amount - leaving[name] - (0 if available is None else available.item(row))
            if short > 0:
                lacking[name] = short
        ranked = sorted(eligible, key=lambda one: one.rank)
        if not lacking:  # a filter and not resources is the reason
            return ranked[0].rank
        for one in ranked:
            amounts = one.allocation.spec.resources
            lacking = {name: rest for name, short in lacking.items() if (rest := short - amounts[name]) > 0}
            if not lacking:
                return one.rank
        return None

    def _solve(self, row: int, shape: RequestShape) -> _Solution | None:
        node = self.snapshot.nodes.rows.at(row)
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
            int(self.snapshot.nodes.rows.ranks()[row]),
        )
        return _Solution(key, row, tuple(victims))

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
    pool = NodePool(partition, app, ask)
    candidates = sorted(map(pool.candidate, pool.eligible_on(node)), key=_node_victim_order)
    victims = in_the_way(snapshot, shape, node, permitted_by_guarantees(candidates, pool.balance))
    if victims is None:
        return NO_HELP_ON_NODE
    row = partition.nodes.rows.row(node)
    asked = asked.on_nodes
    room = {name: column.item(row) for name in asked if (column := snapshot.available(name)) is not None}
    freed = sum((one.resources for one in victims), releasing_on(partition, node, now_ns))
    for victim in victims:
        pool.balance.lose(victim.app.queue, victim.resources)
    left = [one for one in candidates if one not in victims]
    more = fewest(left, positive(asked - Resources(room) - freed), pool.balance)
    if more is None or not (victims := [*victims, *more]) or not may_run_without(snapshot, shape, node, victims):
        return NO_HELP_ON_NODE
    return Preemption(partition.id, app.id, ((ask.spec.key, node),), tuple(victim.id for victim in victims))


def _node_victim_order(candidate: Candidate) -> tuple[bool, bool, bool, int, bool, int, float, int]:
    spec = candidate.allocation.spec
    since = -candidate.allocation.allocated_ns
    first = not candidate.is_earlier_victim, spec.originator, not spec.allow_preempt_self, spec.priority
    return *first, not spec.is_virtual, since, candidate.cost, -candidate.allocation.sequence


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
    victims = _without_idle(by_order, over - rest)
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
