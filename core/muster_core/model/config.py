"""Configuration as plain values: access lists, queue policies, placement rules, node order and timeouts.

`config/` creates these values from queues.yaml and the settings. Times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import re2

from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources


@dataclass(frozen=True, slots=True)
class AccessList:
    """Users and groups with access. `everybody`: the list is `*`. Without an entry, access is denied."""

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: Iterable[str]) -> bool:
        """Whether the list names the user or one of the groups."""
        return self.everybody or user in self.users or any(group in self.groups for group in groups)


DENY_ALL: Final = AccessList()
ALLOW_ALL: Final = AccessList(everybody=True)
_SECOND = 1_000_000_000


class ApplicationOrder(StrEnum):
    """`application.sort.policy` of a leaf."""

    FIFO = "fifo"
    FAIR = "fair"


class PriorityPolicy(StrEnum):
    """`priority.policy`: the ancestors of a fence see only its offset and not the priorities below it."""

    DEFAULT = "default"
    FENCE = "fence"


class PreemptionPolicy(StrEnum):
    """`preemption.policy`: a fence limits victims to its subtree; disabled protects the allocations of the queue."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class QueuePolicies:
    """Effective properties of a queue."""

    order: ApplicationOrder = ApplicationOrder.FIFO
    #: `application.sort.priority`: True = priority is compared first; False = it only decides between equals.
    sorts_by_priority: bool = True
    priority: PriorityPolicy = PriorityPolicy.DEFAULT
    priority_offset: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.DEFAULT
    #: How long a request waits before it may preempt.
    preemption_delay_ns: int = 30 * _SECOND
    #: `preemption.daemonsets`: requests with a required node preempt regardless of fences, guarantees, `disabled` and
    #: the opt-out of pods.
    daemonsets_preempt_all: bool = False
    #: How long a queue may exceed a lowered maximum; 0 = without a limit.
    quota_preemption_delay_ns: int = 0
    #: After this number of unschedulable requests in one attempt the application is paused; 0 = never.
    backoff_after: int = 0
    backoff_delay_ns: int = 30 * _SECOND


DEFAULT_POLICIES: Final = QueuePolicies()

#: Property with the order of a queue's applications.
SORT: Final = "application.sort.policy"

#: Maximum length of an expression in characters.
MOST_CHARACTERS: Final = 1024

#: Maximum memory of one compiled expression in bytes.
_MOST_MEMORY: Final = 1024 * 1024


def problem(expression: str) -> str:
    """Returns why the expression is invalid; empty = it is valid."""
    if len(expression) > MOST_CHARACTERS:
        return f"it is longer than {MOST_CHARACTERS} characters"
    try:
        _compiled(expression)
    except re2.error as error:
        detail = error.args[0] if error.args else error
        return detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
    return ""


def matches(expression: str, name: str) -> bool:
    """Whether a valid expression matches a part of the name."""
    return _compiled(expression).search(name) is not None


