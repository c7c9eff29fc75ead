"""Plans nodes for a gang: for all members, or for a part of them. The scheduling cycle calls `plan_gang`.

If all members fit, they are planned as one decision. If not, a gang with placeholder pods reserves what fits, and the
plan names the task groups that are incomplete.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster_core.gangs import topology as gangs_topology
from muster_core.gangs.topology import Part
from muster_core.model import messages
from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS, InterPodConstraints, PodTerm
from muster_core.model.decisions import Decision, Placement, QuotaReservation, ReasonKind, UnschedulableReason
from muster_core.model.ids import AllocationKey, NodeId, TaskGroup
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import NO_PROPERTIES, Member, PodOnNode, PodProperties, Topology
from muster_core.placement import node_search
from muster_core.placement.node_reservations import snapshot_for
from muster_core.placement.search.backtracking import place_all
from muster_core.placement.search.requests import MemberDemand, Places, Shortage, Work
from muster_core.queues import quota
from muster_core.state.applications import Application, lacking
from muster_core.state.columns import BoolColumn
from muster_core.state.ordering import classes
from muster_core.state.request_classes import AskClass, UnschedulableClass, pod_on_node_of
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MembersDoNotFit, NoNodeFits
from muster_core.state.snapshot import (
    AllocationPlan,
    RequestShape,
    Snapshot,
    Unplaced,
    assign,
    chosen_for,
    shape_of,
    wanted,
)
from muster_si.near_names import mistyped_resource


def place_part(
    partition: Partition,
    app: Application,
    counts: dict[AskClass, int],
    allocation_plan: AllocationPlan,
    parts: list[Part] | None,
) -> None:
    """Plans as many members as fit. The others are reported as unschedulable, so that an autoscaler may add nodes."""
    search = _PartPlan(partition, app, snapshot_for(partition, app), parts)
    room = quota.room(partition, app)
    planned = NOTHING
    places: list[tuple[AllocationKey, NodeId]] = []
    for kind, count in counts.items():
        allowed = room.count(kind.resources, count)
        unschedulable_class = unschedulable_class_of(partition, app, kind)
        if unschedulable_class is not None and not unschedulable_class.room:
            allocation_plan.unplaced.append(Unplaced(kind, unschedulable_class.why, about=about(app, kind, 0)))
            allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1))
            continue
        spots = search.place(kind, allowed) if allowed else []
        placed = sum(there for _, there in spots)
        places += _assign(partition, app, kind, spots)
        room = room.room(kind.resources.times(placed))
        planned += kind.resources.times(placed)
        if placed < allowed:
            search.refuse(kind, placed, allocation_plan)
        elif allowed < count and (refused := quota.quota_refusal(partition, app, kind.resources, planned)) is not None:
            allocation_plan.unplaced.append(Unplaced(kind, refused.why))
            allocation_plan.blocking_reasons.append(refused.blocking_reason)
    if places:
        allocation_plan.decisions.append(
            Placement(partition.id, app.id, tuple(places), chosen_for(search.snapshot, *counts))
        )


def _assign(
    partition: Partition, app: Application, kind: AskClass, spots: Sequence[tuple[NodeId, int]]
) -> tuple[tuple[AllocationKey, NodeId], ...]:
    """Assigns nodes to the requests of a class. A node goes to the request that has a reservation there.

    The other nodes go to requests without a reservation first, so that the reservations of the others stay useful.
    """
    reserved = {one.node: one.key for one in partition.reservations.of(app.id) if one.key in app.waiting[kind]}
    if not reserved:
        return assign(app, kind, list(spots))
    left = {key: app.asks[key].left for key in app.waiting[kind]}
    places: list[tuple[AllocationKey, NodeId]] = []
    nodes: list[NodeId] = []
    for node, count in spots:
        if node in reserved:
            places.append((reserved[node], node))
            left[reserved[node]] -= 1
        nodes += [node] * (count - (node in reserved))
    holding = set(reserved.values())
    keys = sorted(left, key=lambda key: key in holding)
    places += zip((key for key in keys for _ in range(left[key])), nodes, strict=False)
    return tuple(places)


@dataclass(frozen=True, slots=True)
class _PartPlan:
    """Places a part of a gang. `parts` are filled one after the other; None = the gang has no topology."""

    partition: Partition
    app: Application
    snapshot: Snapshot
    parts: list[Part] | None

    def place(self, kind: AskClass, count: int) -> list[tuple[NodeId, int]]:
        """Places up to `count` members."""
        shape, sort = shape_of(kind), self.partition.config.node_sort
        if self.parts is None:
            return node_search.place(self.snapshot, shape, count, sort)
        spots: dict[NodeId, int] = {}
        for part in self.parts:
            self.snapshot.within = part.rows
            for node, there in node_search.place(self.snapshot, shape, count, sort) if count else []:
                spots[node] = spots.get(node, 0) + there
                count -= there
        return list(spots.items())

    def refuse(self, kind: AskClass, placed: int, allocation_plan: AllocationPlan) -> None:
        """Records that further members of the class do not fit. The snapshot is limited to the last part."""
        why = node_search.unschedulable_reason(self.snapshot, shape_of(kind))
        who = about(self.app, kind, placed, within(self.parts[-1].name if self.parts else ""))
        # Other members of the class may fit outside this domain.
        is_anywhere = self.snapshot.within is None
        allocation_plan.unplaced.append(Unplaced(kind, why, room=0 if is_anywhere else None, about=who))
        allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1) if is_anywhere else MembersDoNotFit(self.app.id))


def parts_of(
    partition: Partition, app: Application, counts: dict[AskClass, int], coming: Sequence[MemberDemand]
) -> list[Part] | None:
    """Returns the topology domains for a part of a packed gang, chosen so that the `coming` members fit too.

    None = the gang has no topology.
    """
    topology = app.spec.topology
    if topology is None:
        return None
    snapshot = snapshot_for(partition, app)
    demands = [*((shape_of(kind), count) for kind, count in counts.items()), *coming]
    return gangs_topology.parts(snapshot, demands, gangs_topology.domains(snapshot, topology, held(app)))


def coming(partition: Partition, app: Application, counts: dict[AskClass, int]) -> list[MemberDemand]:
    """Returns the declared members that have no request yet.

    The result is empty if these members cannot affect the plan: all members have one shape, and neither a topology nor
    pod affinity links them.
    """
    members = app.spec.members
    if (
        len(members) < 2
        and app.spec.topology is None
        and not any(member.facts.inter_pod.affinity for member in members)
    ):
        return []
    asked: Counter[TaskGroup] = Counter()
    for kind, count in counts.items():
        asked[kind.group] += count
    left = ((one, one.count - len(app.gang.live.get(one.group, ())) - asked[one.group]) for one in members)
    return [
        (declared(partition, member, member.facts.inter_pod.affinity), count) for member, count in left if count > 0
    ]


def declared(partition: Partition, member: Member, affinity: tuple[PodTerm, ...] = ()) -> RequestShape:
    """Returns the shape of a declared member.

    Topology spread constraints are left out. Affinity is left out unless it is given in `affinity`, because it may
    refer to pods outside the gang. Anti-affinity stays, because members that repel each other need as many domains in
    any cluster.
    """
    inter_pod = InterPodConstraints(affinity=affinity, anti_affinity=member.facts.inter_pod.anti_affinity)
    tags = partition.nodes.pods_on_nodes.tags.project(dict(member.tags))
    facts = PodProperties(inter_pod) if inter_pod != NO_INTER_POD_CONSTRAINTS else NO_PROPERTIES
    return RequestShape(member.resources.on_nodes, member.constraints, pod_on_node=pod_on_node_of(facts, tags))


def rows_inside(partition: Partition, app: Application, topology: Topology) -> list[BoolColumn]:
    """Returns the rows that members beyond the minimum and replacements use first, the innermost level first.

    These are the topology domains of their gang. If one domain is required, the filters keep them inside
    (`NodeTable.homes`).
    """
    is_any = any(kind.group and not app.has_placeholder(kind) for kind in app.waiting)
    if not (is_any and app.gang.was_complete and app.allocations):
        return []
    levels = gangs_topology.domains(Snapshot(partition.nodes), topology, held(app)).levels
    return [level.values.rows(*level.held) for level in reversed(levels)]


def held(app: Application) -> dict[NodeId, int]:
    """Returns the number of the gang's members per node, without other pods of its application."""
    placed = (allocation for allocation in app.allocations.values() if allocation.spec.group)
    return Counter(allocation.node for allocation in placed if allocation.releasing is None)


