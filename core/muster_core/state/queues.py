"""The queue tree: configuration, usage and pending resources of each queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from muster_core.model.config import (
    DEFAULT_POLICIES,
    DENY_ALL,
    AccessList,
    ChildTemplate,
    PartitionConfig,
    QueueConfig,
    QueuePolicies,
    QuotaLimit,
)
from muster_core.model.ids import RECOVERY, ROOT, ApplicationId, QueuePath, child_path, queue_name
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources, is_of_devices
from muster_core.model.states import QueueState
from muster_core.state import indexes
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import PreemptionSearch


class LazySum:
    """A sum of requests that is changed in place, because users choose the number of its resource names.

    Equal amounts in a row are counted and added when the sum is read.
    """

    __slots__ = ("_amounts", "_changes", "_latest", "_times")

    def __init__(self) -> None:
        self._amounts: dict[str, int] = {}
        self._latest = NOTHING
        self._times = 0
        self._changes = 0

    def add(self, amount: Resources, times: int) -> None:
        """Adds `times` the amount. A negative `times` subtracts."""
        if amount is not self._latest:
            self._fold()
            self._latest = amount
        self._times += times

    @property
    def changes(self) -> int:
        """Number of changes between two reads, to know whether the sum is another one."""
        self._fold()
        return self._changes

    @property
    def value(self) -> Resources:
        """The sum, as a copy."""
        return Resources(self._fold())

    def some(self, first: Iterable[str], most: int) -> Resources:
        """Returns the amounts of the `first` resources, and of at most `most` others."""
        amounts = self._fold()
        found = {name: amounts[name] for name in first if name in amounts}
        others = islice((name for name in amounts if name not in found), most)
        return Resources(found | {name: amounts[name] for name in others})

    def limited(self, limit: Limit) -> Resources:
        """Returns the part of the sum that a limit is about."""
        amounts = self._fold()
        return Resources({name: amounts[name] for name, _ in limit.items() if name in amounts})

    def left_of(self, limit: Limit) -> Limit:
        """Returns what is left of a limit after this sum."""
        amounts = self._fold()
        return Limit({name: bound - amounts.get(name, 0) for name, bound in limit.items()})

    def dominant(self, whole: Resources) -> float:
        """Returns the largest ratio of an amount to `whole`; 1 for an amount of which `whole` has nothing.

        Devices of claims do not count.
        """
        amounts = self._fold()
        ratios = [amounts[name] / each for name, each in whole.items() if name in amounts]
        is_more = len(ratios) < len(amounts) and any(not (whole[name] or is_of_devices(name)) for name in amounts)
        return max((*ratios, 1.0) if is_more else ratios, default=0.0)

    def __bool__(self) -> bool:
        """Whether the sum has an amount."""
        return bool(self._fold())

    def _fold(self) -> dict[str, int]:
        amounts, times = self._amounts, self._times
        if not times:
            return amounts
        for name, each in self._latest.items():
            total = amounts.get(name, 0) + times * each
            if total:
                amounts[name] = total
            else:
                del amounts[name]
        self._times = 0
        self._changes += 1
        return amounts


class PriorityCounts:
    """Counts by priority. There are few different priorities, so the highest one is found quickly."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def replace(self, old: int | None, new: int | None) -> None:
        """Replaces one priority by another. None = none."""
        if old is not None:
            indexes.count(self._counts, old, -1)
        if new is not None:
            indexes.count(self._counts, new, 1)

    @property
    def top(self) -> int | None:
        """The highest priority; None = empty."""
        return max(self._counts) if self._counts else None


class Unsettled(Protocol):
    """An application whose contribution to the pending amounts of its queues is corrected before they are read."""

    def settle_pending(self) -> None:
        """Updates the pending amounts of its queues."""


@dataclass(slots=True, eq=False)
class Shares:
    """Cached results of state/ordering.py, with the values that they were computed from."""

    share: float = 0.0
    allocated: Resources | None = None
    total: Resources | None = None
    config: PartitionConfig | None = None
    guaranteed: Resources | None = None
    max: Limit | None = None
    need: float = 0.0
    pending: int = -1
    of: Resources | None = None
    key: tuple[float, ...] = ()
    shown: int | None = None


