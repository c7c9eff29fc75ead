"""The state of the controller: the objects in Kubernetes and what was reported to the core.

Only the task in `runtime/loop` changes it. It is rebuilt from lists after a restart; nothing is stored on disk. Times
are seconds of a monotonic clock unless the name has another unit.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from msgspec import Struct

from muster_operator.controller.group_members import GroupMembers
from muster_operator.controller.storage_state import ClaimWait, Devices, Storage
from muster_operator.model.cluster_events import ClusterEvent, Namespace
from muster_operator.model.commands import FailPod, MarkResumed, ReserveClaim, Result
from muster_operator.model.core_messages import AllocationSpec, ApplicationRemoved, CoreResponse, Node, TerminationType
from muster_operator.model.event_texts import Note
from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, PodUid, application_name, run_id
from muster_operator.model.pod_groups import PodGroup
from muster_operator.model.pods import (
    Condition,
    ForeignPod,
    GangDefinition,
    GangSource,
    Membership,
    Pod,
    PodRef,
    TaskGroup,
    UserInfo,
)
from muster_operator.model.settings import Settings
from muster_operator.model.signing import SigningKeys
from muster_operator.model.states import AppState, TaskState
from muster_operator.model.storage import ClusterObject, ObjectKind
from muster_operator.translate.present_members import PresentMembers


class ByNode:
    """Pods by the node that they are bound or assigned to, in order of insertion."""

    def __init__(self) -> None:
        self._uids: dict[NodeName, dict[PodUid, None]] = {}

    def __len__(self) -> int:
        return len(self._uids)

    def on(self, node: NodeName) -> tuple[PodUid, ...]:
        """Returns the pods of a node."""
        return tuple(self._uids.get(node, ()))

    def add(self, uid: PodUid, node: NodeName | None) -> None:
        """Adds the pod to the node. Without a node it does nothing."""
        if node is None:
            return
        there = self._uids.get(node)
        if there is None:
            there = self._uids[node] = {}
        there[uid] = None

    def remove(self, uid: PodUid, *nodes: NodeName | None) -> None:
        """Removes the pod from these nodes."""
        for node in nodes:
            there = self._uids.get(node) if node is not None else None
            if node is not None and there is not None:
                there.pop(uid, None)
                if not there:
                    del self._uids[node]

    def clear(self) -> None:
        """Removes all pods."""
        self._uids.clear()


class Phase(Enum):
    """State of the session with the core."""

    GATHERING = "no session: events only update the state"
    RECOVERING = "recovery: events and responses are postponed"
    LIVE = "events become requests, responses become commands"


class Task(Struct, gc=False):
    """One pod of this scheduler, from its creation to its end.

    ``asked`` and ``held``: the core has a request or an allocation of the pod, which must be released at its end.
    ``is_early``: it was requested before the core's acceptance of the application was received; cleared when the core
    rejects or cancels the request, or allocates a node. ``is_outdated``: the pod has changed since that request, and is
    requested again after the acceptance. ``release``: the core's order to release it, to be confirmed with the same
    type. ``reported_condition``: what was written last, as the ``writes``-th one. ``checked_at``: time of the timer for
    the next condition. ``reason_kind``: kind of the reason in ``shortage`` (``muster_si.keys.REASON_*``).
    """

    pod: Pod
    app: AppId
    state: TaskState = TaskState.NEW
    asked: bool = False
    is_early: bool = False
    is_outdated: bool = False
    held: bool = False
    node: NodeName | None = None
    allocation_id: AllocationId = NO_ALLOCATION_ID
    release: TerminationType | None = None
    waits_since: float | None = None
    shortage: Condition | None = None
    reason_kind: str = ""
    reported_condition: Condition | None = None
    reported_at: float = 0.0
    writes: int = 0
    checked_at: float = 0.0
    #: Event messages of the core about the pod, without numbers, and their times.
    posted: tuple[tuple[str, float], ...] = ()
    avoid: tuple[NodeName, ...] = ()
    binds: int = 0
    #: Set while claims of the pod are being bound; the pod is bound after them.
    claim_wait: ClaimWait | None = None
    #: Reservations of ResourceClaims that were written; undone if the pod is not bound.
    reservations: tuple[ReserveClaim, ...] = ()
    #: ``Application.member_counts`` of its application, and the task group that it counts for.
    counts: dict[str, int] = {}
    counted: str | None = None
    #: Where it is in ``Application.living``.
    living_in: str | None = None
    #: The pod's UID, which is also the allocation key. It is read very often.
    uid: PodUid = PodUid("")

    def __post_init__(self) -> None:
        """Copies the UID from the pod."""
        self.uid = self.pod.ref.uid


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """Nodes that the replacement of a pod avoids until a time, because a kubelet rejected the pod."""

    nodes: tuple[NodeName, ...]
    until: float


@dataclass(frozen=True, slots=True)
class KeptSlot:
    """A reserved slot of a running gang without a pod. The core has it as this placeholder (`rejections`)."""

    app: AppId
    group: str
    node: NodeName
    known: AllocationSpec
    until: float


class SlotState(Enum):
    """State of the placeholder of one member."""

    ORDERED = "its creation is queued or in flight"
    CREATED = "created, or possibly created; not seen on the watch yet"
    LATE = "created, and not seen for longer than expected"
    SEEN = "seen on the watch; it has a task"


@dataclass(slots=True)
class Slot:
    """One member of a gang that needs a placeholder.

    ``avoid``: nodes whose kubelet rejected earlier placeholders. ``is_taken``: the name exists in the API server, which
    may be a pod of another user.
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
    """Pending creations of placeholders of one application (`placeholders`).

    ``missing``: members per task group without a slot. ``ordinals``: per task group, the next ordinal to try.
    ``again``: names of slots to create again. ``open``: names whose creation was sent and not answered.
    """

    missing: dict[str, int] = field(default_factory=dict)
    ordinals: dict[str, int] = field(default_factory=dict)
    again: deque[str] = field(default_factory=deque)
    open: set[str] = field(default_factory=set)

    @property
    def are_waiting(self) -> bool:
        """Whether a creation has not been sent yet."""
        return bool(self.missing or self.again)


