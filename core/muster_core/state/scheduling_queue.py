"""The scheduling queue of a partition: which application is tried next, and which wait for what.

It is kept between cycles. An application that waits is either active (worth a scheduling attempt) or unschedulable:
then it is listed under each blocking reason, or it waits for a timer or a response. When a reason may no longer
apply, only the first applications that wait for it become active. The order per leaf queue and per parent is kept;
only changed entries get a new key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, nsmallest
from itertools import islice
from typing import Final, NamedTuple, Protocol

from muster_core.model.config import ApplicationOrder
from muster_core.model.ids import ApplicationId, NodeId, QueuePath
from muster_core.model.resources import Resources
from muster_core.state import ordering
from muster_core.state.applications import Application
from muster_core.state.ordering import SortKey
from muster_core.state.queues import Queue, QueueTree
from muster_core.state.repairs import Repairs
from muster_core.state.request_classes import AskClass
from muster_core.state.users import LimitSubject


@dataclass(frozen=True, slots=True)
class NoNodeFits:
    """No node fits `count` requests of a class."""

    kind: AskClass
    count: int

    def __hash__(self) -> int:
        """The hash of a class is cached."""
        return hash(self.kind) + self.count


@dataclass(frozen=True, slots=True)
class MembersDoNotFit:
    """Members of several classes do not fit on the nodes. Any change of a node may help."""

    app: ApplicationId


@dataclass(frozen=True, slots=True)
class NodeNotReserved:
    """The node that is reserved for a request has too few free resources yet."""

    app: ApplicationId
    node: NodeId


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    """The maximum of a queue, user or group is too low. `owner`: a gang with a reservation, which has more headroom."""

    holder: LimitSubject
    amount: Resources
    owner: ApplicationId | None = None


@dataclass(frozen=True, slots=True)
class MaxApplicationsReached:
    """The maximum number of applications is running."""

    holder: LimitSubject


@dataclass(frozen=True, slots=True)
class QueuedBehindGang:
    """A gang of the leaf is first (docs/internals/semantics.md, rule 11)."""

    leaf: QueuePath


BlockingReason = (
    NoNodeFits | MembersDoNotFit | NodeNotReserved | QuotaExceeded | MaxApplicationsReached | QueuedBehindGang
)

#: Keys of an ordered set that one use renews, and blocking reasons whose first applications one attempt activates. Sets
#: up to this size are always in exact order.
_AT_ONCE: Final = 64

#: Above this number of queues with changed keys, all keys of a set are renewed step by step.
_MOST_MOVED: Final = 256

#: With up to this number of queues below one parent, their current keys are compared at each use, and no order is kept.
_FEW: Final = 64


#: Parent of root.
_NO_PARENT: Final = QueuePath("")


class QueueChange(NamedTuple):
    """The last change of a queue's key: its number, and the parent of the queue."""

    number: int
    parent: QueuePath


class SchedulingContext(ordering.OrderingContext, Protocol):
    """The part of a partition that the scheduling queue reads."""

    queues: QueueTree
    waiting: dict[QueuePath, None]

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

    def second(self, key_of: Callable[[str], SortKey]) -> str | None:
        """Returns the second name, or None."""
        if len(self._entries) < 2:
            return None
        if not self.is_kept:
            return self._lowest_two(key_of)[1]
        name = self.first(key_of)
        entry = heappop(self._heap)
        del self._entries[name]
        found = self.first(key_of)
        self._entries[name] = entry
        heappush(self._heap, entry)
        return found

    def first_two(self, key_of: Callable[[str], SortKey]) -> tuple[str, str | None]:
        """Returns the first name, and the second or None. Raises IndexError if it is empty."""
        return (self.first(key_of), self.second(key_of)) if self.is_kept else self._lowest_two(key_of)

    def _lowest_two(self, key_of: Callable[[str], SortKey]) -> tuple[str, str | None]:
        lowest = nsmallest(2, self._keyed(key_of))
        return lowest[0][1], lowest[1][1] if len(lowest) > 1 else None

    def _keyed(self, key_of: Callable[[str], SortKey]) -> list[tuple[SortKey, str]]:
        if len(self._entries) == 1:  # nothing to compare
            return [((), name) for name in self._entries]
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
    """Active applications, or those with the same blocking reason, in scheduling order.

    Per leaf an ordered set of applications, per parent an ordered set of queues.
    """

    __slots__ = ("_cluster", "_epoch", "_kept", "_seen", "_total", "heads", "is_open", "orders", "to_reserve")

    def __init__(self, cluster: SchedulingContext) -> None:
        self._cluster = cluster
        #: Ordered children of a parent by path, and ordered applications of a leaf by ID. None of them is empty.
        self.orders: dict[QueuePath, ApplicationHeap] = {}
        #: Those of the orders of parents that are kept.
        self._kept: dict[QueuePath, ApplicationHeap] = {}
        self.is_open = False
        #: Applications that are active because this reason may no longer apply.
        self.heads: dict[ApplicationId, None] = {}
        #: The application for which the last reservation timer was set while only reserved nodes had resources.
        self.to_reserve: ApplicationId | None = None
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

    def catch_up(self, moved: dict[QueuePath, QueueChange], moves: int) -> None:
        """Updates the keys of queues that changed since the last use. `moved`: the last change of each, latest last."""
        total = self._cluster.nodes.capacity_total
        if self._total is not total:
            self._total = total
            self._epoch += 1
        seen, kept = self._seen, self._kept
        self._seen = moves
        if not kept:
            return
        for count, (path, (number, parent)) in enumerate(reversed(moved.items())):
            if number <= seen:
                break
            if count == _MOST_MOVED:
                self._epoch += 1
                break
            order = kept.get(parent)
            if order is not None and path in order:
                order.put(path, self._queue_key(path))

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

    def second(self, queue: Queue) -> str | None:
        """Returns the second entry directly below a queue."""
        order = self._order(queue)
        return None if order is None else order.second(self._key_of(queue))

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


