"""The rules of preemption (docs/reference/queues-yaml.md), computed from the queues and the released victims.

The implementation is independent of the core's preemption modules. It follows fences, priorities and guarantees from
the victim and from the preemptor.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from muster_core.model.config import PreemptionPolicy, PriorityPolicy
from muster_core.model.effects import AllocationResponse, Effect, Release
from muster_core.model.ids import Termination
from muster_core.state.applications import Allocation, Ask
from muster_core.state.queues import Queue
from muster_core.state.reservations import RunningPreemption
from muster_core.state.scheduler_state import Partition, SchedulerState


def check(scheduler_state: SchedulerState, effects: Iterable[Effect]) -> None:
    """Assert that every newly released victim is allowed."""
    for answer in effects:
        for one in answer.released if isinstance(answer, AllocationResponse) else ():
            if one.termination is Termination.PREEMPTED_BY_SCHEDULER:
                _check_victim(scheduler_state.partitions[one.partition], one)


def _check_victim(partition: Partition, release: Release) -> None:
    owner = partition.applications[release.application]
    victim = owner.allocations[release.id]
    running = partition.preemptions.running[victim.preemption]
    assert not victim.spec.required_node, "a DaemonSet's pod is nobody's victim"
    if not running.asks and running.gang is None:  # the maximum of a queue
        assert partition.config.quota_preemption
        _keeps_guarantee(owner.queue, {above.path for above in partition.queues.by_path[running.queue].path_up}, victim)
        assert running.queue in {queue.path for queue in owner.queue.path_up}, "a victim outside the queue"
        return
    assert partition.config.preemption
    for ask in _asks(partition, running):
        assert ask.spec.application != owner.id, "an application preempts from itself"
        assert ask.spec.allow_preempt_other, "an ask preempts that may not"
        mine = partition.applications[ask.spec.application].queue
        if ask.spec.required_node:
            assert victim.node == ask.spec.required_node
        if ask.spec.required_node and mine.policies.daemonsets_preempt_all:
            assert victim.spec.priority <= ask.spec.priority
            continue
        _check_queues(mine, owner.queue, victim, ask)
        if ask.spec.required_node:
            assert victim.spec.allow_preempt_self, "a pod that opted out is preempted for a DaemonSet"
            continue
        assert mine is not owner.queue, "a leaf preempts from itself"
        assert any(queue.guaranteed[name] for queue in mine.path_up for name, _ in ask.spec.resources.items())


def _asks(partition: Partition, running: RunningPreemption) -> list[Ask]:
    return [partition.applications[app].asks[key] for app, key in running.asks]


def _check_queues(mine: Queue, leaf: Queue, victim: Allocation, ask: Ask) -> None:
    """Assert what protects a victim, in the queue `leaf`, from a request in the queue `mine`."""
    assert leaf.policies.preemption is not PreemptionPolicy.DISABLED, f"{leaf.path} is kept from preemption"
    above = {queue.path for queue in leaf.path_up}
    for queue in mine.path_up:
        if queue.policies.preemption is PreemptionPolicy.FENCE:
            assert queue.path in above, f"{leaf.path} is outside the fence of {queue.path}"
    ours = {queue.path for queue in mine.path_up}
    _keeps_guarantee(leaf, ours, victim)
    assert _seen(leaf, ours, victim.spec.priority) <= _seen(mine, above, ask.spec.priority), "the victim is worth more"


def _keeps_guarantee(leaf: Queue, shared: AbstractSet[str], victim: Allocation) -> None:
    """Assert that no queue of only the victim falls below its guarantee of a released resource."""
    for queue in leaf.path_up:
        if queue.path in shared:
            return
        for name in victim.spec.resources:
            if queue.guaranteed[name]:
                left = queue.allocated[name] - queue.preempting[name]
                assert left >= queue.guaranteed[name], f"{queue.path} has {left} of {name} left, less than guaranteed"


def _seen(leaf: Queue, shared: AbstractSet[str], priority: int) -> int:
    """Return a priority as seen by the lowest common queue, with the priority policies of the queues below it."""
    for queue in leaf.path_up:
        if queue.path in shared:
            break
        offset = queue.policies.priority_offset
        priority = offset if queue.policies.priority is PriorityPolicy.FENCE else priority + offset
    return priority
