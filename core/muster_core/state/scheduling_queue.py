"""The scheduling queue of a partition: which application is tried next, and which wait for what.

It is kept between cycles. An application that waits is active (worth an attempt), in back-off, or unschedulable: then
it is listed under each blocking reason. When a reason may no longer apply, only the first applications that wait for it
become active, and `backoff` bounds how many of them are tried at once. Some wait for a timer or a response instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from muster_core.model.config import ApplicationOrder
from muster_core.model.ids import ApplicationId, NodeId, QueuePath
from muster_core.model.limits import LOOKS_PER_ATTEMPT
from muster_core.model.resources import Limit, Resources
from muster_core.state import indexes
from muster_core.state.applications import Application
from muster_core.state.backoff import Backoff, BlockedApplications, delay_ns
from muster_core.state.columns import AmountIndex
from muster_core.state.ordered_sets import LeafQueue, SchedulingContext
from muster_core.state.queues import Queue
from muster_core.state.repairs import Repairs
from muster_core.state.request_classes import AskClass, label_mark
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
    """The maximum of a queue, user or group is too low.

    `amount`: the request, without the resources that the maximum does not limit. `owner`: a gang with a reservation,
    which has more headroom.
    """

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

#: Applications and blocking reasons that one attempt activates.
_AT_ONCE: Final = 64


def topic_of(blocking_reason: BlockingReason) -> Hashable:
    """Returns what a change must be about to remove the reason: a class, a maximum, a node, or anything for gangs."""
    match blocking_reason:
        case NoNodeFits(kind):
            return kind
        case QuotaExceeded(holder):
            return holder
        case NodeNotReserved(_, node):
            return node
        case MembersDoNotFit():
            return MembersDoNotFit
        case _:
            return blocking_reason


@dataclass(slots=True, eq=False)
class UnschedulableApplications:
    """Unschedulable applications of a partition by blocking reason.

    A reason is woken if a change may have removed it, until it is evaluated or applies again.
    """

    cluster: SchedulingContext
    #: By `topic_of` the reason.
    entries: dict[Hashable, dict[BlockingReason, BlockedApplications]] = field(default_factory=dict)
    #: The blocking reasons of each application.
    blocked: dict[ApplicationId, dict[BlockingReason, BlockedApplications]] = field(default_factory=dict)
    #: Those about a quota by amount, marked with the maximum.
    amounts: AmountIndex[QuotaExceeded] = field(default_factory=AmountIndex)
    woken_gangs: dict[BlockingReason, None] = field(default_factory=dict)

    def is_first(self, app: ApplicationId) -> bool:
        """Whether the application is active because one of its blocking reasons may no longer apply."""
        return any(app in entry.heads for entry in self.blocked.get(app, {}).values())

    def about(self, topic: Hashable) -> dict[BlockingReason, BlockedApplications]:
        """Returns the reasons with this `topic_of`, and their sets."""
        return self.entries.get(topic, {})

    def find(self, blocking_reason: BlockingReason) -> BlockedApplications | None:
        """Returns the set of a blocking reason, or None."""
        return self.about(topic_of(blocking_reason)).get(blocking_reason)

    def __iter__(self) -> Iterator[tuple[BlockingReason, BlockedApplications]]:
        for found in self.entries.values():
            yield from found.items()

    def wake_gangs(self) -> None:
        """Wakes the gangs that any change of a node may unblock. Those that were tried last come last."""
        self.woken_gangs = dict.fromkeys(self.about(MembersDoNotFit))

    def wake_amounts(self, holder: LimitSubject, left: Limit) -> None:
        """Wakes the amounts that what is left of a maximum may suffice for."""
        self.amounts.wake(left.get, [_mark(holder)])

    def take_woken(self, count: int) -> list[BlockedApplications]:
        """Returns the sets of up to `count` gangs and as many amounts that were woken."""
        gangs, taken = self.about(MembersDoNotFit), list(islice(self.woken_gangs, count))
        for reason in taken:
            del self.woken_gangs[reason]
            gangs[reason] = gangs.pop(reason)
        amounts = [self.entries[amount.holder][amount] for amount in self.amounts.take(count)]
        return [*(gangs[reason] for reason in taken), *amounts]

    def sleep(self, blocking_reason: BlockingReason) -> None:
        """Records that the reason applies now. That of a class is in the cache of classes."""
        self.woken_gangs.pop(blocking_reason, None)
        if isinstance(blocking_reason, QuotaExceeded):
            self.amounts.set_woken(blocking_reason, value=False)

    def entry(self, blocking_reason: BlockingReason) -> BlockedApplications:
        """Returns the set of a blocking reason. Creates it if needed."""
        found = self.entries.setdefault(topic_of(blocking_reason), {})
        entry = found.get(blocking_reason)
        if entry is None:
            entry = found[blocking_reason] = BlockedApplications(self.cluster)
            if isinstance(blocking_reason, QuotaExceeded):
                self.amounts.put(blocking_reason, blocking_reason.amount, _mark(blocking_reason.holder))
        return entry

    def forget(self, blocking_reason: BlockingReason) -> None:
        """Removes the set of a blocking reason after its last application has left."""
        indexes.remove(self.entries, topic_of(blocking_reason), blocking_reason)
        self.woken_gangs.pop(blocking_reason, None)
        if isinstance(blocking_reason, QuotaExceeded):
            self.amounts.drop(blocking_reason)


def _mark(holder: LimitSubject) -> int:
    return label_mark(f"{holder.kind} {holder.name}", holder.path)


def _is_exact(blocking_reason: BlockingReason) -> bool:
    """Whether a wake-up for this reason almost always helps, so that it does not wait for the end of a back-off."""
    match blocking_reason:
        case NoNodeFits(kind, count):
            return not kind.depends_on_others and count == 1
        case MembersDoNotFit():
            return False
        case _:
            return True


class SchedulingQueue:  # long: every way in which the order changes
    """Scheduling queue of one partition."""

    def __init__(self, cluster: SchedulingContext) -> None:
        self._cluster = cluster
        self.blocking_reasons = UnschedulableApplications(cluster)
        #: Applications that are worth an attempt.
        self.active = LeafQueue(cluster)
        #: Active applications that are tried whatever their blocking reasons are.
        self.requeued: dict[ApplicationId, None] = {}
        self.repairs = Repairs()
        #: All waiting applications must become active, and those that are left of them; None = all.
        self.is_due = False
        self._due: list[ApplicationId] | None = None
        self._are_all_due = True
        self.backoff = Backoff()
        #: Whether some reasons were woken and not evaluated since.
        self.has_woken = False
        #: Queues with a changed key, latest last, and the number of the change.
        self._moved: dict[Queue, int] = {}
        self._moves = 0
        #: The last change that an entry has read.
        self._caught_up = 0
        #: Leaves that are skipped for the rest of this cycle.
        self._paused: dict[QueuePath, None] = {}

    # -- what wakes an application, and what puts it to sleep --

    def requeue(self, app: Application) -> None:
        """Makes a waiting application active, because something of its own changed."""
        if app.id in app.queue.waiting and app.id not in self.requeued:
            app.attempts_in_vain = 0
            self.requeued[app.id] = None
            self._activate_one(app)

    def requeue_all(self, *, unless_waiting_for_nodes: bool = False) -> None:
        """Makes all waiting applications active. They are walked once before the next attempt, however often this is
        called.

        `unless_waiting_for_nodes`: except those that only wait for nodes, as `requeue_some` finds out.
        """
        self._are_all_due = not unless_waiting_for_nodes or (self.is_due and self._are_all_due)
        self.is_due = True
        self._due = None

    def requeue_some(self, waits_for_nodes: Callable[[Application], bool]) -> None:
        """Makes a part of the applications of `requeue_all` active.

        No attempt is made before all are active, because the first in order may be found last.
        """
        if self._due is None:
            leaves = map(self._cluster.queues.by_path.__getitem__, self._cluster.waiting)
            self._due = [name for leaf in leaves for name in leaf.waiting if name not in self.requeued]
        for name in self._due[-_AT_ONCE:]:
            app = self._cluster.applications.get(name)
            if app is not None and (self._are_all_due or not waits_for_nodes(app)):
                self.requeue(app)
        del self._due[-_AT_ONCE:]
        self.is_due = bool(self._due)

    def dequeue(self, app: Application) -> None:
        """Removes the application from the active ones, because it was tried or does not wait. Its position does not
        change.
        """
        self.requeued.pop(app.id, None)
        self._deactivate(app)

    def mark_unschedulable(
        self, app: Application, blocking_reasons: list[BlockingReason], instead_of: Sequence[BlockingReason] = ()
    ) -> None:
        """Sets the blocking reasons of the application, or replaces only some of them. They are valid again.

        Most reasons are those of the attempt before, and the application stays in their entries.
        """
        before = self.blocking_reasons.blocked.get(app.id)
        retry_ns = self.backoff.now_ns + delay_ns(app.attempts_in_vain) if app.attempts_in_vain else 0
        if before:
            kept = set(blocking_reasons)
            self._leave(app, [one for one in instead_of or before if one in before and one not in kept])
        for blocking_reason in blocking_reasons:
            entry = before.get(blocking_reason) if before else None
            if entry is None:
                entry = self.blocking_reasons.entry(blocking_reason)
                self.blocking_reasons.blocked.setdefault(app.id, {})[blocking_reason] = entry
            self.close(entry)
            self.blocking_reasons.sleep(blocking_reason)
            entry.enter(app)
            entry.retry_ns = 0 if _is_exact(blocking_reason) else retry_ns
            if app.id in self.repairs.wanted:
                entry.repairs[app.id] = None

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
            entry.repairs.pop(app.id, None)
            entry.heads.pop(app.id, None)
            if entry.orders and entry in self.backoff:
                self.backoff.again(entry)
            elif not entry.orders:
                self.close(entry)
                self.blocking_reasons.forget(blocking_reason)
                if isinstance(blocking_reason, NoNodeFits):
                    self.class_left(app, blocking_reason.kind)
        if not blocked:
            del self.blocking_reasons.blocked[app.id]

    def class_left(self, app: Application, kind: AskClass) -> None:
        """Forgets that a class does not fit if the application has no request of it and no application waits for it."""
        if kind not in app.waiting and kind not in self.blocking_reasons.entries:
            self._cluster.unschedulable_classes.leave(kind)

    def open(self, entry: BlockedApplications | None, *, is_certain: bool = False) -> None:
        """Try the applications of the entry in order until one of them is unschedulable again.

        `is_certain`: the reason does not apply to its first application any more, so it is tried in any case.
        """
        if entry is not None and (entry not in self.backoff or (is_certain and entry not in self.backoff.tried)):
            self.backoff.wake(entry, is_certain=is_certain)

    def close(self, entry: BlockedApplications) -> None:
        """The reason of the entry still applies."""
        if entry in self.backoff:
            self.backoff.discard(entry)
            self._deactivate_heads(entry)

    def _deactivate_heads(self, entry: BlockedApplications) -> None:
        heads, entry.heads = entry.heads, {}
        for name in heads:
            if name not in self.requeued and not self.blocking_reasons.is_first(name):
                self._deactivate(self._cluster.applications[name])

    def next_ns(self) -> int:
        """Returns when the next woken applications are due; 0 = there are none."""
        return self.backoff.soon_ns if self.has_woken else self.backoff.next_ns()

    def heads_of(self, app: Application) -> dict[BlockingReason, BlockedApplications]:
        """Returns the reasons because of which the application is active; empty = it is active in any case."""
        if app.id in self.requeued:
            return {}
        blocked = self.blocking_reasons.blocked.get(app.id, {})
        return {reason: entry for reason, entry in blocked.items() if app.id in entry.heads}

    def reasons_to_try(self, app: Application) -> list[BlockingReason]:
        """Returns the reasons that are evaluated now: classes, and node reservations. Empty = all classes are planned.

        An application with more classes than one attempt evaluates is active for some of them. Others wait again.
        """
        if len(app.waiting) <= LOOKS_PER_ATTEMPT or app.queue.policies.backoff_after:
            return []
        heads = self.heads_of(app)
        if not all(isinstance(reason, NoNodeFits | NodeNotReserved) for reason in heads):
            return []
        for entry in list(heads.values())[LOOKS_PER_ATTEMPT:]:
            self.backoff.again(entry)
            self._deactivate_heads(entry)
        return list(heads)[:LOOKS_PER_ATTEMPT]

    def attempted(
        self, heads: Collection[BlockedApplications], *, is_in_vain: bool, is_early: bool, is_refused: bool
    ) -> None:
        """Counts the attempt of an application that these reasons made active. After too many failed ones, the others
        that were woken wait. `is_refused`: it ended before nodes were searched.
        """
        for entry in self.backoff.attempted(heads, is_in_vain=is_in_vain, is_early=is_early, is_refused=is_refused):
            self._deactivate_heads(entry)

    def _activate_one(self, app: Application) -> None:
        self.active.enter(app)
        self.repairs.activated(app.id)

    def _deactivate(self, app: Application) -> None:
        self.active.remove(app)
        self.repairs.deactivated(app.id)

    # -- keys --

    def moved(self, queue: Queue) -> None:
        """The keys of a queue and of those above it may be others now."""
        moved = self._moved
        if moved.get(queue, 0) > self._caught_up:
            return  # no entry has read its last change yet, nor those of the queues above it
        self._moves += 1
        for one in queue.path_up:
            moved.pop(one, None)
            moved[one] = self._moves

    def moved_in_leaf(self, app: Application) -> None:
        """The key of an application may be another one now."""
        blocked = self.blocking_reasons.blocked.get(app.id, {})
        for entry in (self.active, *blocked.values(), *self._cluster.demand_orders(app)):
            entry.moved(app)

    def renew_all(self) -> None:
        """All keys may be others now, and of another kind: compute them again."""
        for entry in (self.active, *(entry for _, entry in self.blocking_reasons), *self._cluster.demand_orders(None)):
            entry.renew_all()

    def removed(self, queue: Queue) -> None:
        """The queue was removed; no application is in it."""
        self._moved.pop(queue, None)

    # -- which is next --

    def next_leaf(self) -> Queue | None:
        """The leaf of the next attempt: down from the root, the lowest key first. None: no application is active."""
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
        self._activate_heads()
        return self._application(self.active.first(leaf))

    def is_alone(self, leaf: Queue) -> bool:
        """Whether no other leaf has an active application."""
        orders = self.active.orders
        for above in leaf.above:  # noqa: SIM110 - half the time of `all` with a generator
            if len(orders[above.path]) != 1:
                return False
        return True

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
        while self.backoff.has_any and (woken := self.backoff.take()) is not None:
            self._activate_head(woken)

    def _activate_head(self, entry: BlockedApplications) -> None:
        entry.catch_up(self._moved, self._moves)
        self._caught_up = self._moves
        self._activate(entry, self._cluster.queues.root, is_first=True)
        repaired = self._application(next(iter(entry.repairs), None))
        if repaired is not None:
            entry.heads[repaired.id] = None
            self._activate_one(repaired)

    def _activate(self, entry: BlockedApplications, queue: Queue, *, is_first: bool) -> None:
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
