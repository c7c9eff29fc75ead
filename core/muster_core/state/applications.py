"""An application: its requests, allocations and gang."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.constraints import Tags
from muster_core.model.decisions import PlaceholderReplacement, ReasonKind, UnschedulableReason
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, TaskGroup, Termination
from muster_core.model.records import Detail
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import ApplicationSpec, AskSpec
from muster_core.model.states import ApplicationState
from muster_core.state.queues import LazySum, PriorityCounts, Queue
from muster_core.state.request_classes import AskClass, class_of
from muster_core.state.reservations import GangKey

#: Instance type of a node that names none.
UNKNOWN_TYPE: Final = "UNKNOWN"
_SECOND: Final = 1_000_000_000


@dataclass(slots=True, eq=False)
class Consumption:
    """One kind of use: instance type → resource → units times nanoseconds."""

    amounts: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, instance_type: str, resources: Resources, span_ns: int) -> None:
        """Count an allocation that was there for `span_ns`."""
        mine = self.amounts.setdefault(instance_type or UNKNOWN_TYPE, {})
        for name, amount in resources.items():
            mine[name] = mine.get(name, 0) + amount * max(span_ns, 0)

    def seconds(self) -> dict[str, dict[str, int]]:
        """Instance type → resource → units times seconds."""
        return {kind: {name: amount // _SECOND for name, amount in mine.items()} for kind, mine in self.amounts.items()}


@dataclass(slots=True, eq=False)
class GroupCount:
    """A task group's history (REST: placeholderData)."""

    resources: Resources
    count: int = 0
    replaced: int = 0
    timed_out: int = 0


@dataclass(slots=True, eq=False)
class Gang:
    """What an application has reserved, and how far its reservation is.

    `over`: the reservation ended (reserved, timed out or given up): real asks
    are scheduled from now on and a placeholder ask comes too late.
    """

    #: Of live placeholders.
    reserved: Resources = NOTHING
    #: Of every placeholder, live or going.
    allocated: Resources = NOTHING
    #: Promised on the queues of the path and not yet allocated (semantics 11).
    quota_reservation: Resources = NOTHING
    #: The pledge had its headroom when it was made; else it waits for it (Queue.awaited).
    granted: bool = False
    #: Live placeholders by task group, oldest first.
    live: dict[TaskGroup, dict[AllocationId, None]] = field(default_factory=dict)
    groups: dict[TaskGroup, GroupCount] = field(default_factory=dict)
    over: bool = False
    #: Its placeholders that were reported: that they are a part of its places is not of this world's making.
    recovered: dict[AllocationId, None] = field(default_factory=dict)
    #: Its place among gangs that contend for the same resources; None = nothing was asked for yet.
    key: GangKey | None = None
    #: Gangs that took over reservations of this one and are not complete yet: it is not planned before they are.
    lost_to: dict[ApplicationId, None] = field(default_factory=dict)
    #: Take-overs that failed in a row, when the next one may be tried, and the epoch of the last one.
    takeover_failures: int = 0
    takeover_at_ns: int = 0
    takeover_epoch: tuple[int, int] = (-1, -1)
    #: How often in a row places for all its members were looked for without success.
    searches: int = 0
    #: Capacity of the cluster when it was asked whether an empty one could hold the gang, and whether it could not.
    checked_at: Resources | None = None
    exceeds_nodes: bool = False
    #: Which placeholder timer runs; one of another number is stale. 0 = none: nothing was reserved yet, or it pauses.
    clock: int = 0
    #: From when on it runs.
    since_ns: int = 0
    #: For how long it ran before it paused.
    elapsed_ns: int = 0
    #: It runs although nothing was reserved yet: an Atomic gang waits for requests, or the gang is impossible.
    is_early: bool = False
    #: It pauses: a take-over or a preemption took all that the gang held.
    is_paused: bool = False
    #: Why its queue or its limits can never hold it; empty = they may.
    impossible: str = ""


#: Changes of state that are kept of one application for people to look at.
_STATES_KEPT: Final = 100