def about(app: Application, kind: AskClass, more: int, where: str = "") -> str:
    """Describes how many members of the task group are placed, counting `more` that the plan would place."""
    there = len(app.gang.live.get(kind.group, ())) + more
    known = [member.count for member in app.spec.members if member.group == kind.group]
    if app.spec.uses_virtual_placeholders:  # members that already run on a node count as well
        kinds = (one for one in app.waiting if one.placeholder and one.group == kind.group)
        there = known[0] - sum(wanted(app, one, sys.maxsize) for one in kinds) + more
    total = max([*known, there + 1])
    return messages.members_fit(there, total, kind.group, where)


def within(domain: str) -> str:
    """Returns the topology domain as the end of a message, or an empty string."""
    return f" in {domain}" if domain else ""


def unschedulable_class_of(partition: Partition, app: Application, kind: AskClass) -> UnschedulableClass | None:
    """Returns the cached result of the class. It is not used for a gang with reserved nodes.

    The result comes from applications that may not use the reserved resources, so its `room` may be too low.
    """
    return None if _has_reserved_nodes(partition, app) else partition.unschedulable_classes.get(kind)


def _has_reserved_nodes(partition: Partition, app: Application) -> bool:
    node_set = partition.contention.node_set
    return app.id in partition.reservations.by_application or (node_set is not None and node_set.application == app.id)


