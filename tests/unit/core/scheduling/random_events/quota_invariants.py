"""What scheduling may not do: go over a maximum, a limit of a user or group, or a number of applications.

Only what a cycle gives is judged: what exists already is taken in, and a swap
ends, whatever the maximums are by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.ids import PartitionId, QueuePath
from muster_core.model.states import ApplicationState
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition, SchedulerState

Running = Mapping[tuple[PartitionId, QueuePath], tuple[int, int]]


def running(scheduler_state: SchedulerState) -> Running:
    """How many applications have started in each queue that has a number for it, and how many use a place in it."""
    return {
        (partition.id, path): _in_use(partition, queue)
        for partition in scheduler_state.partitions.values()
        for path, queue in partition.queues.by_path.items()
        if queue.max_applications
    }


def _in_use(partition: Partition, queue: Queue) -> tuple[int, int]:
    """The place of a gang that takes one over is counted once, as that of the gang that has to go."""
    counted = [app for app in partition.applications.values() if app.counted and queue in app.queue.path_up()]
    started = [app for app in counted if app.allocations or app.state is ApplicationState.RUNNING]
    takers = [app for app in counted if app not in started and app.id in partition.contention.open]
    return len(started), queue.running - len(takers)


def check(scheduler_state: SchedulerState, said: Iterable[Effect], before: Running) -> None:
    """What was given in a cycle is within all that binds it."""
    for (identity, path), counts in before.items():
        partition = scheduler_state.partitions[identity]
        queue = partition.queues.by_path.get(path)
        if queue is not None:
            for now, count in zip(_in_use(partition, queue), counts, strict=True):
                assert now <= max(count, queue.max_applications), f"{path} starts more than it may"
    for answer in said:
        for new in answer.new if isinstance(answer, AllocationResponse) else ():
            partition = scheduler_state.partitions[new.ask.partition]
            owner = partition.applications.get(new.ask.application)
            if owner is not None and new.id in owner.allocations and owner.allocations[new.id].replaced_placeholder:
                continue
            amount = dict(new.ask.resources.items())
            for who, allocated, most in _bounds(partition, new.ask.application):
                over = {name: allocated[name] for name in amount if name in most and allocated[name] > most[name]}
                assert not over, f"{who} has {over} after {new.ask.key} came, it may have {most}"


def _bounds(partition: Partition, name: str) -> Iterable[tuple[str, Mapping[str, int], Mapping[str, int]]]:
    app = next((one for one in partition.applications.values() if one.id == name), None)
    if app is None:
        return
    for queue in app.queue.path_up():
        yield queue.path, _all(queue.allocated.items()), dict(queue.max.items())
    for holder, limit, account in partition.users.limits(app):
        yield str(holder), _all(account.allocated.items()), dict(limit.max.items())


class _Amounts(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return 0


def _all(items: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    return _Amounts(items)