@lru_cache(maxsize=256)
def _compiled(expression: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    return re2.compile(expression, options)


_EMPTY: Mapping[str, str] = MappingProxyType({})


class NodeOrder(StrEnum):
    """`nodesortpolicy.type`."""

    FAIR = "fair"
    BINPACKING = "binpacking"
    #: The least used node first, by the utilization that nodes report. Not used by the operator of Muster.
    UTILIZATION = "utilization"


class GroupResolver(StrEnum):
    """`usergroupresolver.type`: source of the groups of a user if the application names none."""

    NONE = ""
    OS = "os"
    LDAP = "ldap"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class GroupsAnswer:
    """Result of looking up the groups of a user.

    `problem`: why there are no groups; empty = the lookup succeeded. `is_silent`: the directory did not respond, so
    that lookups of other users would fail too.
    """

    groups: tuple[str, ...] = ()
    problem: str = ""
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One entry of `limits`: what each of the users and groups may use of a queue with its subtree.

    "*" means every user, or every group, that no other entry names.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max: Limit = UNLIMITED
    #: 0 = unlimited.
    max_applications: int = 0
    #: The description in the key `limit`.
    description: str = ""


@dataclass(frozen=True, slots=True)
class ChildTemplate:
    """`childtemplate`: settings of a leaf that is created on demand below the queue."""

    max: Limit = UNLIMITED
    guaranteed: Resources = NOTHING
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    policies: QueuePolicies = DEFAULT_POLICIES
    #: Path of the queue that has the template.
    origin: str = ""


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """One queue of the file. `name`: in lower case, without its ancestors."""

    name: str
    parent: bool = False
    children: tuple[QueueConfig, ...] = ()
    max: Limit = UNLIMITED
    guaranteed: Resources = NOTHING
    #: 0 = unlimited.
    max_applications: int = 0
    #: Effective properties including the inherited ones; `policies` are their values.
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    #: By property, and `maxapplications`: where the value is set.
    origins: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    policies: QueuePolicies = DEFAULT_POLICIES
    submit_acl: AccessList = DENY_ALL
    admin_acl: AccessList = DENY_ALL
    limits: tuple[QuotaLimit, ...] = ()
    #: Its own template, or that of the nearest ancestor that has one.
    template: ChildTemplate | None = None


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """`filter` of a placement rule: users and groups that the rule applies to (`allow`), or does not apply to.

    Names are exact; an expression may match a part of the name. An empty filter matches everyone.
    """

    allow: bool = True
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    user_expression: str = ""
    group_expression: str = ""


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """One rule of `placementrules`. `parent`: the rule that selects the parent queue."""

    name: str
    create: bool = False
    value: str = ""
    parent: PlacementRule | None = None
    filter: RuleFilter | None = None


@dataclass(frozen=True, slots=True)
class NodeSort:
    """Order in which nodes are preferred: weights by resource name. `balanced`: add balanced allocation as a score."""

    order: NodeOrder = NodeOrder.FAIR
    weights: tuple[tuple[str, float], ...] = (("vcore", 1.0), ("memory", 1.0))
    balanced: bool = False
    #: The resources with a weight above 0, and the sum of all weights.
    weighed: frozenset[str] = field(init=False, repr=False, compare=False)
    total: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Computes what every search of nodes reads."""
        object.__setattr__(self, "weighed", frozenset(name for name, weight in self.weights if weight > 0))
        object.__setattr__(self, "total", sum(weight for _, weight in self.weights))


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """One partition of the file. `name`: without the resource manager."""

    name: str
    root: QueueConfig
    rules: tuple[PlacementRule, ...] = ()
    node_sort: NodeSort = NodeSort()
    #: `preemption.enabled`: preemption for guarantees and for required nodes.
    preemption: bool = True
    #: `preemption.quotapreemptionenabled`: preemption for lowered maximums.
    quota_preemption: bool = False
    resolver: GroupResolver = GroupResolver.NONE


@dataclass(frozen=True, slots=True)
class Timing:
    """Lengths of the timeouts in nanoseconds: settings `gang.*` and `service.*`, see `muster_si.keys`."""

    placeholder_timeout_ns: int = 900 * _SECOND
    #: Maximum of the placeholder timeout that an application requests.
    max_placeholder_timeout_ns: int = 24 * 3600 * _SECOND
    #: 0 = off.
    wait_timeout_ns: int = 0
    starvation_age_ns: int = 600 * _SECOND
    completing_timeout_ns: int = 30 * _SECOND
    #: How long a release may stay unconfirmed before its replacement is cancelled.
    release_timeout_ns: int = 120 * _SECOND
    #: How long the state of a disconnected resource manager is kept (paused → stopped).
    manager_timeout_ns: int = 300 * _SECOND
    #: How long a request that no node has room for waits before a node is reserved for it.
    reservation_delay_ns: int = 2 * _SECOND
    #: How long a node stays reserved for one request.
    reservation_timeout_ns: int = 3600 * _SECOND
    #: Interval between two preemption attempts for one request.
    preemption_interval_ns: int = 15 * _SECOND
    #: How long preemption for a request that fits on no node waits for a new node.
    scale_up_delay_ns: int = 0
    #: Minimum interval between recommendations to empty a node; 0 = never.
    empty_node_interval_ns: int = 0
    #: How long an ended application is kept for the REST API.
    expiry_ns: int = 72 * 3600 * _SECOND


@dataclass(frozen=True, slots=True)
class Configuration:
    """The complete configuration that a registration or an UpdateConfiguration activates."""

    partitions: tuple[PartitionConfig, ...]
    timing: Timing = Timing()
    #: Whether event records are stored (`event.trackingEnabled`).
    tracking: bool = True
    #: Whether lost members of gangs precede the applications of other queues (`gang.repairAcrossQueues`).
    repairs_across_queues: bool = True
    #: SHA-256 of the text, for the REST API.
    checksum: str = ""
