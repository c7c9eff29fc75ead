"""Decides which queues may preempt, and what a queue may lose.

A guarantee covers the complete subtree of its queue. A request uses the guarantee of the nearest queue on its path that
guarantees a requested resource. Two leaf queues that preempt from each other repeatedly are paused.

Differs: in preemption, resources reserved for requests whose victims are still being released count as used, so one
guarantee is not used twice.

Differs: queues that preempt from each other alternately are paused; YuniKorn lets them continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.config import PreemptionPolicy
from muster_core.model.ids import QueuePath
from muster_core.model.resources import NOTHING, Resources
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.reservations import ThrashingGuard, pair
from muster_core.state.scheduler_state import Partition


@dataclass(frozen=True, slots=True)
class PreemptionFence:
    """Victims must be below `root` and must free `need` there, in addition to what is missing on a node."""

    root: Queue
    need: Resources


def usage(queue: Queue) -> Resources:
    """Usage of the queue after running releases have ended and node reservations are used."""
    used = queue.allocated
    if queue.preempting:
        used -= queue.preempting
    return used + queue.node_reserved if queue.node_reserved else used


def remaining(queue: Queue) -> Resources:
    """Usage of the queue after its victims have been released."""
    return queue.allocated - queue.preempting if queue.preempting else queue.allocated


def is_under_guarantee(leaf: Queue) -> bool:
    """Whether a request in the leaf may be entitled to preempt. A quick check that may be true too often."""
    known: set[str] = set()
    for queue in leaf.path_up:
        if not queue.guaranteed:
            continue
        used = usage(queue)
        for name, amount in queue.guaranteed.items():
            if name not in known and (used[name] < amount or (used[name] == amount and queue is not leaf)):
                return True
            known.add(name)
    return False


def fence(app: Application, amount: Resources) -> PreemptionFence | None:
    """Returns where requests for `amount` in total may look for victims. None = they may not preempt."""
    search = _GuaranteeSearch(amount)
    root: Queue | None = None
    for queue in app.queue.path_up:
        used = usage(queue)
        is_bound = search.meet_maximum(queue, used, app)
        is_bound = search.meet_guarantee(queue, used, app.queue) or is_bound
        is_fence = queue.policies.preemption is PreemptionPolicy.FENCE
        if root is None and (is_bound or is_fence or queue.parent is None):
            root = queue
    if root is None or root is app.queue or not search.is_entitled or search.is_refused:
        return None
    return PreemptionFence(root, Resources(search.need))


@dataclass(slots=True)
class _GuaranteeSearch:
    """State of the walk from the leaf to root: resources with a guarantee so far, and what must be freed."""

    amount: Resources
    need: dict[str, int] = field(default_factory=dict)
    guaranteed: set[str] = field(default_factory=set)
    is_entitled: bool = False
    is_refused: bool = False

    def meet_maximum(self, queue: Queue, used: Resources, app: Application) -> bool:
        """Whether the request exceeds the maximum of the queue. Victims must then be inside the queue."""
        if not queue.max:
            return False
        reserved_quota = queue.reserved_quota.limited(queue.max)
        if app.gang.granted:
            reserved_quota -= app.gang.quota_reservation
        excess = queue.max.excess(used + reserved_quota + self.amount)
        is_bound = False
        for name, over in excess.items():
            if self.amount[name]:
                self.need[name] = max(self.need.get(name, 0), over)
                is_bound = True
        return is_bound

    def meet_guarantee(self, queue: Queue, used: Resources, leaf: Queue) -> bool:
        """Whether the request would lift the queue above its guarantee. Victims must then be inside the queue."""
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
class GuaranteeBalance:
    """Tracks what queues lose to the victims selected so far.

    `path`: the queues of the requests that gain `amount`; empty for quota preemption. `is_ignored`: the guarantees do
    not apply.
    """

    root: Queue
    amount: Resources = NOTHING
    path: frozenset[QueuePath] = frozenset()
    is_ignored: bool = False
    lost: dict[QueuePath, Resources] = field(default_factory=dict)

    def may_release(self, leaf: Queue, victim: Resources) -> bool:
        """Whether no queue from the leaf to `root` falls below its guarantee, or further below it."""
        for queue in () if self.is_ignored else leaf.path_up:
            if queue.guaranteed and not self._stays(queue, victim):
                return False
            if queue is self.root:
                return True
        return True

    def lose(self, leaf: Queue, victim: Resources, times: int = 1) -> None:
        """Records that the victim is released; `times` -1 takes it back."""
        for queue in leaf.path_up:
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
    """Yields every leaf of a subtree. Not recursive, because the tree may be deep."""
    waiting = [root]
    while waiting:
        queue = waiting.pop()
        if queue.is_leaf:
            yield queue
        waiting += reversed(queue.children.values())


_SECOND: Final = 1_000_000_000

#: Two queues that did not preempt from each other for this time are forgotten.
WINDOW_NS: Final = 600 * _SECOND

#: Length of the first pause, and of the longest one.
_PAUSE_NS: Final = 60 * _SECOND
_LONGEST_NS: Final = 24 * 3600 * _SECOND


def protected_queues(partition: Partition, leaf: QueuePath, now_ns: int) -> list[QueuePath]:
    """Returns the leaves from which this leaf may not preempt until a pause ends."""
    return [
        both[0] if both[1] == leaf else both[1]
        for both, thrashing in partition.preemptions.thrashing_guards.items()
        if leaf in both and now_ns < thrashing.paused_until_ns
    ]


def paused_until(partition: Partition, leaf: QueuePath, now_ns: int) -> int:
    """Returns when the next pause of the leaf ends; 0 = it has none."""
    pauses = (one.paused_until_ns for both, one in partition.preemptions.thrashing_guards.items() if leaf in both)
    return min((until_ns for until_ns in pauses if until_ns > now_ns), default=0)


def is_thrashing(partition: Partition, leaf: QueuePath, victim: QueuePath, now_ns: int) -> ThrashingGuard | None:
    """Returns the guard of two leaves if another preemption would be the next round of thrashing, else None."""
    thrashing = partition.preemptions.thrashing_guards.get(pair(leaf, victim))
    if thrashing is None or is_over(thrashing, now_ns) or thrashing.taker == leaf or not thrashing.rounds:
        return None
    # After a pause one preemption is allowed, because the state may have changed.
    return thrashing if thrashing.since_ns >= thrashing.paused_until_ns else None


def is_over(thrashing: ThrashingGuard, now_ns: int) -> bool:
    """Whether the two leaves have not preempted from each other for long enough to forget the guard."""
    quiet_since = max(thrashing.since_ns, thrashing.paused_until_ns)
    return now_ns - quiet_since > max(WINDOW_NS, 2 * pause_ns(thrashing.pauses))


def pause_ns(pauses: int) -> int:
    """Returns the length of the next pause after this number of pauses."""
    return min(_PAUSE_NS << min(pauses, 20), _LONGEST_NS)
