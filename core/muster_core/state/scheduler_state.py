"""Root of the scheduler state: resource managers, partitions, and the effects that are not sent yet.

Only `scheduling` writes it; plans, REST and metrics read it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.config import Configuration, PartitionConfig, Timing
from muster_core.model.effects import (
    AllocationResponse,
    AskRelease,
    Effect,
    NewAllocation,
    Release,
    SchedulingStateChanged,
    TimerSet,
)
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import (
    NO_APPLICATION,
    NO_KEY,
    ROOT,
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    QueuePath,
    RmId,
)
from muster_core.model.limits import RESOURCE_NAMES
from muster_core.model.records import AllocationsRecorded, AskRecorded, Change, Detail, EventRecorded, Notice, Recorded
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec
from muster_core.model.states import ApplicationState, ManagerState, QueueState
from muster_core.state.applications import Allocation, Application
from muster_core.state.node_demand import NodeDemand
from muster_core.state.nodes import NodeTable
from muster_core.state.ordered_sets import LeafQueue
from muster_core.state.queues import LazySum, Queue, QueueTree, new_tree
from muster_core.state.reported_texts import ReportedTexts
from muster_core.state.request_classes import UnschedulableClasses
from muster_core.state.reservations import Contention, PendingCallbacks, Preemptions, Reservations
from muster_core.state.scheduling_queue import SchedulingQueue, UnschedulableApplications
from muster_core.state.users import Account, LimitSubject, UserLedger
from muster_core.state.waiting_times import WaitingTimes


@dataclass(slots=True, eq=False)
class ResponseBuilder:
    """An `AllocationResponse` that is being built. An empty one is not sent."""

    rm: RmId
    application: ApplicationId | None = None
    new: list[NewAllocation] = field(default_factory=list)
    released: list[Release] = field(default_factory=list)
    released_asks: list[AskRelease] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.released or self.released_asks)

    def closed(self) -> AllocationResponse:
        """Returns the effect when nothing is added any more."""
        return AllocationResponse(self.rm, tuple(self.new), tuple(self.released), tuple(self.released_asks))


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An exception in one application or partition. The others continue. `application`: its ID, empty = a partition."""

    subject: str
    error: Exception
    application: str = ""


@dataclass(slots=True, eq=False)
class Outbox:
    """Effects in the order in which they are carried out. `notes`: event records, which come last."""

    notes: list[Recorded] = field(default_factory=list)
    _effects: list[Effect | ResponseBuilder] = field(default_factory=list)
    #: Failures that the loop logs and counts.
    failures: list[Failure] = field(default_factory=list)
    #: The last scheduling state in `_effects`.
    _state: SchedulingStateChanged | None = None

    def put(self, effect: Effect) -> None:
        """Adds the effect of a change that was just made."""
        self._effects.append(effect)

    def state(self, changed: SchedulingStateChanged) -> None:
        """Adds a scheduling state unless it equals the last one. Virtual placeholders of a group share one state."""
        if changed != self._state:
            self._state = changed
            self._effects.append(changed)

    def answer(self, rm: RmId) -> ResponseBuilder:
        """Adds an allocation response for one decision at this position."""
        answer = ResponseBuilder(rm)
        self._effects.append(answer)
        return answer

    def joined(self, rm: RmId, application: ApplicationId) -> ResponseBuilder:
        """Like `answer`, but extends the last response if it belongs to the application and contains only new
        allocations.
        """
        last = self._effects[-1] if self._effects else None
        if isinstance(last, ResponseBuilder) and last.application == application and not last.released:
            return last
        answer = ResponseBuilder(rm, application)
        self._effects.append(answer)
        return answer

    def take_failures(self) -> list[Failure]:
        """Returns and removes the failures."""
        taken, self.failures = self.failures, []
        return taken

    def drain(self) -> list[Effect]:
        """Returns and removes all effects. Called by the loop, and at the end of `step` and `cycle`."""
        drained: list[Effect] = []
        if not self._effects:  # as after most new requests
            drained += self.notes
            self.notes.clear()
            return drained
        for effect in self._effects:
            if not isinstance(effect, ResponseBuilder):
                drained.append(effect)
            elif effect:
                drained.append(effect.closed())
        drained += self.notes
        self._effects, self.notes, self._state = [], [], None
        return drained


_NUMBER_BITS: Final = 40


@dataclass(slots=True, eq=False)
class ResourceManager:
    """One resource manager. `is_recovering`: it is registering again and has not sent its complete state yet."""

    id: RmId
    configuration: Configuration
    state: ManagerState = ManagerState.INIT
    is_recovering: bool = False
    generation: int = 0
    #: Timers that fired while it was recovering.
    deferred_timers: list[Timer] = field(default_factory=list)
    #: Open predicate callbacks, shared by its partitions.
    pending_callbacks: PendingCallbacks = field(default_factory=PendingCallbacks)


