"""Preemptions that are on their way, and which queues took from each other lately.

A preemption runs from the moment its victims are told to go until the last of
them is gone. Written by engine/ only. Source: contract 10.1-10.3.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.ids import AllocationId, ApplicationId, QueuePath
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

    def paused_until_ns(self, queue: QueuePath) -> int:
        """Until when the queue is, or was, kept from taking back what another took from it; 0 = never."""
        return max((one.paused_until_ns for both, one in self.rivalries.items() if queue in both), default=0)
