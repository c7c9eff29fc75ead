"""Takeover: selects the reservations of other incomplete gangs that a gang takes over.

See docs/internals/semantics.md, rule 12. The scheduling cycle runs `plan_takeover` in steps.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster_core.gangs import planning
from muster_core.gangs import topology as gangs_topology
from muster_core.model.decisions import ReservationTakeover
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import PodOnNode
from muster_core.model.states import ApplicationState
from muster_core.placement.node_reservations import snapshot_for
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import MemberDemand, Places, Work
from muster_core.preemption.guarantees import GuaranteeBalance
from muster_core.queues import quota
from muster_core.state.applications import Allocation, Application
from muster_core.state.ordering import classes
from muster_core.state.request_classes import AskClass, pod_on_node_of
from muster_core.state.reservations import NodeReservation
from muster_core.state.scheduler_state import Partition
from muster_core.state.snapshot import Snapshot, assign, chosen_for, shape_of, wanted
from muster_core.state.users import LimitSubject, LimitSubjectKind

#: Searches that try to leave out gangs whose reservations are not needed.
_MAX_REMOVALS: Final = 4

#: Placeholders that one step evaluates.
_STEP: Final = 500
_EARLY: Final = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def plan_takeover(partition: Partition, app: Application) -> Generator[None, None, ReservationTakeover | None]:
    """Plans the takeover that gives the gang everything it is missing. Returns None if there is none.

    Yields after each step of the work. The caller must discard the plan if nodes change in between.
    """
    kinds = [kind for kind in classes(app) if kind.placeholder]
    counts = {kind: wanted(app, kind, sys.maxsize) for kind in kinds}
    total = sum((kind.resources.times(count) for kind, count in counts.items()), NOTHING)
    rivals = yield from _rivals(partition, app, total)
    search = _TakeoverSearch(partition, app, counts, total)
    if not rivals or search.answer(rivals) is None:
        return None
    yield
    chosen = yield from _fewest(search, rivals)
    answer = search.answer(chosen)
    if answer is None:
        return None
    yield
    return (yield from _decision(search, chosen, answer))


def has_competing_gangs(partition: Partition, app: Application) -> bool:
    """Whether an incomplete gang with a later key has reservations."""
    return app.gang.rank is not None and partition.contention.has_later(app.gang.rank)


def candidate(partition: Partition, app: Application, other: Application) -> bool:
    """Whether the gang may take over reservations of the other one."""
    is_later = app.gang.rank is not None and other.gang.rank is not None and other.gang.rank > app.gang.rank
    is_open = other.is_reserving and not other.real_allocations and other.state in _EARLY
    return is_later and is_open and other.id not in partition.contention.open


@dataclass(frozen=True, slots=True)
class _Rival:
    """An incomplete gang with a later key, and the reservations that may be taken from it.

    `is_all`: no guarantee protects any of its placeholders.
    """

    app: Application
    placeholders: tuple[Allocation, ...]
    reservations: tuple[NodeReservation, ...]
    holders: frozenset[LimitSubject]
    reserved: Resources
    is_all: bool
    #: Number of these placeholders per resources and row.
    rows: dict[Resources, dict[int, int]] = field(default_factory=dict)
    #: Number of those that filters look at, per row and pod description.
    noted: dict[tuple[int, PodOnNode], int] = field(default_factory=dict)


def _rivals(partition: Partition, app: Application, total: Resources) -> Generator[None, None, list[_Rival]]:
    """Returns the gangs with reservations that may be taken over, the last key first.

    Those that have only reserved quota are left out if neither a quota nor a limit is missing.
    """
    found: list[_Rival] = []
    looked_at = 0
    path = frozenset(queue.path for queue in app.queue.path_up)
    balance = GuaranteeBalance(partition.queues.root, total, path)
    holding, reservations = partition.contention.holding, partition.reservations.by_application
    is_enough = quota.quota_refusal(partition, app, total) is None and not any(quota.full_limits(partition, app))
    useful = [
        other
        for name in holding
        if (other := partition.applications.get(name)) is not None
        and (other.gang.live or name in reservations or not is_enough)
        and candidate(partition, app, other)
    ]
    for other in sorted(useful, key=lambda other: holding[other.id], reverse=True):
        placeholders, reserved = [], NOTHING
        live = [other.allocations[identity] for group in other.gang.live.values() for identity in group]
        for allocation in reversed(live):
            if balance.may_release(other.queue, allocation.spec.resources):
                balance.lose(other.queue, allocation.spec.resources)
                placeholders.append(allocation)
                reserved += allocation.spec.resources
            looked_at += 1
            if looked_at % _STEP == 0:
                yield
        on_nodes = tuple(
            reservation for reservation in partition.reservations.of(other.id) if not reservation.preempted
        )
        is_all = len(placeholders) == len(live)
        queues = [LimitSubject(LimitSubjectKind.QUEUE, "", queue.path) for queue in other.queue.path_up]
        holders = frozenset([*queues, *partition.users.holders(other)])
        rival = _Rival(other, tuple(placeholders), on_nodes, holders, reserved, is_all)
        _count(partition, rival)
        found.append(rival)
    return found


def _count(partition: Partition, rival: _Rival) -> None:
    """Counts its placeholders per row."""
    nodes = partition.nodes
    for one in rival.placeholders:
        row, spec = nodes.rows.row(one.node), one.spec
        rows = rival.rows.setdefault(spec.resources, {})
        rows[row] = rows.get(row, 0) + 1
        if nodes.pods_on_nodes.is_noted(spec.facts):
            seen = row, pod_on_node_of(spec.facts, nodes.pods_on_nodes.tags.project(spec.tags))
            rival.noted[seen] = rival.noted.get(seen, 0) + 1


def _fewest(search: _TakeoverSearch, rivals: list[_Rival]) -> Generator[None, None, list[_Rival]]:
    """Returns the fewest rivals that suffice: the shortest prefix of the list, without those that it does not need."""
    low, high = 1, len(rivals)
    while low < high:
        middle = (low + high) // 2
        if search.answer(rivals[:middle]) is None:
            low = middle + 1
        else:
            high = middle
        yield
    chosen = rivals[:high]
    for rival in chosen[-2::-1][:_MAX_REMOVALS]:
        rest = [other for other in chosen if other is not rival]
        if search.answer(rest) is not None:
            chosen = rest
        yield
    return chosen


@dataclass(frozen=True, slots=True)
class _Answer:
    """Nodes for all missing members, the charged snapshot, and what is left of each maximum afterwards.

    `emptied`: gangs that must release all reservations, because their slot of `maxApplications` is needed.
    """

    places: Places
    snapshot: Snapshot
    left: dict[LimitSubject, Limit]
    emptied: frozenset[str]


@dataclass(frozen=True, slots=True)
class _TakeoverSearch:
    """What the gang is missing, and the search for nodes if other gangs release their reservations."""

    partition: Partition
    app: Application
    counts: dict[AskClass, int]
    total: Resources

    def answer(self, rivals: Sequence[_Rival]) -> _Answer | None:
        """Returns nodes for all members as if these gangs had no reservations. None = a node, quota or limit is
        missing.
        """
        left = self._quotas(rivals)
        emptied = self._slots(rivals)
        if left is None or emptied is None:
            return None
        snapshot = snapshot_for(self.partition, self.app)
        for rival in rivals:
            for resources, rows in rival.rows.items():
                snapshot.charge_all([(row, -count) for row, count in rows.items()], resources)
            for (row, pod_on_node), count in rival.noted.items():
                snapshot.enter(row, pod_on_node, -count)
            for reservation in rival.reservations:
                snapshot.free(reservation.node, reservation.resources)
        demands: list[MemberDemand] = [(shape_of(kind), count) for kind, count in self.counts.items()]
        sort, work = self.partition.config.node_sort, Work(self.app.gang.takeover_failures)
        topology = self.app.spec.topology
        if topology is None:
            places = place_all(snapshot, demands, sort, work)
        else:
            domains = gangs_topology.domains(snapshot, topology, planning.held(self.app))
            places = gangs_topology.place_packed(snapshot, demands, sort, domains, work)
        return _Answer(places, snapshot, left, emptied) if isinstance(places, Places) else None

    def _quotas(self, rivals: Sequence[_Rival]) -> dict[LimitSubject, Limit] | None:
        """Returns what is left of each maximum after the takeover. None = a maximum is too low."""
        found: dict[LimitSubject, Limit] = {}
        for bound in quota.bounds(self.partition, self.app):
            freed = NOTHING
            for rival in rivals:
                if bound.holder in rival.holders:
                    freed += rival.reserved + self.quota_reservation(rival)
            left = quota.left_of(bound, self.app, self.app.node_reserved).room(NOTHING - freed)
            if left.excess(self.total):
                return None
            found[bound.holder] = left.room(self.total)
        return found

    def quota_reservation(self, rival: _Rival) -> Resources:
        """Returns the part of the rival's quota reservation that the gang can use."""
        theirs, mine = rival.app.gang, self.app.gang
        return theirs.quota_reservation if theirs.granted or not mine.quota_reservation else NOTHING

    def _slots(self, rivals: Sequence[_Rival]) -> frozenset[str] | None:
        """Returns the gangs that must release all reservations to free application slots. None = too few slots."""
        emptied: dict[str, _Rival] = {}
        for holder, most, taken in quota.full_limits(self.partition, self.app):
            able = [rival for rival in rivals if self._takes_slot(rival) and rival.is_all and holder in rival.holders]
            short = taken - most + 1 - sum(rival.app.id in emptied for rival in able)
            more = [rival for rival in able if rival.app.id not in emptied][: max(short, 0)]
            if len(more) < short:
                return None
            emptied.update({rival.app.id: rival for rival in more})
        return frozenset(emptied)

    def _takes_slot(self, rival: _Rival) -> bool:
        """Whether the rival's slot is available to the gang.

        A slot that is only promised does not count against a gang that has such a slot itself.
        """
        return rival.app.counted and not (self.app.counted and quota.has_only_promised_slot(rival.app))


