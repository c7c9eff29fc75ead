"""Places for a gang that is reserving: whole, or in part if it is the one that may.

Reserving starts when the queue path has head room for all the gang lacks, and
pledges it (seed 000, semantics 11). Then its placeholders are placed: all of
them together if they fit; otherwise as many as fit, but only by the one gang
of the partition that holds the partial slot (semantics 12). That gang also
takes its places as its asks arrive; the others wait until all have.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass

from muster_core.model.decisions import Decision, Placement, Pledge
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan import fit, headroom, packing
from muster_core.plan.draft import Draft
from muster_core.plan.ordering import classes
from muster_core.plan.outline import Outline, Unplaced, assign, shape_of, wanted
from muster_core.plan.packing import Part
from muster_core.plan.reserving import draft_for
from muster_core.plan.search.demand import Demand, Places, Short
from muster_core.plan.search.work import Work
from muster_core.plan.shape import Shape
from muster_core.plan.together import place_all
from muster_core.world.applications import Application, AskClass, lacking
from muster_core.world.misfits import Misfit
from muster_core.world.obstacles import NoNode, NoSlot, NotTogether
from muster_core.world.world import Partition


def plan(partition: Partition, app: Application, now_ns: int) -> Outline:
    """What the gang does next; real asks of a reserving gang are not looked at (seed 000)."""
    kinds = [kind for kind in classes(app) if kind.placeholder]
    if not kinds:
        return Outline()
    outline = _reserve(partition, app, kinds, now_ns)
    if outline.obstacles:
        _warn(partition, app, outline, is_held=True)
        return outline
    _place(partition, app, kinds, outline)
    return outline


def _reserve(partition: Partition, app: Application, kinds: list[AskClass], now_ns: int) -> Outline:
    """Ask for head room; a gang that starves pledges before it is there (semantics 11)."""
    rest = lacking(app)
    refused = headroom.refusal(partition, app, rest)
    has_room = refused is None
    pledge = Pledge(partition.id, app.id, rest, backed=has_room and bool(rest))
    is_new = (pledge.amount, pledge.backed) != (app.gang.pledge, app.gang.backed)
    if refused is None:
        return Outline([pledge] if is_new else [])
    is_starving = now_ns - app.submitted_ns >= partition.timing.starvation_age_ns
    unplaced = [Unplaced(kind, refused.why) for kind in kinds]
    # What was promised and lost its head room (a lower maximum) waits for it like a starving gang's.
    claims = is_starving or bool(app.gang.pledge)
    # Who has just claimed sees another head room than before, and looks again.
    claim: list[Decision] = [pledge] if is_new and claims else []
    # Others of the leaf could take nothing from it of what its user or group lacks.
    blocks = refused.why.lack is Lack.QUOTA
    return Outline(claim, unplaced, [refused.obstacle], more=bool(claim), blocks=blocks)


def _place(partition: Partition, app: Application, kinds: list[AskClass], outline: Outline) -> None:
    counts = {kind: wanted(app, kind, sys.maxsize) for kind in kinds}
    has_all = _has_all(app, counts)
    has_slot = partition.partial in (None, app.id)
    if not has_slot:
        outline.obstacles.append(NoSlot())
    if not has_all and not has_slot:
        return
    refused = headroom.refusal(partition, app, _sum(counts))
    answer = _whole(partition, app, counts) if refused is None else None
    if isinstance(answer, Places):
        pairs = zip(counts, answer.per_demand, strict=True)
        places = [place for kind, spots in pairs for place in assign(app, kind, list(spots))]
        outline.decisions.append(Placement(partition.id, app.id, tuple(places)))
        return
    outline.in_vain = answer is not None
    _warn(partition, app, outline, is_held=refused is not None)
    if has_slot:
        _place_part(partition, app, counts, outline)
    elif refused is not None:
        outline.obstacles.append(refused.obstacle)
    elif answer is not None:
        _refuse(app, counts, answer, outline)


def _refuse(app: Application, counts: dict[AskClass, int], answer: Short, outline: Outline) -> None:
    """All of them wait for the one that is short."""
    kinds = list(counts)
    kind = kinds[answer.demand]
    outline.obstacles.append(NoNode(kind, counts[kind]) if answer.alone else NotTogether(app.id))
    room = answer.count - answer.missing
    about = _about(app, kind, room, answer.domain or ("" if answer.alone else "beside the others"))
    for index, other in enumerate(kinds):
        known = room if answer.alone and index == answer.demand else None
        outline.unplaced.append(Unplaced(other, answer.why, known, about))


def _whole(partition: Partition, app: Application, counts: dict[AskClass, int]) -> Places | Short:
    """Places for all, or which class is short of them."""
    for index, (kind, count) in enumerate(counts.items()):
        misfit = _misfit(partition, app, kind)
        if misfit is not None and misfit.room < count:
            return Short(index, count - misfit.room, misfit.why, count, alone=True)
    demands: list[Demand] = [(shape_of(kind), count) for kind, count in counts.items()]
    draft, sort, work = draft_for(partition, app), partition.config.node_sort, Work(app.gang.searches)
    if app.spec.topology is None:
        return place_all(draft, demands, sort, work)
    return packing.place_packed(draft, demands, sort, packing.domains(draft, app.spec.topology, _held(app)), work)


def _misfit(partition: Partition, app: Application, kind: AskClass) -> Misfit | None:
    """What is remembered of the class; for those who have room held the memory, made by others, may be too low."""
    return None if app.id in partition.reservations.by_application else partition.misfits.get(kind)


def _place_part(partition: Partition, app: Application, counts: dict[AskClass, int], outline: Outline) -> None:
    """As many as fit; the rest is outstanding, so that an autoscaler may act (seed 000)."""
    search = _Part(partition, app, draft_for(partition, app), _parts(partition, app, counts))
    room = headroom.room(partition, app)
    planned = NOTHING
    places: list[tuple[AllocationKey, NodeId]] = []
    for kind, count in counts.items():
        allowed = room.count(kind.resources, count)
        misfit = _misfit(partition, app, kind)
        if misfit is not None and not misfit.room:
            outline.unplaced.append(Unplaced(kind, misfit.why, about=_about(app, kind, 0)))
            outline.obstacles.append(NoNode(kind, 1))
            continue
        spots = search.place(kind, allowed) if allowed else []
        placed = sum(there for _, there in spots)
        places += assign(app, kind, spots)
        room = room.room(kind.resources.times(placed))
        planned += kind.resources.times(placed)
        if placed < allowed:
            search.refuse(kind, placed, outline)
        elif allowed < count and (refused := headroom.refusal(partition, app, kind.resources, planned)) is not None:
            outline.unplaced.append(Unplaced(kind, refused.why))
            outline.obstacles.append(refused.obstacle)
    if places:
        outline.decisions.append(Placement(partition.id, app.id, tuple(places)))


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a part of a gang goes: `parts` are filled one after the other; None = the nodes are one."""

    partition: Partition
    app: Application
    draft: Draft
    parts: list[Part] | None

    def place(self, kind: AskClass, count: int) -> list[tuple[NodeId, int]]:
        """As many as fit, up to `count`."""
        shape, sort = shape_of(kind), self.partition.config.node_sort
        if self.parts is None:
            return fit.place(self.draft, shape, count, sort)
        spots: dict[NodeId, int] = {}
        for part in self.parts:
            self.draft.within = part.rows
            for node, there in fit.place(self.draft, shape, count, sort) if count else []:
                spots[node] = spots.get(node, 0) + there
                count -= there
        return list(spots.items())

    def refuse(self, kind: AskClass, placed: int, outline: Outline) -> None:
        """More of the class have no place here; `draft` is as the last part was left."""
        why = fit.shortfall(self.draft, shape_of(kind))
        name = self.parts[-1].name if self.parts else ""
        about = _about(self.app, kind, placed, name)
        # Within a domain others of the class may have room elsewhere.
        is_anywhere = self.draft.within is None
        outline.unplaced.append(Unplaced(kind, why, room=0 if is_anywhere else None, about=about))
        outline.obstacles.append(NoNode(kind, 1) if is_anywhere else NotTogether(self.app.id))


