"""All resource managers and partitions and the effects that are not sent yet.

The root of the state. Only `scheduling` writes to it; plans, REST and metrics read it.
"""

from __future__ import annotations

from collections import deque
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
)
from muster_core.model.events import Timer
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, PartitionId, QueuePath, RmId
from muster_core.model.records import Change, Detail, EventRecorded, Notice, Recorded
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec
from muster_core.model.states import ApplicationState, ManagerState
from muster_core.state.applications import Allocation, Application
from muster_core.state.nodes import NodeTable
from muster_core.state.queues import QueueTree, new_tree
from muster_core.state.request_classes import UnschedulableClasses
from muster_core.state.reservations import Contention, PendingCallbacks, Preemptions, Reservations
from muster_core.state.scheduling_queue import LeafQueue, SchedulingQueue, UnschedulableApplications
from muster_core.state.users import UserLedger


@dataclass(slots=True, eq=False)
class ResponseBuilder:
    """An `AllocationAnswer` that is still being written; one with nothing in it is never said."""

    rm: RmId
    application: ApplicationId | None = None
    new: list[NewAllocation] = field(default_factory=list)
    released: list[Release] = field(default_factory=list)
    released_asks: list[AskRelease] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.new or self.released or self.released_asks)

    def closed(self) -> AllocationResponse:
        """The effect, once nothing is added any more."""
        return AllocationResponse(self.rm, tuple(self.new), tuple(self.released), tuple(self.released_asks))


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An exception that one application, or one partition, was responsible for; the others went on."""

    subject: str
    error: Exception


@dataclass(slots=True, eq=False)
class Outbox:
    """Effects in the order in which they are carried out; notes for observers come last."""

    _effects: list[Effect | ResponseBuilder] = field(default_factory=list)
    _notes: list[Recorded] = field(default_factory=list)
    #: For the loop to log and to count.
    failures: list[Failure] = field(default_factory=list)
    #: The last scheduling state in `_effects`.
    _state: SchedulingStateChanged | None = None

    def put(self, effect: Effect) -> None:
        """Add the effect of a change that was just made."""
        self._effects.append(effect)

    def state(self, changed: SchedulingStateChanged) -> None:
        """Add a scheduling state, unless it repeats the last one: all places of a task group without pods share one."""
        if changed != self._state:
            self._state = changed
            self._effects.append(changed)

    def note(self, noted: Recorded) -> None:
        """Add a note for observers; notes come after all other effects."""
        self._notes.append(noted)

    def answer(self, rm: RmId) -> ResponseBuilder:
        """Open the allocation answer of one decision, at this place in the order."""
        answer = ResponseBuilder(rm)
        self._effects.append(answer)
        return answer

    def joined(self, rm: RmId, application: ApplicationId) -> ResponseBuilder:
        """The same for one of many small decisions of an application: it extends the last answer if that is what was
        put last and if it only gives places.
        """
        last = self._effects[-1] if self._effects else None
        if isinstance(last, ResponseBuilder) and last.application == application and not last.released:
            return last
        answer = ResponseBuilder(rm, application)
        self._effects.append(answer)
        return answer

    def take_failures(self) -> list[Failure]:
        """Take out the failures since the last call."""
        taken, self.failures = self.failures, []
        return taken

    def drain(self) -> list[Effect]:
        """Take out everything. Called by the loop, and at the end of `step` and `cycle`."""
        if not self._effects and not self._notes:
            return []
        drained: list[Effect] = []
        for effect in self._effects:
            if not isinstance(effect, ResponseBuilder):
                drained.append(effect)
            elif effect:
                drained.append(effect.closed())
        drained += self._notes
        self._effects, self._notes, self._state = [], [], None
        return drained


#: Ended applications that are kept for people to look at.
HISTORY: Final = 1000
_NUMBER_BITS: Final = 40


@dataclass(slots=True, eq=False)
class ResourceManager:
    """One resource manager. `fence_up`: it registers again and has not sent its whole state yet."""

    id: RmId
    configuration: Configuration
    state: ManagerState = ManagerState.INIT
    fence_up: bool = False
    generation: int = 0
    #: Clocks that rang while the fence was up.
    overdue: list[Timer] = field(default_factory=list)
    #: What it is asked, shared by its partitions.
    pending_callbacks: PendingCallbacks = field(default_factory=PendingCallbacks)


@dataclass(slots=True, eq=False)
class Partition:
    """One partition of one resource manager: everything that is scheduled together."""

    id: PartitionId
    rm: RmId
    config: PartitionConfig
    timing: Timing
    queues: QueueTree
    #: When it came to be what it is, active or going.
    since_ns: int = 0
    nodes: NodeTable = field(default_factory=NodeTable)
    users: UserLedger = field(default_factory=UserLedger)
    applications: dict[ApplicationId, Application] = field(default_factory=dict)
    #: What runs where, per node, of our applications. An identity is unique in its application only.
    placed: dict[NodeId, dict[tuple[ApplicationId, AllocationId], Allocation]] = field(default_factory=dict)
    #: Asks whose swap holds room on a node that is not their placeholder's.
    targets: dict[NodeId, dict[tuple[ApplicationId, AllocationKey], None]] = field(default_factory=dict)
    #: What others run on our nodes (semantics 7), by allocation id.
    foreign: dict[AllocationId, AllocationSpec] = field(default_factory=dict)
    #: Ended applications, newest last, for people to look at.
    history: deque[Application] = field(default_factory=lambda: deque(maxlen=HISTORY))
    #: How many ended so, by the queue they were in; only ever more.
    ended: dict[tuple[QueuePath, ApplicationState], int] = field(default_factory=dict)
    #: Which clock runs for the oldest of them; 0 = none.
    expiring: int = 0
    #: Incomplete gangs that want the same resources (semantics 12).
    contention: Contention = field(default_factory=Contention)
    #: Room that is held on nodes.
    reservations: Reservations = field(default_factory=Reservations)
    preemptions: Preemptions = field(default_factory=Preemptions)
    pending_callbacks: PendingCallbacks = field(default_factory=PendingCallbacks)
    #: Applications that are neither accepted nor rejected before the groups of their user are known.
    undecided: dict[ApplicationId, ApplicationSpec] = field(default_factory=dict)
    #: Applications, undecided or not, whose user's groups are not known, by user.
    unresolved: dict[str, dict[ApplicationId, None]] = field(default_factory=dict)
    #: Leaves that gave something back since the last pass was over.
    shrunk: dict[QueuePath, None] = field(default_factory=dict)
    #: Gangs that had places before a restart and have them held again before anybody else is served, first come first.
    returning: deque[ApplicationId] = field(default_factory=deque)
    #: Leaves with an ask that waits.
    waiting: dict[QueuePath, None] = field(default_factory=dict)
    #: Classes that nodes had too little room for (semantics 22).
    unschedulable_classes: UnschedulableClasses = field(default_factory=UnschedulableClasses)
    #: Which application is tried next, and the blocking reasons of the others (semantics 22).
    scheduling: SchedulingQueue = field(init=False)
    #: When a node that could be emptied was last sought.
    sought_ns: int = 0
    #: Failed cycles in a row, and until when no other is tried; 0 = it is not backing off.
    failures: int = 0
    asleep_until_ns: int = 0
    #: Decisions that no longer held when they were committed: a bug of plan/ each.
    void_decisions: int = 0
    sequence: int = 0
    #: Whether changes are noted; what is said to people is noted always.
    tracking: bool = True
    #: What the loop has not carried out yet: the world's, shared by its partitions.
    outbox: Outbox = field(default_factory=Outbox)

    def __post_init__(self) -> None:
        """Give it a scheduling queue of its own."""
        self.scheduling = SchedulingQueue(self)

    @property
    def blocking_reasons(self) -> UnschedulableApplications:
        """The lines before blocking reasons."""
        return self.scheduling.blocking_reasons

    @property
    def is_closing(self) -> bool:
        """Whether it is no longer configured, and goes with its last application and node."""
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
        """Note one change, or without `change` and `detail` a word to people; step and cycle hand it out.

        `app_name`: of an application that is not in the partition; of others it is known.
        """
        if self.tracking or (change is Change.NONE and detail is Detail.NONE):
            named = subject if about is Notice.APPLICATION else reference
            if not app_name and (app := self.applications.get(ApplicationId(named))) is not None:
                app_name = app.spec.shown_as
            self.outbox.note(
                EventRecorded(self.rm, about, subject, message, reference, change, detail, resource, app_name)
            )

    def next_number(self) -> int:
        """A number never given before in this partition: orders submissions, tells clocks apart."""
        self.sequence += 1
        return self.sequence

    def requeue_one(self, app: Application) -> None:
        """Something of its own changed: this application is tried again, if it waits."""
        self.scheduling.requeue(app)

    def dequeue_one(self, app: Application) -> None:
        """The application was tried, or waits no longer."""
        self.scheduling.dequeue(app)

    def requeue_queue(self, path: QueuePath) -> None:
        """Something changed for this leaf: its waiting applications are tried again."""
        if path in self.waiting:
            for name in self.queues.by_path[path].waiting:
                self.scheduling.requeue(self.applications[name])

    def requeue_all(self) -> None:
        """Something changed for every application. Rare: what grew opens the lines before it instead."""
        self.scheduling.requeue_all()

    def open(self, line: LeafQueue | None) -> None:
        """Those who are in this line are tried again, until one of them is refused."""
        self.scheduling.open(line)


@dataclass(slots=True, eq=False)
class SchedulerState:
    """Empty at birth; filled by what resource managers tell."""

    managers: dict[RmId, ResourceManager] = field(default_factory=dict)
    partitions: dict[PartitionId, Partition] = field(default_factory=dict)
    #: What was received and left without effect, by kind (semantics 4).
    ignored: dict[str, int] = field(default_factory=dict)
    #: Effects that wait for the loop.
    outbox: Outbox = field(default_factory=Outbox)

    #: How many cycles were run.
    cycles: int = 0
    #: How often in a row the handler of a timer raised.
    failed_timers: dict[Timer, int] = field(default_factory=dict)

    @property
    def is_any_closing(self) -> bool:
        """Whether a partition is no longer configured."""
        return any(partition.is_closing for partition in self.partitions.values())

    def ignore(self, kind: str) -> None:
        """Count something that was received and left without effect."""
        self.ignored[kind] = self.ignored.get(kind, 0) + 1


def new_partition(
    scheduler_state: SchedulerState, partition: PartitionId, manager: ResourceManager, config: PartitionConfig
) -> Partition:
    """An empty partition of this configuration, not in the world yet. Its numbers begin where no earlier session's
    can have come to: clocks of that one may still be set.
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
        pending_callbacks=manager.pending_callbacks,
        outbox=scheduler_state.outbox,
    )
