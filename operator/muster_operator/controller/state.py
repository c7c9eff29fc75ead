"""The state of the controller: what Kubernetes reported and what the core was told.

Only the task in `runtime/loop` changes it. It is rebuilt from lists after a restart; nothing is stored on disk.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from msgspec import Struct

from muster_operator.model.cluster_events import ClusterEvent, Namespace
from muster_operator.model.commands import FailPod, MarkResumed, Result, StorageCommand
from muster_operator.model.core_requests import AllocationSpec, Node, TerminationType
from muster_operator.model.core_responses import CoreResponse
from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, PodUid, application_name
from muster_operator.model.pods import (
    Condition,
    ForeignPod,
    GangDefinition,
    GangSource,
    Membership,
    Pod,
    PodRef,
    UserInfo,
)
from muster_operator.model.settings import Settings
from muster_operator.model.signing import SigningKeys
from muster_operator.model.states import AppState, TaskState
from muster_operator.model.storage import Attachment, Claim, ClaimRef, ClusterObject, NodeDrivers, ObjectKind, Volume


class StepState(Enum):
    """How far one claim of a pod is on its way to its volume."""

    TO_WRITE = "nothing was written for it yet"
    ORDERED = "the write was ordered"
    WRITTEN = "the API server has it; the watch has not shown it"
    SEEN = "the watch showed it; now it is up to others"


@dataclass(slots=True)
class Step:
    """One claim of a pod that has its node. ``volume``: the chosen one, empty = it is to be made for the node.

    ``order``: what was ordered last, for the ``tries``-th time.
    """

    claim: ClaimRef
    volume: str
    state: StepState = StepState.TO_WRITE
    order: StorageCommand | None = None
    tries: int = 1


@dataclass(slots=True)
class VolumeWait:
    """The claims of a pod that is bound to its node once they are bound, by ``namespace/name``; ``until``: at last."""

    steps: dict[str, Step]
    until: float


@dataclass(slots=True)
class Storage:
    """As Kubernetes shows it. ``drivers``: what nodes can attach, as their attributes.

    ``attached_to``: attachments by node, by name. ``holders``: nodes that attach a volume, by its name, one for each
    attachment. ``waiting``: pods that wait for a volume or a claim, by its name (a claim's has a slash).
    """

    volumes: dict[str, Volume] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    drivers: dict[NodeName, NodeDrivers] = field(default_factory=dict)
    attachments: dict[str, Attachment] = field(default_factory=dict)
    attached_to: defaultdict[NodeName, dict[str, Attachment]] = field(default_factory=lambda: defaultdict(dict))
    holders: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[str, set[PodUid]] = field(default_factory=dict)


class ByNode:
    """Pods by the node that they are on, or on their way to, in the order in which they came."""

    def __init__(self) -> None:
        self._uids: dict[NodeName, dict[PodUid, None]] = {}

    def __len__(self) -> int:
        return len(self._uids)

    def on(self, node: NodeName) -> tuple[PodUid, ...]:
        """The pods of a node."""
        return tuple(self._uids.get(node, ()))

    def add(self, uid: PodUid, node: NodeName | None) -> None:
        """The pod is there; without a node it is nowhere."""
        if node is not None:
            self._uids.setdefault(node, {})[uid] = None

    def remove(self, uid: PodUid, *nodes: NodeName | None) -> None:
        """The pod is on none of these any more."""
        for node in nodes:
            there = self._uids.get(node) if node is not None else None
            if node is not None and there is not None:
                there.pop(uid, None)
                if not there:
                    del self._uids[node]

    def clear(self) -> None:
        """There are no pods."""
        self._uids.clear()


class Phase(Enum):
    """How far the session with the core is."""

    GATHERING = "no session: facts are kept, nothing is said"
    RECOVERING = "a session is being filled: facts and verdicts wait"
    LIVE = "facts become news, verdicts become commands"


class Task(Struct, gc=False):
    """One pod of ours on its way to a node and off it.

    ``asked`` and ``held``: the core knows an ask, an allocation of it; exactly what has to be taken back when it ends.
    ``release``: the core's order to go, to be confirmed with the same type. ``told``: the condition we wrote last,
    the ``writes``-th. ``looked_at``: when it is looked at again whether another is due.
    """

    pod: Pod
    app: AppId
    state: TaskState = TaskState.NEW
    asked: bool = False
    held: bool = False
    node: NodeName | None = None
    allocation_id: AllocationId = NO_ALLOCATION_ID
    release: TerminationType | None = None
    waits_since: float | None = None
    shortage: Condition | None = None
    told: Condition | None = None
    told_at: float = 0.0
    writes: int = 0
    looked_at: float = 0.0
    #: What the core said of it to people, without the numbers, and when.
    heard: tuple[tuple[str, float], ...] = ()
    avoid: tuple[NodeName, ...] = ()
    binds: int = 0
    #: While its claims are on their way to their volumes; the pod is bound after that.
    volume_wait: VolumeWait | None = None
    #: ``Application.member_counts`` of its application, and the task group for which it is counted there.
    counts: dict[str, int] = {}
    counted: str | None = None

    @property
    def uid(self) -> PodUid:
        """The pod's UID, which is also the allocation key."""
        return self.pod.ref.uid


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """A kubelet rejected a pod; its replacement avoids these nodes until then."""

    nodes: tuple[NodeName, ...]
    until: float


@dataclass(frozen=True, slots=True)
class KeptSlot:
    """A place of a running gang that no pod is in: the core knows it as this placeholder (agent/refusals)."""

    app: AppId
    group: str
    node: NodeName
    known: AllocationSpec
    until: float


class SlotState(Enum):
    """How far the placeholder of one member is."""

    ORDERED = "its creation was ordered"
    CREATED = "the API server has it, or may have it; the watch has not shown it"
    LATE = "the same, for longer than it should take"
    SEEN = "it is a task"


@dataclass(slots=True)
class Slot:
    """One member of a gang that needs a placeholder.

    ``avoid``: nodes whose kubelet refused the placeholders before this one. ``is_taken``: the API server has a pod of
    that name, ours or not.
    """

    name: str
    group: str
    ordinal: int
    state: SlotState = SlotState.ORDERED
    tries: int = 1
    avoid: tuple[NodeName, ...] = ()
    is_taken: bool = False


@dataclass(slots=True)
class Creations:
    """The placeholders of one application that are still to be created (agent/creations).

    ``missing``: members of each task group without a slot, ``ordinals`` where the search for a free name continues;
    ``again``: slots to be created once more; ``open``: names that were ordered and not answered.
    """

    missing: dict[str, int] = field(default_factory=dict)
    ordinals: dict[str, int] = field(default_factory=dict)
    again: deque[str] = field(default_factory=deque)
    open: set[str] = field(default_factory=set)

    @property
    def are_waiting(self) -> bool:
        """Whether any is still to be ordered."""
        return bool(self.missing or self.again)


@dataclass(slots=True)
class NamespaceCreations:
    """Of all applications of a namespace: how many creations are open, and who waits to order more, in turn."""

    open: int = 0
    waiting: dict[AppId, None] = field(default_factory=dict)


@dataclass(slots=True)
class Application:
    """An application of the session.

    ``slots`` by placeholder name, while reserving; ``open_slots`` are those not bound yet. ``failure``: reason and
    message for pods that have to fail. ``core_has_begun``: the core was asked for something that it took. ``is_over``:
    the core has no such application any more. ``is_our_end``: we ended it, so that we have to remove it from the core.
    ``is_told_no_gang``: a pod was told that there is no gang to join. ``user`` and ``namespace`` are those of the pod
    that made it.

    While reserving: ``shortage`` is what its places wait for (``shortages``: those of each task group, where the core
    holds them without placeholder pods and so speaks for the groups), ``impossible`` why no cluster of these nodes
    could hold the gang, ``reached`` how many placeholders were seen and bound at the last look, ``look_pause`` seconds
    ago.
    """

    id: AppId
    originator: Pod
    queue: str
    source: GangSource
    gang: GangDefinition | None
    created_s: int
    state: AppState = AppState.NEW
    members: dict[PodUid, Task] = field(default_factory=dict)
    #: Heap of members by creation, then arrival; some of them are gone by now (applications.oldest).
    ages: list[tuple[int, int, PodUid]] = field(default_factory=list)
    arrivals: int = 0
    placeholders: dict[PodUid, Task] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    open_slots: set[str] = field(default_factory=set)
    creations: Creations = field(default_factory=Creations)
    placeholder_names: set[str] = field(default_factory=set)
    #: How many pods hold a member's place, by task group (agent/standing).
    member_counts: dict[str, int] = field(default_factory=dict)
    core_has_begun: bool = False
    core_is_running: bool = False
    is_over: bool = False
    is_our_end: bool = False
    is_told_no_gang: bool = False
    failure: tuple[str, str] | None = None
    user: UserInfo = field(default_factory=UserInfo)
    namespace: str = ""
    #: How pods that joined do not go with it, as they were told.
    mismatches: set[str] = field(default_factory=set)
    #: What the last one that was looked at for that says: of which the next one mostly is too.
    examined: tuple[Membership, str] | None = None
    shortage: Condition | None = None
    shortages: dict[str, Condition] = field(default_factory=dict)
    impossible: Condition | None = None
    reached: tuple[int, int] = (0, 0)
    look_pause: float = 0.0
    #: By task group: pods that a kubelet refused and that nobody has replaced yet, the oldest first.
    refusals: dict[str, deque[NodeRefusals]] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        """How many placeholders it waits for, those to be created too."""
        return len(self.slots) + sum(self.creations.missing.values())

    @property
    def name(self) -> str:
        """The application ID without namespace, as written on the pods."""
        return application_name(self.id)


class CompletedMembers(Struct, frozen=True, gc=False):
    """A member of a task group that had its node and has ended; ``since_ms``: when it got it, epoch milliseconds."""

    app: AppId
    group: str
    since_ms: int


@dataclass(slots=True)
class ForeignAllocation:
    """A pod that only takes room on its node; ``reported``: the core knows, and knows it as ``told``."""

    pod: ForeignPod
    reported: bool = False
    told: ForeignPod | None = None


@dataclass(slots=True)
class Deletion:
    """A pod that is being released and is still there."""

    pod: PodRef
    reason: str
    placeholder: bool
    tries: int = 1
    is_told: bool = False
    answered: float | None = None
    """When the API server answered the delete that was sent last; None: it is queued or in flight."""
    heard: float | None = None
    """When it answered the first one: from then on it is not for want of a turn that the pod is there."""


class TimerKind(Enum):
    """What to look at when a deadline has come."""

    WAITING = "the condition of a pod that waits"
    WRITE = "a write to a pod that was not done"
    DELETION = "a pod that is being deleted"
    AVOIDANCE = "a node that a pod avoids"
    CREATIONS = "placeholders of an application that were created"
    GANG = "how far a gang is that reserves"
    NAMESPACE = "an application that waits for its namespace, or for that of a pod"
    REJECTED = "an application with bound pods that was rejected"
    PLACE = "a place that is kept for the pod that replaces a refused one"
    VOLUMES = "the claims of a pod that has its node"


@dataclass(frozen=True, slots=True)
class Deadline:
    """Something to look at again.

    ``subject``: a pod's UID, an application's id for CREATIONS, GANG, NAMESPACE and REJECTED, a key for PLACE.
    """

    due: float
    look: TimerKind
    subject: PodUid | AppId


@dataclass(slots=True)
class Ledger:
    """Everything the agent knows. Made empty, filled by ``observe``."""

    settings: Settings = field(default_factory=Settings)
    phase: Phase = Phase.GATHERING
    #: Milliseconds to add to the API server's times to have them by our clock, which is the core's; for one session.
    clock_ahead_ms: int = 0
    #: Without keys nothing is trusted and no placeholder is created.
    keys: SigningKeys | None = None
    #: Pods that claim to be placeholders and are signed with a key that is not known.
    unverified: set[PodUid] = field(default_factory=set)

    pods: dict[PodUid, Pod] = field(default_factory=dict)
    #: Whose pods are still there.
    served: dict[PodUid, CompletedMembers] = field(default_factory=dict)
    foreign: dict[PodUid, ForeignAllocation] = field(default_factory=dict)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    #: Nodes that came while a session was live: how often the core was told so, less its answers.
    unacknowledged_nodes: dict[NodeName, int] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    priority_classes: dict[str, bool] = field(default_factory=dict)
    #: What else filters read, as the core is told of it.
    objects: dict[tuple[ObjectKind, str], ClusterObject] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    #: Originators whose gang was given up (Soft), until their annotation says so.
    resumed: set[PodUid] = field(default_factory=set)
    #: Pods of which something was told that is told once.
    noticed: set[PodUid] = field(default_factory=set)
    deletions: dict[PodUid, Deletion] = field(default_factory=dict)
    #: Namespaces and names of those.
    deleting: set[tuple[str, str]] = field(default_factory=set)
    #: By the key that the core knows them by; they outlive a session, for nothing in Kubernetes shows them.
    places: dict[PodUid, KeptSlot] = field(default_factory=dict)
    #: The keys of those, by application and task group.
    places_of: dict[AppId, dict[str, set[PodUid]]] = field(default_factory=dict)
    #: Where pods are: of other schedulers; of tasks, as we and as the API server see it; of untracked pods.
    foreign_by_node: ByNode = field(default_factory=ByNode)
    tasks_by_node: ByNode = field(default_factory=ByNode)
    untracked_by_node: ByNode = field(default_factory=ByNode)

    applications: dict[AppId, Application] = field(default_factory=dict)
    #: Gangs that no cluster of these nodes could hold, until there are other nodes.
    unsatisfiable: set[AppId] = field(default_factory=set)
    tasks: dict[PodUid, Task] = field(default_factory=dict)
    #: Pods of ours that only take room until they are gone: they have no application in this session.
    untracked_pods: dict[PodUid, ForeignAllocation] = field(default_factory=dict)
    #: Pods on nodes that have not been seen, or that the core has not taken in.
    awaiting_node: dict[NodeName, set[PodUid]] = field(default_factory=dict)
    #: By namespace; only those where something is to be created.
    creations: dict[str, NamespaceCreations] = field(default_factory=dict)
    #: Submissions that were removed before the core answered them.
    unanswered: dict[AppId, int] = field(default_factory=dict)
    #: Writes that are to be ordered again, by pod.
    pending_writes: dict[PodUid, list[FailPod | MarkResumed]] = field(default_factory=dict)
    deadlines: list[tuple[float, int, Deadline]] = field(default_factory=list)
    deadline_count: int = 0
    postponed: list[ClusterEvent | CoreResponse | Result] = field(default_factory=list)

    def forget_deletion(self, uid: PodUid) -> None:
        """The pod that is being released is gone."""
        deletion = self.deletions.pop(uid, None)
        if deletion is not None:
            self.deleting.discard((deletion.pod.namespace, deletion.pod.name))


def set_timer(ledger: Ledger, deadline: Deadline) -> None:
    """Put it on the heap; nothing is ever taken off before its time, a subject that is gone is skipped then."""
    ledger.deadline_count += 1
    heapq.heappush(ledger.deadlines, (deadline.due, ledger.deadline_count, deadline))


def next_due(ledger: Ledger) -> float | None:
    """When ``remind`` has something to do next, in the clock of ``now``; None = nothing, or no session."""
    return ledger.deadlines[0][0] if ledger.deadlines and ledger.phase is Phase.LIVE else None


def due(ledger: Ledger, now: float) -> Deadline | None:
    """Take the next one off the heap whose time has come, None = there is none."""
    if not ledger.deadlines or ledger.deadlines[0][0] > now:
        return None
    return heapq.heappop(ledger.deadlines)[2]


def recount(task: Task) -> None:
    """To be called whenever `held`, `release`, the state or the task group of a task may have changed."""
    group = task.pod.membership.task_group if holds_slot(task) else None
    if group == task.counted:
        return
    if task.counted is not None:
        task.counts[task.counted] -= 1
    if group is not None:
        task.counts[group] = task.counts.get(group, 0) + 1
    task.counted = group


def holds_slot(task: Task) -> bool:
    """Whether it is a member's place that stays one: also a placeholder that goes for its member."""
    is_swapped = task.release is TerminationType.PLACEHOLDER_REPLACED
    return task.held and (is_swapped or (task.release is None and task.state is not TaskState.KILLING))


#: Seconds after which an application is submitted without a word of its namespace. The streams are milliseconds
#: apart; this is for one that is cut.
WAIT_S: Final = 5.0


def is_namespace_ready(ledger: Ledger, name: str) -> bool:
    """Whether it was seen. One that is leaving may be the last of that name: its successor is still to be seen."""
    namespace = ledger.namespaces.get(name)
    return namespace is not None and not namespace.terminating


def is_namespace_known(ledger: Ledger, name: str) -> bool:
    """Whether its labels are: they decide which other pods mind those in it."""
    return name in ledger.namespaces


def is_namespace_terminating(ledger: Ledger, name: str) -> bool:
    """Whether it is being deleted: nothing can be created in it any more."""
    namespace = ledger.namespaces.get(name)
    return namespace is not None and namespace.terminating