@dataclass(slots=True)
class MemberWait:
    """A wait until the members of a gang do not change.

    ``first``, ``last``: times of its first and last change. ``due``: when its timer expires. ``pods``: in
    `Ledger.newcomers`, the pods that wait.
    """

    first: float
    last: float
    due: float
    pods: dict[PodUid, None] = field(default_factory=dict)


@dataclass(slots=True)
class NamespaceCreations:
    """Creations of a namespace: the number of unanswered ones, and applications with more, in round-robin order."""

    open: int = 0
    waiting: dict[AppId, None] = field(default_factory=dict)


@dataclass(slots=True)
class GangReport:
    """Why a gang waits for its reservation, and what was reported of it (`reporting`, `conditions`).

    ``shortage``: the reason that is shown; ``kind``: the core's kind of it (``muster_si.keys.REASON_*``).
    ``shortages``: both per task group, if the core reserves without placeholder pods. ``impossible``: why the gang
    could not fit even on empty nodes. ``shown_kinds``: kinds in the conditions of its members, in order, with the
    times. ``last_kind``, ``reached``: the kind, and the number of placeholders seen and bound, at the last check.
    ``check_pause``: seconds between two checks.
    """

    shortage: Condition | None = None
    kind: str = ""
    shortages: dict[str, tuple[Condition, str]] = field(default_factory=dict)
    impossible: Condition | None = None
    shown_kinds: dict[str, float] = field(default_factory=dict)
    last_kind: str = ""
    reached: tuple[int, int] = (0, 0)
    check_pause: float = 0.0


