"""Places for a gang that is reserving: whole, or in part; never in part if it wants them
whole (Atomic, Direct: semantics 16).

While the queue path has headroom for all that the gang lacks, that amount is
reserved on it (semantics 11). Placeholders are placed all together if they
fit, also as their requests arrive; otherwise as many as quota and nodes allow.
What later gangs reserve may then be taken over (plan/takeover.py).
"""

from __future__ import annotations

import sys
from typing import Final

from muster_core.model.decisions import Decision, Placement, Pledge
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.shortfall import Lack, Shortfall
from muster_core.plan import headroom, impossible, packing, partial
from muster_core.plan.draft import Draft
from muster_core.plan.outline import Outline, Unplaced, assign, shape_of, volumes_of, wanted
from muster_core.plan.reserving import draft_for
from muster_core.plan.search.demand import Demand, Places, Short
from muster_core.plan.search.work import Work
from muster_core.plan.together import place_all
from muster_core.world.applications import Application, lacking
from muster_core.world.classes import AskClass
from muster_core.world.obstacles import NoNode, NotTogether
from muster_core.world.ordering import classes
from muster_core.world.world import Partition

#: Who comes early waits for more to come until it is one of so many of those that are still to come.
_AT_ONCE: Final = 8


def plan(partition: Partition, app: Application, now_ns: int) -> Outline:
    """What the gang does next; real asks of a reserving gang are not looked at (seed 000)."""
    kinds = [kind for kind in classes(app) if kind.placeholder]
    if not kinds:
        return Outline()
    never = impossible.refusal(partition, app)
    if never is not None:
        refused = [Unplaced(kind, never.why) for kind in kinds]
        return Outline(unplaced=refused, obstacles=[never.obstacle], impossible=never.why.message)
    outline = _reserve(partition, app, kinds, now_ns)
    if outline.obstacles:
        _warn(partition, app, outline, is_held=True)
        if outline.more or app.spec.is_whole:
            return outline
        outline.unplaced.clear()  # each class says below what is short for it
    _place(partition, app, kinds, outline)
    return outline


def _reserve(partition: Partition, app: Application, kinds: list[AskClass], now_ns: int) -> Outline:
    """Ask for head room; a gang that starves pledges before it is there (semantics 11)."""
    rest = lacking(app)
    refused = headroom.refusal(partition, app, rest)
    has_room = refused is None
    pledge = Pledge(partition.id, app.id, rest, backed=has_room and bool(rest))
    is_new = (pledge.amount, pledge.backed) != (app.gang.pledge, app.gang.backed)
    is_starving = now_ns - app.submitted_ns >= partition.timing.starvation_age_ns
    if refused is None:
        # One that has all or nothing is promised nothing before it starves: head room without nodes is of no use.
        may_pledge = not app.spec.is_whole or is_starving or bool(app.gang.pledge)
        return Outline([pledge] if is_new and may_pledge else [])
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
    has_all = app.spec.is_podless or _has_all(app, counts)
    is_whole = app.spec.is_whole
    if not has_all and is_whole:
        return
    refused = headroom.refusal(partition, app, _sum(counts))
    exceeds = app.gang.exceeds_nodes
    if not has_all:  # a gang that no empty cluster could hold reserves nothing for the first that arrive
        _warn(partition, app, outline, is_held=refused is not None)
        exceeds = bool(outline.notice) if outline.checked else exceeds
    # Who arrives first must not take the room of those that are still to come, nor decide where all of them go.
    coming = [] if has_all else partial.coming(partition, app, counts, is_needed=exceeds)
    if app.gang.live and sum(counts.values()) * _AT_ONCE < sum(count for _, count in coming):
        return  # each plan is one for all of them: the next ones that come make it worth it
    draft = draft_for(partition, app)
    answer = _whole(partition, app, counts, coming, draft) if refused is None else None
    if isinstance(answer, Places):
        pairs = zip(counts, answer.per_demand, strict=False)  # those to come are behind them
        places = [place for kind, spots in pairs for place in assign(app, kind, list(spots))]
        outline.decisions.append(Placement(partition.id, app.id, tuple(places), volumes_of(draft, *kinds)))
        return
    outline.in_vain = answer is not None
    _warn(partition, app, outline, is_held=refused is not None)
    exceeds = bool(outline.notice) if outline.checked else exceeds
    if not is_whole and not exceeds:
        partial.place(partition, app, counts, outline, partial.parts_of(partition, app, counts, coming))
    elif refused is not None:
        outline.unplaced += [Unplaced(kind, refused.why) for kind in kinds]
        outline.obstacles.append(refused.obstacle)
    elif answer is not None:
        _refuse(app, counts, answer, outline)
        if not is_whole:  # with more nodes it reserves what fits, however few there are
            outline.obstacles += [NoNode(kind, 1) for kind in counts]


def _refuse(app: Application, counts: dict[AskClass, int], answer: Short, outline: Outline) -> None:
    """All of them wait for the one that is short, which may be still to come."""
    kinds = list(counts)
    if answer.demand >= len(kinds):
        outline.unplaced += [Unplaced(kind, answer.why) for kind in kinds]
        outline.obstacles.append(NotTogether(app.id))
        return
    kind = kinds[answer.demand]
    outline.obstacles.append(NoNode(kind, counts[kind]) if answer.alone else NotTogether(app.id))
    room = answer.count - answer.missing
    where = partial.within(answer.domain) or ("" if answer.alone else " beside the others")
    about = partial.about(app, kind, room, where)
    for index, other in enumerate(kinds):
        known = room if answer.alone and index == answer.demand else None
        outline.unplaced.append(Unplaced(other, answer.why, known, about))


def _whole(
    partition: Partition, app: Application, counts: dict[AskClass, int], coming: list[Demand], draft: Draft
) -> Places | Short:
    """Places for all and those to come, or which is short of them."""
    for index, (kind, count) in enumerate(counts.items()):
        misfit = partial.misfit_of(partition, app, kind)
        if misfit is not None and misfit.room < count:
            return Short(index, count - misfit.room, misfit.why, count, alone=True)
    demands: list[Demand] = [*((shape_of(kind), count) for kind, count in counts.items()), *coming]
    sort, work = partition.config.node_sort, Work(app.gang.searches)
    if app.spec.topology is None:
        return place_all(draft, demands, sort, work)
    return packing.place_packed(
        draft, demands, sort, packing.domains(draft, app.spec.topology, partial.held(app)), work
    )


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
    if outline.checked or app.gang.checked_at == nodes.capacity_total or not app.spec.members:
        return
    members = app.spec.members
    demands = [(partial.declared(partition, member), member.count) for member in members]
    short = packing.lacking_packed_when_empty(nodes, demands, app.spec.topology)
    outline.checked = True
    if short is None:
        return
    member = members[short.demand]
    why = Shortfall(Lack.CLUSTER, counts=short.why.counts, nodes=short.why.nodes).text() or "there are no nodes"
    outline.notice = (
        f"even an empty cluster could not hold the gang: {short.missing} of {member.count} members of task group "
        f"{member.group} would have no place{partial.within(short.domain)}: {why} It waits for nodes to be added"
    )
    outline.short_of = "" if is_held else member.group