@dataclass(slots=True, eq=False)
class Ask:
    """`left` allocations are still to be made; `made` is the ordinal of the next one."""

    spec: AskSpec
    kind: AskClass
    left: int
    made: int = 0
    #: Set while parked.
    replacement: PlaceholderReplacement | None = None
    #: Which release clock runs for its swap; a clock of another number is stale.
    clock: int = 0
    #: What the resource manager was last told of it: said again on change only.
    said: ReasonKind | None = None
    #: Since when it waits.
    asked_ns: int = 0
    #: When it was last tried to preempt for it; 0 = never.
    attempted_ns: int = 0
    #: Others are being released for it (REST: triggeredPreemption).
    triggered: bool = False
    #: The number of the preemption whose victims are on their way; 0 = none.
    preemption: int = 0
    #: What came of the attempts: the words, how often, when last (REST: allocationLog); None = none was made.
    attempts: dict[str, tuple[int, int]] | None = None


@dataclass(slots=True, eq=False)
class Allocation:
    """A place that was given. `releasing`: it is being released and did not confirm yet."""

    spec: AskSpec
    id: AllocationId
    node: NodeId
    allocated_ns: int
    releasing: Termination | None = None
    #: When it is being released.
    released_ns: int = 0
    #: The ask that takes over when this placeholder is gone.
    replaced_by: AllocationKey | None = None
    #: It took over from a placeholder (REST: placeholderUsed).
    replaced_placeholder: bool = False
    #: What it was last reported to really use (seed 001, UtilizationReport); None = never.
    utilization: Resources | None = None
    #: The number of the preemption that waits for it to go; 0 = none does.
    preemption: int = 0
    #: Since when it is as large as it is; 0 = since it was allocated.
    sized_ns: int = 0


