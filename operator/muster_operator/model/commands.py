"""Commands for Kubernetes and their results."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import astuple

from muster_operator.model.core_messages import CoreRequest
from muster_operator.model.ids import NO_NODE, AppId, NodeName, NumberEnum
from muster_operator.model.pod_groups import GroupCondition
from muster_operator.model.pods import PlaceholderSpec, PodRef
from muster_operator.model.storage import ClaimRef


class PodSet(Struct, frozen=True, gc=False):
    """Members of a task group without a node. ``group``: index of the group in its gang."""

    group: int
    count: int
    placeholder: PlaceholderSpec


class NodesRequest(Struct, frozen=True, gc=False):
    """ProvisioningRequest for the members of a gang without a node."""

    name: str
    app: AppId
    originator: PodRef
    provisioning_class: str
    pod_sets: tuple[PodSet, ...]


class CreatePlaceholder(Struct, frozen=True, gc=False):
    """Create a placeholder pod with Muster's field manager. 409 AlreadyExists is final and not retried."""

    spec: PlaceholderSpec


class BindPod(Struct, frozen=True, gc=False):
    """Bind a pod to a node with the binding subresource. See docs/internals/semantics.md, 20.

    ``signature``: annotation that proves the binding (controller/trust.py); empty = none.
    """

    pod: PodRef
    node: NodeName
    placeholder: bool = False
    signature: str = ""


class DeletePod(Struct, frozen=True, gc=False):
    """Delete a pod with its UID as precondition. 404 and a UID conflict are success.

    ``reason``: for the log, and for the event of a pod that still exists. The texts are in ``model/problems.py``.

    ``force``: with grace period 0, so that the object is removed before the kubelet has confirmed the end of the
    containers. Otherwise the pod's own grace period applies.
    """

    pod: PodRef
    reason: str
    force: bool = False


class FailPod(Struct, frozen=True, gc=False):
    """Set ``status.phase=Failed`` with this reason on a pod that was never bound, as YuniKorn does."""

    pod: PodRef
    reason: str
    message: str


class SetCondition(Struct, frozen=True, gc=False):
    """Set the condition PodScheduled=False with this reason, as YuniKorn does.

    The same write sets ``status.nominatedNodeName``, or removes it if ``nominated_node`` is empty.
    """

    pod: PodRef
    reason: str
    message: str
    nominated_node: NodeName = NO_NODE


class SetGroupCondition(Struct, frozen=True, gc=False):
    """Set the scheduler's condition of a PodGroup, whose UID is the precondition."""

    namespace: str
    name: str
    uid: str
    generation: int
    condition: GroupCondition


class MarkResumed(Struct, frozen=True, gc=False):
    """Mark the originator of a gang that was given up, so that no placeholders are created after a restart."""

    originator: PodRef
    signature: str = ""


class MarkDisrupted(Struct, frozen=True, gc=False):
    """Set the condition DisruptionTarget=True on a pod that is preempted, before it is deleted.

    With it the podFailurePolicy of a Job distinguishes a preemption from a failure (Kubernetes, pod disruptions).
    """

    pod: PodRef
    message: str


class ClaimVolume(Struct, frozen=True, gc=False):
    """Set the claimRef of a free volume, as kube-scheduler does. ``undo``: remove it.

    A volume that has another claim in the meantime is a conflict (409). A completed binding is not undone.
    """

    pod: PodRef
    claim: ClaimRef
    volume: str
    undo: bool = False


class SelectNode(Struct, frozen=True, gc=False):
    """Set the selected node of a claim, for which its volume is provisioned. ``undo``: remove it, as in ClaimVolume."""

    pod: PodRef
    claim: ClaimRef
    node: NodeName
    undo: bool = False


class ReserveClaim(Struct, frozen=True, gc=False):
    """Reserve a ResourceClaim for the pod, and allocate it if it is not allocated yet. ``undo``: as in ClaimVolume.

    ``allocation``: JSON of ``status.allocation``, empty = the claim is allocated already. A claim that has another
    allocation in the meantime, or none, is a conflict (409). ``keeps``: an undo keeps the allocation for other pods.
    ``known``: JSON of the claim as last seen, if it has no allocation; then it is read only after a conflict.
    """

    pod: PodRef
    claim: ClaimRef
    allocation: str
    undo: bool = False
    keeps: bool = False
    known: str = ""