#: While some members are placed, new requests wait until they are at least this fraction of the members still to come.
_AT_ONCE: Final = 8


def plan_gang(partition: Partition, app: Application, now_ns: int) -> AllocationPlan:
    """Plans the next step of a gang that reserves resources. Requests of its real pods are not planned here."""
    kinds = [kind for kind in classes(app) if kind.placeholder]
    if not kinds:
        return AllocationPlan()
    never = quota.gang_refusal(partition, app)
    if never is not None:
        refused = [Unplaced(kind, never.why) for kind in kinds]
        return AllocationPlan(unplaced=refused, blocking_reasons=[never.blocking_reason], impossible=never.why.message)
    allocation_plan = _reserve(partition, app, kinds, now_ns)
    if allocation_plan.blocking_reasons:
        _warn(partition, app, kinds, allocation_plan, is_held=True)
        if allocation_plan.more or app.spec.is_all_or_nothing:
            return allocation_plan
        allocation_plan.unplaced.clear()  # `_place` adds the reason of each class
    _place(partition, app, kinds, allocation_plan)
    return allocation_plan


def _reserve(partition: Partition, app: Application, kinds: list[AskClass], now_ns: int) -> AllocationPlan:
    """Reserves quota. A gang older than `gang.starvationAge` requests the reservation even if the quota is not free.

    See docs/internals/semantics.md, rule 11.
    """
    rest = lacking(app)
    refused = quota.quota_refusal(partition, app, rest)
    has_room = refused is None
    quota_reservation = QuotaReservation(partition.id, app.id, rest, granted=has_room and bool(rest))
    is_new = (quota_reservation.amount, quota_reservation.granted) != (app.gang.quota_reservation, app.gang.granted)
    is_starving = now_ns - app.submitted_ns >= partition.timing.starvation_age_ns
    if refused is None:
        # A gang that is placed all at once gets a reservation only when it starves, because quota without nodes is
        # useless.
        may_reserve_quota = not app.spec.is_all_or_nothing or is_starving or bool(app.gang.quota_reservation)
        return AllocationPlan([quota_reservation] if is_new and may_reserve_quota else [])
    unplaced = [Unplaced(kind, refused.why) for kind in kinds]
    # A reservation that exceeds a lowered maximum waits for quota like that of a starving gang.
    claims = is_starving or bool(app.gang.quota_reservation)
    # The new reservation changes the headroom, so the gang is planned again.
    claim: list[Decision] = [quota_reservation] if is_new and claims else []
    # A user or group limit does not block other applications of the leaf, because they could use what is left.
    blocks = refused.why.kind is ReasonKind.QUOTA
    return AllocationPlan(claim, unplaced, [refused.blocking_reason], more=bool(claim), blocks=blocks)


