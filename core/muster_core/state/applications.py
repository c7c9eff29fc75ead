"""An application with its requests, allocations and gang.

Differs: pending amounts count a member of a gang and the placeholder request that it can take once, and do not count
what a placeholder already reserves for a waiting member; YuniKorn counts all requests.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.constraints import Constraints, Tags
from muster_core.model.decisions import PlaceholderReplacement, ReasonKind, UnschedulableReason
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, TaskGroup, Termination
from muster_core.model.records import Detail
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import ApplicationSpec, AskSpec
from muster_core.model.states import ApplicationState
from muster_core.state import indexes
from muster_core.state.queues import LazySum, PriorityCounts, Queue
from muster_core.state.reported_texts import ReportedText, TextKey
from muster_core.state.request_classes import AskClass, class_of
from muster_core.state.reservations import GangKey

#: Instance type of nodes without one.
UNKNOWN_TYPE: Final = "UNKNOWN"
_SECOND: Final = 1_000_000_000


@dataclass(slots=True, eq=False)
class Consumption:
    """Resource usage over time: instance type → resource → units times nanoseconds."""

    amounts: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, instance_type: str, resources: Resources, span_ns: int) -> None:
        """Adds the usage of an allocation that existed for `span_ns`."""
        mine = self.amounts.setdefault(instance_type or UNKNOWN_TYPE, {})
        for name, amount in resources.items():
            mine[name] = mine.get(name, 0) + amount * max(span_ns, 0)

    def seconds(self) -> dict[str, dict[str, int]]:
        """Returns instance type → resource → units times seconds."""
        return {kind: {name: amount // _SECOND for name, amount in mine.items()} for kind, mine in self.amounts.items()}


@dataclass(slots=True, eq=False)
class GroupCount:
    """Placeholder history of a task group (REST: placeholderData)."""

    resources: Resources
    count: int = 0
    replaced: int = 0
    timed_out: int = 0


@dataclass(slots=True, eq=False)
class LostMembers:
    """Members of a task group that a complete gang lost and has not got back (docs/internals/semantics.md, rule 32).

    `count`: how many. `first`: how many of them may be replaced before other applications, by requests that arrive
    before `until_ns`. `resources`: the largest amounts that one of these had, because a replacement that needs more
    gets no precedence. `is_reported`: an event says that a replacement waits.
    """

    count: int = 0
    first: int = 0
    resources: Resources = NOTHING
    until_ns: int = 0
    is_reported: bool = False


@dataclass(slots=True, eq=False)
class SlotCount:
    """Slots of a task group (pending and live placeholders) and its waiting members, for the pending amount.

    A member and the slot that it can take are one request. Of their two amounts, the part that both have counts once:
    as pending for the slot if the slot is pending, and not at all if the slot is allocated.
    """

    #: Number of slots and of members by their resources.
    slots: dict[Resources, int] = field(default_factory=dict)
    members: dict[Resources, int] = field(default_factory=dict)
    #: What the pending amounts of application and queues leave out at present.
    counted_twice: Resources = NOTHING

    def twice(self) -> Resources:
        """Returns what would count twice now. Members take slots of their size first, then others."""
        total, slots, members = NOTHING, dict(self.slots), dict(self.members)
        for size, count in self.members.items():
            alike = min(count, slots.get(size, 0))
            if alike:
                total = total.plus(size, alike)
                slots[size] -= alike
                members[size] -= alike
        of_slots, of_members = _average(slots), _average(members)
        pairs = min(sum(slots.values()), sum(members.values()))
        common = {name: min(amount, of_slots[name]) for name, amount in of_members.items()}
        return total.plus(Resources(common), pairs) if pairs else total


def _average(counts: Mapping[Resources, int]) -> Resources:
    """Average of these sizes, rounded down."""
    number = sum(counts.values())
    total = sum((size.times(count) for size, count in counts.items()), NOTHING)
    return Resources({name: amount // number for name, amount in total.items()}) if number else NOTHING


@dataclass(slots=True, eq=False)
class Gang:
    """Reservation of a gang and its progress.

    `over`: the reservation has ended (completed, timed out or cancelled). Real pods are scheduled from then on, and
    further placeholder requests are too late.
    """

    #: Total of live placeholders.
    reserved: Resources = NOTHING
    #: Total of all placeholders, live or being released.
    allocated: Resources = NOTHING
    #: Quota reserved on the queues of the path and not allocated yet (docs/internals/semantics.md, rule 11).
    quota_reservation: Resources = NOTHING
    #: The quota was free when it was reserved; False = the gang waits for it (`Queue.requested_quota`).
    granted: bool = False
    #: Live placeholders by task group, oldest first.
    live: dict[TaskGroup, dict[AllocationId, None]] = field(default_factory=dict)
    #: The virtual placeholders among them, and the requests of virtual placeholders, by task group.
    live_virtual: dict[TaskGroup, dict[AllocationId, None]] = field(default_factory=dict)
    #: The live virtual placeholders of a task group by node. The nodes have no defined order.
    live_virtual_on: dict[TaskGroup, dict[NodeId, dict[AllocationId, None]]] = field(default_factory=dict)
    asked_virtual: dict[TaskGroup, dict[AllocationKey, None]] = field(default_factory=dict)
    #: Requests of placeholder pods by task group, whose slots were taken by members that another client had bound.
    surplus: dict[TaskGroup, int] = field(default_factory=dict)
    #: For an Auto gang: placeholders whose replacement was given up, with the request that is scheduled individually.
    given_up_replacements: dict[AllocationId, AllocationKey] = field(default_factory=dict)
    #: For an Auto gang: the last search for a slot without a result (`slots.has_slot`), as task group, constraints and
    #: resources of the pod, and `facts_epoch` of the nodes. None = a slot was added since.
    search_without_slot: tuple[TaskGroup, Constraints, Resources, int] | None = None
    #: For an Auto gang: time since when its members fit on no node; 0 = they wait for something else.
    unschedulable_ns: int = 0
    #: A gang with virtual placeholders is not planned before this time, unless a request of a member has arrived.
    planned_from_ns: int = 0
    groups: dict[TaskGroup, GroupCount] = field(default_factory=dict)
    #: Slots and waiting members by task group, and the groups where they changed since the pending amounts were read.
    slot_counts: dict[TaskGroup, SlotCount] = field(default_factory=dict)
    unsettled: dict[TaskGroup, None] = field(default_factory=dict)
    #: Waiting members that were larger than their placeholder, with the reason; such placeholders that still end.
    without_reservation: dict[AllocationKey, str] = field(default_factory=dict)
    too_small: set[AllocationId] = field(default_factory=set)
    over: bool = False
    #: All members had a node, or a slot on one, at the same time.
    was_complete: bool = False
    #: Allocated members by task group, without placeholders.
    members: dict[TaskGroup, int] = field(default_factory=dict)
    #: Members that it lost, while it has fewer than its minimum (`scheduling.repair`).
    lost: dict[TaskGroup, LostMembers] = field(default_factory=dict)
    #: The time in which lost members are replaced before other applications: its start, how many such times followed
    #: each other, how many members it may still be used for, and the time of the last loss.
    repair_since_ns: int = 0
    repair_times: int = 0
    repairs_left: int = 0
    lost_at_ns: int = 0
    #: The limit that kept the last preemption attempt from helping; empty = none.
    preemption_limit: str = ""
    #: The resource manager gave it up: what is released has not timed out.
    given_up: bool = False
    #: Placeholders that existed before the core started.
    recovered: dict[AllocationId, None] = field(default_factory=dict)
    #: Priority and age among gangs that compete for the same resources; None = no request yet. See `rank`.
    key: GangKey | None = None
    #: Incomplete gangs that took over reservations of this one. It is not planned before they are complete.
    lost_to: dict[ApplicationId, None] = field(default_factory=dict)
    #: Consecutive failed takeovers, the time of the next attempt, and the epoch of the last one.
    takeover_failures: int = 0
    takeover_at_ns: int = 0
    takeover_epoch: tuple[int, int] = (-1, -1)
    #: Consecutive failed searches for nodes for all members.
    searches: int = 0
    #: Cluster capacity at the last test on empty nodes, and whether the gang did not fit.
    checked_at: Resources | None = None
    exceeds_nodes: bool = False
    #: Number of the running placeholder timer; 0 = none: nothing is reserved yet, or it is paused.
    timer: int = 0
    #: Start of the placeholder timer.
    since_ns: int = 0
    #: Time that it ran before it was paused.
    elapsed_ns: int = 0
    #: It runs although nothing is reserved yet: the gang is impossible, waits for members that nothing creates, or has
    #: no requests any more.
    is_early: bool = False
    #: It is paused, because a takeover or preemption removed all reservations of the gang.
    is_paused: bool = False
    #: Why the maximums and limits can never hold the gang; empty = they may.
    impossible: str = ""
    #: Why it waits for members that nothing creates, as its resource manager reports; empty = it does not.
    members_missing: str = ""

    @property
    def rank(self) -> GangKey | None:
        """Position among the gangs that compete for resources. A gang that exceeds the nodes is behind all others."""
        if self.key is None or not self.exceeds_nodes:
            return self.key
        return (sys.maxsize, *self.key[1:])


#: State changes that are stored per application.
_STATES_KEPT: Final = 100


@dataclass(slots=True, eq=False)
class Ask:
    """A request. `left`: number of missing allocations; `made`: ordinal of the next one."""

    spec: AskSpec
    kind: AskClass
    left: int
    #: Time since when it waits.
    asked_ns: int
    made: int = 0
    #: The replacement that the request waits for; None = not parked.
    replacement: PlaceholderReplacement | None = None
    #: The placeholder of an Auto gang whose replacement was given up, so that the request is scheduled individually.
    given_up_for: AllocationId | None = None
    #: Number of the release timer of the replacement.
    timer: int = 0
    #: Last reported reason kind. A reason is reported again only if the kind changes.
    reported_kind: ReasonKind | None = None
    #: Time since when it fits on no node; 0 = it waits for something else.
    unschedulable_ns: int = 0
    #: Time of the last preemption attempt; 0 = never.
    attempted_ns: int = 0
    #: Preemption is releasing allocations for it (REST: triggeredPreemption).
    triggered: bool = False
    #: Number of the preemption whose victims are being released; 0 = none.
    preemption: int = 0
    #: Results of preemption attempts: text → count and last time (REST: allocationLog); None = no attempt.
    attempts: dict[str, tuple[int, int]] | None = None


@dataclass(slots=True, eq=False)
class Allocation:
    """An allocation. `releasing`: it is being released and the release is not confirmed yet."""

    spec: AskSpec
    id: AllocationId
    node: NodeId
    allocated_ns: int
    #: Position in the order of allocations of the partition.
    sequence: int = field(default=0, kw_only=True)
    releasing: Termination | None = None
    #: Start of the release.
    released_ns: int = 0
    #: The request that replaces this placeholder.
    replaced_by: AllocationKey | None = None
    #: It replaced a placeholder (REST: placeholderUsed).
    replaced_placeholder: bool = False
    #: Last reported utilization; None = never.
    utilization: Resources | None = None
    #: Number of the preemption that waits for its release; 0 = none.
    preemption: int = 0
    #: Time of its last resize; 0 = never resized.
    sized_ns: int = 0


@dataclass(slots=True, eq=False)
class Application:  # long: every write to an application goes through here
    """One application. `sequence`: orders applications by submission, unique in the partition."""

    spec: ApplicationSpec
    queue: Queue
    sequence: int
    submitted_ns: int
    state: ApplicationState = ApplicationState.NEW
    #: Start of its run time; 0 = not started.
    started_ns: int = 0
    #: Time when it ended, was rejected or was removed; 0 = not yet.
    ended_ns: int = 0
    #: Estimated bytes in the history of ended applications; 0 = it has not ended.
    kept_bytes: int = 0
    #: Why it was rejected.
    rejected_message: str = ""
    #: Why it failed.
    failure_message: str = ""
    #: Usage over time of real allocations, of preempted ones, and of placeholders.
    used: Consumption = field(default_factory=Consumption)
    preempted: Consumption = field(default_factory=Consumption)
    placeholder_consumption: Consumption = field(default_factory=Consumption)
    #: Newest state changes with their times.
    state_log: deque[tuple[int, ApplicationState]] = field(default_factory=lambda: deque(maxlen=_STATES_KEPT))
    asks: dict[AllocationKey, Ask] = field(default_factory=dict)
    #: Waiting requests by class: the class with the oldest request first, and in each class the oldest request first.
    #: `sort_waiting` restores this order.
    waiting: dict[AskClass, dict[AllocationKey, None]] = field(default_factory=dict)
    #: Classes that received a request older than some of their other requests.
    unsorted: dict[AskClass, None] = field(default_factory=dict)
    #: The order of the classes may have changed.
    are_classes_unsorted: bool = False
    #: Why the last attempt did not schedule requests of a class.
    refusals: dict[AskClass, UnschedulableReason] = field(default_factory=dict)
    #: By class, at most one per kind of reason: how often it was replaced by another kind, when last, and the reason.
    earlier_refusals: dict[AskClass, dict[ReasonKind, tuple[int, int, UnschedulableReason]]] = field(
        default_factory=dict
    )
    #: What was reported for waiting requests (`scheduling.refresh`).
    texts: dict[TextKey, ReportedText] = field(default_factory=dict)
    #: Waiting requests, by class, that need a report although newer requests of their class have it: they lost their
    #: node reservation, or were added before others.
    to_report: dict[AskClass, dict[AllocationKey, None]] = field(default_factory=dict)
    #: Some request needed more than one allocation.
    has_multiple: bool = False
    allocations: dict[AllocationId, Allocation] = field(default_factory=dict)
    #: Allocation IDs by key, without virtual placeholders. Nearly always one, which needs less memory as a tuple.
    ids: dict[AllocationKey, tuple[AllocationId] | dict[AllocationId, None]] = field(default_factory=dict)
    gang: Gang = field(default_factory=Gang)
    #: Total of real allocations.
    allocated: Resources = NOTHING
    #: Maximum of `allocated` per resource (REST: maxUsedResource).
    peak: Resources = NOTHING
    #: Total of waiting and parked requests, without what counts twice (`SlotCount`); read it as `pending`.
    waits: LazySum = field(default_factory=LazySum)
    #: Class of the newest request. The next request usually has the same class.
    newest: AskClass | None = None
    #: Quota of its queues that preemption reserved for its requests.
    node_reserved: Resources = NOTHING
    real_allocations: int = 0
    real_asks: int = 0
    #: It had a real request or allocation. If none is left, the application is finished.
    had_real: bool = False
    placeholder_asks: int = 0
    #: Priorities of the waiting classes.
    priorities: PriorityCounts = field(default_factory=PriorityCounts)
    #: Priority that counts in its leaf; None = it does not wait.
    shown: int | None = None
    #: Group whose limits it counts towards, empty = none; None = not selected yet.
    group: str | None = None
    #: The group that `UserLedger` found before one is selected, and what this depends on.
    found_group: str = ""
    found_group_for: tuple[object, ...] = ()
    #: Why new requests wait regardless of resources: the queue, or the groups of the user, are unknown. Empty = they do
    #: not wait. Requests that replace a placeholder are not new.
    withheld: str = ""
    #: The event UG_APP_LINK was recorded.
    linked: bool = False
    #: It counts as running for its queues, user and group.
    counted: bool = False
    #: Last recorded reason why it may not start; NONE = it may.
    cannot_run: Detail = Detail.NONE
    #: End of its backoff after too many unschedulable requests; 0 = no backoff.
    backoff_until_ns: int = 0
    #: Consecutive attempts that raised an exception.
    failures: int = 0
    #: Number of attempts since one placed something or its requests changed.
    attempts_in_vain: int = 0
    #: The last attempt prevented later applications of the leaf from starting (docs/internals/semantics.md, rule 11).
    blocks: bool = False
    #: Classes that the time budget left out of its last plan; 0 = the plan was complete.
    unplanned: int = 0
    #: Consecutive plans without progress, because changes invalidated what was planned.
    restarts: int = 0
    #: It is ending; the final state is reported after the last confirmed release.
    ending: bool = False
    #: Number of the completing timer.
    completing: int = 0
    #: Its resource manager removed it: it is Completing, and unknown to its resource manager.
    removed: bool = False

    id: ApplicationId = field(init=False)
    #: Application ID that users see.
    name: str = field(init=False)
    #: Earliest of `submitted_ns` and the creation times of its requests and allocations so far. Orders the applications
    #: of a FIFO leaf (REST: submissionTime).
    oldest_ns: int = field(init=False)

    def __post_init__(self) -> None:
        """Copies ID and name from the specification, because they are read very often."""
        self.id, self.name, self.oldest_ns = self.spec.id, self.spec.name, self.submitted_ns

    @property
    def pending(self) -> Resources:
        """Total of waiting and parked requests. A member and the slot that it can take are one request."""
        self.settle_pending()
        return self.waits.value

    def settle_pending(self) -> None:
        """Updates the pending amounts of the application and its queues after slots or waiting members changed."""
        for group in self.gang.unsettled:
            found = self.gang.slot_counts[group]
            twice = found.twice()
            if twice != found.counted_twice:
                change, found.counted_twice = found.counted_twice - twice, twice
                self.waits.add(change, 1)
                for queue in self.queue.path_up:
                    queue.waits.add(change, 1)
        self.gang.unsettled.clear()

    @property
    def pending_count(self) -> int:
        """Number of missing allocations. A member and a pending slot that it can take are one."""
        asked = sum(ask.left for ask in self.asks.values()) if self.has_multiple else len(self.asks)
        for group, count in self.gang.slot_counts.items():
            pending_slots = sum(count.slots.values()) - len(self.gang.live.get(group, ()))
            asked -= min(sum(count.members.values()), pending_slots)
        return asked

    @property
    def is_reserving(self) -> bool:
        """Whether real pods wait until the gang is reserved."""
        return not self.gang.over and self.spec.is_gang

    def has_placeholder(self, kind: AskClass) -> bool:
        """Whether requests of this class wait for a placeholder instead of free resources."""
        return not kind.placeholder and not kind.as_usual and kind.group in self.gang.live

    def add_ask(self, ask: Ask) -> bool:
        """Adds a waiting request. Returns whether it is the only one of its class."""
        spec = ask.spec
        self.has_multiple = self.has_multiple or spec.max_allocations > 1
        self.asks[spec.key] = ask
        is_first = _let_wait(self, ask)
        if spec.is_virtual:
            self.gang.asked_virtual.setdefault(spec.group, {})[spec.key] = None
        if spec.placeholder:
            self.placeholder_asks += 1
            count_slots(self, spec, ask.left)
        else:
            self.real_asks += 1
            self.had_real = True
        return is_first

    def remove_ask(self, ask: Ask) -> bool:
        """Removes a waiting or parked request, but not from `pending`. Returns whether no other of its class waits."""
        spec = ask.spec
        del self.asks[spec.key]
        is_last = self._stop_waiting(ask)
        if spec.is_virtual:
            indexes.remove(self.gang.asked_virtual, spec.group, spec.key)
        if spec.placeholder:
            self.placeholder_asks -= 1
            count_slots(self, spec, -ask.left)
        else:
            self.real_asks -= 1
            self.gang.without_reservation.pop(spec.key, None)
        return is_last

    def report_again(self, ask: Ask) -> None:
        """Has the reason of a waiting request reported at the next attempt."""
        if ask.spec.key in self.waiting.get(ask.kind, {}):
            self.to_report.setdefault(ask.kind, {})[ask.spec.key] = None

    def park(self, ask: Ask, replacement: PlaceholderReplacement) -> None:
        """Parks a request until its placeholder has been released."""
        self._stop_waiting(ask)
        ask.replacement = replacement

    def wait_again(self, ask: Ask, *, as_usual: bool) -> None:
        """Makes a request wait again; `as_usual`: without a placeholder."""
        self._stop_waiting(ask)
        ask.replacement = None
        ask.reported_kind = None
        ask.kind = class_of(ask.spec, as_usual=as_usual, tags=ask.kind.pod_on_node.tags)
        _let_wait(self, ask)

    def sort_waiting(self) -> None:
        """Sorts the waiting requests by creation time, if needed. Called once per attempt, not for each request."""
        asks = self.asks
        for kind in self.unsorted:
            self.waiting[kind] = dict.fromkeys(sorted(self.waiting[kind], key=lambda key: asks[key].asked_ns))
        if (self.unsorted or self.are_classes_unsorted) and len(self.waiting) > 1:
            self.waiting = dict(sorted(self.waiting.items(), key=lambda item: asks[next(iter(item[1]))].asked_ns))
        self.unsorted.clear()
        self.are_classes_unsorted = False

    def add_allocation(self, allocation: Allocation) -> None:
        """Adds an allocation without its sums. The caller calls `add_sums`, once per batch."""
        spec = allocation.spec
        self.allocations[allocation.id] = allocation
        if not spec.is_virtual:
            match self.ids.get(spec.key):
                case None:
                    self.ids[spec.key] = (allocation.id,)
                case dict() as several:
                    several[allocation.id] = None
                case first:
                    self.ids[spec.key] = dict.fromkeys((*first, allocation.id))
        if spec.placeholder:
            count_slots(self, spec, 1)
            self.gang.live.setdefault(spec.group, {})[allocation.id] = None
            if spec.is_virtual:
                self.gang.live_virtual.setdefault(spec.group, {})[allocation.id] = None
                on_node = self.gang.live_virtual_on.setdefault(spec.group, {}).setdefault(allocation.node, {})
                on_node[allocation.id] = None
                self.gang.search_without_slot = None
        else:
            self.real_allocations += 1
            self.had_real = True
            if spec.group:
                self.gang.members[spec.group] = self.gang.members.get(spec.group, 0) + 1

    def add_sums(self, spec: AskSpec, count: int) -> None:
        """Adds `count` new allocations of this shape to the sums."""
        if spec.placeholder:
            self.gang.allocated = self.gang.allocated.plus(spec.resources, count)
            self.gang.reserved = self.gang.reserved.plus(spec.resources, count)
        else:
            self.allocated = self.allocated.plus(spec.resources, count)
            if not self.peak.covers(self.allocated):
                self.peak = self.peak.widened(self.allocated)

    def remove_allocation(self, allocation: Allocation) -> None:
        """Removes an allocation and its sums."""
        spec = allocation.spec
        if spec.placeholder:
            if allocation.releasing is None:
                self._no_longer_live(allocation)
            self.gang.recovered.pop(allocation.id, None)
            self.gang.allocated = self.gang.allocated.plus(spec.resources, -1)
        else:
            self.real_allocations -= 1
            self.allocated = self.allocated.plus(spec.resources, -1)
            if spec.group:
                self.gang.members[spec.group] -= 1
        del self.allocations[allocation.id]
        if spec.is_virtual:
            return
        ids = self.ids[spec.key]
        if isinstance(ids, dict):
            del ids[allocation.id]
        if len(ids) == (0 if isinstance(ids, dict) else 1):
            del self.ids[spec.key]

    def mark_releasing(self, allocation: Allocation, termination: Termination, now_ns: int) -> None:
        """Marks the allocation as being released, so that it is not reserved and not released again."""
        if allocation.spec.placeholder:
            self._no_longer_live(allocation)
        allocation.releasing = termination
        allocation.released_ns = now_ns

    def put_in_class(self, ask: Ask, tags: Tags) -> None:
        """Changes the class of a request after its stored tags changed."""
        is_waiting = ask.spec.key in self.waiting.get(ask.kind, {})
        self._stop_waiting(ask)
        ask.kind = class_of(ask.spec, as_usual=ask.kind.as_usual, tags=tags)
        if is_waiting:
            ask.reported_kind = None
            _let_wait(self, ask)

    def refuse(self, kind: AskClass, why: UnschedulableReason, now_ns: int) -> None:
        """Records why requests of a waiting class were not scheduled. Keeps the reason before if its kind differs."""
        before = self.refusals.get(kind)
        if before is not None and before.kind is not why.kind:
            earlier = self.earlier_refusals.setdefault(kind, {})
            times, _, _ = earlier.pop(before.kind, (0, 0, before))
            earlier[before.kind] = (times + 1, now_ns, before)
        self.refusals[kind] = why

    def _no_longer_live(self, allocation: Allocation) -> None:
        count_slots(self, allocation.spec, -1)
        indexes.remove(self.gang.live, allocation.spec.group, allocation.id)
        if allocation.spec.is_virtual:
            indexes.remove(self.gang.live_virtual, allocation.spec.group, allocation.id)
            by_node = self.gang.live_virtual_on[allocation.spec.group]
            indexes.remove(by_node, allocation.node, allocation.id)
            if not by_node:
                del self.gang.live_virtual_on[allocation.spec.group]
        self.gang.reserved = self.gang.reserved.plus(allocation.spec.resources, -1)

    def _stop_waiting(self, ask: Ask) -> bool:
        keys = self.waiting.get(ask.kind)
        if keys is not None and ask.spec.key in keys:
            del keys[ask.spec.key]
            if ask.kind.group:
                _count_member(self, ask, -1)
            if self.to_report:
                self.to_report.get(ask.kind, {}).pop(ask.spec.key, None)
            if keys:  # its oldest request may be another one now
                self.are_classes_unsorted = True
            else:
                del self.waiting[ask.kind]
                self.unsorted.pop(ask.kind, None)
                indexes.remove(self.queue.classes, ask.kind, self.id)
                self.priorities.replace(ask.kind.priority, None)
                self.refusals.pop(ask.kind, None)
                self.earlier_refusals.pop(ask.kind, None)
                self.to_report.pop(ask.kind, None)
                self.texts.pop(ask.kind, None)
                if not self.waiting:
                    self.texts.clear()
        return not keys


def _let_wait(app: Application, ask: Ask) -> bool:
    """Adds the request to the waiting ones of its class. Returns whether it is the only one."""
    keys = app.waiting.get(kind := ask.kind)
    is_first = keys is None
    if keys is None:
        app.are_classes_unsorted = app.are_classes_unsorted or _is_older_than_last_class(app, ask)
        keys = app.waiting[kind] = {}
        app.queue.classes.setdefault(kind, {})[app.id] = None
        app.priorities.replace(None, kind.priority)
    elif (app.unsorted and kind in app.unsorted) or app.asks[next(reversed(keys))].asked_ns > ask.asked_ns:
        app.unsorted[kind] = None
        if kind in app.refusals:
            app.to_report.setdefault(kind, {})[ask.spec.key] = None
    keys[ask.spec.key] = None
    if kind.group:
        _count_member(app, ask, 1)
    return is_first


def count_slots(app: Application, spec: AskSpec, times: int) -> None:
    """Counts pending or live placeholders of a task group. A negative `times` subtracts."""
    found = app.gang.slot_counts.get(spec.group) or app.gang.slot_counts.setdefault(spec.group, SlotCount())
    indexes.count(found.slots, spec.resources, times)
    if found.members:
        _unsettle(app, spec.group)


def _count_member(app: Application, ask: Ask, times: int) -> None:
    """Counts a waiting request of a task group, unless it is a placeholder or scheduled individually."""
    kind, counts = ask.kind, app.gang.slot_counts
    if not (kind.placeholder or kind.as_usual) and app.spec.is_gang:
        found = counts.get(kind.group) or counts.setdefault(kind.group, SlotCount())
        indexes.count(found.members, ask.spec.resources, times)
        _unsettle(app, kind.group)


def _unsettle(app: Application, group: TaskGroup) -> None:
    """Has the pending amounts corrected when they are read, because a correction per member costs too much."""
    app.gang.unsettled[group] = None
    app.queue.path_up[-1].unsettled[app] = None


def _is_older_than_last_class(app: Application, ask: Ask) -> bool:
    last = next(reversed(app.waiting), None)
    return last is not None and app.asks[next(iter(app.waiting[last]))].asked_ns > ask.asked_ns


def enter_queue(app: Application, leaf: Queue) -> None:
    """Moves the application to another leaf. The caller updates sums and priorities."""
    for kind in app.waiting:
        indexes.remove(app.queue.classes, kind, app.id)
        leaf.classes.setdefault(kind, {})[app.id] = None
    del app.queue.applications[app.id]
    app.queue, app.group = leaf, None
    leaf.applications[app.id] = None


def resize_sums(app: Application, allocation: Allocation, old: Resources) -> None:
    """Updates the sums after an allocation changed its size from `old`."""
    more = allocation.spec.resources - old
    if not allocation.spec.placeholder:
        app.allocated += more
        app.peak = app.peak.widened(app.allocated)
        return
    app.gang.allocated += more
    if allocation.releasing is None:
        app.gang.reserved += more
        found = app.gang.slot_counts[allocation.spec.group]
        indexes.count(found.slots, old, -1)
        indexes.count(found.slots, allocation.spec.resources, 1)
        _unsettle(app, allocation.spec.group)


def lacking(app: Application) -> Resources:
    """Returns what is missing of the gang's placeholderAsk, at least 0 (docs/internals/semantics.md, rule 9)."""
    if app.spec.uses_virtual_placeholders:
        # Its requests are virtual placeholders, reduced by the members that already have a node.
        return _asked_for(app)
    rest = app.spec.placeholder_ask.plus(app.gang.reserved, -1)
    return Resources({name: amount for name, amount in rest.items() if amount > 0})


def _asked_for(app: Application) -> Resources:
    """Total of the waiting placeholder requests."""
    counts = {kind: sum(app.asks[key].left for key in keys) for kind, keys in app.waiting.items() if kind.placeholder}
    return sum((kind.resources.times(count) for kind, count in counts.items()), NOTHING)
