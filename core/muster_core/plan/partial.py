"""Places for a part of a gang: as many of its members as quota and nodes allow (semantics 12).

A packed gang fills its domains one after the other (plan/packing.py). The rest
is told which task group lacks how many places. Called by plan/gang.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from muster_core.model.company import ANY_COMPANY, Company, PodTerm
from muster_core.model.decisions import Placement
from muster_core.model.facts import NO_FACTS, PodFacts
from muster_core.model.ids import AllocationKey, NodeId, TaskGroup
from muster_core.model.resources import NOTHING
from muster_core.model.specs import Member
from muster_core.plan import fit, headroom, packing
from muster_core.plan.draft import Draft
from muster_core.plan.outline import Outline, Unplaced, assign, shape_of, volumes_of, wanted
from muster_core.plan.packing import Part
from muster_core.plan.reserving import draft_for
from muster_core.plan.search.demand import Demand
from muster_core.plan.shape import Shape
from muster_core.world.applications import Application
from muster_core.world.classes import AskClass, occupant_of
from muster_core.world.misfits import Misfit
from muster_core.world.obstacles import NoNode, NotTogether
from muster_core.world.world import Partition


def place(
    partition: Partition, app: Application, counts: dict[AskClass, int], outline: Outline, parts: list[Part] | None
) -> None:
    """As many as fit; the rest is outstanding, so that an autoscaler may act (seed 000)."""
    search = _Part(partition, app, draft_for(partition, app), parts)
    room = headroom.room(partition, app)
    planned = NOTHING
    places: list[tuple[AllocationKey, NodeId]] = []
    for kind, count in counts.items():
        allowed = room.count(kind.resources, count)
        misfit = misfit_of(partition, app, kind)
        if misfit is not None and not misfit.room:
            outline.unplaced.append(Unplaced(kind, misfit.why, about=about(app, kind, 0)))
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
        outline.decisions.append(Placement(partition.id, app.id, tuple(places), volumes_of(search.draft, *counts)))


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
        who = about(self.app, kind, placed, within(self.parts[-1].name if self.parts else ""))
        # Within a domain others of the class may have room elsewhere.
        is_anywhere = self.draft.within is None
        outline.unplaced.append(Unplaced(kind, why, room=0 if is_anywhere else None, about=who))
        outline.obstacles.append(NoNode(kind, 1) if is_anywhere else NotTogether(self.app.id))


def parts_of(
    partition: Partition, app: Application, counts: dict[AskClass, int], coming: Sequence[Demand]
) -> list[Part] | None:
    """Where a part of a packed gang goes, with an eye on those to come; None = it is not packed."""
    topology = app.spec.topology
    if topology is None:
        return None
    draft = draft_for(partition, app)
    demands = [*((shape_of(kind), count) for kind, count in counts.items()), *coming]
    return packing.parts(draft, demands, packing.domains(draft, topology, held(app)))


def coming(
    partition: Partition, app: Application, counts: dict[AskClass, int], *, is_needed: bool = False
) -> list[Demand]:
    """Members that were announced and not asked for yet; unless they are needed nothing where it does not matter when
    they come: all are of one shape, and it is all the same where the first ones go.
    """
    members = app.spec.members
    if (
        not is_needed
        and len(members) < 2
        and app.spec.topology is None
        and not any(member.facts.company.near for member in members)
    ):
        return []
    asked: Counter[TaskGroup] = Counter()
    for kind, count in counts.items():
        asked[kind.group] += count
    left = ((one, one.count - len(app.gang.live.get(one.group, ())) - asked[one.group]) for one in members)
    return [(declared(partition, member, member.facts.company.near), count) for member, count in left if count > 0]


def declared(partition: Partition, member: Member, near: tuple[PodTerm, ...] = ()) -> Shape:
    """A member as it was declared. How it is spread is left out, and what it wants near unless it is given: that may be
    for others that come beside it; who keeps away from its like needs room for all of them in any cluster.
    """
    company = Company(near=near, apart=member.facts.company.apart)
    tags = partition.nodes.occupants.tags.project(dict(member.tags))
    facts = PodFacts(company) if company != ANY_COMPANY else NO_FACTS
    return Shape(member.resources, member.constraints, occupant=occupant_of(facts, tags))


def held(app: Application) -> dict[NodeId, int]:
    """Where it has places, and how many."""
    return Counter(allocation.node for allocation in app.allocations.values() if allocation.releasing is None)


def about(app: Application, kind: AskClass, more: int, where: str = "") -> str:
    """Which member lacks places: how many of its task group have theirs, or would with `more`."""
    there = len(app.gang.live.get(kind.group, ())) + more
    known = [member.count for member in app.spec.members if member.group == kind.group]
    if app.spec.is_podless:  # members that have a node count, too
        there = known[0] - wanted(app, kind, sys.maxsize) + more
    total = max([*known, there + 1])
    return f"task group {kind.group} has places for {there} of {total} members{where}"


def within(domain: str) -> str:
    """In which domain, as words that follow others; nothing where there is none."""
    return f" in {domain}" if domain else ""


def misfit_of(partition: Partition, app: Application, kind: AskClass) -> Misfit | None:
    """What is remembered of the class; for those who have room held the memory, made by others, may be too low."""
    return None if app.id in partition.reservations.by_application else partition.misfits.get(kind)
