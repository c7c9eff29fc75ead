"""Pods and gang definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec import field as msgspec_field

from muster_operator.model.ids import AppId, NodeName, PodUid, Resources, TextEnum
from muster_si import keys


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
class PlaceholderClaim:
    """What a pod says that claims to be a placeholder of ours: its owner, and its requests as they were signed.

    ``other_requests``: those that the pod has, if they are others; a webhook may have changed them.
    """

    owner: PodUid
    requests: str
    other_requests: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """To which application a pod belongs and in which role (contract 1.1, 1.2).

    ``marked``: the pod has the mark of placeholders, or their name and container, which nobody can take off a pod
    (``has_pause``: it has the container); ``claim``: it claims to be one of ours; ``placeholder`` is true,
    and ``owner`` the originator's UID, only if its signature was verified (agent/trust). ``resumed``: the pod says
    that its gang was given up. ``refusal`` says why the pod cannot be scheduled at all; empty if it can.
    ``conflicts`` are the losing spellings of application id and queue, as sentences. ``user_problem``: what is wrong
    with the user.
    """

    app: AppId
    queue: str = ""
    task_group: str = ""
    placeholder: bool = False
    owner: PodUid | None = None
    marked: bool = False
    has_pause: bool = False
    claim: PlaceholderClaim | None = None
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
    resources: Resources = msgspec_field(default_factory=dict)
    priority: int = 0
    priority_class: str = ""
    allow_preemption: bool | None = None
    preempts_others: bool = True
    tags: Mapping[str, str] = msgspec_field(default_factory=dict)
    image_pull_secrets: tuple[str, ...] = ()
    condition: Condition | None = None
    kubelet_refusal: str = ""
    common: Mapping[str, str] = msgspec_field(default_factory=dict)
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
    tags: Mapping[str, str] = msgspec_field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether it has run to its end and holds nothing."""
        return self.phase in ENDED_PHASES


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """One group of equal members (contract 1.3).

    ``min_member`` is 0 if nothing is reserved for the group: its definition has 0, or all its members had their
    places before a restart and have ended. ``min_resource`` is one member in
    the scheduler's units without its pod; ``requests`` the same as written, for the placeholder's body.
    ``pod_fields`` is the canonical JSON of the pod spec fields that the group sets (nodeSelector, tolerations,
    affinity, topologySpreadConstraints); ``constraints`` the hard ones in the form of TAG_CONSTRAINTS.
    """

    name: str
    min_member: int
    min_resource: Resources
    requests: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_fields: str = "{}"
    constraints: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """The node label by whose values a gang is packed; empty = by none. ``required``: it may be in one value only."""

    key: str = ""
    required: bool = False


NO_TOPOLOGY: Final = Topology()


class Placement(StrEnum):
    """How a gang gets its places (semantics 16)."""

    RESERVE = keys.PLACEMENT_RESERVE
    ATOMIC = keys.PLACEMENT_ATOMIC
    DIRECT = keys.PLACEMENT_DIRECT


@dataclass(frozen=True, slots=True)
class GangDefinition:
    """A gang as its originator defines it (contract 1.3, 1.4).

    ``placeholder_ask`` is the sum over the groups, pods included. Time-outs are milliseconds, 0 = the core's default;
    ``warnings`` are parameters that could not be read and what was taken instead.
    """

    groups: tuple[TaskGroup, ...]
    placeholder_ask: Resources
    style: str
    placeholder_timeout_ms: int = 0
    wait_timeout_ms: int = 0
    topology: Topology = NO_TOPOLOGY
    placement: Placement = Placement.RESERVE
    warnings: tuple[str, ...] = ()

    @property
    def is_direct(self) -> bool:
        """Whether the core holds its places itself, without placeholder pods."""
        return self.placement is Placement.DIRECT

    @property
    def size(self) -> int:
        """How many members it has at least; those who had their places before a restart, and have ended, no more."""
        return sum(group.min_member for group in self.groups)

    def group(self, name: str) -> TaskGroup | None:
        """The group of that name, if there is one."""
        return next((group for group in self.groups if group.name == name), None)


@dataclass(frozen=True, slots=True)
class PlaceholderSpec:
    """One placeholder pod to create (contract 1.8). Equal specs make equal names, so a repeated create is seen."""

    name: str
    app: AppId
    queue: str
    group: TaskGroup
    owner: PodRef
    scheduler_name: str
    priority_class: str
    image_pull_secrets: tuple[str, ...]
    source: GangSource
    ordinal: int = 0
    signature: str = ""

    @property
    def namespace(self) -> str:
        """A placeholder lives beside its originator."""
        return self.owner.namespace


@dataclass(frozen=True, slots=True)
class GangProblem:
    """A definition that cannot be used: the field, what is wrong with it and the fix, as one sentence for the user."""

    message: str
