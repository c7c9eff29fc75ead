"""Pods and gang definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec import field as msgspec_field

from muster_operator.model.devices import PodClaim
from muster_operator.model.ids import NO_NODE, AppId, NodeName, PodUid, Resources, TextEnum
from muster_operator.model.pod_groups import PodGroup
from muster_si import keys


class PodPhase(TextEnum):
    """``status.phase``. A missing or unknown phase counts as Pending."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


#: A pod in one of these phases holds no resources.
ENDED_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class PodRef(Struct, frozen=True, gc=False):
    """Identifies a pod. The UID is the precondition of writes, so that they affect the same pod."""

    namespace: str
    name: str
    uid: PodUid


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user of an application, as in YuniKorn."""

    user: str = "nobody"
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GangSource:
    """The two annotations that define a gang, as written and as in YuniKorn. Empty text means absent.

    They are parsed when the pod creates its application. ``problem``: why a text that is too long was not kept.
    """

    task_groups: str = ""
    parameters: str = ""
    problem: str = ""

    @property
    def is_written(self) -> bool:
        """Whether the pod has task groups, valid or not."""
        return bool(self.task_groups.strip() or self.problem)


@dataclass(frozen=True, slots=True)
class PodGroupSource(GangSource):
    """The gang of a PodGroup: its name, which is also that of its task group, and the members that start together.

    ``title``: its name in messages. ``topology``: the node label that all members must have the same value of; empty =
    none. ``gangs``: names and minima of the task groups, if there are several.
    """

    name: str = ""
    min_count: int = 0
    title: str = ""
    topology: str = ""
    gangs: tuple[tuple[str, int], ...] = ()

    @property
    def is_written(self) -> bool:
        """Always: a PodGroup with the policy basic is no gang, and has no source."""
        return True


class Condition(Struct, frozen=True, gc=False):
    """The pod's condition PodScheduled=False. See docs/internals/semantics.md, 28.

    ``nominated_node``: ``status.nominatedNodeName``, which is written together with it; empty = none. Only the core
    decides it. A value in the status is compared with what the core reports, and has no other effect.
    """

    reason: str
    message: str
    nominated_node: NodeName = NO_NODE


@dataclass(frozen=True, slots=True)
class PlaceholderClaim:
    """The claim of a pod to be a placeholder of Muster: its owner, and the requests that were signed.

    ``other_requests``: the actual requests if they differ, for example because of a webhook.
    """

    owner: PodUid
    requests: str
    other_requests: str = ""


@dataclass(frozen=True, slots=True)
class Membership:
    """The application of a pod and its role, as in YuniKorn.

    ``marked``: the pod has the mark of placeholders, or their name and container, which users cannot remove.
    ``has_pause``: it has the container. ``claim``: it claims to be a placeholder. ``placeholder`` is true, and
    ``owner`` the originator's UID, only if the signature is valid (controller/trust.py). ``resumed``: the pod has the
    mark that its gang was given up. ``refusal``: why the pod cannot be scheduled; empty if it can. ``conflicts``:
    warnings about ignored application IDs and queues. ``user_problem``: why the user annotation is invalid.
    ``misspelt``: warnings about labels and annotations that have no effect. ``pod_group``: the PodGroup that the pod
    names; ``waits``: why its pods cannot be scheduled yet; ``written``: the membership without the PodGroup;
    ``declared``: the PodGroup, if there is no object because labels and annotations of its pods define it.
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
    misspelt: tuple[str, ...] = ()
    pod_group: str = ""
    waits: str = ""
    written: Membership | None = None
    declared: PodGroup | None = None
    #: Whether the pod may claim to be a placeholder; most pods cannot. An attribute, because it is read for each event.
    may_claim: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sets `may_claim`."""
        object.__setattr__(self, "may_claim", self.marked or self.has_pause)

    @property
    def may_mismatch(self) -> bool:
        """Whether the first pod of an application may need a warning; later pods may also differ from the first."""
        return bool(self.task_group or self.gang.is_written or self.misspelt)


class Pod(Struct, frozen=True, gc=False):
    """A pod with one of the served scheduler names.

    ``created_s``: creation time, epoch seconds. ``scheduled_at_ms``: time of the binding (PodScheduled), epoch
    milliseconds. ``allow_preemption``: None = the priority class decides. ``preempts_others`` is false for
    ``preemptionPolicy: Never``. ``tags``: those of YuniKorn, and constraints and preferences for the core. ``claims``:
    its resource claims (DRA). ``kubelet_refusal``: why the kubelet rejected the pod;
    empty if it did not. ``common``: the tags of the pod's class, as one shared object; empty if it has tags that no
    other pod has. ``seal`` and ``ordinal``: signature and ordinal of a placeholder, or the signature of a gang's
    outcome. ``binding``: signature of the binding. The signatures are not verified. ``traceparent``: trace context of
    the pod, not parsed; empty if its length is wrong. ``controller``: UID of the object that controls the pod; empty =
    none; ``controller_name``: its kind and name. ``deleted_s``: when its deletion was requested, epoch seconds; 0 =
    not, or unknown.
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
    claims: tuple[PodClaim, ...] = ()
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
    traceparent: str = ""
    controller: str = ""
    deleted_s: int = 0
    controller_name: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the pod has ended and holds no resources."""
        return self.phase in ENDED_PHASES


class ForeignPod(Struct, frozen=True, gc=False):
    """A pod of another scheduler: its resources, and its constraints for other pods.

    ``node``: its node, or the node that its scheduler makes room on (``status.nominatedNodeName``). A pod that took
    these resources would be preempted repeatedly. ``kind``: value of the ``foreign`` tag, ``default``, or ``static``
    for mirror pods of the kubelet. ``tags``: namespace, name, labels, and constraints for other pods.
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
        """Whether the pod has ended and holds no resources."""
        return self.phase in ENDED_PHASES


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """A group of equal members, as in YuniKorn.

    ``min_member`` is 0 if all members were bound before a restart and have ended, or the definition has 0.
    ``min_resource``: resources of one member in the scheduler's units, without ``pods``. ``requests``: the same as
    written, for the placeholder's body.
    ``pod_fields``: canonical JSON of the pod spec fields of the group (nodeSelector, tolerations, affinity,
    topologySpreadConstraints). ``constraints``: value of TAG_CONSTRAINTS.
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
    """The node labels that a gang is packed by, the outermost first; empty = none. ``required``: all members must have
    the same value of the first.
    """

    keys: tuple[str, ...] = ()
    required: bool = False


NO_TOPOLOGY: Final = Topology()


class Placement(StrEnum):
    """How a gang gets its reservations. See docs/internals/semantics.md, 16."""

    RESERVE = keys.PLACEMENT_RESERVE
    DIRECT = keys.PLACEMENT_DIRECT
    AUTO = keys.PLACEMENT_AUTO


@dataclass(frozen=True, slots=True)
class GangDefinition:
    """A gang as defined by its originator, with the annotations of YuniKorn.

    ``placeholder_ask``: sum of all groups, including ``pods``. Timeouts in milliseconds, 0 = the core's default.
    ``warnings``: invalid parameters and the values that are used instead.
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
    def uses_virtual_placeholders(self) -> bool:
        """Whether the core reserves without waiting for placeholder pods."""
        return self.placement is not Placement.RESERVE

    @property
    def is_auto(self) -> bool:
        """Whether absent members get placeholder pods."""
        return self.placement is Placement.AUTO

    @property
    def size(self) -> int:
        """Minimum number of members, without those that were bound before a restart and have ended. It can be 0."""
        return sum(group.min_member for group in self.groups)

    def group(self, name: str) -> TaskGroup | None:
        """The group with that name, or None."""
        return next((group for group in self.groups if group.name == name), None)


@dataclass(frozen=True, slots=True)
class PlaceholderSpec:
    """A placeholder pod to create, as in YuniKorn. Equal specs have equal names, so that no duplicate is created.

    ``nodes_request``: name of the ProvisioningRequest whose nodes the pod uses, empty = none; ``provisioning_class``:
    its class.
    """

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
    nodes_request: str = ""
    provisioning_class: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the originator."""
        return self.owner.namespace


@dataclass(frozen=True, slots=True)
class GangProblem:
    """An invalid gang definition. The message has the field, the problem and the fix."""

    message: str