@dataclass(slots=True, eq=False)
class Application:  # long: every write to an application goes through here
    """`sequence` orders applications by submission and is unique in its partition."""

    spec: ApplicationSpec
    queue: Queue
    sequence: int
    submitted_ns: int
    state: ApplicationState = ApplicationState.NEW
    #: When it first ran: where its run time begins. 0 = it did not yet.
    started_ns: int = 0
    #: When it ended, was rejected, or was taken away; 0 = it did not yet.
    ended_ns: int = 0
    #: Why it was rejected.
    rejected_message: str = ""
    #: What its real allocations, those of them that were preempted, and its placeholders used over time.
    used: Consumption = field(default_factory=Consumption)
    preempted: Consumption = field(default_factory=Consumption)
    placeheld: Consumption = field(default_factory=Consumption)
    #: The newest of its states and their times.
    state_log: deque[tuple[int, ApplicationState]] = field(default_factory=lambda: deque(maxlen=_STATES_KEPT))
    asks: dict[AllocationKey, Ask] = field(default_factory=dict)
    waiting: dict[AskClass, dict[AllocationKey, None]] = field(default_factory=dict)
    #: Why the last try left asks of a class waiting; a class that has none left has no entry.
    refusals: dict[AskClass, UnschedulableReason] = field(default_factory=dict)
    #: Asks whose room is held no more: they are to be told again why they wait.
    unheld: dict[AllocationKey, None] = field(default_factory=dict)
    #: Some ask of it wanted more than one allocation, at some time.
    has_multiple: bool = False
    allocations: dict[AllocationId, Allocation] = field(default_factory=dict)
    #: By key, of those that the resource manager knows.
    ids: dict[AllocationKey, tuple[AllocationId, ...]] = field(default_factory=dict)
    gang: Gang = field(default_factory=Gang)
    #: Of real allocations.
    allocated: Resources = NOTHING
    #: The most of each resource that it ever had allocated (REST: maxUsedResource).
    peak: Resources = NOTHING
    #: Of asks, waiting or parked; read as `pending`.
    waits: LazySum = field(default_factory=LazySum)
    #: The class of the newest ask: the next one is mostly of the same.
    newest: AskClass | None = None
    #: Head room in its queues that preemption made for its asks (Queue.claimed).
    node_reserved: Resources = NOTHING
    real_allocations: int = 0
    real_asks: int = 0
    #: It had a real ask or allocation at some time: with none left, it is done (semantics 13).
    had_real: bool = False
    placeholder_asks: int = 0
    #: Of the classes that wait.
    priorities: PriorityCounts = field(default_factory=PriorityCounts)
    #: The priority it is counted with in its leaf; None = it waits for nothing.
    shown: int | None = None
    #: The group it counts for, empty = none; None = not chosen yet (contract 2.7).
    group: str | None = None
    #: Why its new requests wait, whatever there is room for: its queue or its user's groups are not known.
    #: Empty = they do not. What replaces a placeholder is not new.
    withheld: str = ""
    #: That was noted (contract 6.1, UG_APP_LINK).
    linked: bool = False
    #: It counts as running in its queues, for its user and its group.
    counted: bool = False
    #: Why it may not start, as it was noted last; NONE = it may.
    cannot_run: Detail = Detail.NONE
    #: It is not tried before this moment: too much of it had no place (contract 2.5); 0 = it is awake.
    asleep_until_ns: int = 0
    #: Attempts in a row that raised an exception.
    failures: int = 0
    #: When it was last tried it kept those of its leaf from starting that had not started yet (semantics 11).
    blocks: bool = False
    #: Classes that its last plan did not look at because of missing time; 0 = it came to its end.
    unplanned: int = 0
    #: How often such a plan came no further than the one before: something changed that it had found out.
    restarts: int = 0
    #: Its end was decided; it comes with the last confirmed release (semantics 1).
    ending: bool = False
    #: Which completing clock runs; a clock of another number is stale.
    completing: int = 0

    id: ApplicationId = field(init=False)
    #: The ID that people see.
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Know its id itself: nothing is read more often."""
        self.id, self.name = self.spec.id, self.spec.name

    @property
    def pending(self) -> Resources:
        """Of asks, waiting or parked."""
        return self.waits.value

    @property
    def is_reserving(self) -> bool:
        """Whether its real asks are held back until its gang has its places (seed 000)."""
        return self.spec.is_gang and not self.gang.over

    def has_placeholder(self, kind: AskClass) -> bool:
        """Whether requests of this class wait for a placeholder instead of free resources."""
        return not kind.placeholder and not kind.as_usual and kind.group in self.gang.live

    def add_ask(self, ask: Ask) -> None:
        """Take in an ask that waits."""
        spec = ask.spec
        self.has_multiple = self.has_multiple or spec.max_allocations > 1
        self.asks[spec.key] = ask
        _let_wait(self, ask)
        if spec.placeholder:
            self.placeholder_asks += 1
        else:
            self.real_asks += 1
            self.had_real = True

    def remove_ask(self, ask: Ask) -> None:
        """Drop an ask, waiting or parked; what it still wanted is taken out of `pending` by the caller."""
        spec = ask.spec
        del self.asks[spec.key]
        self.unheld.pop(spec.key, None)
        self._stop_waiting(ask)
        if spec.placeholder:
            self.placeholder_asks -= 1
        else:
            self.real_asks -= 1

    def park(self, ask: Ask, replacement: PlaceholderReplacement) -> None:
        """The ask waits for a placeholder to go and for nothing else."""
        self._stop_waiting(ask)
        ask.replacement = replacement

    def wait_again(self, ask: Ask, *, as_usual: bool) -> None:
        """Let an ask wait; `as_usual` = for a place of its own, no placeholder stands for it."""
        self._stop_waiting(ask)
        ask.replacement = None
        ask.said = None
        ask.kind = class_of(ask.spec, as_usual=as_usual, tags=ask.kind.pod_on_node.tags)
        _let_wait(self, ask)

    def add_allocation(self, allocation: Allocation) -> None:
        """Take in an allocation; its sums are `add_sums`' business, so that a batch adds once."""
        spec = allocation.spec
        self.allocations[allocation.id] = allocation
        if not spec.is_virtual:
            self.ids[spec.key] = (*self.ids.get(spec.key, ()), allocation.id)
        if spec.placeholder:
            self.gang.live.setdefault(spec.group, {})[allocation.id] = None
        else:
            self.real_allocations += 1
            self.had_real = True

    def add_sums(self, spec: AskSpec, count: int) -> None:
        """Count `count` new allocations of this shape in."""
        if spec.placeholder:
            self.gang.allocated = self.gang.allocated.plus(spec.resources, count)
            self.gang.reserved = self.gang.reserved.plus(spec.resources, count)
        else:
            self.allocated = self.allocated.plus(spec.resources, count)
            if not self.peak.covers(self.allocated):
                self.peak = self.peak.widened(self.allocated)

    def remove_allocation(self, allocation: Allocation) -> None:
        """Drop an allocation; its sums are taken out with it."""
        spec = allocation.spec
        if spec.placeholder:
            if allocation.releasing is None:
                self._no_longer_live(allocation)
            self.gang.recovered.pop(allocation.id, None)
            self.gang.allocated = self.gang.allocated.plus(spec.resources, -1)
        else:
            self.real_allocations -= 1
            self.allocated = self.allocated.plus(spec.resources, -1)
        del self.allocations[allocation.id]
        if spec.is_virtual:
            return
        rest = tuple(other for other in self.ids[spec.key] if other != allocation.id)
        if rest:
            self.ids[spec.key] = rest
        else:
            del self.ids[spec.key]

    def mark_releasing(self, allocation: Allocation, termination: Termination, now_ns: int) -> None:
        """The allocation is being released: it is no longer reserved, nor reported again."""
        if allocation.spec.placeholder:
            self._no_longer_live(allocation)
        allocation.releasing = termination
        allocation.released_ns = now_ns

    def put_in_class(self, ask: Ask, tags: Tags) -> None:
        """Some of its tags came to matter: an ask that waits does so among its equals from now on."""
        is_waiting = ask.spec.key in self.waiting.get(ask.kind, {})
        self._stop_waiting(ask)
        ask.kind = class_of(ask.spec, as_usual=ask.kind.as_usual, tags=tags)
        if is_waiting:
            ask.said = None
            _let_wait(self, ask)

    def _no_longer_live(self, allocation: Allocation) -> None:
        group = self.gang.live[allocation.spec.group]
        del group[allocation.id]
        if not group:
            del self.gang.live[allocation.spec.group]
        self.gang.reserved = self.gang.reserved.plus(allocation.spec.resources, -1)

    def _stop_waiting(self, ask: Ask) -> None:
        keys = self.waiting.get(ask.kind)
        if keys is not None and ask.spec.key in keys:
            del keys[ask.spec.key]
            if not keys:
                del self.waiting[ask.kind]
                _leave_class(self, ask.kind)
                self.priorities.replace(ask.kind.priority, None)
                self.refusals.pop(ask.kind, None)


