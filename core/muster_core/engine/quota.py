"""Queues over a lowered maximum: when they are brought below it, and what is written then (contract 10.3).

A queue has a start: the moment its maximum was lowered below what it uses,
plus its `quota.preemption.delay`. A longer or shorter delay moves it, a
maximum that is enough takes it back, a further lowering leaves it alone.

Differs: quota preemption starts by a clock; YuniKorn looks every second.
Differs: a queue that is still over when its victims had their time is looked at again; YuniKorn tries once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_core.engine import notes, reservations
from muster_core.engine.commit import commit
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import QueuePath
from muster_core.model.resources import Limit
from muster_core.plan.preemption import quota
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

#: Until the next victims are chosen where there were more than one event looks at.
_PAUSE_NS: Final = 1_000_000
#: A queue's maximum and its delay, before a change.
Before = tuple[Limit, int]


def standing(partition: Partition) -> dict[QueuePath, Before]:
    """What holds for every queue now: to be handed to `reconsider` when it was changed."""
    return {path: before(partition, queue) for path, queue in partition.queues.by_path.items()}


def before(partition: Partition, queue: Queue) -> Before:
    """What holds for one queue now; where nothing is preempted there is no delay."""
    return queue.max, queue.policies.quota_preemption_delay_ns if partition.config.quota_preemption else 0


def reconsider(partition: Partition, was: Mapping[QueuePath, Before], now_ns: int) -> None:
    """Maximums or delays of these queues may have changed."""
    for path, (most, delay_ns) in was.items():
        queue = partition.queues.get(path)
        if queue is not None:
            _reconsider(partition, queue, most, delay_ns, now_ns)


def went_over(partition: Partition, queue: Queue, now_ns: int) -> None:
    """An allocation that exists already took the queue over its maximum, or victims did not terminate."""
    delay_ns = queue.policies.quota_preemption_delay_ns
    if not queue.quota_at_ns and _is_on(partition, delay_ns) and quota.excess(queue):
        _start(partition, queue, now_ns + delay_ns)


def ring(partition: Partition, clock: Clock, now_ns: int) -> None:
    """The start of a queue has come: tell its victims to go, and look again when they had their time."""
    queue = partition.queues.get(clock.queue)
    if queue is None or queue.quota_clock != clock.generation:
        return
    _clear(queue)
    try:
        _enforce(partition, queue, now_ns)
    except Exception:
        if not queue.quota_clock:
            queue.quota_at_ns, queue.quota_clock = now_ns, clock.generation  # it fires again
        raise


def _enforce(partition: Partition, queue: Queue, now_ns: int) -> None:
    delay_ns = queue.policies.quota_preemption_delay_ns
    if not _is_on(partition, delay_ns) or not quota.excess(queue):
        return
    _start(partition, queue, now_ns + delay_ns)
    decision = quota.plan(partition, queue)
    if decision is not None:
        try:
            commit(partition, decision, now_ns)
        except BrokenDecision as broken:
            notes.broken(partition, queue.path, broken)
        else:
            if quota.excess(queue):
                _start(partition, queue, now_ns + _PAUSE_NS)


def _reconsider(partition: Partition, queue: Queue, most: Limit, delay_ns: int, now_ns: int) -> None:
    now_delay_ns = queue.policies.quota_preemption_delay_ns
    if not _is_on(partition, now_delay_ns) or not quota.excess(queue):
        _clear(queue)
        return
    if queue.quota_at_ns:
        moved_ns = queue.quota_at_ns + now_delay_ns - delay_ns
        if moved_ns != queue.quota_at_ns:
            _start(partition, queue, max(moved_ns, now_ns))
        return
    is_lower = any((old := most.get(name)) is None or bound < old for name, bound in queue.max.items())
    if is_lower or not delay_ns:
        _start(partition, queue, now_ns + now_delay_ns)


def _is_on(partition: Partition, delay_ns: int) -> bool:
    return partition.config.quota_preemption and delay_ns > 0


def _start(partition: Partition, queue: Queue, at_ns: int) -> None:
    number = partition.next_number()
    reservations.queue_clock(partition, queue, ClockKind.QUOTA, number, at_ns)
    queue.quota_at_ns, queue.quota_clock = at_ns, number


def _clear(queue: Queue) -> None:
    queue.quota_at_ns = queue.quota_clock = 0
