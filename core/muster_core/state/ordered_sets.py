"""Ordered sets: names in scheduling order, whose keys change while they are in the set.

`scheduling_queue` keeps the active applications and those with the same blocking reason in such sets, `node_demand` the
demand for nodes. Only changed entries get a new key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final, Protocol

from muster_core.model.config import ApplicationOrder
from muster_core.model.ids import ApplicationId, QueuePath
from muster_core.model.resources import Resources
from muster_core.state import ordering
from muster_core.state.applications import Application
from muster_core.state.ordering import SortKey
from muster_core.state.queues import Queue, QueueTree
from muster_core.state.request_classes import UnschedulableClasses

#: Keys of a set that one use renews. Sets up to this size are always in exact order.
_AT_ONCE: Final = 64

#: Above this number of queues with changed keys, all keys of a set are renewed step by step.
_MOST_MOVED: Final = 256

#: With up to this number of queues below one parent, their current keys are compared at each use, and no order is kept.
_FEW: Final = 64


class SchedulingContext(ordering.OrderingContext, Protocol):
    """The part of a partition that the scheduling queue reads."""

    queues: QueueTree
    waiting: dict[QueuePath, None]
    unschedulable_classes: UnschedulableClasses

    def demand_orders(self, app: Application | None) -> list[LeafQueue]:
        """Returns the ordered sets of the demand for nodes with the application; None = all."""
        ...


#: Entry of a name in an order that is not kept.
_NO_KEY: Final[tuple[SortKey, str]] = ((), "")


class ApplicationHeap:
    """Names ordered by their keys. Replaced and removed entries stay in the heap until they reach the top.

    `is_kept`: the order is kept. Else the names have no keys until they are read.
    """

    __slots__ = ("_entries", "_heap", "_stale", "epoch", "is_kept")

    def __init__(self, epoch: int, *, is_kept: bool = True) -> None:
        self.is_kept = is_kept
        self._entries: dict[str, tuple[SortKey, str]] = {}
        self._heap: list[tuple[SortKey, str]] = []
        #: Names whose keys must be renewed.
        self._stale: deque[str] = deque()
        #: Epoch of the keys.
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def put(self, name: str, key: SortKey) -> None:
        """Adds a name, or changes its key."""
        entry = self._entries.get(name)
        if entry is not None and entry[0] == key:
            return
        entry = self._entries[name] = (key, name)
        if len(self._heap) > 2 * len(self._entries) + _AT_ONCE:
            self._heap = list(self._entries.values())
            heapify(self._heap)
        else:
            heappush(self._heap, entry)

    def add(self, name: str) -> int:
        """Adds a name to an order that is not kept. Returns the number of names."""
        self._entries[name] = _NO_KEY
        return len(self._entries)

    def keep(self, key_of: Callable[[str], SortKey], epoch: int) -> None:
        """Begins to keep the order."""
        self.is_kept, self.epoch = True, epoch
        self._entries = {name: (key_of(name), name) for name in self._entries}
        self._heap = list(self._entries.values())
        heapify(self._heap)

    def discard(self, name: str) -> int:
        """Removes a name if it exists. Returns the number of names that are left."""
        self._entries.pop(name, None)
        return len(self._entries)

    def first(self, key_of: Callable[[str], SortKey]) -> str:
        """Returns the name with the lowest key, and computes its key again. The order must have a name."""
        if not self.is_kept:
            return min(self._keyed(key_of))[1] if len(self._entries) > 1 else next(iter(self._entries))
        while True:
            entry = self._heap[0]
            key, name = entry
            if self._entries.get(name) is not entry:
                heappop(self._heap)
            elif (now := key_of(name)) == key:
                return name
            else:
                heappop(self._heap)
                self.put(name, now)

    def first_two(self, key_of: Callable[[str], SortKey]) -> tuple[str, str | None]:
        """Returns the first name, and the second or None. The order must have a name."""
        if len(self._entries) == 1:
            return next(iter(self._entries)), None
        if not self.is_kept:
            (_, name), (_, second) = nsmallest(2, self._keyed(key_of))
            return name, second
        name = self.first(key_of)
        entry = heappop(self._heap)
        del self._entries[name]
        second = self.first(key_of)
        self._entries[name] = entry
        heappush(self._heap, entry)
        return name, second

    def _keyed(self, key_of: Callable[[str], SortKey]) -> list[tuple[SortKey, str]]:
        return [(key_of(name), name) for name in self._entries]

    @property
    def is_stale(self) -> bool:
        """Whether some keys must still be renewed."""
        return bool(self._stale)

    def renew(self, key_of: Callable[[str], SortKey], epoch: int) -> None:
        """Renews some of the keys of an older epoch."""
        if self.epoch != epoch and not self._stale:
            self.epoch = epoch
            self._stale.extend(self._entries)
        for _ in range(min(len(self._stale), _AT_ONCE)):
            name = self._stale.popleft()
            if name in self._entries:
                self.put(name, key_of(name))


class LeafQueue:
    """Applications in scheduling order.

    Per leaf an ordered set of applications, per parent an ordered set of queues.
    """

    __slots__ = (
        "_cluster",
        "_epoch",
        "_kept",
        "_seen",
        "_total",
        "orders",
    )

    def __init__(self, cluster: SchedulingContext) -> None:
        self._cluster = cluster
        #: Ordered children of a parent by path, and ordered applications of a leaf by ID. None of them is empty.
        self.orders: dict[QueuePath, ApplicationHeap] = {}
        #: Those of the orders of parents that are kept.
        self._kept: dict[QueuePath, ApplicationHeap] = {}
        #: Number of the last queue change that was applied.
        self._seen = 0
        #: Cluster capacity that the keys are based on, and the number of times that all keys became invalid.
        self._total: Resources | None = None
        self._epoch = 0

    def has(self, app: Application) -> bool:
        """Whether it contains the application."""
        order = self.orders.get(app.queue.path)
        return order is not None and app.id in order

    def enter(self, app: Application) -> None:
        """Adds the application."""
        order = self.orders.get(app.queue.path)
        if order is not None:
            if app.id not in order:
                order.put(app.id, ordering.application_key(self._cluster, app))
            return
        order = self.orders[app.queue.path] = ApplicationHeap(self._epoch)
        order.put(app.id, ordering.application_key(self._cluster, app))
        self.attach(app.queue)

    def remove(self, app: Application) -> None:
        """Removes the application if it is there."""
        order = self.orders.get(app.queue.path)
        if order is None:
            return
        if not order.discard(app.id):
            del self.orders[app.queue.path]
            self.detach(app.queue)

    def attach(self, queue: Queue) -> None:
        """Adds the queue to the children of its parent, and the ancestors in the same way."""
        is_new = True
        while is_new and (parent := queue.parent) is not None:
            order = self.orders.get(parent.path)
            is_new = order is None
            if order is None:
                order = self.orders[parent.path] = ApplicationHeap(self._epoch, is_kept=False)
            if order.is_kept:
                order.put(queue.path, self._queue_key(queue.path))
            elif order.add(queue.path) > _FEW:
                order.keep(self._queue_key, self._epoch)
                self._kept[parent.path] = order
            queue = parent

    def detach(self, queue: Queue) -> None:
        """Removes the queue from the children of its parent, and ancestors without children in the same way."""
        while (parent := queue.parent) is not None:
            order = self.orders.get(parent.path)
            if order is None:
                return
            if order.discard(queue.path):
                return
            del self.orders[parent.path]
            self._kept.pop(parent.path, None)
            queue = parent

    def moved(self, app: Application) -> None:
        """Updates the key of an application."""
        if self.has(app):
            self.orders[app.queue.path].put(app.id, ordering.application_key(self._cluster, app))

    def catch_up(self, moved: dict[Queue, int], moves: int) -> None:
        """Updates the keys of queues that changed since the last use. `moved`: the number of the last change of each,
        latest last.
        """
        total = self._cluster.nodes.capacity_total
        if self._total is not total:
            self._total = total
            self._epoch += 1
        seen, kept = self._seen, self._kept
        self._seen = moves
        if not kept:
            return
        for count, (queue, number) in enumerate(reversed(moved.items())):
            if number <= seen:
                break
            if count == _MOST_MOVED:
                self._epoch += 1
                break
            order = kept.get(queue.parent.path) if queue.parent is not None else None
            if order is not None and queue.path in order:
                order.put(queue.path, ordering.queue_key(self._cluster, queue))

    def renew_all(self) -> None:
        """Computes all keys again, because the ordering policy may have changed."""
        for path, order in self.orders.items():
            key_of = self._key_of(self._cluster.queues.by_path[path])
            for name in list(order) if order.is_kept else ():
                order.put(name, key_of(name))

    def first(self, queue: Queue) -> str | None:
        """Returns the first entry directly below a queue."""
        order = self._order(queue)
        return None if order is None else order.first(self._key_of(queue))

    def first_two(self, queue: Queue) -> tuple[str | None, str | None]:
        """Returns the first and second entry directly below a queue."""
        order = self._order(queue)
        return (None, None) if order is None else order.first_two(self._key_of(queue))

    def _order(self, queue: Queue) -> ApplicationHeap | None:
        """Returns the entries directly below a queue, with renewed keys as far as one use renews them."""
        order = self.orders.get(queue.path)
        if order is None or not order.is_kept or (queue.is_leaf and queue.policies.order is ApplicationOrder.FIFO):
            return order
        if len(order) > 1 and (order.epoch != self._epoch or order.is_stale):
            order.renew(self._key_of(queue), self._epoch)
        return order

    def _key_of(self, queue: Queue) -> Callable[[str], SortKey]:
        return self._application_key if queue.is_leaf else self._queue_key

    def _queue_key(self, path: str) -> SortKey:
        return ordering.queue_key(self._cluster, self._cluster.queues.by_path[QueuePath(path)])

    def _application_key(self, name: str) -> SortKey:
        return ordering.application_key(self._cluster, self._cluster.applications[ApplicationId(name)])