@dataclass(slots=True, eq=False)
class Partition:
    """One partition of one resource manager: everything that is scheduled together."""

    id: PartitionId
    rm: RmId
    config: PartitionConfig
    timing: Timing
    queues: QueueTree
    #: Time of the last change of its state.
    since_ns: int = 0
    nodes: NodeTable = field(default_factory=NodeTable)
    users: UserLedger = field(default_factory=UserLedger)
    applications: dict[ApplicationId, Application] = field(default_factory=dict)
    #: Allocations of applications by node. IDs of allocations are unique only in their application.
    placed: dict[NodeId, dict[tuple[ApplicationId, AllocationId], Allocation]] = field(default_factory=dict)
    #: Requests whose replacement has reserved resources on another node than that of the placeholder.
    targets: dict[NodeId, dict[tuple[ApplicationId, AllocationKey], None]] = field(default_factory=dict)
    #: Allocations of other schedulers by ID (docs/internals/semantics.md, rule 7).
    foreign: dict[AllocationId, AllocationSpec] = field(default_factory=dict)
    #: Ended applications for the REST API, newest last.
    history: deque[Application] = field(default_factory=deque)
    #: The newest application of the history by ID.
    ended_applications: dict[ApplicationId, Application] = field(default_factory=dict)
    #: Estimated bytes of `history`.
    history_bytes: int = 0
    #: Applications that their resource manager removed and that are still Completing, oldest first. They are part of
    #: `applications`, too.
    removed: dict[ApplicationId, Application] = field(default_factory=dict)
    #: Estimated bytes of `removed`.
    removed_bytes: int = 0
    #: Number of ended applications by queue and final state. Never decreases.
    ended: dict[tuple[QueuePath, ApplicationState], int] = field(default_factory=dict)
    #: Time from the creation of pods to their allocation, and from the submission of gangs until they are complete.
    pod_times: WaitingTimes = field(default_factory=WaitingTimes)
    gang_times: WaitingTimes = field(default_factory=WaitingTimes)
    #: Timer of the oldest ended application; 0 = none.
    expiring: int = 0
    #: Incomplete gangs that compete for resources (docs/internals/semantics.md, rule 12).
    contention: Contention = field(default_factory=Contention)
    #: Node reservations.
    reservations: Reservations = field(default_factory=Reservations)
    preemptions: Preemptions = field(default_factory=Preemptions)
    pending_callbacks: PendingCallbacks = field(default_factory=PendingCallbacks)
    #: Applications that wait for the groups of their user before they are accepted or rejected.
    undecided: dict[ApplicationId, ApplicationSpec] = field(default_factory=dict)
    #: Applications whose user's groups are unknown, by user; includes undecided ones.
    unresolved: dict[str, dict[ApplicationId, None]] = field(default_factory=dict)
    #: Leaves in which allocations were released since the last pass.
    shrunk: dict[QueuePath, None] = field(default_factory=dict)
    #: Gangs that had reservations before a restart. They reserve again before others, in this order.
    returning: deque[ApplicationId] = field(default_factory=deque)
    #: Leaves with a waiting request.
    waiting: dict[QueuePath, None] = field(default_factory=dict)
    #: Cached classes that do not fit on the nodes (docs/internals/semantics.md, rule 22).
    unschedulable_classes: UnschedulableClasses = field(default_factory=UnschedulableClasses)
    #: Limits with less usage since the last attempt, and what counts it.
    grown: dict[LimitSubject, tuple[Limit, Queue | Account]] = field(default_factory=dict)
    #: Selects the next application, and records why the others wait.
    scheduling: SchedulingQueue = field(init=False)
    #: Requests that are reported as waiting for nodes.
    node_demand: NodeDemand = field(init=False)
    #: Reported texts that are out of date.
    texts: ReportedTexts = field(default_factory=ReportedTexts)
    #: Time of the last search for a node to empty.
    searched_ns: int = 0
    #: When the timer of the next attempts of woken applications fires. It has no effect but the cycle after it.
    retry_ns: int = 0
    #: Number of consecutive failed cycles, and the end of the backoff; 0 = no backoff.
    failures: int = 0
    backoff_until_ns: int = 0
    #: Decisions that were invalid at commit. Each of them is a bug of the planning code.
    void_decisions: int = 0
    sequence: int = 0
    #: Whether event records of changes are stored. Messages for users are always stored.
    tracking: bool = True
    #: Whether lost members of gangs precede the applications of other queues (`gang.repairAcrossQueues`).
    repairs_across_queues: bool = True
    #: Effects that the loop has not carried out yet, shared by all partitions.
    outbox: Outbox = field(default_factory=Outbox)

    def __post_init__(self) -> None:
        """Creates the scheduling queue and the demand for nodes."""
        self.scheduling = SchedulingQueue(self)
        self.node_demand = NodeDemand(self)

    @property
    def blocking_reasons(self) -> UnschedulableApplications:
        """The unschedulable applications by blocking reason."""
        return self.scheduling.blocking_reasons

    def shown_pending(self, queue: Queue) -> Resources:
        """Returns the pending resources of a queue that are shown: of resources without a node or maximum, only some.

        Users invent names of resources.
        """
        return self._shown(queue, queue.settled)

    def shown_reserved(self, queue: Queue) -> Resources:
        """Returns the quota that gangs reserve or request in a queue, like `shown_pending`."""
        return self._shown(queue, queue.reserved_quota) + self._shown(queue, queue.requested_quota)

    def _shown(self, queue: Queue, total: LazySum) -> Resources:
        return total.some((*self.nodes.capacity_total, *dict(queue.max.items())), RESOURCE_NAMES)

    @property
    def is_closing(self) -> bool:
        """Whether it is no longer configured and is deleted with its last application and node."""
        return self.queues.root.draining

    def note(  # noqa: PLR0913 # long: the fields of an event record
        self,
        about: Notice,
        subject: str,
        *,
        change: Change = Change.NONE,
        detail: Detail = Detail.NONE,
        reference: str = "",
        resource: Resources = NOTHING,
        message: str = "",
        app_name: str = "",
    ) -> None:
        """Adds an event record of a change, or a message for users if `change` and `detail` are not set.

        `app_name`: for an application that is not in the partition.
        """
        if self.tracking or (change is Change.NONE and detail is Detail.NONE):
            named = subject if about is Notice.APPLICATION else reference
            if not app_name and (app := self.applications.get(ApplicationId(named))) is not None:
                app_name = app.spec.shown_as
            self.outbox.notes.append(
                EventRecorded(self.rm, about, subject, message, reference, change, detail, resource, app_name)
            )

    def note_ask(self, app: Application, ask: AskSpec, change: Change, detail: Detail) -> None:
        """Adds an event record of a new request, or of one that ended without allocation."""
        if self.tracking:
            self.outbox.notes.append(AskRecorded(self.rm, ask, change, detail, app.spec.shown_as))

    def note_allocations(
        self,
        app: Application,
        allocations: Iterable[Allocation],
        change: Change,
        detail: Detail,
        *,
        asked: bool = False,
    ) -> None:
        """Adds an event record of allocations that were created or ended together, and counts their waiting times.

        The first ones link the application to its group. `asked`: each ended a request.
        """
        if asked:
            waited_ns = [
                one.allocated_ns - one.spec.created_ns
                for one in allocations
                if one.spec.created_ns and not one.spec.placeholder
            ]
            if waited_ns:
                self.pod_times.note(app.queue.path, *waited_ns)
        if not self.tracking:
            return
        if change is Change.ADD and app.group and not app.linked:
            self.note_group(app, Change.SET)
        found = tuple([(one.spec.key, one.node, one.spec.resources) for one in allocations])
        user, group, queue, name = app.spec.user, app.group or "", app.queue.path, app.spec.shown_as
        noted = AllocationsRecorded(self.rm, app.id, user, group, queue, change, detail, found, asked, name)
        self.outbox.notes.append(noted)

    def note_group(self, app: Application, change: Change) -> None:
        """Adds an event record: the application counts for its group, from its first allocation until it is removed."""
        app.linked = change is Change.SET
        detail, name = Detail.UG_APP_LINK, app.spec.shown_as
        self.note(Notice.USER_GROUP, app.group or "", change=change, detail=detail, reference=app.id, app_name=name)

    def next_number(self) -> int:
        """Returns a number that is unique in this partition: orders submissions and identifies timers."""
        self.sequence += 1
        return self.sequence

    def set_timer(
        self,
        kind: TimerKind,
        number: int,
        at_ns: int,
        app: ApplicationId = NO_APPLICATION,
        key: AllocationKey = NO_KEY,
        queue: QueuePath = ROOT,
    ) -> None:
        """Sets a timer. It has an effect only while its subject, such as the application, still has this `number`."""
        self.outbox.put(TimerSet(Timer(kind, self.rm, self.id, app, key, number, queue), at_ns))

    def start_timer(
        self, kind: TimerKind, at_ns: int, app: ApplicationId = NO_APPLICATION, queue: QueuePath = ROOT
    ) -> int:
        """Sets a timer with a new number, which is returned."""
        number = self.next_number()
        self.set_timer(kind, number, at_ns, app, queue=queue)
        return number

    def requeue_queue(self, path: QueuePath) -> None:
        """Makes all waiting applications of this leaf active."""
        if path in self.waiting:
            for name in self.queues.by_path[path].waiting:
                self.scheduling.requeue(self.applications[name])

    @property
    def has_grown(self) -> bool:
        """Whether a quota or a node may have grown since the last attempt."""
        return bool(self.grown) or bool(self.nodes.wake_up_nodes)

    @property
    def has_stale_classes(self) -> bool:
        """Whether classes that did not fit may have room now."""
        return bool(self.unschedulable_classes.grown) or self.scheduling.has_woken

    @property
    def has_to_watch(self) -> bool:
        """Whether timers are set for requests that may become schedulable later."""
        preemptions = self.preemptions
        is_preempting = self.shrunk or preemptions.idle or preemptions.to_watch or preemptions.to_retry
        is_reserving = self.reservations.without_node or self.timing.empty_node_interval_ns
        return bool(is_preempting or is_reserving or self.scheduling.next_ns())

    def demand_orders(self, app: Application | None) -> list[LeafQueue]:
        """Returns the ordered sets of the demand for nodes with the application; None = all."""
        return self.node_demand.orders(app)


