"""Places for asks that nothing stands for: ordinary pods, and gang members beyond their placeholders."""

from __future__ import annotations

from dataclasses import dataclass

from muster_core.model.decisions import Placement
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.plan import fit, headroom
from muster_core.plan.draft import Draft
from muster_core.plan.ordering import classes
from muster_core.plan.outline import Outline, Unplaced, assign, has_untold, shape_of, volumes_of, wanted
from muster_core.plan.pace import FREELY, Pace
from muster_core.plan.reserving import lift
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application
from muster_core.world.classes import AskClass
from muster_core.world.obstacles import NoNode
from muster_core.world.world import Partition


def plan(partition: Partition, app: Application, at_most: int, pace: Pace = FREELY) -> Outline:
    """As many places as queues, limits and nodes have: `at_most` in all, and no more than the pace allows."""
    outline = Outline()
    search = _Search(partition, app, outline, pace, at_most)
    for kind in classes(app):
        if has_placeholder(app, kind):
            continue
        if search.left <= 0 or outline.more:
            outline.more = True
            break
        misfit = partition.misfits.get(kind)
        if misfit is not None and not misfit.room:
            outline.obstacles.append(NoNode(kind, 1))
            if has_untold(app, kind):
                refused = headroom.refusal(partition, app, kind.resources, search.planned)
                outline.unplaced.append(Unplaced(kind, misfit.why if refused is None else refused.why))
            continue
        search.place(kind)
    return outline


@dataclass(slots=True)
class _Search:
    """What the classes of one plan share."""

    partition: Partition
    app: Application
    outline: Outline
    pace: Pace
    left: int
    planned: Resources = NOTHING
    draft: Draft | None = None
    room: Limit | None = None

    def place(self, kind: AskClass) -> None:
        """Places for a class; what is not given is refused, or left for another turn."""
        partition, app = self.partition, self.app
        if self.room is None:
            self.room = headroom.room(partition, app)
        wants = wanted(app, kind, self.left + 1)
        count = min(self.pace.count(kind.resources, self.left, self.planned), wants)
        allowed = self.room.count(kind.resources, count)
        draft = self.draft = self.draft or Draft(partition.nodes)
        lift(partition, draft, kind, 1)
        placed = self._give(kind, allowed, draft) if allowed else 0
        self.left -= placed
        why = fit.shortfall(draft, shape_of(kind)) if placed < allowed else None
        lift(partition, draft, kind, -1)
        if why is not None:
            self.outline.unplaced.append(Unplaced(kind, why, room=0))
            self.outline.obstacles.append(NoNode(kind, 1))
        elif allowed < count:
            refused = headroom.refusal(partition, app, kind.resources, self.planned)
            if refused is not None:
                self.outline.unplaced.append(Unplaced(kind, refused.why))
                self.outline.obstacles.append(refused.obstacle)
        elif count < wants:
            self.outline.more = True

    def _give(self, kind: AskClass, allowed: int, draft: Draft) -> int:
        partition = self.partition
        spots = fit.place(draft, shape_of(kind), allowed, partition.config.node_sort)
        placed = sum(there for _, there in spots)
        if placed and self.room is not None:
            volumes = volumes_of(draft, kind)
            self.outline.decisions.append(Placement(partition.id, self.app.id, assign(self.app, kind, spots), volumes))
            taken = kind.resources.times(placed)
            self.room = self.room.room(taken)
            self.planned += taken
        return placed
