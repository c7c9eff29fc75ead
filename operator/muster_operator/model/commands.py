"""Commands for Kubernetes and their results."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import astuple

from muster_operator.model.core_requests import CoreRequest
from muster_operator.model.ids import AppId, NodeName, NumberEnum
from muster_operator.model.pods import PlaceholderSpec, PodRef
from muster_operator.model.storage import ClaimRef


class CreatePlaceholder(Struct, frozen=True, gc=False):
    """Create a placeholder pod with our field manager. 409 AlreadyExists is a final answer here, not a retry."""

    spec: PlaceholderSpec


class BindPod(Struct, frozen=True, gc=False):
    """Bind a pod to a node through the binding subresource, once and never blindly again (semantics 20).

    ``signature``: written on the pod with its node (agent/trust); empty = none.
    """

    pod: PodRef
    node: NodeName
    placeholder: bool = False
    signature: str = ""


class DeletePod(Struct, frozen=True, gc=False):
    """Delete a pod with its UID as precondition; 404 and a UID conflict are success. ``reason`` is for the log.

    ``force``: with grace period 0, so that the object goes although its kubelet has not confirmed the end of the
    containers; otherwise the pod's own grace period applies.
    """

    pod: PodRef
    reason: str
    force: bool = False


class FailPod(Struct, frozen=True, gc=False):
    """Set ``status.phase=Failed`` with this reason on a pod that never got a node (contract 6.2)."""

    pod: PodRef
    reason: str
    message: str


class SetCondition(Struct, frozen=True, gc=False):
    """Set the condition PodScheduled=False with this reason (contract 6.2)."""

    pod: PodRef
    reason: str
    message: str


class MarkResumed(Struct, frozen=True, gc=False):
    """Note on the originator that the gang's reservation is over, so that a restart makes no placeholders again."""

    originator: PodRef
    signature: str = ""


class MarkDisrupted(Struct, frozen=True, gc=False):
    """Set the condition DisruptionTarget=True on a pod that is preempted, before it is deleted.

    A Job's podFailurePolicy tells a preemption from a failure of the program by it (Kubernetes, pod disruptions).
    """

    pod: PodRef
    message: str


class ClaimVolume(Struct, frozen=True, gc=False):
    """Write on a free volume that it is for this claim, as kube-scheduler does; ``undo``: that it is free again.

    A volume that is another claim's by then is refused with 409, and undone is only what has not been bound yet.
    """

    pod: PodRef
    claim: ClaimRef
    volume: str
    undo: bool = False


class SelectNode(Struct, frozen=True, gc=False):
    """Write on a claim for which node its volume is to be made; ``undo``: for none. As for ClaimVolume otherwise."""

    pod: PodRef
    claim: ClaimRef
    node: NodeName
    undo: bool = False


class Subject(StrEnum):
    """The kind of object that an event is about."""

    POD = "Pod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    CONFIG_MAP = "ConfigMap"
    LEASE = "Lease"


class EventType(StrEnum):
    """The two types that Kubernetes knows."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Importance(NumberEnum):
    """What a full event queue drops first (architecture 7)."""

    PROGRESS = 0
    RESULT = 1
    PROBLEM = 2


class PostEvent(Struct, frozen=True, gc=False):
    """A Kubernetes event (events.k8s.io/v1) that a user acts on (semantics 28).

    ``namespace`` and ``uid`` are empty for what is in no namespace. Events of equal non-empty ``series`` are one event
    whose note and count move on; an empty one stands alone. ``at``: when it happened, epoch seconds (0 = now); the
    pool notes it, for an event may wait.
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
        """Whatever the time: the same event is the same one later."""
        return isinstance(other, PostEvent) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())

    def _said(self) -> tuple[object, ...]:
        return astuple(self)[:-1]


PodCommand = BindPod | DeletePod | FailPod | SetCondition | MarkResumed | MarkDisrupted
StorageCommand = ClaimVolume | SelectNode
Command = CreatePlaceholder | PodCommand | StorageCommand | PostEvent


class CancelCreations(Struct, frozen=True, gc=False):
    """Drop the creations of this application that were ordered before and are not under way. None of them is answered.

    Nothing is written: it is for the link's own queue.
    """

    app: AppId


Order = Command | CancelCreations


class CommandSucceeded(Struct, frozen=True, gc=False):
    """The API server did it, or it was already so."""

    command: Command


class CommandFailed(Struct, frozen=True, gc=False):
    """The API server refused it for good, or the retries ran out.

    ``status`` is the HTTP status, 0 for none; ``reason`` the Status object's (``AlreadyExists``, ``Forbidden``, ...).
    """

    command: Command
    status: int
    reason: str
    message: str

    @property
    def may_pass(self) -> bool:
        """Whether the same may succeed later: others wrote at the same moment, or the server is busy or in trouble."""
        return self.status in {409, 429} or self.status >= 500


class CommandUnanswered(Struct, frozen=True, gc=False):
    """It was sent and nobody knows whether it was done. The link reads the pod and tells that fact first."""

    command: Command


Result = CommandSucceeded | CommandFailed | CommandUnanswered


class Failure(Struct, frozen=True, gc=False):
    """An object that the agent failed on and went on without. `name`: with its namespace if it has one."""

    kind: str
    name: str
    error: Exception


class Outcome(Struct):
    """Filled by the agent while it handles one input, then handed to the link whole."""

    news: list[CoreRequest] = field(default_factory=list)
    commands: list[Order] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.news or self.commands or self.failures)

    def add(self, more: Outcome) -> None:
        """What follows from something else, after this."""
        self.news += more.news
        self.commands += more.commands
        self.failures += more.failures