def _decision(
    search: _TakeoverSearch, chosen: list[_Rival], answer: _Answer
) -> Generator[None, None, ReservationTakeover]:
    """Builds the decision. Reservations that the plan does not need stay, those of the earliest key first."""
    partition, app = search.partition, search.app
    places = [
        place
        for kind, spots in zip(search.counts, answer.places.per_demand, strict=True)
        for place in assign(app, kind, list(spots))
    ]
    found = chosen_for(answer.snapshot, *search.counts)
    keeper = _Keeper(search, answer)
    victims: list[tuple[_Rival, Allocation]] = []
    reservations: list[NodeReservation] = []
    losers: list[_Rival] = []
    looked_at = 0
    for rival in reversed(chosen):
        goes = []
        for one in reversed(rival.placeholders):
            if not keeper.may_keep(rival, one):
                goes.append(one)
            looked_at += 1
            if looked_at % _STEP == 0:
                yield
        held = [
            reservation
            for reservation in rival.reservations
            if not keeper.fits(reservation.node, reservation.resources)
        ]
        if goes or held or not keeper.may_keep_quota_reservation(rival):
            losers.append(rival)
        victims += [(rival, one) for one in goes]
        reservations += held
    order = {rival.app.id: position for position, rival in enumerate(chosen)}
    victims.sort(key=lambda pair: order[pair[0].app.id])
    return ReservationTakeover(
        partition.id,
        app.id,
        tuple(places),
        found,
        tuple((rival.app.id, one.id) for rival, one in victims),
        tuple(reservation.ask for reservation in reservations),
        tuple(rival.app.id for rival in losers),
    )