def _let_wait(app: Application, ask: Ask) -> None:
    keys = app.waiting.get(ask.kind)
    if keys is None:
        keys = app.waiting[ask.kind] = {}
        app.queue.classes.setdefault(ask.kind, {})[app.id] = None
        app.priorities.replace(None, ask.kind.priority)
    keys[ask.spec.key] = None


def _leave_class(app: Application, kind: AskClass) -> None:
    names = app.queue.classes[kind]
    del names[app.id]
    if not names:
        del app.queue.classes[kind]


def enter_queue(app: Application, leaf: Queue) -> None:
    """The application is of another leaf from now on; sums and priorities are the caller's business."""
    for kind in app.waiting:
        _leave_class(app, kind)
        leaf.classes.setdefault(kind, {})[app.id] = None
    del app.queue.applications[app.id]
    app.queue, app.group = leaf, None
    leaf.applications[app.id] = None


def resize_sums(app: Application, allocation: Allocation, old: Resources) -> None:
    """Count an allocation that was `old` as large as it is now."""
    more = allocation.spec.resources - old
    if not allocation.spec.placeholder:
        app.allocated += more
        app.peak = app.peak.widened(app.allocated)
        return
    app.gang.allocated += more
    if allocation.releasing is None:
        app.gang.reserved += more


def lacking(app: Application) -> Resources:
    """What the gang still misses of its placeholderAsk, never below nothing (semantics 9)."""
    if app.spec.uses_virtual_placeholders:
        # Its asks are the core's own: what members with a node stand for was taken off them.
        return _asked_for(app)
    rest = app.spec.placeholder_ask.plus(app.gang.reserved, -1)
    return Resources({name: amount for name, amount in rest.items() if amount > 0})


def _asked_for(app: Application) -> Resources:
    """By placeholder asks that wait."""
    total = NOTHING
    for kind, keys in app.waiting.items():
        if kind.placeholder:
            total = total.plus(kind.resources, sum(app.asks[key].left for key in keys))
    return total
