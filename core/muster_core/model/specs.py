"""Specifications of applications, requests, allocations and nodes as decoded from messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster_core.model.constraints import (
    ANYWHERE,
    NO_INTER_POD_CONSTRAINTS,
    NO_TAGS,
    Constraints,
    InterPodConstraints,
    PlacementConstraint,
    Tags,
    Taint,
    Term,
)
from muster_core.model.ids import (
    NO_GROUP,
    NO_NODE,
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    TaskGroup,
    value,
    virtual_placeholder_key,
)
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.storage import NodeStorage, VolumeHandle


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that the pod takes. `ip`: 0.0.0.0 stands for every address."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a pod prefers of nodes: weighed terms (weight, term), the images of its containers, one for each, and those
    of its volumes.
    """

    terms: tuple[tuple[int, Term], ...] = ()
    images: tuple[str, ...] = ()
    volume_images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """An in-tree volume that one node may not use twice. `kind`: gce, aws, iscsi or rbd; `id` tells disks apart, of
    rbd with one of the `monitors`.
    """

    kind: str
    id: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Volumes:
    """What a pod uses: claims ("namespace/name", in its order), disks, and volumes of its own that count as attached.

    `ephemeral`: those of the claims that are made for it, with its UID; `pod`: how it is called then.
    """

    claims: tuple[str, ...] = ()
    ephemeral: tuple[tuple[str, str], ...] = ()
    disks: tuple[Disk, ...] = ()
    attached: tuple[VolumeHandle, ...] = ()
    pod: str = ""


NO_PREFERENCES: Final = Preferences()
NO_VOLUMES: Final = Volumes()


@dataclass(frozen=True, slots=True)
class PodProperties:
    """Everything of that kind. `concerns_others`: there is more in it than what the pod itself prefers of nodes."""

    inter_pod: InterPodConstraints = NO_INTER_POD_CONSTRAINTS
    ports: tuple[HostPort, ...] = ()
    volumes: Volumes = NO_VOLUMES
    preferences: Preferences = NO_PREFERENCES
    concerns_others: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: facts are looked up far more often than made."""
        concerns = bool(self.ports) or self.inter_pod != NO_INTER_POD_CONSTRAINTS or self.volumes != NO_VOLUMES
        object.__setattr__(self, "concerns_others", concerns)
        object.__setattr__(self, "_hash", hash((self.inter_pod, self.ports, self.volumes, self.preferences)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_particular(self) -> bool:
        """Whether more than nodes and their room decides where such a pod may go."""
        return bool(self.inter_pod.near or self.inter_pod.apart or self.inter_pod.spread or self.ports) or (
            self.volumes != NO_VOLUMES
        )


NO_PROPERTIES: Final = PodProperties()


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """An allocation as filters of others see it: the tags that some selector reads, and its facts."""

    tags: Tags = NO_TAGS
    facts: PodProperties = NO_PROPERTIES
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once, as above."""
        object.__setattr__(self, "_hash", hash((self.tags, self.facts)))

    def __hash__(self) -> int:
        return self._hash


NO_POD: Final = PodOnNode()
_NO_TAGS: Mapping[str, str] = MappingProxyType({})
_NO_IMAGES: Mapping[str, int] = MappingProxyType({})


class GangStyle(StrEnum):
    """Outcome of a gang's time-out while it is not yet reserved (semantics 8)."""

    SOFT = "Soft"
    HARD = "Hard"


class GangPlacement(StrEnum):
    """How a gang gets its places (semantics 16)."""

    RESERVE = "Reserve"
    ATOMIC = "Atomic"
    DIRECT = "Direct"


@dataclass(frozen=True, slots=True)
class Member:
    """A task group as the application declared it: `count` pods of this shape. `facts`: what they ask of pods near
    them, and prefer of nodes; others know them by `tags` that they all have. What is left is said of places
    without pods, which have no other pod to say it (semantics 16, Direct).
    """

    group: TaskGroup
    count: int
    resources: Resources
    constraints: Constraints = ANYWHERE
    facts: PodProperties = NO_PROPERTIES
    tags: Tags = ()
    priority: int = 0
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True


