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
from muster_core.model.devices import PodClaim
from muster_core.model.ids import (
    NO_APPLICATION,
    NO_GROUP,
    NO_NODE,
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    QueuePath,
    TaskGroup,
    value,
    virtual_placeholder_key,
)
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.storage import NodeStorage, VolumeHandle


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port of the pod. `ip` 0.0.0.0 means every address."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences among nodes: preferred node affinity as (weight, term), container images and volume images."""

    terms: tuple[tuple[int, Term], ...] = ()
    images: tuple[str, ...] = ()
    volume_images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """An in-tree volume that two pods on one node may not share.

    `kind`: gce, aws, iscsi or rbd. `id`: identifies the disk; an rbd disk is the same if a monitor is the same too.
    """

    kind: str
    id: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Volumes:
    """Volumes of a pod: claims ("namespace/name" in the order of the pod spec), disks, and inline volumes that count as
    attached.

    `ephemeral`: claims of generic ephemeral volumes, with the UID of the pod. `pod`: name of the pod in messages then.
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
    """Properties of a pod that filters and scores read, other than constraints on node properties.

    `concerns_others`: it has more than preferences among nodes.
    """

    inter_pod: InterPodConstraints = NO_INTER_POD_CONSTRAINTS
    ports: tuple[HostPort, ...] = ()
    volumes: Volumes = NO_VOLUMES
    preferences: Preferences = NO_PREFERENCES
    #: Device claims in the order of the pod spec.
    devices: tuple[PodClaim, ...] = ()
    concerns_others: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the hash once, because lookups are much more frequent than creation."""
        concerns = bool(self.ports or self.devices) or self.inter_pod != NO_INTER_POD_CONSTRAINTS
        concerns = concerns or self.volumes != NO_VOLUMES
        object.__setattr__(self, "concerns_others", concerns)
        about = (self.inter_pod, self.ports, self.volumes, self.preferences, self.devices)
        object.__setattr__(self, "_hash", hash(about))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_particular(self) -> bool:
        """Whether more than node properties and resources decides which nodes are feasible."""
        return bool(self.inter_pod.affinity or self.inter_pod.anti_affinity or self.inter_pod.spread or self.ports) or (
            self.has_claims or self.volumes != NO_VOLUMES
        )

    @property
    def has_claims(self) -> bool:
        """Whether the pod uses claims of volumes or devices."""
        return bool(self.volumes.claims or self.devices)


NO_PROPERTIES: Final = PodProperties()


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """An allocation as the filters of other pods see it: the tags that some selector reads, and its properties."""

    tags: Tags = NO_TAGS
    facts: PodProperties = NO_PROPERTIES
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes the hash once, because lookups are much more frequent than creation."""
        object.__setattr__(self, "_hash", hash((self.tags, self.facts)))

    def __hash__(self) -> int:
        return self._hash


NO_POD: Final = PodOnNode()
_NO_TAGS: Mapping[str, str] = MappingProxyType({})
_NO_IMAGES: Mapping[str, int] = MappingProxyType({})


class GangStyle(StrEnum):
    """Result of a timeout before the gang is reserved (docs/internals/semantics.md, rule 8)."""

    SOFT = "Soft"
    HARD = "Hard"


class GangPlacement(StrEnum):
    """How resources for a gang are reserved (docs/internals/semantics.md, rule 16)."""

    RESERVE = "Reserve"
    DIRECT = "Direct"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class Member:
    """A declared task group: `count` pods of this shape.

    `facts`: inter-pod terms and preferences. `tags`: tags that all its pods have. The last three fields are only used
    for virtual placeholders, which have no pod.
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
    """Node labels that the gang is packed by: into as few domains of the first as possible, in these into as few of the
    second as possible, and so on. `required`: into one domain of the first, or not at all.
    """

    keys: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """Quota from the annotations of a namespace, for the leaf queue that is created for its applications. None = not
    set.
    """

    max: Limit | None = None
    guaranteed: Resources | None = None
    #: 0 = unlimited.
    max_applications: int | None = None


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """Message AddApplicationRequest. An application with a `placeholder_ask` is a gang."""

    partition: PartitionId
    id: ApplicationId
    queue: str = ""
    user: str = "nobody"
    groups: tuple[str, ...] = ()
    #: Why the groups of the user are unknown; empty = `groups` has them.
    groups_unknown: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    #: Placeholder timeout of a gang, else the maximum run time (docs/internals/semantics.md, rule 2).
    timeout_ns: int = 0
    #: Timeout until the first placement (docs/internals/semantics.md, rule 10); 0 = the configured default.
    wait_timeout_ns: int = 0
    placeholder_ask: Resources = NOTHING
    style: GangStyle = GangStyle.SOFT
    gang_placement: GangPlacement = GangPlacement.RESERVE
    #: Empty if the resource manager does not send them.
    members: tuple[Member, ...] = ()
    #: None = members may be placed in any domains.
    topology: Topology | None = None
    created_ns: int = 0
    #: It already has bound pods (application.create.force), so it is never rejected because no rule places it.
    forced: bool = False
    quota: NamespaceQuota = NamespaceQuota()
    namespace: str = ""
    #: ID that users see, if it differs from `id`. Not unique.
    shown_as: str = ""
    #: Update of an existing application with the present quota of its namespace. Only `quota`, `given_up`,
    #: `members_missing`, `is_reserved` and `lost` are read.
    is_renewal: bool = False
    #: Why the resource manager gives up the gang; empty = it does not.
    given_up: str = ""
    #: Why the gang waits for members that nothing creates; empty = all exist, None = not reported.
    members_missing: str | None = None
    #: The queue that it has in the core that is copied; None = rules place it. Only `foresight.present` sets this, and
    #: the fields below.
    placed: QueuePath | None = None
    #: Its gang has ended its reservation, so that members that it lacks get no slot.
    is_reserved: bool = False
    #: Of such a gang, per task group the fields of `LostMembers`: count, first, resources and until_ns.
    lost: tuple[tuple[TaskGroup, int, int, Resources, int], ...] = ()

    @property
    def name(self) -> str:
        """Application ID that users see. Not unique."""
        return self.shown_as or self.id

    @property
    def is_gang(self) -> bool:
        """Whether resources are reserved before it runs."""
        return self.placeholder_ask is not NOTHING and bool(self.placeholder_ask)

    @property
    def is_all_or_nothing(self) -> bool:
        """Whether all members of its gang are placed together or not at all."""
        return self.gang_placement is not GangPlacement.RESERVE

    @property
    def uses_virtual_placeholders(self) -> bool:
        """Whether the core reserves the resources of its gang itself, without waiting for placeholder pods."""
        return self.is_all_or_nothing and self.is_gang

    @property
    def is_auto(self) -> bool:
        """Whether placeholder pods may replace virtual placeholders."""
        return self.gang_placement is GangPlacement.AUTO and self.is_gang