@dataclass(slots=True)
class Application:
    """One run of an application in the current session.

    ``id``: its ID in the core. ``common_id``: the ID on the pods, which users see. ``run_key``: its key in
    `Ledger.runs`. ``controllers``: number of members by the UID of their controller. ``namespace_uid``: UID of its
    namespace, empty while that is unknown. ``is_closed``: its namespace is gone, so that it takes no more pods.
    ``slots``: placeholders by name while the gang reserves; ``open_slots`` are not bound yet. ``failure``: reason and
    message for pods that have to fail. ``core_has_begun``: the core has reported a state after acceptance. ``is_over``:
    the core has removed the application. ``is_our_end``: the operator ends it and has to remove it from the core.
    ``asks_early``: its first pod may be requested before the core accepts it, and no other pod has been requested.
    ``submission``: which submission of the session it was. ``user``, ``namespace``: those of the first pod.
    """

    id: AppId
    common_id: AppId
    originator: Pod
    queue: str
    source: GangSource
    gang: GangDefinition | None
    created_s: int
    run_key: AppId
    controllers: Counter[str] = field(default_factory=Counter)
    state: AppState = AppState.NEW
    members: dict[PodUid, Task] = field(default_factory=dict)
    #: Heap of members by creation time, then arrival. It can contain ended members (applications.oldest).
    ages: list[tuple[int, int, PodUid]] = field(default_factory=list)
    arrivals: int = 0
    placeholders: dict[PodUid, Task] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    open_slots: set[str] = field(default_factory=set)
    creations: Creations = field(default_factory=Creations)
    placeholder_names: set[str] = field(default_factory=set)
    #: For a Reserve gang: what its waiting members have in common, by task group (`placeholders.member_seen`);
    #: the wait before its placeholders are compared with that, and how often some of them were replaced.
    present: dict[str, PresentMembers] = field(default_factory=dict)
    follow_wait: MemberWait | None = None
    follow_rounds: int = 0
    #: For an Auto gang (`absent_members`): by task group, the slots that members or timeouts have used, and the slots
    #: that get no pod because a kubelet rejected one; task groups whose unused slots have timed out; the current wait
    #: for members; whether placeholder pods cannot be created.
    used_slots: dict[str, int] = field(default_factory=dict)
    rejected_slots: dict[str, int] = field(default_factory=dict)
    timed_out_groups: set[str] = field(default_factory=set)
    member_wait: MemberWait | None = None
    has_virtual_slots_only: bool = False
    #: When placeholder pods are tried again after that, and how often they failed since one was bound.
    pods_again_at: float = 0.0
    pod_failures: int = 0
    #: When created placeholders that were not seen are created again; the time of the last timer.
    creations_checked_at: float = 0.0
    #: For `missing_members`: when a member last appeared or ended, and when that is checked; the task groups that have
    #: had a member; the succeeded members that the gang does not wait for, by task group; what was reported.
    changed_at: float = 0.0
    missing_due: float = 0.0
    groups_seen: set[str] = field(default_factory=set)
    succeeded: Mapping[str, int] = field(default_factory=dict)
    members_missing: str = ""
    #: Members that have not ended, are valid and are not being deleted, by task group (`runs.index_living`).
    living: dict[str, dict[PodUid, Task]] = field(default_factory=dict)
    #: Pods that hold a member's slot, by task group (see `recount`).
    member_counts: dict[str, int] = field(default_factory=dict)
    #: Whether a pod had resource claims. For such a gang (`gang_start`): whether it started, and the members that can
    #: be bound, by task group.
    has_devices: bool = False
    has_started: bool = False
    ready: dict[str, dict[PodUid, Task]] = field(default_factory=dict)
    core_has_begun: bool = False
    core_is_running: bool = False
    is_over: bool = False
    is_our_end: bool = False
    asks_early: bool = False
    submission: int = 0
    #: Whether the gang has a ProvisioningRequest, None = unknown; the problem that was posted last (`provisioning`).
    has_nodes_request: bool | None = None
    nodes_problem: str = ""
    failure: Note | None = None
    user: UserInfo = field(default_factory=UserInfo)
    namespace: str = ""
    namespace_uid: str = ""
    is_closed: bool = False
    #: Why the task groups of the originator are ignored; empty = they are not.
    gang_problem: str = ""
    #: Reported differences between pods and the application.
    mismatches: set[str] = field(default_factory=set)
    #: Membership and namespace that were compared last. The next pod mostly has the same, and is not compared again.
    examined: tuple[Membership, str] | None = None
    report: GangReport = field(default_factory=GangReport)
    #: By task group: nodes of rejected pods that have no replacement yet, oldest first.
    refusals: dict[str, deque[NodeRefusals]] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        """How many placeholders it waits for, those to be created too."""
        return len(self.slots) + sum(self.creations.missing.values())

    def effective(self, group: TaskGroup) -> TaskGroup:
        """The task group as its placeholders are created: with what its present members request beyond it."""
        present = self.present.get(group.name)
        return group if present is None else present.applied_to(group)

    def partner(self, task: Task) -> Task | None:
        """The waiting member that the placeholder is planned like, or None."""
        present = self.present.get(task.pod.membership.task_group)
        member = present.member_like(task.uid) if present is not None else None
        return self.members.get(member) if member is not None else None

    @property
    def name(self) -> str:
        """The application ID without namespace, as written on the pods. It is the same for all runs."""
        return application_name(self.id)