_COMPLETE: Final = object()


@dataclass(slots=True, eq=False)
class UnfinishedEvent:
    """An event about many pods. Each step of `parts` but the last applies a part."""

    parts: Iterator[None]
    event: object = None


@dataclass(slots=True, eq=False)
class SchedulerState:
    """The complete state. Empty at the start; resource managers send its content."""

    managers: dict[RmId, ResourceManager] = field(default_factory=dict)
    partitions: dict[PartitionId, Partition] = field(default_factory=dict)
    #: Number of received events without an effect, by kind.
    ignored: dict[str, int] = field(default_factory=dict)
    #: Effects that the loop has not carried out yet.
    outbox: Outbox = field(default_factory=Outbox)

    #: The event that is being applied in parts, and its remaining parts; None = the last event is complete.
    unfinished: UnfinishedEvent | None = None

    #: Number of cycles.
    cycles: int = 0
    #: Number of consecutive failures of a timer's handler.
    failed_timers: dict[Timer, int] = field(default_factory=dict)

    @property
    def is_any_closing(self) -> bool:
        """Whether a partition is no longer configured. Asked after every event."""
        roots = [partition.queues.root.state for partition in self.partitions.values()]
        return QueueState.DRAINING in roots

    def rotated_partitions(self) -> list[Partition]:
        """Returns all partitions, starting with another one in each cycle.

        Each partition makes at least one attempt, and the first ones use most of the time budget.
        """
        partitions = list(self.partitions.values())
        self.cycles += 1
        first = self.cycles % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]

    def has_begun(self, event: object) -> bool:
        """Whether a part of this event was applied, and parts are left."""
        return self.unfinished is not None and self.unfinished.event is event

    def continues(self, event: object) -> bool:
        """Like `has_begun`. Completes another event of which a part was applied."""
        if self.has_begun(event):
            return True
        self.complete_event()
        return False

    def apply_part(self, event: object) -> None:
        """Applies the next part of the event. After the last one, and after an exception, it is complete."""
        unfinished, self.unfinished = self.unfinished, None
        if unfinished is not None and next(unfinished.parts, _COMPLETE) is not _COMPLETE:
            unfinished.event, self.unfinished = event, unfinished

    def complete_event(self) -> None:
        """Applies the rest of the event of which a part was applied."""
        while self.unfinished is not None:
            self.apply_part(self.unfinished.event)

    def ignore(self, kind: str) -> None:
        """Counts a received event without an effect."""
        self.ignored[kind] = self.ignored.get(kind, 0) + 1


def new_partition(
    scheduler_state: SchedulerState, partition: PartitionId, manager: ResourceManager, config: PartitionConfig
) -> Partition:
    """Creates an empty partition without adding it to the state.

    Its numbers start above those of earlier sessions, because timers of those may still be set.
    """
    tree = new_tree(config.root)
    first = manager.generation << _NUMBER_BITS
    return Partition(
        partition,
        manager.id,
        config,
        manager.configuration.timing,
        tree,
        sequence=first,
        tracking=manager.configuration.tracking,
        repairs_across_queues=manager.configuration.repairs_across_queues,
        pending_callbacks=manager.pending_callbacks,
        outbox=scheduler_state.outbox,
    )