@value
class AskSpec:
    """Message AllocationAsk: a request for `max_allocations` allocations of one shape."""

    partition: PartitionId
    application: ApplicationId
    key: AllocationKey
    resources: Resources
    constraints: Constraints = ANYWHERE
    group: TaskGroup = NO_GROUP
    placeholder: bool = False
    #: A virtual placeholder: a request that the core creates itself. The resource manager never receives it.
    is_virtual: bool = False
    originator: bool = False
    priority: int = 0
    max_allocations: int = 1
    #: Maximum run time of its allocations; 0 = no limit (docs/internals/semantics.md, rule 2).
    timeout_ns: int = 0
    namespace: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    avoid: frozenset[NodeId] = frozenset()
    #: The only node that may run it (DaemonSet pods); empty = any node.
    required_node: NodeId = NO_NODE
    #: Placement constraint of the Scheduler Interface on node attributes and other allocations; None = none.
    placement: PlacementConstraint | None = None
    facts: PodProperties = NO_PROPERTIES
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    created_ns: int = 0
    #: Tags that all requests of the same origin have: one shared object for all requests that differ only in key, name
    #: and time. Empty = not determined. Contains nothing that `tags` does not contain.
    common: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS, compare=False)
    #: Its application, if that requires one topology domain (`NodeTable.homes`); empty = any domain.
    home: ApplicationId = NO_APPLICATION

    @property
    def has_selectors(self) -> bool:
        """Whether it depends on labels of other pods."""
        return self.facts.inter_pod is not NO_INTER_POD_CONSTRAINTS or self.placement is not None

    @property
    def report_key(self) -> AllocationKey:
        """Key for scheduling states sent to the resource manager. Virtual placeholders use that of the task group."""
        return virtual_placeholder_key(self.application, self.group) if self.is_virtual else self.key


@value
class AllocationSpec:
    """An existing allocation: recovered, or of another scheduler.

    One that is `foreign` or has no application only counts on its node (docs/internals/semantics.md, rule 7).
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
    #: When it was bound. The placeholder timer continues from this time.
    allocated_ns: int = 0
    #: It may be a placeholder that cannot be verified, so it does not prove that its gang was running.
    unverified: bool = False
    #: The request of a virtual placeholder; None = the allocation is a pod. Only `foresight.present` sets it.
    virtual: AskSpec | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Message NodeInfo. `occupied`: used by pods that are not reported as allocations."""

    partition: PartitionId
    id: NodeId
    capacity: Resources
    occupied: Resources = NOTHING
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    taints: tuple[Taint, ...] = ()
    #: `spec.unschedulable`, which some pods tolerate. The node is drained as well.
    cordoned: bool = False
    #: Declared features of the node (`status.declaredFeatures`).
    features: frozenset[str] = frozenset()
    #: Images on the node: every name of each image, with its size in bytes.
    images: Mapping[str, int] = field(default_factory=lambda: _NO_IMAGES)
    #: Attach limits and attached volumes; None = unknown.
    storage: NodeStorage | None = None
    #: Attributes as received, without images, for the REST API. The fields above are parsed from them.
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
