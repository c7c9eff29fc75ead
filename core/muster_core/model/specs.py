"""What the core is told about things: applications, asks, allocations, nodes.

Frozen facts as decoded from the SI (seed 003) by edge/si_codec.py; ledgers in
world/ hold what becomes of them. Times: `*_ns` are nanoseconds since the
epoch where they name a moment, plain nanoseconds where they name a span; 0 = not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from muster_core.model.constraints import ANYWHERE, Constraints, Taint
from muster_core.model.facts import NO_FACTS, PodFacts
from muster_core.model.ids import (
    NO_GROUP,
    NO_NODE,
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    TaskGroup,
    podless_key,
)
from muster_core.model.placement import PlacementConstraint, Tags
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.storage import NodeStorage
from muster_core.model.values import value

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
    facts: PodFacts = NO_FACTS
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
    def is_podless(self) -> bool:
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
    podless: bool = False
    originator: bool = False
    priority: int = 0
    max_allocations: int = 1
    #: Run time of what is allocated; 0 = for ever (semantics 2).
    timeout_ns: int = 0
    namespace: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    avoid: frozenset[NodeId] = frozenset()
    #: The one node it may run on (DaemonSet pods, contract 1.9), empty = any.
    required_node: NodeId = NO_NODE
    #: Seed 001's constraint on nodes' attributes and on other allocations; None = none.
    placement: PlacementConstraint | None = None
    facts: PodFacts = NO_FACTS
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    created_ns: int = 0
    #: Those of its tags that all like it have: one object for all asks that say the same of everything but their key,
    #: name and time. Empty = it was not looked for any. It says nothing that `tags` does not say.
    common: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS, compare=False)

    @property
    def voice(self) -> AllocationKey:
        """Under which key the resource manager hears why it waits: places without pods speak for their task group."""
        return podless_key(self.application, self.group) if self.podless else self.key


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
    facts: PodFacts = NO_FACTS
    foreign: bool = False
    required_node: NodeId = NO_NODE
    allow_preempt_self: bool = True
    allow_preempt_other: bool = True
    created_ns: int = 0
    #: When it got its node; the placeholder clock goes on from it (semantics 10).
    allocated_ns: int = 0


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
