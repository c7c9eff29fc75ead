"""Order of queues and applications and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from muster_core.model.config import ApplicationOrder, PartitionConfig, PriorityPolicy
from muster_core.model.ids import ApplicationId
from muster_core.model.resources import Resources
from muster_core.state.applications import Application
from muster_core.state.nodes import NodeTable
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass

#: Compared part by part, the lowest first.
Key = tuple[float, ...]


class OrderingContext(Protocol):
    """What of a partition the orders read."""

    config: PartitionConfig
    nodes: NodeTable
    applications: dict[ApplicationId, Application]


def queue_key(partition: OrderingContext, queue: Queue) -> Key:
    """The place of a queue among the children of its parent: priority, share, and of equals who waits for more."""
    priority = float(-(queue.shown or 0))
    used = share(partition, queue)
    waits = -_need(partition, queue)
    by_priority = queue.parent is None or queue.parent.policies.sorts_by_priority
    return (priority, used, waits) if by_priority else (used, priority, waits)


def share(partition: OrderingContext, queue: Queue) -> float:
    """The dominant share of a queue: of each resource that it uses what part of its guarantee that is, else of its
    fair maximum: its own, else that of the nearest queue above that has one, else the cluster.

    Differs: a guarantee of 0 is no guarantee; YuniKorn takes a queue as fully served that has one and uses anything.
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
    """What part of the cluster the queue waits for."""
    memo, total = queue.shares, partition.nodes.capacity_total
    if memo.pending is not queue.pending or memo.of is not total:
        memo.pending, memo.of = queue.pending, total
        memo.need = dominant(queue.pending, total)
    return memo.need


def part(partition: OrderingContext, queue: Queue, name: str, amount: int) -> float:
    """What part of the queue's due this amount is; 1 where nothing is due."""
    whole = due(partition, queue, name)
    return amount / whole if whole else 1.0


def due(partition: OrderingContext, queue: Queue, name: str) -> int:
    """What counts as the whole of a resource for this queue: guarantee or fair maximum."""
    guaranteed = queue.guaranteed[name]
    if guaranteed:
        return guaranteed
    for above in queue.path_up():
        bound = above.max.get(name)
        if bound is not None:
            return bound
    return partition.nodes.capacity_total[name]


def dominant(amounts: Resources, whole: Resources) -> float:
    """The largest part of the whole that any of the amounts is."""
    return max((amount / (whole[name] or amount) for name, amount in amounts.items()), default=0.0)


def application_key(partition: OrderingContext, app: Application) -> Key:
    """The place of an application in its leaf."""
    return _ORDERS[app.queue.policies.order](partition, app)


def applications(partition: OrderingContext, leaf: Queue) -> list[Application]:
    """The leaf's applications that wait for something, in the order of its policy."""
    waiting = (partition.applications[name] for name in leaf.waiting)
    return sorted(waiting, key=lambda app: application_key(partition, app))


def classes(app: Application) -> list[AskClass]:
    """What the application waits for: higher priority first, then as it came."""
    if len(app.waiting) == 1:
        return list(app.waiting)
    return sorted(app.waiting, key=lambda kind: -kind.priority)


def application_share(partition: OrderingContext, app: Application) -> float:
    """What part of the cluster the application uses, placeholders included."""
    return dominant(app.allocated + app.gang.allocated, partition.nodes.capacity_total)


def _fifo(partition: OrderingContext, app: Application) -> Key:
    priority = -(app.shown or 0)
    if app.queue.policies.sorts_by_priority:
        return priority, app.submitted_ns, app.sequence
    return app.submitted_ns, priority, app.sequence


def _fair(partition: OrderingContext, app: Application) -> Key:
    priority = -(app.shown or 0)
    used = application_share(partition, app)
    if app.queue.policies.sorts_by_priority:
        return priority, used, app.sequence
    return used, priority, app.sequence


_ORDERS: Final[Mapping[ApplicationOrder, Callable[[OrderingContext, Application], Key]]] = MappingProxyType(
    {ApplicationOrder.FIFO: _fifo, ApplicationOrder.FAIR: _fair}
)

_LOWEST: Final = -(2**31)
_HIGHEST: Final = 2**31 - 1


def note(app: Application) -> bool:
    """The application's asks changed; returns whether its priority is another one now."""
    priority = app.priorities.top
    if priority == app.shown:
        return False
    app.queue.priorities.replace(app.shown, priority)
    app.shown = priority
    _rise(app.queue)
    return True


def leave(app: Application) -> None:
    """The application leaves its queue, which shows no priority of it any more."""
    app.queue.priorities.replace(app.shown, None)
    app.shown = None
    _rise(app.queue)


def shown_by(queue: Queue) -> int | None:
    """What a queue shows to its parent; None where nothing waits."""
    top = queue.priorities.top
    return None if top is None else risen(queue, top)


def risen(queue: Queue, priority: int) -> int:
    """A priority of the queue, as those above it see it."""
    if queue.policies.priority is PriorityPolicy.FENCE:
        priority = 0
    return max(_LOWEST, min(_HIGHEST, priority + queue.policies.priority_offset))


def recount(queues: Iterable[Queue]) -> None:
    """Policies changed: every queue shows what it now means."""
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
