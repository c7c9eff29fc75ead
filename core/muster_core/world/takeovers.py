"""Gangs that reserve and contend for the same resources: their order, and reservations that one takes over from others.

Every gang that reserves has one key, fixed with its first request: the priority as root sees it, the creation time of
its originator, its identity. The lowest key is first. Written by engine/ only. Source: semantics 12.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from muster_core.model.decisions import TakeOver
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.world.classes import AskClass

#: The epoch of the nodes' facts, and the gang's waiting requests by class.
Basis = tuple[int, tuple[tuple[AskClass, int], ...]]
#: (priority, negative; creation time; identity): the lowest goes first.
GangKey = tuple[int, int, ApplicationId]


@dataclass(slots=True, eq=False)
class OpenTakeOver:
    """Resources that are reserved for a gang until the placeholders of the losers are gone.

    `number`: of the preemption that waits for them. `places`: as in the decision, (request, node) each.
    """

    number: int
    losers: tuple[ApplicationId, ...]
    nodes: dict[NodeId, Resources]
    places: tuple[tuple[str, NodeId], ...]
    volumes: tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class Planning:
    """A take-over whose plan continues in the next cycle. `epoch`: of what may let it succeed, when it began; `basis`:
    what it is void without; `restarts`: how often changes made it void.
    """

    steps: Generator[None, None, TakeOver | None]
    epoch: tuple[int, int]
    basis: Basis
    restarts: int = 0


@dataclass(slots=True, eq=False)
class Contention:
    """Contention state of one partition: gangs with reservations, and pending takeovers."""

    #: Incomplete gangs that hold reservations, or a quota reservation.
    holding: dict[ApplicationId, GangKey] = field(default_factory=dict)
    #: Gangs that found too few free resources in this cycle: a take-over is tried for them, in the order of keys.
    due: dict[ApplicationId, None] = field(default_factory=dict)
    #: Plans of due gangs that have begun.
    planning: dict[ApplicationId, Planning] = field(default_factory=dict)
    #: Gangs that found no later gang that holds anything: the first later one that does wakes them.
    idle: dict[ApplicationId, None] = field(default_factory=dict)
    #: By the gang that takes over.
    open: dict[ApplicationId, OpenTakeOver] = field(default_factory=dict)
    #: How often what is left of a queue, a limit or the slots of `maxApplications` may have grown.
    growths: int = 0
    #: Take-overs since the partition is there.
    count: int = 0
    #: The last key among those that hold something; None = no gang does.
    last: GangKey | None = None

    def hold(self, app: ApplicationId, key: GangKey) -> None:
        """The incomplete gang holds something."""
        self.holding[app] = key
        if self.last is None or key > self.last:
            self.last = key

    def forget(self, app: ApplicationId) -> None:
        """The gang is complete, is over, or holds nothing any more."""
        if self.holding.pop(app, None) == self.last:
            self.last = max(self.holding.values(), default=None)

    def has_later(self, key: GangKey) -> bool:
        """Whether an incomplete gang with a later key holds something."""
        return self.last is not None and self.last > key