class EndedMember(Struct, frozen=True, gc=False):
    """A member of a task group that was bound and has ended (`runs`).

    ``app``: the application ID on the pod. ``controller``: UID of the pod's controller. ``bound_ms``: when it was
    bound, epoch milliseconds.
    """

    app: AppId
    group: str
    controller: str
    created_s: int
    bound_ms: int
    has_succeeded: bool


@dataclass(slots=True)
class ForeignAllocation:
    """A pod that only uses resources of its node. ``reported_pod``: the pod as last reported to the core."""

    pod: ForeignPod
    reported: bool = False
    reported_pod: ForeignPod | None = None


@dataclass(slots=True)
class Deletion:
    """A pod that was deleted and still exists. ``force``: without waiting until its container has ended."""

    pod: PodRef
    reason: str
    placeholder: bool
    force: bool = False
    tries: int = 1
    is_reported: bool = False
    answered: float | None = None
    """When the API server answered the last delete; None: it is queued or in flight."""
    confirmed_at: float | None = None
    """When it answered the first delete. From then on the deletion does not wait for the write queue."""


class TimerKind(Enum):
    """What to check when a timer expires."""

    WAITING = "the condition of a pod that waits"
    WRITE = "a failed write to a pod"
    DELETION = "a pod that is being deleted"
    AVOIDANCE = "the end of the time for which a pod avoids a node"
    CREATIONS = "created placeholders that were not seen"
    GANG = "the progress of a gang that reserves"
    NAMESPACE = "an application that waits for its namespace, or for that of a pod"
    REJECTED = "a rejected application with bound pods"
    PLACE = "a slot that is reserved for the replacement of a rejected pod"
    VOLUMES = "the claims of a pod with a chosen node"
    CLAIM = "a resource claim whose devices failed"
    START = "a gang with devices that has not started"
    DEVICES = "a pod whose resource claims do not exist yet"
    CLAIMS = "pods with a resource claim that is another one now"
    MEMBERS = "the members of an Auto gang that are still absent"
    MISSING = "the members of a waiting gang that nothing creates"
    FOLLOW = "placeholders of a Reserve gang whose members have changed"
    POD_GROUP = "pods of a PodGroup that cannot be scheduled yet"
    NEWCOMERS = "pods of a controller that has no other pods in their application"
    RECOVERY = "all objects, after the handling of one failed"
    SWEEP = "everything in a short-lived state"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A timer.

    ``subject``: UID of a pod; application ID for CREATIONS, FOLLOW, GANG, MEMBERS, MISSING, NAMESPACE, REJECTED and
    START; key of a run for NEWCOMERS; ``namespace/name`` for CLAIM and POD_GROUP; allocation key for PLACE; empty for
    CLAIMS, RECOVERY and SWEEP.
    """

    due: float
    kind: TimerKind
    subject: PodUid | AppId


@dataclass(slots=True)
class Ledger:
    """The complete state of the controller. Created empty and filled by `cluster_events`."""

    settings: Settings = field(default_factory=Settings)
    phase: Phase = Phase.GATHERING
    #: Milliseconds to add to times of the API server to convert them to the local clock, per session.
    clock_ahead_ms: int = 0
    #: Seconds to add to ``now`` to convert it to epoch time, per session.
    epoch_s: float = 0.0
    #: Without keys no signature is valid, and no placeholder is created.
    keys: SigningKeys | None = None
    #: Pods that claim to be placeholders, with a signature of an unknown key.
    unverified: set[PodUid] = field(default_factory=set)

    pods: dict[PodUid, Pod] = field(default_factory=dict)
    #: Ended members whose pods still exist, and their UIDs by the application ID on the pods and controller.
    ended: dict[PodUid, EndedMember] = field(default_factory=dict)
    ended_of: dict[AppId, dict[str, set[PodUid]]] = field(default_factory=dict)
    foreign: dict[PodUid, ForeignAllocation] = field(default_factory=dict)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    #: Nodes created while a session was live: creations sent to the core minus answers.
    unacknowledged_nodes: dict[NodeName, int] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    priority_classes: dict[str, bool] = field(default_factory=dict)
    #: By ``namespace/name``: PodGroups, and the pods that name one.
    pod_groups: dict[str, PodGroup] = field(default_factory=dict)
    group_members: dict[str, GroupMembers] = field(default_factory=dict)
    #: The PodGroups that each gang of Koordinator, ``namespace/name``, is in. More than one is a contradiction.
    groups_of_gang: dict[str, dict[str, None]] = field(default_factory=dict)
    #: PodGroups whose gangs another one has since their last comparison, or has no more.
    contested_groups: dict[str, None] = field(default_factory=dict)
    #: The PodGroup of each pod that names one and still exists.
    group_of: dict[PodUid, str] = field(default_factory=dict)
    #: Other objects that the core's filters need, as reported to the core.
    objects: dict[tuple[ObjectKind, str], ClusterObject] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    devices: Devices = field(default_factory=Devices)
    #: Originators whose Soft gang was given up. Needed until the annotation is written.
    resumed: set[PodUid] = field(default_factory=set)
    #: Pods with an event that is posted only once.
    noticed: set[PodUid] = field(default_factory=set)
    #: Namespace and text of each warning that its applications share, and when it was posted.
    reported_in_namespace: dict[tuple[str, str], float] = field(default_factory=dict)
    #: The ignored labels and annotations that were reported, by pod.
    ignored: dict[PodUid, list[str]] = field(default_factory=dict)
    deletions: dict[PodUid, Deletion] = field(default_factory=dict)
    #: Namespace and name of the pods in `deletions`.
    deleting: set[tuple[str, str]] = field(default_factory=set)
    #: By allocation key. They outlive a session, because no object in Kubernetes represents them.
    places: dict[PodUid, KeptSlot] = field(default_factory=dict)
    #: Keys of `places`, by application and task group.
    places_of: dict[AppId, dict[str, set[PodUid]]] = field(default_factory=dict)
    #: Indexes by node: foreign pods; tasks, by the assigned node and by the node in the API; untracked pods.
    foreign_by_node: ByNode = field(default_factory=ByNode)
    tasks_by_node: ByNode = field(default_factory=ByNode)
    untracked_by_node: ByNode = field(default_factory=ByNode)

    #: All runs by ID in the core; those that new pods join, by the ID on the pods, or that and their controller
    #: (`runs.key_of`); pods that may be a run of their own, by the same keys; number of runs with an ID of their own in
    #: the core.
    applications: dict[AppId, Application] = field(default_factory=dict)
    runs: dict[AppId, Application] = field(default_factory=dict)
    newcomers: dict[AppId, MemberWait] = field(default_factory=dict)
    runs_numbered: int = 0
    #: During recovery, the runs of the earlier session: their keys and IDs by key and by `runs.key_of` their pods.
    earlier_runs: dict[AppId, tuple[AppId, AppId]] = field(default_factory=dict)
    #: Gangs that do not fit even on empty nodes. Cleared when nodes change.
    unsatisfiable: set[AppId] = field(default_factory=set)
    tasks: dict[PodUid, Task] = field(default_factory=dict)
    #: Pods of this scheduler without an application in this session. They only use resources of their node.
    untracked_pods: dict[PodUid, ForeignAllocation] = field(default_factory=dict)
    #: Pods on nodes that are unknown or not yet accepted by the core.
    awaiting_node: dict[NodeName, set[PodUid]] = field(default_factory=dict)
    #: By namespace; only namespaces with pending creations.
    creations: dict[str, NamespaceCreations] = field(default_factory=dict)
    #: Number of submitted applications. Removed applications that messages of the core can still mention, oldest first,
    #: each with the number of submissions before its removal.
    submissions: int = 0
    retired: dict[AppId, int] = field(default_factory=dict)
    #: Writes to send again, by pod.
    pending_writes: dict[PodUid, list[FailPod | MarkResumed]] = field(default_factory=dict)
    #: Objects whose handling raised an exception in this session (`isolation`); each is reported once.
    failed: set[str] = field(default_factory=set)
    #: Time of the recovery that follows because of them; None = no recovery follows. `is_suspect`: now.
    recovery_at: float | None = None
    is_suspect: bool = False
    #: By object, the number of recoveries that its failures caused, and the time of the last one.
    recoveries: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: What was in a short-lived state at the last sweep, and in which (`sweep`).
    short_lived: dict[tuple[str, ...], object] = field(default_factory=dict)
    #: Heap of timers with the objects that they belong to, see `set_timer`.
    deadlines: list[tuple[float, int, Deadline, object]] = field(default_factory=list)
    deadline_count: int = 0
    postponed: list[ClusterEvent | CoreResponse | Result] = field(default_factory=list)

    def forget_deletion(self, uid: PodUid) -> None:
        """Removes the record of a deletion, because the pod is gone."""
        deletion = self.deletions.pop(uid, None)
        if deletion is not None:
            self.deleting.discard((deletion.pod.namespace, deletion.pod.name))

    def add_application(self, app: Application, *, is_over: bool = False) -> None:
        """Adds a run. ``is_over``: new pods do not join it, because a later run has begun."""
        self.applications[app.id] = app
        if not is_over:
            self.runs[app.run_key] = app

    def is_current(self, app: Application) -> bool:
        """Whether new pods with its ID join the application. False if a later run has begun."""
        return self.runs.get(app.run_key) is app

    def drop_application(self, app: Application) -> None:
        """Removes a run."""
        if self.is_current(app):
            del self.runs[app.run_key]
        self.applications.pop(app.id, None)
        self.unsatisfiable.discard(app.id)

    def removal_of(self, app: AppId) -> ApplicationRemoved:
        """Records that the operator removes an application, and returns the message."""
        self.retired.pop(app, None)
        self.retired[app] = self.submissions
        return ApplicationRemoved(app)

    def submission_answered(self, number: int) -> None:
        """Forgets removals that the core has processed, because it answered an application that was submitted later."""
        while self.retired and next(iter(self.retired.values())) < number:
            del self.retired[next(iter(self.retired))]


def set_timer(ledger: Ledger, deadline: Deadline) -> None:
    """Sets a timer of an object. It ends with the object, also if another object with the same ID follows."""
    ledger.deadline_count += 1
    heapq.heappush(ledger.deadlines, (deadline.due, ledger.deadline_count, deadline, _owner(ledger, deadline)))


def _owner(ledger: Ledger, deadline: Deadline) -> object:
    """The object that the timer belongs to; None = it does not exist."""
    uid = PodUid(deadline.subject)
    match deadline.kind:
        case TimerKind.WAITING | TimerKind.AVOIDANCE | TimerKind.VOLUMES:
            return ledger.tasks.get(uid)
        case TimerKind.DELETION:
            return ledger.deletions.get(uid)
        case TimerKind.CLAIM:
            return ledger.devices.failures.get(deadline.subject)
        case TimerKind.DEVICES:
            return ledger.devices.held.get(uid)
        case TimerKind.WRITE:
            return ledger.pending_writes.get(uid)
        case TimerKind.PLACE:
            return ledger.places.get(uid)
        case TimerKind.NEWCOMERS:
            return ledger.newcomers.get(AppId(deadline.subject))
        case TimerKind.POD_GROUP:
            return ledger.group_members.get(deadline.subject)
        case TimerKind.SWEEP | TimerKind.RECOVERY | TimerKind.CLAIMS:
            return deadline.kind  # it belongs to the session
        case _:
            return ledger.applications.get(AppId(deadline.subject))


#: Seconds between two sweeps.
SWEEP_S: Final = 60.0


def sweep_later(ledger: Ledger, now: float) -> None:
    """Sets the timer of the next sweep. The first one is set when a session is live."""
    set_timer(ledger, Deadline(now + SWEEP_S, TimerKind.SWEEP, PodUid("")))


def next_due(ledger: Ledger) -> float | None:
    """Time of the next timer on the clock of ``now``. None if there is no timer or no live session."""
    return ledger.deadlines[0][0] if ledger.deadlines and ledger.phase is Phase.LIVE else None


def due(ledger: Ledger, now: float) -> Deadline | None:
    """Removes and returns the next expired timer whose object still exists. Returns None if there is none."""
    while ledger.deadlines and ledger.deadlines[0][0] <= now:
        _, _, deadline, owner = heapq.heappop(ledger.deadlines)
        if owner is not None and _owner(ledger, deadline) is owner:
            return deadline
    return None


_KILLING: Final = TaskState.KILLING
_REPLACED: Final = TerminationType.PLACEHOLDER_REPLACED


def recount(task: Task) -> None:
    """Updates the member counts. Call it after `held`, `release`, the state or the task group of a task changes."""
    group = task.pod.membership.task_group if holds_slot(task) else None
    if group == task.counted:
        return
    if task.counted is not None:
        task.counts[task.counted] -= 1
    if group is not None:
        task.counts[group] = task.counts.get(group, 0) + 1
    task.counted = group


def holds_slot(task: Task) -> bool:
    """Whether the task holds a member's slot. True also for a placeholder that is being replaced by its member."""
    if task.held and task.release is None:
        return task.state is not _KILLING
    return task.held and task.release is _REPLACED


