"""Places for asks that nothing stands for: ordinary pods, and gang members beyond their placeholders."""

from __future__ import annotations

from muster_core.model.decisions import Placement
from muster_core.model.resources import NOTHING
from muster_core.plan import fit, headroom
from muster_core.plan.draft import Draft
from muster_core.plan.ordering import classes
from muster_core.plan.outline import Outline, Unplaced, assign, has_untold, shape_of, wanted
from muster_core.plan.reserving import lift
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application
from muster_core.world.world import Partition


def plan(partition: Partition, app: Application, at_most: int) -> Outline:
    """As many places as queues and nodes have, `at_most` in all."""
    outline = Outline()
    draft: Draft | None = None
    room = headroom.room(app)
    left, planned = at_most, NOTHING
    for kind in classes(app):
        if left <= 0:
            break
        if has_placeholder(app, kind):
            continue
        misfit = partition.misfits.get(kind)
        if misfit is not None and not misfit.room:
            if has_untold(app, kind):
                why = misfit.why if room.count(kind.resources, 1) else headroom.explain(app, kind.resources, planned)
                outline.unplaced.append(Unplaced(kind, why))
            continue
        draft = draft or Draft(partition.nodes)
        count = wanted(app, kind, left)
        allowed = room.count(kind.resources, count)
        lift(partition, draft, kind, 1)
        spots = fit.place(draft, shape_of(kind), allowed, partition.config.node_sort) if allowed else []
        placed = sum(there for _, there in spots)
        if placed:
            outline.decisions.append(Placement(partition.id, app.id, assign(app, kind, spots)))
            planned += kind.resources.times(placed)
            room = room.room(kind.resources.times(placed))
            left -= placed
        if placed < allowed:
            outline.unplaced.append(Unplaced(kind, fit.shortfall(draft, shape_of(kind)), room=0))
        elif allowed < count:
            outline.unplaced.append(Unplaced(kind, headroom.explain(app, kind.resources, planned)))
        lift(partition, draft, kind, -1)
    return outline