class CreateClaim(Struct, frozen=True, gc=False):
    """Create the ResourceClaim for extended resources of the pod, and name it in the pod's status.

    ``classes``: the DeviceClass by resource. A claim or status that is there already is kept.
    """

    pod: PodRef
    classes: tuple[tuple[str, str], ...]


class RequestNodes(Struct, frozen=True, gc=False):
    """Create the ProvisioningRequest of a gang and the PodTemplates of its task groups, or read it.

    ``is_created``: only read it. The result has the problem that the autoscaler reports.
    """

    request: NodesRequest
    is_created: bool = False


class WithdrawNodes(Struct, frozen=True, gc=False):
    """Delete the ProvisioningRequest of a gang, and then the PodTemplates of this number of task groups."""

    originator: PodRef
    name: str
    groups: int


class Subject(StrEnum):
    """The kind of object that an event is about."""

    POD = "Pod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    CONFIG_MAP = "ConfigMap"
    LEASE = "Lease"


class EventType(StrEnum):
    """The event types of Kubernetes."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Importance(NumberEnum):
    """Order in which a full event buffer drops events, lowest first."""

    PROGRESS = 0
    RESULT = 1
    PROBLEM = 2


class PostEvent(Struct, frozen=True, gc=False):
    """A Kubernetes event (events.k8s.io/v1). See docs/internals/semantics.md, 28.

    ``namespace`` and ``uid`` are empty for cluster-scoped objects. Events with the same non-empty ``series`` are one
    event, whose note and count are updated. ``at``: time of the event in epoch seconds (0 = now). The write queue sets
    it, because events can wait.
    """

    subject: Subject
    namespace: str
    name: str
    uid: str
    type: EventType
    reason: str
    action: str
    note: str
    importance: Importance = Importance.RESULT
    series: str = ""
    at: float = 0.0

    def __eq__(self, other: object) -> bool:
        """Compares all fields except the time."""
        return isinstance(other, PostEvent) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        return astuple(self)[:-1]


PodCommand = BindPod | DeletePod | FailPod | SetCondition | MarkResumed | MarkDisrupted
ClaimCommand = ClaimVolume | SelectNode | ReserveClaim
ProvisioningCommand = RequestNodes | WithdrawNodes
Creation = CreatePlaceholder | CreateClaim
Command = Creation | PodCommand | ClaimCommand | ProvisioningCommand | SetGroupCondition | PostEvent


class CancelCreations(Struct, frozen=True, gc=False):
    """Drop the creations of this application that have not started. They have no results.

    This affects only the write queue; nothing is sent.
    """

    app: AppId


class Repeat(Struct, frozen=True, gc=False):
    """Carry out a command again, unless one of its kind for the same object is queued or in flight.

    The sweep creates it (`controller/sweep`). What is carried out is a repair, which the write queue counts.
    """

    command: Command


Order = Command | CancelCreations | Repeat


class CommandSucceeded(Struct, frozen=True, gc=False):
    """The API server carried out the command, or there was nothing to do.

    ``version`` is the resource version of a written claim or volume, 0 if it is not known. ``problem``: why the nodes
    of a request are not provided; empty = no problem.
    """

    command: Command
    version: int = 0
    problem: str = ""


class CommandFailed(Struct, frozen=True, gc=False):
    """The API server rejected the command finally, or there are no attempts left.

    ``status`` is the HTTP status, 0 for none; ``reason`` that of the Status object (``AlreadyExists``, ...).
    """

    command: Command
    status: int
    reason: str
    message: str

    @property
    def may_pass(self) -> bool:
        """Whether a later attempt may succeed: after a conflict, throttling or an error of the server."""
        return self.status in {409, 429} or self.status >= 500


class CommandUnanswered(Struct, frozen=True, gc=False):
    """There was no answer, so that it is unknown whether the command was carried out. The pod is read first."""

    command: Command


Result = CommandSucceeded | CommandFailed | CommandUnanswered


class Failure(Struct, frozen=True, gc=False):
    """An object whose handling raised an exception. `name` includes its namespace if it has one."""

    kind: str
    name: str
    error: Exception


class Outcome(Struct):
    """Results of handling one input: requests to the core, commands for Kubernetes, failures."""

    requests: list[CoreRequest] = field(default_factory=list)
    commands: list[Order] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.requests or self.commands or self.failures)

    def add(self, more: Outcome) -> None:
        """Appends another outcome."""
        self.requests += more.requests
        self.commands += more.commands
        self.failures += more.failures
