"""Checks that scheduling exceeds no maximum, no limit of a user or group, and no number of applications.

Only new allocations of a cycle are checked. Existing allocations are accepted, and a placeholder replacement completes
with any maximum.
"""

from collections.abc import Iterable, Mapping

from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.ids import PartitionId, QueuePath
from muster_core.model.states import ApplicationState
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition, SchedulerState

Running = Mapping[tuple[PartitionId, QueuePath], tuple[int, int]]


def running(scheduler_state: SchedulerState) -> Running:
    """Return the numbers of started applications and of used application slots, per queue with such a limit."""
    return {
        (partition.id, path): _in_use(partition, queue)
        for partition in scheduler_state.partitions.values()
        for path, queue in partition.queues.by_path.items()
        if queue.max_applications
    }


def _in_use(partition: Partition, queue: Queue) -> tuple[int, int]:
    """Count the slot of a gang that takes over only once, as that of the gang that loses it."""
    counted = [app for app in partition.applications.values() if app.counted and queue in app.queue.path_up]
    started = [app for app in counted if app.allocations or app.state is ApplicationState.RUNNING]
    takers = [app for app in counted if app not in started and app.id in partition.contention.open]
    return len(started), queue.running - len(takers)


def check(scheduler_state: SchedulerState, effects: Iterable[Effect], before: Running) -> None:
    """Assert that the new allocations of a cycle are within all limits."""
    for (identity, path), counts in before.items():
        partition = scheduler_state.partitions[identity]
        queue = partition.queues.by_path.get(path)
        if queue is not None:
            for now, count in zip(_in_use(partition, queue), counts, strict=True):
                assert now <= max(count, queue.max_applications), f"{path} starts more than it may"
    for answer in effects:
        for new in answer.new if isinstance(answer, AllocationResponse) else ():
            partition = scheduler_state.partitions[new.ask.partition]
            owner = partition.applications.get(new.ask.application)
            if owner is not None and new.id in owner.allocations and owner.allocations[new.id].replaced_placeholder:
                continue
            amount = dict(new.ask.resources.items())
            for tracked, allocated, most in _bounds(partition, new.ask.application):
                over = {name: allocated[name] for name in amount if name in most and allocated[name] > most[name]}
                assert not over, f"{tracked} has {over} after {new.ask.key} came, it may have {most}"


def _bounds(partition: Partition, name: str) -> Iterable[tuple[str, Mapping[str, int], Mapping[str, int]]]:
    app = next((one for one in partition.applications.values() if one.id == name), None)
    if app is None:
        return
    for queue in app.queue.path_up:
        yield queue.path, _all(queue.allocated.items()), dict(queue.max.items())
    for holder, limit, account in partition.users.limits(app):
        yield str(holder), _all(account.allocated.items()), dict(limit.max.items())


class _Amounts(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return 0


def _all(items: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    return _Amounts(items)