@dataclass(slots=True)
class _Keeper:
    """Returns reservations that the plan does not need to their gangs, one by one."""

    search: _TakeoverSearch
    answer: _Answer

    def may_keep(self, rival: _Rival, placeholder: Allocation) -> bool:
        """Whether the placeholder can stay next to the plan. If so, its resources are charged."""
        spec = placeholder.spec
        is_watched = self.search.partition.nodes.pods_on_nodes.is_noted(spec.facts)
        is_watched = is_watched or any(kind.depends_on_others for kind in self.search.counts)
        if rival.app.id in self.answer.emptied or is_watched or not self._leaves(rival, spec.resources):
            return False
        if not self.fits(placeholder.node, spec.resources):
            return False
        self._charge(rival, spec.resources)
        return True

    def may_keep_quota_reservation(self, rival: _Rival) -> bool:
        """Whether the quota reservation can stay next to the plan. If so, it is charged."""
        amount = self.search.quota_reservation(rival)
        if not amount:
            return True
        if rival.app.id in self.answer.emptied or not self._leaves(rival, amount):
            return False
        self._charge(rival, amount)
        return True

    def fits(self, node: NodeId, resources: Resources) -> bool:
        """Whether the resources are available on the node next to the plan. If so, they are charged."""
        snapshot = self.answer.snapshot
        row = snapshot.nodes.rows.row(node)
        for name, amount in resources.on_nodes.items():
            column = snapshot.available(name)
            if column is None or column.item(row) < amount:
                return False
        snapshot.charge(row, resources, 1)
        return True

    def _leaves(self, rival: _Rival, amount: Resources) -> bool:
        left = self.answer.left
        return all(left[holder].allows(amount) for holder in left if holder in rival.holders)

    def _charge(self, rival: _Rival, amount: Resources) -> None:
        for holder, left in self.answer.left.items():
            if holder in rival.holders:
                self.answer.left[holder] = left.room(amount)
