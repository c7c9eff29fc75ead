"""What a plan for one application amounts to: decisions, and the "no" of what is left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice

from muster_core.model.decisions import Decision
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.shortfall import Shortfall
from muster_core.model.storage import Choice
from muster_core.plan.draft import Draft
from muster_core.plan.shape import Shape
from muster_core.world.applications import Application
from muster_core.world.classes import AskClass
from muster_core.world.obstacles import Obstacle


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Asks of one class that got no place, and why. `room`: only so many of the class fit
    while the nodes are as they are; None = that was not asked. `about`: who lacks it, of a gang.
    """

    kind: AskClass
    why: Shortfall
    room: int | None = None
    about: str = ""

    @property
    def told(self) -> Shortfall:
        """Why, as those who wait are told; `why` alone is true of others of the class, too."""
        if not self.about:
            return self.why
        message = f"{self.about}: {self.why.message}" if self.why.message else self.about
        return replace(self.why, message=message)


@dataclass(slots=True)
class Outline:
    """To be committed in order; `obstacles`: what stands in the way of the rest. `more`: there may be
    room for more, it was not looked for. `blocks`: no application of the leaf that has not
    started may go before this one (semantics 11). `checked`: the empty cluster was
    asked about; `in_vain`: places for all of a gang were looked for and not found; `notice`: a
    warning for people, `short_of`: the task group it is about, if nodes would help. `impossible`: why the gang
    can never be reserved under the present queues and limits.
    """

    decisions: list[Decision] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    more: bool = False
    #: Classes that were not looked at, because the time of the cycle was up: they are in the next one.
    left: int = 0
    blocks: bool = False
    checked: bool = False
    in_vain: bool = False
    notice: str = ""
    short_of: str = ""
    impossible: str = ""


def shape_of(kind: AskClass) -> Shape:
    """What of a class the nodes are asked about."""
    return Shape(kind.resources, kind.constraints, kind.avoid, kind.placement, kind.occupant, kind.required_node)


def wanted(app: Application, kind: AskClass, at_most: int) -> int:
    """How many places the class still wants, `at_most` if more."""
    total = 0
    for key in app.waiting[kind]:
        total += app.asks[key].left
        if total >= at_most:
            return at_most
    return total


def assign(
    app: Application, kind: AskClass, spots: list[tuple[NodeId, int]]
) -> tuple[tuple[AllocationKey, NodeId], ...]:
    """Deal places out to the asks of a class, oldest first; an ask comes as often as it wants."""
    nodes = (node for node, count in spots for _ in range(count))
    total = sum(count for _, count in spots)
    keys = (key for key in app.waiting[kind] for _ in range(app.asks[key].left))
    return tuple(zip(islice(keys, total), nodes, strict=True))


def volumes_of(draft: Draft, *kinds: AskClass) -> Choice:
    """What a plan gives the claims of these classes that are not bound."""
    claims = (claim for kind in kinds for claim in kind.occupant.facts.volumes.claims)
    return draft.assumptions.choice(claims)


def has_untold(app: Application, kind: AskClass) -> bool:
    """Whether an ask joined the class after the others were told why they wait (newcomers are last), or lost a hold."""
    keys = app.waiting[kind]
    return app.asks[next(reversed(keys))].said is None or any(key in keys for key in app.unheld)