def _place(partition: Partition, app: Application, kinds: list[AskClass], allocation_plan: AllocationPlan) -> None:
    counts = {kind: wanted(app, kind, sys.maxsize) for kind in kinds}
    has_all = app.spec.uses_virtual_placeholders or _has_all(app, counts)
    refused = quota.quota_refusal(partition, app, _sum(counts))
    # The first members must leave room for those still to come and must not select a domain that is too small for all.
    expected = [] if has_all else coming(partition, app, counts)
    if app.gang.live and sum(counts.values()) * _AT_ONCE < sum(count for _, count in expected):
        return  # each plan covers all members, so plan again when more requests have arrived
    snapshot = snapshot_for(partition, app)
    answer = _whole(partition, app, counts, expected, snapshot) if refused is None else None
    if isinstance(answer, Places):
        pairs = zip(counts, answer.per_demand, strict=False)  # `expected` demands are last and get no decision
        places = [place for kind, spots in pairs for place in _assign(partition, app, kind, spots)]
        allocation_plan.decisions.append(Placement(partition.id, app.id, tuple(places), chosen_for(snapshot, *kinds)))
        return
    allocation_plan.in_vain = answer is not None
    _warn(partition, app, kinds, allocation_plan, is_held=refused is not None)
    if not app.spec.is_all_or_nothing:
        place_part(partition, app, counts, allocation_plan, parts_of(partition, app, counts, expected))
    elif refused is not None:
        allocation_plan.unplaced += [Unplaced(kind, refused.why) for kind in kinds]
        allocation_plan.blocking_reasons.append(refused.blocking_reason)
    elif answer is not None:
        _refuse(partition, app, counts, answer, allocation_plan)


def _refuse(
    partition: Partition,
    app: Application,
    counts: dict[AskClass, int],
    answer: Shortage,
    allocation_plan: AllocationPlan,
) -> None:
    """Records that all members wait for the member that does not fit. That member may have no request yet."""
    kinds = list(counts)
    if answer.demand >= len(kinds):
        allocation_plan.unplaced += [Unplaced(kind, answer.why) for kind in kinds]
        allocation_plan.blocking_reasons.append(MembersDoNotFit(app.id))
        return
    kind = kinds[answer.demand]
    is_of_class = answer.alone and not _has_reserved_nodes(partition, app)
    allocation_plan.blocking_reasons.append(NoNodeFits(kind, counts[kind]) if is_of_class else MembersDoNotFit(app.id))
    room = answer.count - answer.missing
    details = about(app, kind, *_fitting(partition, app, counts, answer))
    for index, other in enumerate(kinds):
        known = room if answer.alone and index == answer.demand else None
        allocation_plan.unplaced.append(Unplaced(other, answer.why, known, details))


