"""Who is asked first: queues by fair share, applications by fifo or fair, classes by priority.

Every order ends in a unique path or number, so that equal worlds give equal
orders (style 18). Source: contract 10.5, behaviour C.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from muster_core.model.policies import ApplicationOrder
from muster_core.model.resources import Resources
from muster_core.world.applications import Application, AskClass
from muster_core.world.queues import Queue
from muster_core.world.world import Partition


def next_leaf(partition: Partition) -> Queue | None:
    """The stirred leaf whose turn it is: down from the root, the lowest share first."""
    leaves = [partition.queues.by_path[path] for path in partition.stirred]
    if len(leaves) < 2:
        return leaves[0] if leaves else None
    candidates = {queue.path for leaf in leaves for queue in leaf.path_up()}
    queue = partition.queues.root
    while not queue.is_leaf:
        below = (child for child in queue.children.values() if child.path in candidates)
        queue = min(below, key=lambda child: (share(child, partition.nodes.capacity_total), child.path))
    return queue


def share(queue: Queue, cluster: Resources) -> float:
    """The dominant share of a queue: of its guarantee where it has one, else of
    its maximum, else of the cluster.
    """
    return max((_part(queue, cluster, name, amount) for name, amount in queue.allocated.items()), default=0.0)


def applications(partition: Partition, leaf: Queue) -> list[Application]:
    """The leaf's applications that wait for something, in the order of its policy."""
    waiting = (partition.applications[name] for name in leaf.waiting)
    return _ORDERS[leaf.policies.order](waiting, partition.nodes.capacity_total)


def classes(app: Application) -> list[AskClass]:
    """What the application waits for: higher priority first, then as it came."""
    return sorted(app.waiting, key=lambda kind: -kind.priority)


def _part(queue: Queue, cluster: Resources, name: str, amount: int) -> float:
    guaranteed = queue.guaranteed[name]
    whole = guaranteed or min(queue.max.get(name) or cluster[name], cluster[name] or amount)
    return amount / whole if whole else 1.0


def _priority(app: Application) -> int:
    return max(kind.priority for kind in app.waiting)


def _fifo(waiting: Iterable[Application], cluster: Resources) -> list[Application]:
    return sorted(waiting, key=lambda app: (-_priority(app), app.submitted_ns, app.sequence))


def _fair(waiting: Iterable[Application], cluster: Resources) -> list[Application]:
    def key(app: Application) -> tuple[int, float, int]:
        used = app.allocated + app.gang.allocated
        dominant = max((amount / (cluster[name] or amount) for name, amount in used.items()), default=0.0)
        return -_priority(app), dominant, app.sequence

    return sorted(waiting, key=key)


_ORDERS: Final[Mapping[ApplicationOrder, Callable[[Iterable[Application], Resources], list[Application]]]] = (
    MappingProxyType({ApplicationOrder.FIFO: _fifo, ApplicationOrder.FAIR: _fair})
)
