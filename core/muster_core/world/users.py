"""Who uses how much of which queue: the ledger that user and group limits read.

Amounts are kept per user for every queue of the path, placeholders included
(contract 2.7, behaviour C.7). Limits themselves come with the configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.ids import QueuePath
from muster_core.model.resources import NOTHING, Resources
from muster_core.world.queues import Queue


@dataclass(slots=True, eq=False)
class UserLedger:
    """Usage per user and queue path; a user without usage has no entry."""

    usage: dict[str, dict[QueuePath, Resources]] = field(default_factory=dict)

    def add(self, user: str, leaf: Queue, amount: Resources, times: int) -> None:
        """Count `times` of `amount` for the user on the leaf and all its parents."""
        mine = self.usage.setdefault(user, {})
        for queue in leaf.path_up():
            total = mine.get(queue.path, NOTHING).plus(amount, times)
            if total:
                mine[queue.path] = total
            else:
                mine.pop(queue.path, None)
        if not mine:
            del self.usage[user]

    def of(self, user: str, path: QueuePath) -> Resources:
        """What the user uses of the queue and everything below it."""
        return self.usage.get(user, {}).get(path, NOTHING)
