"""The queue tree: configuration, usage and pending resources of each queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources
from muster_core.model.states import QueueState
from muster_core.state.request_classes import AskClass
from muster_core.state.reservations import PreemptionSearch


class LazySum:
    """A total. Its value is the same object for as long as nothing was added."""

    __slots__ = ("_latest", "_times", "_total")

    def __init__(self) -> None:
        self._total = NOTHING
        self._latest = NOTHING
        self._times = 0

    def add(self, amount: Resources, times: int) -> None:
        """Add `times` of an amount; negative `times` takes away."""
        if amount is not self._latest:
            self._fold()
            self._latest = amount
        self._times += times

    @property
    def value(self) -> Resources:
        """What it comes to."""
        if self._times:
            self._fold()
        return self._total

    def _fold(self) -> None:
        self._total = self._total.plus(self._latest, self._times)
        self._times = 0


class PriorityCounts:
    """Counts by value. There are few different priorities, so the highest is quickly found."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def replace(self, old: int | None, new: int | None) -> None:
        """One of them changed; None = it was, or is, none of them."""
        if old is not None:
            left = self._counts[old] - 1
            if left:
                self._counts[old] = left
            else:
                del self._counts[old]
        if new is not None:
            self._counts[new] = self._counts.get(new, 0) + 1

    @property
    def top(self) -> int | None:
        """The highest; None of nothing."""
        return max(self._counts) if self._counts else None


@dataclass(slots=True, eq=False)
class Shares:
    """What state/ordering.py found out about a queue, and the very values it was of: it holds for no others."""

    share: float = 0.0
    allocated: Resources | None = None
    total: Resources | None = None
    config: PartitionConfig | None = None
    guaranteed: Resources | None = None
    max: Limit | None = None
    need: float = 0.0
    pending: Resources | None = None
    of: Resources | None = None


@dataclass(slots=True, eq=False)
class Queue:
    """One queue's ledger. `managed`: it is in the configuration."""

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
    submit_acl: AccessList = DENY_ALL
    admin_acl: AccessList = DENY_ALL
    limits: tuple[QuotaLimit, ...] = ()
    template: ChildTemplate | None = None
    state: QueueState = QueueState.ACTIVE
    #: What the configuration wants of it that has to wait until it is empty: a leaf that is to be
    #: a parent (Stopped meanwhile), or a parent that is to be a leaf.
    wanted: QueueConfig | None = None
    children: dict[str, Queue] = field(default_factory=dict)
    #: Live applications of a leaf, in the order of their submission.
    applications: dict[ApplicationId, None] = field(default_factory=dict)
    #: Those of them with an ask that waits.
    waiting: dict[ApplicationId, None] = field(default_factory=dict)
    #: The same by scheduling class: applications of the leaf with an ask of the class that waits.
    classes: dict[AskClass, dict[ApplicationId, None]] = field(default_factory=dict)
    #: Node reservations of a leaf's asks, without those that preemption made.
    node_reservations: int = 0
    #: Of allocations, placeholders and held swap targets alike.
    allocated: Resources = NOTHING
    #: Of asks that wait; read as `pending`.
    waits: LazySum = field(default_factory=LazySum)
    #: Over quota, tolerated: how much more than the maximum is allocated, because it was reported as existing or the
    #: maximum was lowered below it. No decision makes it more.
    tolerated: Resources = NOTHING
    #: Applications below here that count against `max_applications`: Running, or Accepted with an allocation.
    running: int = 0
    #: Allocations of a leaf that were made, and that went, since the queue is there.
    made: int = 0
    gone: int = 0
    #: Of allocations that are being released by preemption and did not confirm yet.
    preempting: Resources = NOTHING
    #: Head room that is held for asks whose victims are being released (Hold.preempted).
    node_reserved: Resources = NOTHING
    #: Which clocks of a leaf run, 0 = none: to reserve a node; to preempt, and when that comes or came last.
    reservation_clock: int = 0
    preemption_clock: int = 0
    preemption_at_ns: int = 0
    preemption: PreemptionSearch = field(default_factory=PreemptionSearch)
    #: When what is over a lowered maximum is preempted, and which clock it is; 0 = not at all.
    quota_at_ns: int = 0
    quota_clock: int = 0
    #: The number of the preemption that is on its way for it; 0 = none.
    quota_running: int = 0
    #: Promised to gangs that are reserving below here, not yet allocated (semantics 11).
    reserved_quota: Resources = NOTHING
    #: Promised to gangs that starve, with no headroom behind it yet: kept from those to
    #: whom nothing is promised, but never from each other or from what is `reserved_quota`.
    requested_quota: Resources = NOTHING
    #: Priorities shown by what waits directly below: applications of a leaf, else queues (priorities.py).
    priorities: PriorityCounts = field(default_factory=PriorityCounts)
    #: The priority that it shows to its parent; None = nothing waits below here.
    shown: int | None = None
    #: Gangs of a leaf that keep those behind them from starting (semantics 11).
    blockers: dict[ApplicationId, None] = field(default_factory=dict)
    shares: Shares = field(default_factory=Shares)
    #: Those above it, the root last: a queue never moves.
    above: tuple[Queue, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Know the way up: it is walked for every ask and every decision."""
        self.above = (self.parent, *self.parent.above) if self.parent is not None else ()

    @property
    def pending(self) -> Resources:
        """Of asks that wait."""
        return self.waits.value

    @property
    def draining(self) -> bool:
        """Whether it goes when it is empty, and takes nothing until then."""
        return self.state is QueueState.DRAINING

    @property
    def is_recovery(self) -> bool:
        """Whether it is the queue of recovered applications, which no queue view shows (contract 2.10)."""
        return self.path == RECOVERY

    @property
    def is_empty(self) -> bool:
        """Whether nothing hangs in or below it."""
        return not self.children and not self.applications

    def path_up(self) -> tuple[Queue, ...]:
        """This queue, its parent, and so on up to the root."""
        return (self, *self.above)


@dataclass(slots=True, eq=False)
class QueueTree:
    """All queues of a partition by path; the root is always there."""

    root: Queue
    by_path: dict[QueuePath, Queue]

    def get(self, path: QueuePath) -> Queue | None:
        """The queue of that path, None if there is none."""
        return self.by_path.get(path)

    def leaves(self) -> Iterator[Queue]:
        """Every leaf, in the order of creation."""
        return (queue for queue in self.by_path.values() if queue.is_leaf)

    def add(self, parent: Queue, config: QueueConfig, *, managed: bool) -> Queue:
        """Hang a queue, with the children its configuration names, below `parent`."""
        queue = _make(child_path(parent.path, config.name), parent, config, managed=managed)
        parent.children[config.name] = queue
        self.by_path[queue.path] = queue
        for child in config.children:
            self.add(queue, child, managed=managed)
        return queue

    def remove(self, queue: Queue) -> None:
        """Take an empty queue out of the tree."""
        if queue.parent is not None:
            del queue.parent.children[queue_name(queue.path)]
        del self.by_path[queue.path]


def nowhere(path: str) -> Queue:
    """A leaf outside every tree: where an application that was rejected had wanted to go."""
    return Queue(QueuePath(path), None, is_leaf=True, managed=False, max=UNLIMITED, guaranteed=NOTHING)


def new_tree(root: QueueConfig) -> QueueTree:
    """The tree of a configuration; its top queue is `root`."""
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
        submit_acl=config.submit_acl,
        admin_acl=config.admin_acl,
        limits=config.limits,
        template=config.template,
    )
