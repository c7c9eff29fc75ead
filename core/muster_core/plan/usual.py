"""Places for asks that nothing stands for: ordinary pods, and gang members beyond their placeholders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.decisions import Placement
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.shortfall import Shortfall
from muster_core.plan import fit, headroom
from muster_core.plan.claim_kinds import kind_of
from muster_core.plan.draft import Draft
from muster_core.plan.outline import Outline, Unplaced, assign, has_untold, shape_of, volumes_of, wanted
from muster_core.plan.pace import FREELY, Pace
from muster_core.plan.reserving import lift
from muster_core.plan.swap import has_placeholder
from muster_core.world.applications import Application
from muster_core.world.classes import AskClass
from muster_core.world.obstacles import NoNode
from muster_core.world.ordering import classes
from muster_core.world.world import Partition


@dataclass(frozen=True, slots=True)
class Budget:
    """What one plan may spend: so many looks at all nodes, and no more time than there is. The next plan goes on."""

    may_go_on: Callable[[], bool]
    looks: int


UNBOUNDED: Final = Budget(lambda: True, sys.maxsize)


def plan(
    partition: Partition,
    app: Application,
    at_most: int,
    pace: Pace = FREELY,
    budget: Budget = UNBOUNDED,
) -> Outline:
    """As many places as queues, limits and nodes have: `at_most` in all, and no more than the pace allows. At least one
    class is looked at whatever the budget is.
    """
    outline = Outline()
    search = _Search(partition, app, outline, pace, at_most, budget.looks)
    kinds = classes(app)
    is_first = True
    for index, kind in enumerate(kinds):
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
        if not is_first and not (search.may_look(kind) and budget.may_go_on()):
            outline.more, outline.left = True, len(kinds) - index
            break
        is_first = False
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
    looks: int
    planned: Resources = NOTHING
    draft: Draft | None = None
    room: Limit | None = None
    #: Why the nodes refused classes that differ by their claims alone, since something was placed (claim_kinds.py).
    refused: dict[Hashable, Shortfall] = field(default_factory=dict)

    def place(self, kind: AskClass) -> None:
        """Places for a class; what is not given is refused, or left for another turn."""
        partition, app = self.partition, self.app
        if self.room is None:
            self.room = headroom.room(partition, app)
        wants = wanted(app, kind, self.left + 1)
        count = self.pace.count(kind.resources, min(self.left, wants), self.planned)
        allowed = self.room.count(kind.resources, count)
        placed, why = self._look(kind, allowed) if allowed else (0, None)
        self.left -= placed
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

    def may_look(self, kind: AskClass) -> bool:
        """Whether the budget allows what the class needs: a look at all nodes, unless its answer is known."""
        return self.looks > 0 or (self.draft is not None and kind_of(self.draft, kind) in self.refused)

    def _look(self, kind: AskClass, allowed: int) -> tuple[int, Shortfall | None]:
        """How many of the class get a place, and why the next one of them gets none, if so many do not."""
        draft = self.draft = self.draft or Draft(self.partition.nodes)
        alike = kind_of(draft, kind)
        if alike is not None and alike in self.refused:
            return 0, self.refused[alike]
        self.looks -= 1
        lift(self.partition, draft, kind, 1)
        placed = self._give(kind, allowed, draft)
        why = fit.shortfall(draft, shape_of(kind)) if placed < allowed else None
        lift(self.partition, draft, kind, -1)
        if placed:  # what was placed may draw others near
            self.refused.clear()
        elif alike is not None and why is not None:
            self.refused[alike] = why
        return placed, why

    def _give(self, kind: AskClass, allowed: int, draft: Draft) -> int:
        partition = self.partition
        is_last = len(self.app.waiting) == 1
        spots = fit.place(draft, shape_of(kind), allowed, partition.config.node_sort, is_last=is_last)
        placed = sum(there for _, there in spots)
        if placed and self.room is not None:
            volumes = volumes_of(draft, kind)
            self.outline.decisions.append(Placement(partition.id, self.app.id, assign(self.app, kind, spots), volumes))
            taken = kind.resources.times(placed)
            self.room = self.room.room(taken)
            self.planned += taken
        return placed