@dataclass(slots=True, eq=False)
class UnschedulableApplications:
    """Unschedulable applications of a partition by blocking reason."""

    cluster: SchedulingContext
    entries: dict[BlockingReason, LeafQueue] = field(default_factory=dict)
    #: Those without a feasible node, by class and count.
    by_kind: dict[AskClass, dict[int, LeafQueue]] = field(default_factory=dict)
    #: Those over a quota, by its subject.
    by_holder: dict[LimitSubject, dict[QuotaExceeded, LeafQueue]] = field(default_factory=dict)
    together: dict[ApplicationId, LeafQueue] = field(default_factory=dict)
    #: Those with a node reservation, by node.
    by_node: dict[NodeId, dict[ApplicationId, LeafQueue]] = field(default_factory=dict)
    #: The blocking reasons of each application.
    blocked: dict[ApplicationId, dict[BlockingReason, LeafQueue]] = field(default_factory=dict)

    def is_first(self, app: ApplicationId) -> bool:
        """Whether the application is active because one of its blocking reasons may no longer apply."""
        return any(app in entry.heads for entry in self.blocked.get(app, {}).values())

    def before_nodes(self) -> Iterator[LeafQueue]:
        """Yields the sets that any additional resources of nodes may unblock."""
        for entries in self.by_kind.values():
            yield from entries.values()
        for held in self.by_node.values():
            yield from held.values()
        yield from self.together.values()

    def entry(self, blocking_reason: BlockingReason) -> LeafQueue:
        """Returns the set of a blocking reason. Creates it if needed."""
        entry = self.entries.get(blocking_reason)
        if entry is not None:
            return entry
        entry = self.entries[blocking_reason] = LeafQueue(self.cluster)
        match blocking_reason:
            case NoNodeFits(kind, count):
                self.by_kind.setdefault(kind, {})[count] = entry
            case QuotaExceeded():
                self.by_holder.setdefault(blocking_reason.holder, {})[blocking_reason] = entry
            case MembersDoNotFit(app):
                self.together[app] = entry
            case NodeNotReserved(app, node):
                self.by_node.setdefault(node, {})[app] = entry
            case _:
                pass
        return entry

    def forget(self, blocking_reason: BlockingReason) -> None:
        """Removes the set of a blocking reason after its last application has left."""
        del self.entries[blocking_reason]
        match blocking_reason:
            case NoNodeFits(kind, count):
                entries = self.by_kind[kind]
                del entries[count]
                if not entries:
                    del self.by_kind[kind]
            case QuotaExceeded():
                rooms = self.by_holder[blocking_reason.holder]
                del rooms[blocking_reason]
                if not rooms:
                    del self.by_holder[blocking_reason.holder]
            case MembersDoNotFit(app):
                del self.together[app]
            case NodeNotReserved(app, node):
                held = self.by_node[node]
                del held[app]
                if not held:
                    del self.by_node[node]
            case _:
                pass


