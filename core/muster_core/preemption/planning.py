"""Selects victims for requests of queues below their guarantee.

For a gang, resources for every incomplete member are found, or no victim is selected.

Differs: victims may together be smaller than the request if the free resources of the node cover the rest, because then
fewer pods are preempted; YuniKorn does not preempt in this case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import combinations
from typing import Final

import numpy as np

from muster_core.model import messages
from muster_core.model.ids import NodeId, QueuePath
from muster_core.model.limits import (
    ALLOCATIONS_PER_PREEMPTION,
    CANDIDATES_PER_PREEMPTION,
    PODS_PER_PREEMPTION,
)
from muster_core.model.resources import NOTHING, Resources, is_of_devices
from muster_core.placement import node_search
from muster_core.placement.search.backtracking import most_constrained_first, place_all
from muster_core.placement.search.requests import Places, Work, depends_on_others, numbered, shares_of
from muster_core.preemption.candidates import (
    Candidate,
    CandidatePool,
    Eligible,
    Rank,
    fewest,
    in_the_way,
    may_run_without,
    move,
    permitted_by_guarantees,
    positive,
    releasing_on,
)
from muster_core.preemption.equal_members import Share, divide, worth
from muster_core.preemption.guarantees import GuaranteeBalance, fence
from muster_core.queues import quota
from muster_core.state.applications import Application, Ask
from muster_core.state.columns import BoolColumn, CodeColumn, IntColumn
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import Examined, PlaceId
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import RequestShape, Snapshot, shape_of

#: Texts of YuniKorn's allocation log.
NO_RIGHT: Final = messages.preemption_without_right()
NO_HELP: Final = messages.preemption_without_help()
TOO_SHORT: Final = messages.preemption_falls_short()
EXHAUSTED: Final = messages.preemption_exhausted()

#: Limits, which the reason of the waiting members names, too.
TOO_MANY_PODS: Final = messages.preemption_exhausted(
    f"the missing members and the preempted pods would be more than {PODS_PER_PREEMPTION}"
)
TOO_MANY_CANDIDATES: Final = messages.preemption_exhausted(
    f"too few of {CANDIDATES_PER_PREEMPTION} compared pods can be preempted"
)
LIMITS: Final = (TOO_MANY_PODS, TOO_MANY_CANDIDATES)

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

#: Work of one attempt: a member whose nodes depend on other pods costs 1. The next attempt continues.
_STEPS: Final = 64
_CLASS_STEPS: Final = 8

#: How often equal members are divided again, because guarantees do not allow some of the victims.
_MOST_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class VictimPlan:
    """Nodes for the members of each class, and the victims that make room for them."""

    places: tuple[tuple[AskClass, NodeId, int], ...]
    victims: tuple[PlaceId, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    """Members of one class on a node, and the victims that make room for them. `room`: what was available before."""

    kind: AskClass
    node: NodeId
    count: int
    victims: tuple[Candidate, ...] = ()
    room: Resources = NOTHING


@dataclass(slots=True, eq=False)
class GangFindings(Examined):
    """Candidates that were read for gangs by node, their number, and the members that were placed.

    `refused`: candidates that guarantees do not allow to preempt in addition to those of the placed members.
    `domains`: topology domains of a gang that requires one, which are left, the roomiest first; None = not known.
    `limit`: that made the search in an earlier one fail.
    """

    candidates: dict[NodeId, list[Candidate]] = field(default_factory=dict)
    read: int = 0
    placed: list[_Placed] = field(default_factory=list)
    refused: set[PlaceId] = field(default_factory=set)
    domains: list[int] | None = None
    limit: str = ""

    @property
    def extent(self) -> int:
        """Grows with each attempt that found something."""
        return sum(map(len, self.useless.values())) + len(self.candidates) + len(self.placed) + len(self.refused)

    def leave_domain(self, why: str) -> None:
        """Continues with the next domain, because the search in the present one failed."""
        self.domains = self.domains[1:] if self.domains else None
        self.limit = why if why in LIMITS else self.limit
        self.placed, self.candidates, self.refused, self.read = [], {}, set(), 0


def guarantee_refusal(partition: Partition, app: Application, asks: list[Ask]) -> str:
    """Returns why no victims are searched: too many members, or no entitlement. Empty = a search may help.

    The cost does not grow with the number of members of a request.
    """
    if sum(map(_places, asks)) > PODS_PER_PREEMPTION:
        return TOO_MANY_PODS
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
    examined: GangFindings,
) -> VictimPlan | str:
    """Selects victims so that all requests get a node. Returns the plan, or why preemption does not help.

    `excluded`: leaves without victims. `examined`: what earlier attempts of the same search found; grows. The answer
    `CUT_SHORT` means that the work of one attempt did not suffice, and that the next one continues.
    """
    refused = guarantee_refusal(partition, app, asks)
    amount = asked(asks)
    bound = fence(app, amount)
    if refused or bound is None:
        return refused or NO_RIGHT
    priority = min(ask.spec.priority for ask in asks)
    pool = CandidatePool(partition, bound.root, app.queue, priority=priority, amount=amount, excluded=excluded)
    snapshot, topology = _snapshot(partition, asks), app.spec.topology
    if topology is not None and topology.required and app.id not in partition.nodes.homes:
        codes = _outermost(snapshot, topology.keys)
        if examined.domains is None:
            examined.domains = _able(snapshot, asks, codes)
        if not examined.domains:
            return examined.limit or NO_HELP
        snapshot.within = snapshot.schedulable & (codes == examined.domains[0])
    balance = GuaranteeBalance(partition.queues.root, amount, frozenset(queue.path for queue in app.queue.path_up))
    search = _VictimSearch(partition, snapshot, pool, balance, now_ns, examined, len(_demands(asks)))
    found = _plan(search, asks, bound.need)
    if isinstance(found, VictimPlan):
        return found if found.victims else NO_HELP
    if found == CUT_SHORT or not examined.domains:
        return found
    examined.leave_domain(found)
    return CUT_SHORT if examined.domains else examined.limit or found


def _outermost(snapshot: Snapshot, keys: Sequence[str]) -> CodeColumn:
    """Returns the number of the outermost topology domain per row; -1 = the node lacks one of the labels."""
    columns = [snapshot.nodes.attribute(key).codes(snapshot.size) for key in keys]
    has = np.logical_and.reduce([column >= 0 for column in columns])
    found: CodeColumn = np.where(has, columns[0], np.int32(-1))
    return found


def _able(snapshot: Snapshot, asks: list[Ask], codes: CodeColumn) -> list[int]:
    """Returns the domains that could hold the requests without the pods that may end, the roomiest first."""
    demands = [(shape_of(kind), count) for kind, count in _demands(asks).items()]
    drained, values = snapshot.fork(), numbered(snapshot, codes)
    drained.drain()
    able = shares_of(drained, demands, values) >= 1
    return [code for code in values.by_room(shares_of(snapshot, demands, values), most=True) if able[code]]


def _plan(search: _VictimSearch, asks: list[Ask], need: Resources) -> VictimPlan | str:
    """Selects victims in the rows of the snapshot. The plan has none if running releases make enough room."""
    demands, examined = _demands(asks), search.examined
    known, total = examined.extent, sum(demands.values())
    search.members = total
    at_most = max(_MOST_NODES // total, _LEAST_NODES)
    kinds = list(demands)
    if len(kinds) > 1:
        shapes = [(shape_of(kind), count) for kind, count in demands.items()]
        kinds = [kinds[index] for index in most_constrained_first(search.snapshot, shapes)]
    if all(search.place(kind, demands[kind], at_most) for kind in kinds):
        if search.free_elsewhere(need):
            if not search.chosen:
                return VictimPlan((), ())
            fewer = _with_fewer(search, asks, need, list(search.chosen.values()))
            places = tuple((one.kind, one.node, one.count) for one in search.placed)
            found = fewer or VictimPlan(places, tuple(search.chosen))
            is_too_large = total + len(found.victims) > PODS_PER_PREEMPTION
            return TOO_MANY_PODS if is_too_large and total > 1 else found
        search.freed_some = True
    if search.is_too_large:
        return TOO_MANY_PODS
    examined.placed = [one for one in search.placed if one.victims]
    if search.is_cut_short and examined.extent > known:
        return CUT_SHORT
    if total > 1 and (fewer := _with_fewer(search, asks, need, None)) is not None:
        return fewer
    if search.is_cut_short:
        return TOO_MANY_CANDIDATES if examined.read >= CANDIDATES_PER_PREEMPTION else EXHAUSTED
    return TOO_SHORT if search.chosen or search.freed_some else NO_HELP


def _demands(asks: Iterable[Ask]) -> dict[AskClass, int]:
    """Returns the number of members of each class."""
    found: dict[AskClass, int] = {}
    for ask in asks:
        found[ask.kind] = found.get(ask.kind, 0) + _places(ask)
    return found


def _with_fewer(
    search: _VictimSearch, asks: list[Ask], need: Resources, chosen: list[Candidate] | None
) -> VictimPlan | None:
    """Returns a plan with the fewest victims, if these are fewer than `chosen`, and no worse otherwise.

    Victims were chosen for one member after the other. This search places all members together, on nodes where a few
    candidates are. `chosen`: None = no victims were found for all members.
    """
    if chosen is not None and not 1 < len(chosen) <= _MOST_COMPARED:
        return None
    partition, balance = search.partition, replace(search.balance, lost={})
    snapshot = _snapshot(partition, asks)
    snapshot.within = within = search.snapshot.within
    counts = _demands(asks)
    kinds = list(counts)
    ranked = [row for kind in kinds if kind in search.rows for row in search.rows[kind][1]]
    others = np.flatnonzero(snapshot.schedulable if within is None else within)[:_MOST_NODES].tolist()
    nodes = map(snapshot.nodes.rows.at, dict.fromkeys([*search.used, *ranked[:_MOST_NODES], *others]))
    found: list[Candidate] = []
    for node in nodes:
        pool = search.pool.on(node)
        if len(found) + len(pool) <= _MOST_COMPARED:
            found += pool
        if leaving := releasing_on(partition, node, search.now_ns):
            snapshot.free(node, leaving)
    worst = max(map(worth, chosen)) if chosen else None
    able = sorted((one for one in found if worst is None or worth(one) <= worst), key=lambda one: one.key)
    columns = {name: snapshot.available(name) for name in asked(asks)}
    free = {name: int(np.maximum(one, 0).sum()) for name, one in columns.items() if one is not None}
    lacking = positive(asked(asks) - Resources(free))
    demands = [(shape_of(kind), count) for kind, count in counts.items()]
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
                places = tuple(
                    (kind, node, there)
                    for kind, spots in zip(kinds, answer.per_demand, strict=True)
                    for node, there in spots
                )
                return VictimPlan(places, tuple(one.id for one in victims))
    return None


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
    examined: GangFindings
    #: Number of classes of the requests. Each may read an equal part of the allocations.
    kinds: int
    chosen: dict[PlaceId, Candidate] = field(default_factory=dict)
    freed_some: bool = False
    #: A bound left out members, or nodes that may have victims.
    is_cut_short: bool = False
    placed: list[_Placed] = field(default_factory=list)
    steps: int = _STEPS
    #: Members of all classes, and whether they and their victims are too many.
    members: int = 1
    is_too_large: bool = False
    #: Rows where this plan selected victims for a request.
    used: set[int] = field(default_factory=set)
    #: Nodes where victims may still be selected for requests that found none on the best nodes.
    solves: int = _MOST_SOLVED
    #: Allocations that may still be read.
    left: int = ALLOCATIONS_PER_PREEMPTION
    #: By class: the rows whose filters allow it or may after preemption, and the useful ones, the best first.
    rows: dict[AskClass, tuple[BoolColumn, list[int]]] = field(default_factory=dict)

    def place(self, kind: AskClass, count: int, at_most: int) -> bool:
        """Finds nodes for the members of a class, and selects the victims there. False = not for all of them.

        `at_most`: nodes that are compared for one member whose nodes depend on other pods.
        """
        shape = shape_of(kind)
        left = count - sum(self._repeat(one, shape) for one in self.examined.placed if one.kind == kind)
        sort = self.partition.config.node_sort
        for node, there in node_search.place(self.snapshot, shape, left, sort) if left and count > 1 else ():
            self.placed.append(_Placed(kind, node, there))
            left -= there
        is_plain = count > 1 and not depends_on_others(shape) and not node_search.stateful_filters(self.snapshot, shape)
        if left and is_plain and self.steps > 0:
            self.steps -= _CLASS_STEPS
            return self._divide(kind, shape, left)
        while left and self.steps > 0 and self._place_one(kind, shape, at_most):
            self.steps -= 1
            left -= 1
        self.is_cut_short = self.is_cut_short or (left > 0 and self.steps <= 0)
        return not left

    def _repeat(self, placed: _Placed, shape: RequestShape) -> int:
        """Places members as an earlier attempt did. Returns their number; 0 = not possible any more.

        Filters are not evaluated again.
        """
        if placed.node not in self.snapshot.nodes or not all(map(self._is_free, placed.victims)):
            return 0
        is_same = self._room(placed.node, shape) == placed.room
        return self._take(placed.kind, placed.node, placed.count, placed.victims) if is_same else 0

    def _is_free(self, candidate: Candidate) -> bool:
        """Whether a candidate that was read before may still be chosen."""
        app, one = candidate.app, candidate.allocation
        is_chosen = candidate.id in self.chosen or candidate.id in self.examined.refused
        return not is_chosen and app.allocations.get(one.id) is one and self.pool.has(app, one)

    def _take(self, kind: AskClass, node: NodeId, count: int, victims: tuple[Candidate, ...]) -> int:
        """Places members and selects their victims. Returns the number of members; 0 = guarantees do not allow it."""
        taken: list[Candidate] = []
        for victim in victims:
            if self.balance.may_release(victim.app.queue, victim.resources):
                self.balance.lose(victim.app.queue, victim.resources)
                taken.append(victim)
            else:
                self.examined.refused.add(victim.id)
        if len(taken) < len(victims):
            for victim in taken:
                self.balance.lose(victim.app.queue, victim.resources, -1)
            return 0
        shape = shape_of(kind)
        self.placed.append(_Placed(kind, node, count, victims, self._room(node, shape)))
        for victim in taken:
            self._remove(victim)
        node_search.charge(self.snapshot, shape, self._row(node), count)
        self.used.add(self._row(node))
        return count

    def _divide(self, kind: AskClass, shape: RequestShape, count: int) -> bool:
        """Places equal members whose nodes depend on no other pods, so that they need the fewest victims."""
        at = self.snapshot.nodes.rows.at
        for _ in range(_MOST_ROUNDS):
            rows = self._read_all(kind, shape)
            numbers = np.array([row for row, _ in rows], np.int64)
            leaving = [releasing_on(self.partition, at(row), self.now_ns) for row, _ in rows]
            available = {
                name: column + np.array([one[name] for one in leaving], np.int64)
                for name in shape.resources
                if (column := self.snapshot.available_at(name, numbers)) is not None
            }
            shares: list[Share] | None = divide(count, shape.resources, available, rows)
            known = self.members + len(self.chosen)
            if known + sum(len(share.victims) for share in shares or ()) > PODS_PER_PREEMPTION:
                self.is_too_large = True
                return False
            for share in shares or ():
                count -= self._take(kind, at(share.row), share.members, share.victims)
            if not count or shares is None:
                break
        else:
            self.is_cut_short = True
        self.freed_some = self.freed_some or count > 0
        return not count

    def _read_all(self, kind: AskClass, shape: RequestShape) -> list[tuple[int, list[Candidate]]]:
        """Returns the nodes where members may fit after preemption, with their candidates, as far as they were read."""
        found: list[tuple[int, list[Candidate]]] = []
        allowed = node_search.allowed(self.snapshot, shape)
        at_most = min(self.left, ALLOCATIONS_PER_PREEMPTION // self.kinds)
        for row in self._by_lacking(shape, np.flatnonzero(allowed), allowed).tolist():
            node = self.snapshot.nodes.rows.at(row)
            known = self.examined.candidates.get(node)
            if known is None:
                if at_most <= 0 or self.examined.read >= CANDIDATES_PER_PREEMPTION:
                    self.is_cut_short = True
                    continue
                known = self.examined.candidates[node] = self.pool.on(node)
                read = 1 + len(self.partition.placed.get(node, ()))
                at_most -= read
                self.left -= read
                self.examined.read += read
            found.append((row, [one for one in known if self._is_free(one)]))
        return found

    def _place_one(self, kind: AskClass, shape: RequestShape, at_most: int) -> bool:
        """Finds the node for one request and selects the victims there, if any. False = no node."""
        spots = node_search.place(self.snapshot, shape, 1, self.partition.config.node_sort)
        if spots:
            self.placed.append(_Placed(kind, spots[0][0], 1))
            return True
        allowed = node_search.allowed(self.snapshot, shape)
        solutions: list[_Solution] = []
        tried = to_clear = 0
        useful = self._useful_rows(kind, shape, allowed)
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
                self._useless(kind).add(row)
        if not solutions:
            return False
        best = min(solutions, key=lambda solution: solution.key)
        return bool(self._take(kind, self.snapshot.nodes.rows.at(best.row), 1, best.victims))

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
        return self.examined.useless.setdefault(kind, set())

    def _ranked(self, kind: AskClass, shape: RequestShape, rows: IntColumn, allowed: BoolColumn) -> list[int]:
        order = self._by_lacking(shape, rows, allowed)
        read = min(self.left, ALLOCATIONS_PER_PREEMPTION // self.kinds)
        ranked: list[tuple[Rank, int, int]] = []
        for row, eligible in self._read(kind, order, read):
            rank = self._last_needed(row, shape, eligible)
            if rank is None:
                self._useless(kind).add(row)
            else:
                ranked.append((rank, len(ranked), row))
        return [row for _, _, row in sorted(ranked)]

    def _by_lacking(self, shape: RequestShape, rows: IntColumn, allowed: BoolColumn) -> IntColumn:
        """Returns the rows that could hold the shape, those that lack the least of it first."""
        for name, amount in shape.resources.items():
            at_best = self.snapshot.at_best(name, rows)
            rows = rows[:0] if at_best is None else rows[at_best >= amount]
        lacking = np.zeros(len(rows))
        for name, amount in shape.resources.items():
            available = self.snapshot.available_at(name, rows)
            if available is not None:
                share = (amount - available) / max(self.partition.nodes.capacity_total[name], 1)
                np.maximum(lacking, share, out=lacking)
        apps, victims = self.partition.applications, self.partition.preemptions.earlier_victims
        earlier = np.isin(rows, [self._row(apps[app].allocations[key].node) for app, key in victims])
        keys = [self.snapshot.nodes.rows.ranks()[rows], lacking, ~allowed[rows], ~earlier]
        if self.used:
            keys.append(np.isin(rows, list(self.used)))
        found: IntColumn = rows[np.lexsort(keys)]
        return found

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
        freed = sum((victim.resources for victim in victims), NOTHING)
        for victim in victims:
            self.balance.lose(victim.app.queue, victim.resources)
        more = fewest(candidates, positive(shape.resources - self._room(node, shape) - freed), self.balance)
        for victim in victims:
            self.balance.lose(victim.app.queue, victim.resources, -1)
        return more

    def _room(self, node: NodeId, shape: RequestShape) -> Resources:
        """Returns what the node has left of the resources of the shape once running releases have ended."""
        row = self._row(node)
        left = {
            name: column.item(row) for name in shape.resources if (column := self.snapshot.available(name)) is not None
        }
        return Resources(left) + releasing_on(self.partition, node, self.now_ns)

    def _row(self, node: NodeId) -> int:
        return self.snapshot.nodes.rows.row(node)

    def _choose(self, victim: Candidate) -> None:
        self.balance.lose(victim.app.queue, victim.resources)
        self._remove(victim)

    def _remove(self, victim: Candidate) -> None:
        self.chosen[victim.id] = victim
        self.snapshot.free(victim.allocation.node, victim.resources)
        move(self.snapshot, victim, -1)
