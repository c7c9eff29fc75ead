"""Who may preempt, how far, and what a queue may lose: laws 2, 4, 5 and 7 of contract 10.1.

A queue's guarantee binds its whole subtree. What an ask may claim comes from
the nearest queue on its path that guarantees a resource it asks for. A swap
inside a queue does not change what that queue uses, so a queue whose maximum,
or whose guarantee, has no room left only keeps the victims inside.

Differs: in preemption, what is promised to asks whose victims are still there counts as used, so one guarantee is not
claimed twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster_core.model.ids import QueuePath
from muster_core.model.policies import PreemptionPolicy
from muster_core.model.resources import NOTHING, Resources
from muster_core.world.applications import Application
from muster_core.world.queues import Queue


@dataclass(frozen=True, slots=True)
class Fence:
    """Victims have to be below `root`, and have to free `need` there besides what a node lacks."""

    root: Queue
    need: Resources


def usage(queue: Queue) -> Resources:
    """What the queue uses once what goes is gone and what was promised has come."""
    used = queue.allocated
    if queue.preempting:
        used -= queue.preempting
    return used + queue.claimed if queue.claimed else used


def remaining(queue: Queue) -> Resources:
    """What is left of a queue when its victims are gone."""
    return queue.allocated - queue.preempting if queue.preempting else queue.allocated


def is_under_guarantee(leaf: Queue) -> bool:
    """Whether something asked for there could have a right to preempt; asked often, so it asks little."""
    known: set[str] = set()
    for queue in leaf.path_up():
        used = usage(queue) if queue.guaranteed else NOTHING
        for name, amount in queue.guaranteed.items():
            if name not in known and (used[name] < amount or (used[name] == amount and queue is not leaf)):
                return True
            known.add(name)
    return False


def fence(app: Application, amount: Resources) -> Fence | None:
    """How far asks for `amount` in all may look for victims; None = they have no right to any."""
    search = _Search(amount)
    root: Queue | None = None
    for queue in app.queue.path_up():
        used = usage(queue)
        is_bound = search.meet_maximum(queue, used, app)
        is_bound = search.meet_guarantee(queue, used, app.queue) or is_bound
        is_fence = queue.policies.preemption is PreemptionPolicy.FENCE
        if root is None and (is_bound or is_fence or queue.parent is None):
            root = queue
    if root is None or root is app.queue or not search.is_entitled or search.is_refused:
        return None
    return Fence(root, Resources(search.need))


@dataclass(slots=True)
class _Search:
    """What is found on the way up: resources with a guarantee below, and what has to be freed."""

    amount: Resources
    need: dict[str, int] = field(default_factory=dict)
    guaranteed: set[str] = field(default_factory=set)
    is_entitled: bool = False
    is_refused: bool = False

    def meet_maximum(self, queue: Queue, used: Resources, app: Application) -> bool:
        """Whether the queue has no room for the asks: then room has to be made inside."""
        if not queue.max:
            return False
        pledged = queue.pledged - app.gang.pledge if app.gang.backed else queue.pledged
        excess = queue.max.excess(used + pledged + self.amount)
        is_bound = False
        for name, over in excess.items():
            if self.amount[name]:
                self.need[name] = max(self.need.get(name, 0), over)
                is_bound = True
        return is_bound

    def meet_guarantee(self, queue: Queue, used: Resources, leaf: Queue) -> bool:
        """Whether the queue would be lifted beyond its guarantee by room that is made outside."""
        is_bound = False
        for name, amount in self.amount.items():
            guarantee = queue.guaranteed[name]
            if not guarantee:
                continue
            over = used[name] + amount - guarantee
            is_nearest = name not in self.guaranteed
            self.guaranteed.add(name)
            if over <= 0:
                self.is_entitled = self.is_entitled or is_nearest
                continue
            is_bound = True
            if is_nearest and (queue is leaf or used[name] > guarantee):
                self.is_refused = True
            elif is_nearest:
                self.is_entitled = True
                self.need[name] = max(self.need.get(name, 0), over)
        return is_bound


@dataclass(slots=True)
class Balance:
    """What queues would have left if the victims so far went. `path`: queues of the asks that gain `amount`,
    none where nobody gains.
    """

    root: Queue
    amount: Resources = NOTHING
    path: frozenset[QueuePath] = frozenset()
    lost: dict[QueuePath, Resources] = field(default_factory=dict)

    def may_lose(self, leaf: Queue, victim: Resources) -> bool:
        """Whether no queue from the leaf up to the root falls below its guarantee, or further below."""
        for queue in leaf.path_up():
            if queue.guaranteed and not self._stays(queue, victim):
                return False
            if queue is self.root:
                return True
        return True

    def lose(self, leaf: Queue, victim: Resources, times: int = 1) -> None:
        """Suppose that the victim goes; -1 = that it stays."""
        for queue in leaf.path_up():
            self.lost[queue.path] = self.lost.get(queue.path, NOTHING).plus(victim, times)
            if queue is self.root:
                return

    def _stays(self, queue: Queue, victim: Resources) -> bool:
        is_shared = queue.path in self.path
        before = usage(queue) if is_shared else remaining(queue)
        after = before - self.lost.get(queue.path, NOTHING) - victim
        for name, guarantee in queue.guaranteed.items():
            if not victim[name]:
                continue
            if is_shared and after[name] + self.amount[name] < min(guarantee, before[name]):
                return False
            if not is_shared and after[name] < guarantee:
                return False
        return True


def leaves_below(root: Queue) -> Iterable[Queue]:
    """Every leaf of a subtree; no recursion, for trees may be deep."""
    waiting = [root]
    while waiting:
        queue = waiting.pop()
        if queue.is_leaf:
            yield queue
        waiting += reversed(queue.children.values())