def _parts(partition: Partition, app: Application, counts: dict[AskClass, int]) -> list[Part] | None:
    if app.spec.topology is None:
        return None
    demands = [(shape_of(kind), count) for kind, count in counts.items()]
    draft = draft_for(partition, app)
    return packing.parts(draft, demands, packing.domains(draft, app.spec.topology, _held(app)))


def _held(app: Application) -> dict[NodeId, int]:
    """Where it has places, and how many."""
    return Counter(allocation.node for allocation in app.allocations.values() if allocation.releasing is None)


def _about(app: Application, kind: AskClass, more: int, where: str = "") -> str:
    """Which member lacks places: how many of its task group have theirs, or would with `more`."""
    there = len(app.gang.live.get(kind.group, ())) + more
    known = [member.count for member in app.spec.members if member.group == kind.group]
    total = max([*known, there + 1])
    return f"task group {kind.group} has places for {there} of {total} members{where and ' '}{where}"


def _has_all(app: Application, counts: dict[AskClass, int]) -> bool:
    return (app.gang.reserved + _sum(counts)).covers(app.spec.placeholder_ask)


def _sum(counts: dict[AskClass, int]) -> Resources:
    """Placeholders may be larger than the gang said they would be (injected sidecars)."""
    total: Resources = NOTHING
    for kind, count in counts.items():
        total = total.plus(kind.resources, count)
    return total


def _warn(partition: Partition, app: Application, outline: Outline, *, is_held: bool) -> None:
    """Said once for each size of the cluster: not even an empty one of these nodes could hold the gang (semantics 10).

    `is_held`: a quota is in the way as well, so that more nodes would not help.
    """
    nodes = partition.nodes
    if app.gang.checked_at == nodes.capacity_total or not app.spec.members:
        return
    members = app.spec.members
    demands = [(Shape(m.resources, m.constraints), m.count) for m in members]
    short = packing.lacking_packed_when_empty(nodes, demands, app.spec.topology)
    outline.checked = True
    if short is None:
        return
    member = members[short.demand]
    why = Shortfall(Lack.CLUSTER, counts=short.why.counts, nodes=short.why.nodes).text() or "there are no nodes"
    where = f" in {short.domain}" if short.domain else ""
    outline.notice = (
        f"even an empty cluster could not hold the gang: {short.missing} of {member.count} members of task group "
        f"{member.group} would have no place{where}: {why} It waits for nodes to be added"
    )
    outline.short_of = "" if is_held else member.group