class SchedulingQueue:  # long: every way in which the order changes
    """Scheduling queue of one partition."""

    def __init__(self, cluster: SchedulingContext) -> None:
        self._cluster = cluster
        self.blocking_reasons = UnschedulableApplications(cluster)
        #: Applications that are worth an attempt.
        self.active = LeafQueue(cluster)
        #: Active applications that are tried whatever their blocking reasons are.
        self.requeued: dict[ApplicationId, None] = {}
        self.repairs: Repairs[LeafQueue] = Repairs()
        #: All waiting applications must become active, and those that are left of them; None = all.
        self.is_due = False
        self._due: list[ApplicationId] | None = None
        #: Reasons that may no longer apply and whose first applications are not active yet.
        self._headless: dict[LeafQueue, None] = {}
        #: Queues with a changed key, latest last.
        self._moved: dict[QueuePath, QueueChange] = {}
        self._moves = 0
        #: The last change that an entry has read.
        self._caught_up = 0
        #: Leaves that are skipped for the rest of this cycle.
        self._paused: dict[QueuePath, None] = {}

    # -- what wakes an application, and what puts it to sleep --

    def requeue(self, app: Application) -> None:
        """Makes a waiting application active, because something of its own changed."""
        if app.id in app.queue.waiting and app.id not in self.requeued:
            self.requeued[app.id] = None
            self._activate_one(app)

    def requeue_all(self) -> None:
        """Makes all waiting applications active. They are walked once before the next attempt, however often this is
        called.
        """
        self.is_due = True
        self._due = None

    def requeue_some(self) -> None:
        """Makes a part of the applications of `requeue_all` active.

        No attempt is made before all are active, because the first in order may be found last.
        """
        if self._due is None:
            leaves = map(self._cluster.queues.by_path.__getitem__, self._cluster.waiting)
            self._due = [name for leaf in leaves for name in leaf.waiting if name not in self.requeued]
        for name in self._due[-_AT_ONCE:]:
            app = self._cluster.applications.get(name)
            if app is not None:
                self.requeue(app)
        del self._due[-_AT_ONCE:]
        self.is_due = bool(self._due)

    def dequeue(self, app: Application) -> None:
        """Removes the application from the active ones, because it was tried or does not wait. Its position does not
        change.
        """
        self.requeued.pop(app.id, None)
        self._deactivate(app)

    def mark_unschedulable(self, app: Application, blocking_reasons: list[BlockingReason]) -> None:
        """Sets the blocking reasons of the application. These reasons count as valid again.

        Most reasons are those of the attempt before, and the application stays in their entries.
        """
        before = self.blocking_reasons.blocked.get(app.id)
        if before:
            kept = set(blocking_reasons)
            self._leave(app, [one for one in before if one not in kept])
        for blocking_reason in blocking_reasons:
            entry = before.get(blocking_reason) if before else None
            if entry is None:
                entry = self.blocking_reasons.entry(blocking_reason)
                self.blocking_reasons.blocked.setdefault(app.id, {})[blocking_reason] = entry
            self.close(entry)
            entry.enter(app)
            self.repairs.wait(entry, app.id)

    def leave(self, app: Application) -> None:
        """Removes the application from all entries."""
        self._leave(app, list(self.blocking_reasons.blocked.get(app.id, ())))

    def _leave(self, app: Application, blocking_reasons: list[BlockingReason]) -> None:
        """Removes the application from some of its entries."""
        if not blocking_reasons:
            return
        blocked = self.blocking_reasons.blocked[app.id]
        for blocking_reason in blocking_reasons:
            entry = blocked.pop(blocking_reason)
            entry.remove(app)
            self.repairs.stop_waiting(entry, app.id)
            entry.heads.pop(app.id, None)
            if entry.is_open and entry.orders:
                self._headless[entry] = None
            elif not entry.orders and self.blocking_reasons.entries.get(blocking_reason) is entry:
                self.close(entry)
                self.blocking_reasons.forget(blocking_reason)
        if not blocked:
            del self.blocking_reasons.blocked[app.id]

    def open(self, entry: LeafQueue | None) -> None:
        """Open the entry: try its applications in order until one of them is unschedulable again."""
        if entry is not None and not entry.is_open:
            entry.is_open = True
            self._headless[entry] = None

    def close(self, entry: LeafQueue) -> None:
        """Close the entry: nothing has changed for its applications."""
        if not entry.is_open:
            return
        entry.is_open = False
        self._headless.pop(entry, None)
        heads, entry.heads = entry.heads, {}
        for name in heads:
            if name not in self.requeued and not self.blocking_reasons.is_first(name):
                self._deactivate(self._cluster.applications[name])

    def _activate_one(self, app: Application) -> None:
        self.active.enter(app)
        self.repairs.activated(app.id)

    def _deactivate(self, app: Application) -> None:
        self.active.remove(app)
        self.repairs.deactivated(app.id)

    def is_headless(self, entry: LeafQueue) -> bool:
        """Whether the first applications of an open entry become active at the next attempt."""
        return entry in self._headless

    # -- keys --

    def moved(self, queue: Queue) -> None:
        """The keys of a queue and of those above it may be others now."""
        moved = self._moved
        known = moved.get(queue.path)
        if known is not None and known.number > self._caught_up:
            return  # no entry has read its last change yet, nor those of the queues above it
        self._moves += 1
        for one in queue.path_up:
            moved.pop(one.path, None)
            moved[one.path] = QueueChange(self._moves, one.parent.path if one.parent is not None else _NO_PARENT)

    def moved_in_leaf(self, app: Application) -> None:
        """The key of an application may be another one now."""
        blocked = self.blocking_reasons.blocked.get(app.id, {})
        for entry in (self.active, *blocked.values(), *self._cluster.demand_orders(app)):
            entry.moved(app)

    def renew_all(self) -> None:
        """All keys may be others now, and of another kind: compute them again."""
        for entry in (self.active, *self.blocking_reasons.entries.values(), *self._cluster.demand_orders(None)):
            entry.renew_all()

    def removed(self, queue: Queue) -> None:
        """The queue was removed; no application is in it."""
        self._moved.pop(queue.path, None)

    # -- which is next --

    def next_leaf(self) -> Queue | None:
        """The leaf of the next attempt: down from the root, the lowest key first. None: no application is active."""
        if self._headless:
            self._activate_heads()
        return self._first_leaf(self.active)

    def first_of(self, entry: LeafQueue) -> Application | None:
        """Returns the first application of an ordered set, or None."""
        leaf = self._first_leaf(entry)
        return None if leaf is None else self._application(entry.first(leaf))

    def _first_leaf(self, entry: LeafQueue) -> Queue | None:
        entry.catch_up(self._moved, self._moves)
        self._caught_up = self._moves
        queue = self._cluster.queues.root
        while not queue.is_leaf:
            path = entry.first(queue)
            if path is None:
                return None
            queue = self._cluster.queues.by_path[QueuePath(path)]
        return queue

    def next_application(self, leaf: Queue) -> Application | None:
        """The application of the leaf's next attempt."""
        if self._headless:
            self._activate_heads()
        return self._application(self.active.first(leaf))

    def second_application(self, leaf: Queue) -> Application | None:
        """Returns the second application of a leaf in order."""
        return self._application(self.active.second(leaf))

    def is_alone(self, leaf: Queue) -> bool:
        """Whether no other leaf has an active application."""
        orders = self.active.orders
        for above in leaf.above:  # noqa: SIM110 - half the time of `all` with a generator
            if len(orders[above.path]) != 1:
                return False
        return True

    def second_queue(self, queue: Queue) -> Queue | None:
        """Returns the second active child of the queue in order."""
        path = self.active.second(queue)
        return None if path is None else self._cluster.queues.by_path[QueuePath(path)]

    def _application(self, name: str | None) -> Application | None:
        return None if name is None else self._cluster.applications[ApplicationId(name)]

    def pause(self, leaf: Queue) -> None:
        """Skips a leaf until `resume`."""
        if leaf.path in self.active.orders:
            self._paused[leaf.path] = None
            self.active.detach(leaf)

    def resume(self) -> bool:
        """Ends all pauses. Returns whether there were any."""
        paused, self._paused = self._paused, {}
        for path in paused:
            if path in self.active.orders:
                self.active.attach(self._cluster.queues.by_path[path])
        return bool(paused)

    def _activate_heads(self) -> None:
        """Makes the first applications of blocking reasons that may no longer apply active, some reasons at a time."""
        while self._headless:
            entries = list(islice(self._headless, _AT_ONCE))
            for entry in entries:
                del self._headless[entry]
                entry.catch_up(self._moved, self._moves)
                self._caught_up = self._moves
                self._activate(entry, self._cluster.queues.root, is_first=True)
                repaired = self._application(self.repairs.first_waiting(entry))
                if repaired is not None:
                    entry.heads[repaired.id] = None
                    self._activate_one(repaired)
            if self.active.orders:
                return

    def _activate(self, entry: LeafQueue, queue: Queue, *, is_first: bool) -> None:
        """Activates the first application below a queue, and on each level the first one of the second entry."""
        has_second = is_first and not (queue.is_leaf and queue.policies.order is ApplicationOrder.FIFO)
        names = entry.first_two(queue) if has_second else (entry.first(queue),)
        for index, name in enumerate(names):
            if name is None:
                continue
            if queue.is_leaf:
                app = self._cluster.applications[ApplicationId(name)]
                entry.heads[app.id] = None
                self._activate_one(app)
            else:
                child = self._cluster.queues.by_path[QueuePath(name)]
                self._activate(entry, child, is_first=is_first and not index)
