"""Order of queues, applications and requests: priority, age and fair share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from muster_core.model.config import ApplicationOrder, PartitionConfig, PriorityPolicy
from muster_core.model.ids import ApplicationId
from muster_core.model.resources import Resources, is_of_devices
from muster_core.state.applications import Application
from muster_core.state.nodes import NodeTable
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass

#: Ordering key: compared element by element, lowest first.
SortKey = tuple[float, ...]


class OrderingContext(Protocol):
    """The part of a partition that the ordering reads."""

    config: PartitionConfig
    nodes: NodeTable
    applications: dict[ApplicationId, Application]


def queue_key(partition: OrderingContext, queue: Queue) -> SortKey:
    """Ordering key of a queue among the children of its parent: priority, share, then the larger pending amount."""
    memo, total, config = queue.shares, partition.nodes.capacity_total, partition.config
    if (
        memo.key
        and memo.allocated is queue.allocated
        and memo.pending == queue.settled.changes
        and memo.shown == queue.shown
        and memo.total is total
        and memo.of is total
        and memo.config is config
        and memo.guaranteed is queue.guaranteed
        and memo.max is queue.max
    ):
        return memo.key
    priority = float(-(queue.shown or 0))
    used = share(partition, queue)
    waits = -_need(partition, queue)
    by_priority = queue.parent is None or queue.parent.policies.sorts_by_priority
    memo.shown = queue.shown
    memo.key = (priority, used, waits) if by_priority else (used, priority, waits)
    return memo.key


def share(partition: OrderingContext, queue: Queue) -> float:
    """Returns the dominant share of a queue: its usage as a part of its guarantee, the maximum over all resources.

    Without a guarantee the share is relative to the maximum of the queue, else to that of the nearest ancestor that has
    one, else to the cluster.

    Differs: a guarantee of 0 counts as no guarantee. YuniKorn treats such a queue as fully served if it uses anything.
    """
    memo = queue.shares
    total, config = partition.nodes.capacity_total, partition.config
    is_same = memo.allocated is queue.allocated and memo.total is total and memo.config is config
    if not is_same or memo.guaranteed is not queue.guaranteed or memo.max is not queue.max:
        memo.allocated, memo.total, memo.config = queue.allocated, total, config
        memo.guaranteed, memo.max = queue.guaranteed, queue.max
        memo.share = max((part(partition, queue, name, amount) for name, amount in queue.allocated.items()), default=0)
    return memo.share


def _need(partition: OrderingContext, queue: Queue) -> float:
    """Pending resources as a part of the cluster."""
    memo, total, pending = queue.shares, partition.nodes.capacity_total, queue.settled
    if memo.pending != pending.changes or memo.of is not total:
        memo.pending, memo.of = pending.changes, total
        memo.need = pending.dominant(total)
    return memo.need


def part(partition: OrderingContext, queue: Queue, name: str, amount: int) -> float:
    """Returns the amount as a part of what is due to the queue; 1 if nothing is due, 0 for devices of claims."""
    whole = due(partition, queue, name)
    return amount / whole if whole else float(not is_of_devices(name))


def due(partition: OrderingContext, queue: Queue, name: str) -> int:
    """Returns the amount of a resource that is due to the queue: its guarantee or fair maximum."""
    guaranteed = queue.guaranteed[name]
    if guaranteed:
        return guaranteed
    for above in queue.path_up:
        bound = above.max.get(name)
        if bound is not None:
            return bound
    return partition.nodes.capacity_total[name]


def dominant(amounts: Resources, whole: Resources) -> float:
    """Returns the largest ratio of an amount to `whole`, without devices of claims."""
    return max((amount / (whole[name] or amount) for name, amount in amounts.on_nodes.items()), default=0.0)


def application_key(partition: OrderingContext, app: Application) -> SortKey:
    """Ordering key of an application in its leaf."""
    return _ORDERS[app.queue.policies.order](partition, app)


def applications(partition: OrderingContext, leaf: Queue) -> list[Application]:
    """Returns the waiting applications of a leaf in the order of its policy."""
    waiting = (partition.applications[name] for name in leaf.waiting)
    return sorted(waiting, key=lambda app: application_key(partition, app))


def classes(app: Application) -> list[AskClass]:
    """Returns the waiting classes of an application: higher priority first, then the one with the oldest request.

    Sorts the waiting requests of each class too. Equally old ones stay in order of arrival.

    Differs: equal requests of an application are scheduled together when the oldest of them is next, because one search
    of the nodes serves them all; YuniKorn schedules each request by itself.
    """
    app.sort_waiting()
    if len(app.waiting) == 1:
        return list(app.waiting)
    return sorted(app.waiting, key=lambda kind: -kind.priority)


def application_share(partition: OrderingContext, app: Application) -> float:
    """Returns the usage of the application as a part of the cluster, including placeholders."""
    return dominant(app.allocated + app.gang.allocated, partition.nodes.capacity_total)


def _fifo(partition: OrderingContext, app: Application) -> SortKey:
    priority = -(app.shown or 0)
    if app.queue.policies.sorts_by_priority:
        return priority, app.oldest_ns, app.sequence
    return app.oldest_ns, priority, app.sequence


def _fair(partition: OrderingContext, app: Application) -> SortKey:
    priority = -(app.shown or 0)
    used = application_share(partition, app)
    if app.queue.policies.sorts_by_priority:
        return priority, used, app.sequence
    return used, priority, app.sequence


_ORDERS: Final[Mapping[ApplicationOrder, Callable[[OrderingContext, Application], SortKey]]] = MappingProxyType(
    {ApplicationOrder.FIFO: _fifo, ApplicationOrder.FAIR: _fair}
)

#: Also the priority that REST shows for a queue or application without requests, as YuniKorn does.
LOWEST_PRIORITY: Final = -(2**31)
_HIGHEST: Final = 2**31 - 1


def note(app: Application) -> bool:
    """Updates the priority of the application after its requests changed. Returns whether the priority changed."""
    priority = app.priorities.top
    if priority == app.shown:
        return False
    app.queue.priorities.replace(app.shown, priority)
    app.shown = priority
    _rise(app.queue)
    return True


def leave(app: Application) -> None:
    """Removes the priority of an application that leaves its queue."""
    app.queue.priorities.replace(app.shown, None)
    app.shown = None
    _rise(app.queue)


def shown_by(queue: Queue) -> int | None:
    """Returns the priority that the parent sees; None = nothing waits."""
    top = queue.priorities.top
    return None if top is None else risen(queue, top)


def risen(queue: Queue, priority: int) -> int:
    """Returns a priority in the queue as its parent sees it: with offset and fence."""
    if queue.policies.priority is PriorityPolicy.FENCE:
        priority = 0
    return max(LOWEST_PRIORITY, min(_HIGHEST, priority + queue.policies.priority_offset))


def recount(queues: Iterable[Queue]) -> None:
    """Updates the visible priorities after policies changed."""
    for queue in queues:
        _rise(queue)


def _rise(queue: Queue) -> None:
    above: Queue | None = queue
    while above is not None:
        shown = shown_by(above)
        if shown == above.shown:
            return
        if above.parent is not None:
            above.parent.priorities.replace(above.shown, shown)
        above.shown = shown
        above = above.parent
