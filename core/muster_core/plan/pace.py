"""How many places one turn may give before somebody else is due.

Placing many at once is quick, and would leave the others behind: a turn ends
where the share of whoever has it has passed that of the next in order by more
than a hundredth of what is due to it. One place is always given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster_core.model.resources import NOTHING, Resources
from muster_core.world import ordering
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: How far a turn may run ahead of the next in order, as a part of what is due. Less means more turns, each
#: with a plan of its own; more is seen where guarantees are small.
AHEAD: Final = 0.01


@dataclass(frozen=True, slots=True)
class Rival:
    """The next in order beside one that has its turn: `used` by the latter so far, of `due`; `share` is the rival's."""

    used: Callable[[], Resources]
    due: Callable[[str], int]
    share: float


@dataclass(frozen=True, slots=True)
class Pace:
    """All rivals of a turn, on every level."""

    rivals: tuple[Rival, ...] = ()

    def count(self, each: Resources, at_most: int, planned: Resources = NOTHING) -> int:
        """How many of `each` may be given, besides what is `planned`, before a rival is due."""
        count = at_most
        if at_most <= 1 and not planned:
            return at_most
        for rival in self.rivals:
            used = rival.used()
            for name, amount in each.items():
                whole = rival.due(name)
                if amount > 0 and whole > 0:
                    left = (rival.share + AHEAD) * whole - used[name] - planned[name]
                    count = min(count, int(left // amount))
        return max(count, 0 if planned else min(at_most, 1))

    def is_over(self) -> bool:
        """Whether a rival is due."""
        return any(
            amount > (rival.share + AHEAD) * rival.due(name)
            for rival in self.rivals
            for name, amount in rival.used().items()
        )


FREELY: Final = Pace()


def pace_of(partition: Partition, leaf: Queue) -> Pace:
    """How much the leaf of the next attempt may get before another is due, on any level of its path."""
    rivals = [rival for queue in leaf.path_up() if (rival := _rival(partition, queue)) is not None]
    return Pace(tuple(rivals)) if rivals else FREELY


def _rival(partition: Partition, queue: Queue) -> Rival | None:
    """The next in order beside the queue, which is the first of its parent."""
    parent = queue.parent
    other = partition.scheduling.second_queue(parent) if parent is not None else None
    if parent is None or other is None:
        return None
    if parent.policies.sorts_by_priority and other.shown != queue.shown:
        return None  # of a lower priority: it waits for as long as there is anything
    return Rival(
        lambda: queue.allocated,
        lambda name: ordering.due(partition, queue, name),
        ordering.share(partition, other),
    )
