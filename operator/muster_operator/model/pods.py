"""A pod as the agent sees it: everything the agent decides by, and nothing raw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct, field

from muster_operator.model.enums import TextEnum
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.resources import Resources


class PodPhase(TextEnum):
    """``status.phase``; what is missing or unknown to us is Pending."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


#: A pod in one of these holds nothing any more.
ENDED_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class PodRef(Struct, frozen=True, gc=False):
    """Which pod: enough to address it and to be sure that it is still the same one (uid precondition)."""

    namespace: str
    name: str
    uid: PodUid


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who owns an application (contract 1.5)."""

    user: str = "nobody"
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GangSource:
    """The two annotations that define a gang, as written (contract 1.3, 1.4). Empty text means absent.

    They are read when the pod creates its application, so the text is kept. ``problem``: why it is not: it is too long.
    """

    task_groups: str = ""
    parameters: str = ""
    problem: str = ""

    @property
    def is_written(self) -> bool:
        """Whether the pod says anything of task groups, readable or not."""
        return bool(self.task_groups.strip() or self.problem)


class Condition(Struct, frozen=True, gc=False):
    """The pod's condition PodScheduled=False, as far as it is ours to write (semantics 28)."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What a pod says that claims to be a placeholder of ours: its owner, and its requests as they were signed."""

    owner: PodUid
    requests: str


@dataclass(frozen=True, slots=True)
class Membership:
    """To which application a pod belongs and in which role (contract 1.1, 1.2).

    ``claim``: the pod claims to be a placeholder; ``placeholder`` is true, and ``owner`` the originator's UID, only if
    its signature was verified (agent/trust). ``resumed``: the pod says that its gang was given up. ``refusal`` says why
    the pod cannot be scheduled at all; empty if it can. ``conflicts`` are the losing spellings of application id and
    queue, as sentences. ``user_problem``: what is wrong with the user.
    """

    app: AppId
    queue: str = ""
    task_group: str = ""
    placeholder: bool = False
    owner: PodUid | None = None
    claim: Claim | None = None
    gang: GangSource = GangSource()
    user: UserInfo = UserInfo()
    resumed: bool = False
    refusal: str = ""
    conflicts: tuple[str, ...] = ()
    user_problem: str = ""


class Pod(Struct, frozen=True, gc=False):
    """A pod that asks for one of our scheduler names.

    ``created_s``: creation time, epoch seconds. ``scheduled_at_ms``: since when it has its node (PodScheduled),
    epoch milliseconds. ``allow_preemption``: None = the priority class decides. ``preempts_others`` is false for
    ``preemptionPolicy: Never``. ``tags`` are those of contract 1.9 and what filters and scores read of the pod.
    ``claims``: names of its resource claims (DRA), which nobody here can satisfy. ``kubelet_refusal`` is why a kubelet
    would not start the pod; empty if it did not refuse it. ``common``: those of its tags that its whole class has, one
    object for all of them; empty if it has tags that no other has. ``seal`` and ``ordinal``: the signature and the
    ordinal of a placeholder, or the signature of a gang's outcome; ``binding``: that of the binding, all unverified.
    """

    ref: PodRef
    membership: Membership
    scheduler_name: str
    phase: PodPhase = PodPhase.PENDING
    node: NodeName | None = None
    terminating: bool = False
    created_s: int = 0
    scheduled_at_ms: int | None = None
    gates: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    resources: Resources = field(default_factory=dict)
    priority: int = 0
    priority_class: str = ""
    allow_preemption: bool | None = None
    preempts_others: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    image_pull_secrets: tuple[str, ...] = ()
    condition: Condition | None = None
    kubelet_refusal: str = ""
    common: Mapping[str, str] = field(default_factory=dict)
    seal: str = ""
    ordinal: str = ""
    binding: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it has run to its end and holds nothing."""
        return self.phase in ENDED_PHASES


class ForeignPod(Struct, frozen=True, gc=False):
    """A pod of another scheduler: what it takes from its node, and what pods near it have to mind (contract 10.10).

    ``node`` is where it is, or where its scheduler makes room for it (``status.nominatedNodeName``): who took that room
    would be preempted in turn, and again.
    ``kind`` is the value of the ``foreign`` tag: ``default``, or ``static`` for the kubelet's own mirror pods.
    ``tags``: namespace, name, labels, and what it asks of pods near it.
    """

    ref: PodRef
    node: NodeName | None
    phase: PodPhase
    resources: Resources
    kind: str
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether it has run to its end and holds nothing."""
        return self.phase in ENDED_PHASES
