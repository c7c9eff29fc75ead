"""Queues over a lowered maximum: when they are brought below it, and what is written then (contract 10.3).

A queue has a start: the moment its maximum was lowered below what it uses,
plus its `quota.preemption.delay`. A longer or shorter delay moves it, a
maximum that is enough takes it back, a further lowering leaves it alone.

Differs: quota preemption starts by a clock; YuniKorn looks every second.
Differs: a queue that is still over when its victims had their time is looked at again; YuniKorn tries once.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster_core.engine import notes, reservations, taking_back, victims
from muster_core.model.decisions import QuotaPreemption
from muster_core.model.effects import ClockSet, Effect
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationKey, ApplicationId, QueuePath
from muster_core.model.resources import Limit
from muster_core.plan.preemption import quota
from muster_core.world.preemptions import Running
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: A queue's maximum and its delay, before a change.
Before = tuple[Limit, int]


def standing(partition: Partition) -> dict[QueuePath, Before]:
    """What holds for every queue now: to be handed to `reconsider` when it was changed."""
    return {path: before(partition, queue) for path, queue in partition.queues.by_path.items()}


def before(partition: Partition, queue: Queue) -> Before:
    """What holds for one queue now; where nothing is preempted there is no delay."""
    return queue.max, queue.policies.quota_preemption_delay_ns if partition.config.quota_preemption else 0


def reconsider(partition: Partition, was: Mapping[QueuePath, Before], now_ns: int) -> list[Effect]:
    """Maximums or delays of these queues may have changed."""
    effects: list[Effect] = []
    for path, (most, delay_ns) in was.items():
        queue = partition.queues.get(path)
        if queue is not None:
            effects += _reconsider(partition, queue, most, delay_ns, now_ns)
    return effects


def went_over(partition: Partition, queue: Queue, now_ns: int) -> list[Effect]:
    """An allocation that exists already took the queue over its maximum."""
    delay_ns = queue.policies.quota_preemption_delay_ns
    if queue.quota_at_ns or not _is_on(partition, delay_ns) or not quota.excess(queue):
        return []
    return [_start(partition, queue, now_ns + delay_ns)]


def ring(partition: Partition, clock: Clock, now_ns: int) -> list[Effect]:
    """The start of a queue has come: tell its victims to go, and look again when they had their time."""
    queue = partition.queues.get(clock.queue)
    if queue is None or queue.quota_clock != clock.generation:
        return []
    _clear(queue)
    delay_ns = queue.policies.quota_preemption_delay_ns
    if not _is_on(partition, delay_ns) or not quota.excess(queue):
        return []
    effects: list[Effect] = []
    decision = quota.plan(partition, queue)
    if decision is not None:
        try:
            effects += carry_out(partition, decision, now_ns)
        except BrokenDecision as broken:
            notes.broken(partition, queue.path, broken)
    return [*effects, _start(partition, queue, now_ns + delay_ns)]


def carry_out(partition: Partition, decision: QuotaPreemption, now_ns: int) -> list[Effect]:
    """Tell the victims to go. Raises BrokenDecision before the first write."""
    queue = partition.queues.get(decision.queue)
    if queue is None or not quota.excess(queue):
        raise BrokenDecision("quota preemption", f"queue {decision.queue} is not over its maximum")
    gone = [victims.victim_of(partition, name) for name in decision.victims]
    number = partition.next_number()
    running = Running(number, queue.path, (), dict.fromkeys(decision.victims), now_ns, is_quota=True)
    queue.quota_running = number
    why = f"preempted because queue {queue.path} uses more than its maximum"
    clock = Clock(
        ClockKind.VICTIMS, partition.rm, partition.id, ApplicationId(""), AllocationKey(""), number, queue.path
    )
    at_ns = now_ns + partition.timing.release_timeout_ns
    told = victims.tell(partition, running, gone, why)
    taking_back.vacate(partition, gone, now_ns)
    return [*told, ClockSet(clock, at_ns)]


def _reconsider(partition: Partition, queue: Queue, most: Limit, delay_ns: int, now_ns: int) -> list[Effect]:
    now_delay_ns = queue.policies.quota_preemption_delay_ns
    if not _is_on(partition, now_delay_ns) or not quota.excess(queue):
        _clear(queue)
        return []
    if queue.quota_at_ns:
        moved_ns = queue.quota_at_ns + now_delay_ns - delay_ns
        return [_start(partition, queue, max(moved_ns, now_ns))] if moved_ns != queue.quota_at_ns else []
    is_lower = any((old := most.get(name)) is None or bound < old for name, bound in queue.max.items())
    return [_start(partition, queue, now_ns + now_delay_ns)] if is_lower or not delay_ns else []


def _is_on(partition: Partition, delay_ns: int) -> bool:
    return partition.config.quota_preemption and delay_ns > 0


def _start(partition: Partition, queue: Queue, at_ns: int) -> ClockSet:
    queue.quota_at_ns, queue.quota_clock = at_ns, partition.next_number()
    return reservations.queue_clock(partition, queue, ClockKind.QUOTA, queue.quota_clock, at_ns)


def _clear(queue: Queue) -> None:
    queue.quota_at_ns = queue.quota_clock = 0