@dataclass(frozen=True, slots=True)
class Topology:
    """A gang is packed into as few values of this node label as possible; `required`: into one, or not at all."""

    key: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """What a namespace gives the leaf made on demand for its applications (contract 1.6); None = it says nothing."""

    max: Limit | None = None
    guaranteed: Resources | None = None
    #: 0 = unlimited.
    max_applications: int | None = None


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """AddApplicationRequest (seed 003). A gang has a `placeholder_ask`."""

    partition: PartitionId
    id: ApplicationId
    queue: str = ""
    user: str = "nobody"
    groups: tuple[str, ...] = ()
    #: Why the groups of the user are not known; empty = `groups` are they.
    groups_unknown: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    #: Of a gang its placeholder time-out, else the limit of its run time (semantics 2).
    timeout_ns: int = 0
    #: The wait clock (semantics 10): 0 = the configured default.
    wait_timeout_ns: int = 0
    placeholder_ask: Resources = NOTHING
    style: GangStyle = GangStyle.SOFT
    gang_placement: GangPlacement = GangPlacement.RESERVE
    #: Empty where the resource manager does not tell them.
    members: tuple[Member, ...] = ()
    #: None = wherever its members have room.
    topology: Topology | None = None
    created_ns: int = 0
    #: It had bound pods when it came (application.create.force): never refused for
    #: want of a queue.
    forced: bool = False
    quota: NamespaceQuota = NamespaceQuota()
    namespace: str = ""
    #: The ID that people see, where it is not `id`: two applications may have one.
    shown_as: str = ""
    #: Of an application that is there: what its namespace says now. Only `quota` counts.
    is_renewal: bool = False

    @property
    def name(self) -> str:
        """The ID that people see; not unique."""
        return self.shown_as or self.id

    @property
    def is_gang(self) -> bool:
        """Whether places are to be reserved before it runs."""
        return bool(self.placeholder_ask)

    @property
    def is_whole(self) -> bool:
        """Whether its gang has all its places at once or none (semantics 16)."""
        return self.gang_placement is not GangPlacement.RESERVE

    @property
    def uses_virtual_placeholders(self) -> bool:
        """Whether the core itself holds the places of its gang, with no pods in them (semantics 16, Direct)."""
        return self.gang_placement is GangPlacement.DIRECT and self.is_gang


@value
class AskSpec:
    """AllocationAsk (seed 003): `max_allocations` places of one shape."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    resources: Resources
    constraints: Constraints = ANYWHERE
    group: TaskGroup = NO_GROUP
    placeholder: bool = False
    #: The core asks for itself: a placeholder that no pod stands for, which the resource manager is never told of.
    is_virtual: bool = False
    originator: bool = False
    priority: int = 0
    max_allocations: int = 1
    #: Run time of what is allocated; 0 = without a limit (semantics 2).
    timeout_ns: int = 0
    namespace: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    avoid: frozenset[NodeId] = frozenset()
    #: The one node it may run on (DaemonSet pods, contract 1.9), empty = any.
    required_node: NodeId = NO_NODE
    #: Seed 001's constraint on nodes' attributes and on other allocations; None = none.
    placement: PlacementConstraint | None = None
    facts: PodProperties = NO_PROPERTIES
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    created_ns: int = 0
    #: Those of its tags that all like it have: one object for all asks that say the same of everything but their key,
    #: name and time. Empty = it was not looked for any. It says nothing that `tags` does not say.
    common: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS, compare=False)

    @property
    def has_selectors(self) -> bool:
        """Whether it depends on labels of other pods."""
        return self.facts.inter_pod is not NO_INTER_POD_CONSTRAINTS or self.placement is not None

    @property
    def report_key(self) -> AllocationKey:
        """Under which key the resource manager hears why it waits: places without pods speak for their task group."""
        return virtual_placeholder_key(self.application, self.group) if self.is_virtual else self.key


@value
class AllocationSpec:
    """An allocation that exists already (recovery, or foreign to the core).

    `foreign` or without application: counted on its node only (semantics 7).
    """

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    id: AllocationId
    node: NodeId
    resources: Resources
    group: TaskGroup = NO_GROUP
    placeholder: bool = False
    originator: bool = False
    priority: int = 0
    namespace: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    facts: PodProperties = NO_PROPERTIES
    foreign: bool = False
    required_node: NodeId = NO_NODE
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    created_ns: int = 0
    #: When it got its node; the placeholder clock continues from it (semantics 10).
    allocated_ns: int = 0
    #: It may be a placeholder that cannot be verified: it does not show that its gang ran already.
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """NodeInfo (seed 003). `occupied`: taken by others and not told one by one."""

    partition: PartitionId
    id: NodeId
    capacity: Resources
    occupied: Resources = NOTHING
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    taints: tuple[Taint, ...] = ()
    #: spec.unschedulable, which some pods tolerate; it is drained as well.
    cordoned: bool = False
    #: Declared ones (status.declaredFeatures).
    features: frozenset[str] = frozenset()
    #: Every name of the images that lie there, and their bytes.
    images: Mapping[str, int] = field(default_factory=lambda: _NO_IMAGES)
    #: Volumes that it can attach, and has; None = nothing is known of that.
    storage: NodeStorage | None = None
    #: As sent, but for the images, for REST; what is above is read out of it.
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