@dataclass(slots=True, eq=False)
class Queue:
    """One queue with its usage. `managed`: it is in the configuration."""

    path: QueuePath
    parent: Queue | None
    is_leaf: bool
    managed: bool
    max: Limit
    guaranteed: Resources
    policies: QueuePolicies = DEFAULT_POLICIES
    #: 0 = unlimited.
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    #: By property, and `maxapplications`: the queue, template or annotation that sets it.
    origins: Mapping[str, str] = field(default_factory=dict)
    submit_acl: AccessList = DENY_ALL
    admin_acl: AccessList = DENY_ALL
    limits: tuple[QuotaLimit, ...] = ()
    template: ChildTemplate | None = None
    state: QueueState = QueueState.ACTIVE
    #: Configuration that is applied when the queue is empty: a leaf that becomes a parent (Stopped until then), or a
    #: parent that becomes a leaf.
    wanted: QueueConfig | None = None
    children: dict[str, Queue] = field(default_factory=dict)
    #: Live applications of a leaf in the order of submission.
    applications: dict[ApplicationId, None] = field(default_factory=dict)
    #: Applications with a waiting request.
    waiting: dict[ApplicationId, None] = field(default_factory=dict)
    #: Applications with a waiting request of each scheduling class.
    classes: dict[AskClass, dict[ApplicationId, None]] = field(default_factory=dict)
    #: Number of node reservations in a leaf, without those made by preemption.
    node_reservations: int = 0
    #: Total of allocations, placeholders and reserved replacement targets.
    allocated: Resources = NOTHING
    #: Total of waiting requests; read it as `pending` or `settled`.
    waits: LazySum = field(default_factory=LazySum)
    #: For root: applications whose gangs changed since the pending amounts were read.
    unsettled: dict[Unsettled, None] = field(default_factory=dict)
    #: Over quota, tolerated: allocated amount above the maximum, because existing allocations were reported or the
    #: maximum was lowered. No decision increases it.
    tolerated: Resources = NOTHING
    #: Applications in the subtree that count towards `max_applications`: Running, or Accepted with an allocation.
    running: int = 0
    #: Number of allocations that were added to and removed from a leaf since it exists.
    made: int = 0
    gone: int = 0
    #: Total of allocations that preemption is releasing.
    preempting: Resources = NOTHING
    #: Quota reserved for requests whose victims are being released (`NodeReservation.preempted`).
    node_reserved: Resources = NOTHING
    #: Running timers of a leaf, 0 = none: for node reservations; for preemption, with its next or last time.
    reservation_timer: int = 0
    preemption_timer: int = 0
    preemption_at_ns: int = 0
    preemption: PreemptionSearch = field(default_factory=PreemptionSearch)
    #: Time of quota preemption for a lowered maximum, and its timer; 0 = none.
    quota_at_ns: int = 0
    quota_timer: int = 0
    #: Number of the running quota preemption; 0 = none.
    quota_running: int = 0
    #: Quota reserved for gangs in the subtree and not allocated yet (docs/internals/semantics.md, rule 11).
    reserved_quota: LazySum = field(default_factory=LazySum)
    #: Quota that starving gangs requested and that is not free yet. It is withheld from applications without a quota
    #: reservation, but neither from other starving gangs nor from `reserved_quota`.
    requested_quota: LazySum = field(default_factory=LazySum)
    #: Priorities of the waiting applications of a leaf, else of the child queues.
    priorities: PriorityCounts = field(default_factory=PriorityCounts)
    #: Priority that the parent sees; None = nothing waits in the subtree.
    shown: int | None = None
    #: Gangs of a leaf that prevent later applications from starting (docs/internals/semantics.md, rule 11).
    blockers: dict[ApplicationId, None] = field(default_factory=dict)
    shares: Shares = field(default_factory=Shares)
    #: Ancestors, root last. A queue never moves.
    above: tuple[Queue, ...] = field(init=False)
    #: This queue and its ancestors.
    path_up: tuple[Queue, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Stores the ancestors, because every request and decision walks up to root."""
        self.above = self.parent.path_up if self.parent is not None else ()
        self.path_up = (self, *self.above)

    def set_elsewhere(self, name: str) -> str:
        """Where a property, or `maxapplications`, is set; empty = by the queue itself, or not at all."""
        origin = self.origins.get(name, "")
        return "" if origin == self.path else origin

    @property
    def pending(self) -> Resources:
        """Total of waiting requests, as a copy."""
        return self.settled.value

    @property
    def settled(self) -> LazySum:
        """Total of waiting requests. A member of a gang and the slot that it can take are one request."""
        unsettled = self.path_up[-1].unsettled
        if unsettled:
            for one in unsettled:
                one.settle_pending()
            unsettled.clear()
        return self.waits

    @property
    def draining(self) -> bool:
        """Whether the queue accepts no applications and is deleted when it is empty."""
        return self.state is QueueState.DRAINING

    @property
    def is_recovery(self) -> bool:
        """Whether it is the recovery queue, which the queue tree of REST does not show."""
        return self.path == RECOVERY

    @property
    def is_empty(self) -> bool:
        """Whether it has neither children nor applications."""
        return not self.children and not self.applications


@dataclass(slots=True, eq=False)
class QueueTree:
    """All queues of a partition by path. Root always exists."""

    root: Queue
    by_path: dict[QueuePath, Queue]

    def get(self, path: QueuePath) -> Queue | None:
        """Returns the queue with this path, or None."""
        return self.by_path.get(path)

    def leaves(self) -> Iterator[Queue]:
        """Yields all leaves in the order of creation."""
        return (queue for queue in self.by_path.values() if queue.is_leaf)

    def add(self, parent: Queue, config: QueueConfig, *, managed: bool) -> Queue:
        """Creates a queue with its configured children below `parent`."""
        queue = _make(child_path(parent.path, config.name), parent, config, managed=managed)
        parent.children[config.name] = queue
        self.by_path[queue.path] = queue
        for child in config.children:
            self.add(queue, child, managed=managed)
        return queue

    def remove(self, queue: Queue) -> None:
        """Removes an empty queue."""
        if queue.parent is not None:
            del queue.parent.children[queue_name(queue.path)]
        del self.by_path[queue.path]


def detached_queue(path: str) -> Queue:
    """Returns a leaf outside of any tree, for a rejected application."""
    return Queue(QueuePath(path), None, is_leaf=True, managed=False, max=UNLIMITED, guaranteed=NOTHING)


def new_tree(root: QueueConfig) -> QueueTree:
    """Creates the tree of a configuration, whose top queue is `root`."""
    top = _make(ROOT, None, root, managed=True)
    tree = QueueTree(top, {ROOT: top})
    for child in root.children:
        tree.add(top, child, managed=True)
    return tree


def _make(path: QueuePath, parent: Queue | None, config: QueueConfig, *, managed: bool) -> Queue:
    return Queue(
        path=path,
        parent=parent,
        is_leaf=not (config.parent or config.children or parent is None),
        managed=managed,
        max=config.max,
        guaranteed=config.guaranteed,
        policies=config.policies,
        max_applications=config.max_applications,
        properties=config.properties,
        origins=config.origins,
        submit_acl=config.submit_acl,
        admin_acl=config.admin_acl,
        limits=config.limits,
        template=config.template,
    )