#: Seconds after which an application is submitted although its namespace has not been seen. Watches are normally
#: milliseconds apart; the timeout matters if one is interrupted.
WAIT_S: Final = 5.0


def is_namespace_ready(ledger: Ledger, name: str) -> bool:
    """Whether the namespace was seen and is not terminating. After a termination a new one of that name can follow."""
    namespace = ledger.namespaces.get(name)
    return namespace is not None and not namespace.terminating


def is_namespace_known(ledger: Ledger, name: str) -> bool:
    """Whether the namespace's labels are known. Namespace selectors of other pods need them."""
    return name in ledger.namespaces


def is_namespace_terminating(ledger: Ledger, name: str) -> bool:
    """Whether the namespace is being deleted, so that nothing can be created in it."""
    namespace = ledger.namespaces.get(name)
    return namespace is not None and namespace.terminating


def identity(ledger: Ledger, common_id: AppId) -> AppId:
    """The ID of a new run in the core: the ID of the pods, unless messages about an earlier run can still arrive."""
    is_used = common_id in ledger.applications or common_id in ledger.retired
    return numbered(ledger, common_id) if is_used else common_id


def numbered(ledger: Ledger, common_id: AppId) -> AppId:
    """An ID for a run that no other run has."""
    ledger.runs_numbered += 1
    return run_id(common_id, ledger.runs_numbered)


def namespace_uid(ledger: Ledger, name: str) -> str:
    """The UID of the namespace; empty = it is unknown, or terminating so that another one follows."""
    return ledger.namespaces[name].uid if is_namespace_ready(ledger, name) else ""
