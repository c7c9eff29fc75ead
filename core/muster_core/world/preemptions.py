"""Preemptions that are on their way, and which queues took from each other lately.

A preemption runs from the moment its victims are told to go until the last of
them is gone. Written by engine/ only. Source: contract 10.1-10.3.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.ids import AllocationId, ApplicationId, QueuePath
from muster_core.world.classes import AskClass
from muster_core.world.reservations import AskId

#: Preemptions that are remembered for people to look at.
_KEPT: Final = 100

#: An allocation, among those of all applications.
PlaceId = tuple[ApplicationId, AllocationId]


@dataclass(slots=True, eq=False)
class Running:
    """Victims that were told to go and are still there. `asks`: for whom, none where a maximum was lowered."""

    number: int
    #: The leaf of the asks, or the queue that is over its maximum.
    queue: QueuePath
    asks: tuple[AskId, ...]
    victims: dict[PlaceId, None]
    since_ns: int
    is_quota: bool = False
    #: The gang that takes over what the victims reserve; None = it is no take-over.
    gang: ApplicationId | None = None


@dataclass(slots=True, eq=False)
class Rivalry:
    """Two leaves that preempt from each other. `turns`: how often the one that lost took back."""

    taker: QueuePath
    since_ns: int
    turns: int = 0
    #: How often it was stopped.
    pauses: int = 0
    #: Until then neither takes from the other.
    paused_until_ns: int = 0


#: The paths of two leaves, the lower one first.
Pair = tuple[QueuePath, QueuePath]


def pair(one: QueuePath, other: QueuePath) -> Pair:
    """The key of two leaves' rivalry."""
    return (one, other) if one < other else (other, one)


#: What is searched for at once: the scheduling classes of the asks and how many of each.
Wanted = tuple[tuple[AskClass, int], ...]
#: When preemption could help last: changes of allocations and queues, and of nodes.
Epoch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Preemption did not help. It is not tried again before `again_ns`, nor while the epoch is the same and no pause
    of queues that preempt from each other has ended (`until_ns`; 0 = there is none).
    """

    epoch: Epoch
    again_ns: int
    until_ns: int
    times: int


@dataclass(slots=True, eq=False)
class Search:
    """For whom preemption is tried in one leaf, and for whom it did not help."""

    refused: dict[Wanted, Refusal] = field(default_factory=dict)
    #: Classes that are left to be looked at, each with its applications. Empty = nothing is under way.
    left: deque[tuple[AskClass, deque[ApplicationId]]] = field(default_factory=deque)
    #: Searches in vain since the last pause.
    in_vain: int = 0
    #: When it was last tried; 0 = never.
    tried_ns: int = 0
    #: There are some whom it may help once something changes.
    is_refused: bool = False
    #: When the first ask is due that was not tried for it is too early; 0 = none is.
    next_ns: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One preemption, for people: when, who got what it made room for, and who had to go."""

    at_ns: int
    queue: QueuePath
    asks: tuple[AskId, ...]
    victims: tuple[PlaceId, ...]


@dataclass(slots=True, eq=False)
class Preemptions:
    """Of one partition."""

    running: dict[int, Running] = field(default_factory=dict)
    rivalries: dict[Pair, Rivalry] = field(default_factory=dict)
    #: The newest ones.
    reports: deque[Report] = field(default_factory=lambda: deque(maxlen=_KEPT))
    #: Since the partition is there: preemptions, victims, and how often a livelock was stopped.
    count: int = 0
    victims: int = 0
    livelocks: int = 0
    #: Grows with each change of allocations or queues after which preemption may help that did not before.
    epoch: int = 0
    #: Leaves in which some wait for a change: while the epoch is `idle_since` it does not help them.
    idle: dict[QueuePath, None] = field(default_factory=dict)
    idle_since: Epoch = (0, 0)

    def paused_until_ns(self, queue: QueuePath) -> int:
        """Until when the queue is, or was, kept from taking back what another took from it; 0 = never."""
        return max((one.paused_until_ns for both, one in self.rivalries.items() if queue in both), default=0)