def _fitting(partition: Partition, app: Application, counts: dict[AskClass, int], answer: Shortage) -> tuple[int, str]:
    """Returns how many waiting members of the task group that does not fit would fit, and where.

    Pods, placeholders and absent members are different classes of one task group, and are counted together.
    """
    kind = list(counts)[answer.demand]
    group = [one for one in counts if one.group == kind.group]
    if answer.domain or len(group) == 1:
        where = within(answer.domain) or ("" if answer.alone else messages.TOGETHER)
        return answer.count - answer.missing, where
    snapshot, sort = snapshot_for(partition, app), partition.config.node_sort
    found = (spot for one in group for spot in node_search.place(snapshot, shape_of(one), counts[one], sort))
    fitting, total = sum(count for _, count in found), sum(counts[one] for one in group)
    return (fitting, "") if fitting < total else (total - answer.missing, messages.TOGETHER)


def _whole(
    partition: Partition, app: Application, counts: dict[AskClass, int], coming: list[MemberDemand], snapshot: Snapshot
) -> Places | Shortage:
    """Returns nodes for all members, including those still to come, or the shortage."""
    for index, (kind, count) in enumerate(counts.items()):
        unschedulable_class = unschedulable_class_of(partition, app, kind)
        if unschedulable_class is not None and unschedulable_class.room < count:
            return Shortage(index, count - unschedulable_class.room, unschedulable_class.why, count, alone=True)
    demands: list[MemberDemand] = [*((shape_of(kind), count) for kind, count in counts.items()), *coming]
    sort, work = partition.config.node_sort, Work(app.gang.searches)
    if app.spec.topology is None:
        return place_all(snapshot, demands, sort, work)
    return gangs_topology.place_packed(
        snapshot, demands, sort, gangs_topology.domains(snapshot, app.spec.topology, held(app)), work
    )


def _has_all(app: Application, counts: dict[AskClass, int]) -> bool:
    return (app.gang.reserved + _sum(counts)).covers(app.spec.placeholder_ask)


def _sum(counts: dict[AskClass, int]) -> Resources:
    """Total request. It may exceed the `placeholderAsk`, because injected sidecars add to a placeholder."""
    total: Resources = NOTHING
    for kind, count in counts.items():
        total = total.plus(kind.resources, count)
    return total


def _warn(
    partition: Partition, app: Application, kinds: list[AskClass], allocation_plan: AllocationPlan, *, is_held: bool
) -> None:
    """Adds a warning if the gang would not fit even on empty nodes. Evaluated once per cluster capacity.

    `kinds`: its waiting placeholder requests. `is_held`: a quota blocks the gang as well, so more nodes alone would not
    help. See docs/internals/semantics.md, rule 10.
    """
    nodes = partition.nodes
    if allocation_plan.checked or app.gang.checked_at == nodes.capacity_total or not app.spec.members:
        return
    if app.spec.uses_virtual_placeholders:
        members = [(kind.group, _on_empty_nodes(kind), wanted(app, kind, sys.maxsize)) for kind in kinds]
    else:
        members = [(member.group, declared(partition, member), member.count) for member in app.spec.members]
    demands = [(shape, count) for _, shape, count in members]
    short = gangs_topology.missing_on_empty_domains(nodes, demands, app.spec.topology)
    allocation_plan.checked = True
    if short is None:
        return
    group, shape, _ = members[short.demand]
    count = sum(member.count for member in app.spec.members if member.group == group)
    mistyped = mistyped_resource(dict(shape.resources.items()), dict(nodes.capacity_total.items()))
    why = UnschedulableReason(ReasonKind.CLUSTER, counts=short.why.counts, nodes=short.why.nodes).text()
    advice = messages.no_such_resource(*mistyped) if mistyped else messages.WAITS_FOR_NODES
    allocation_plan.notice = messages.gang_exceeds_cluster(
        short.missing, count, group, within(short.domain), why, advice
    )
    allocation_plan.short_of = "" if is_held else group


def _on_empty_nodes(kind: AskClass) -> RequestShape:
    """Returns the shape of requested slots as `declared` does: without what may refer to pods outside the gang."""
    facts = PodProperties(InterPodConstraints(anti_affinity=kind.pod_on_node.facts.inter_pod.anti_affinity))
    return RequestShape(kind.resources.on_nodes, kind.constraints, pod_on_node=PodOnNode(kind.pod_on_node.tags, facts))
