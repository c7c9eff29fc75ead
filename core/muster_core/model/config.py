"""The configuration in force as plain values, with access lists, queue policies and user expressions."""

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
    """`everybody`: the list was `*`. No entry forbids; who is not named is not allowed."""

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
    """`priority.policy`: a fence shows its offset to those above and nothing of what is below."""

    DEFAULT = "default"
    FENCE = "fence"


class PreemptionPolicy(StrEnum):
    """`preemption.policy`: a fence keeps preemption inside; disabled keeps its allocations from it."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class QueuePolicies:
    """The effective properties of a queue (contract 2.5)."""

    order: ApplicationOrder = ApplicationOrder.FIFO
    #: `application.sort.priority`: priority goes before the order's own key; else it breaks ties.
    sorts_by_priority: bool = True
    priority: PriorityPolicy = PriorityPolicy.DEFAULT
    priority_offset: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.DEFAULT
    #: How long an ask waits before it may preempt.
    preemption_delay_ns: int = 30 * _SECOND
    #: How long a queue may stay over a lowered maximum; 0 = without a limit.
    quota_preemption_delay_ns: int = 0
    #: So many unschedulable asks in one pass send the application to sleep; 0 = never.
    backoff_after: int = 0
    backoff_delay_ns: int = 30 * _SECOND


DEFAULT_POLICIES: Final = QueuePolicies()

#: Characters of an expression.
MOST_CHARACTERS: Final = 1024

#: Bytes that one compiled expression may take.
_MOST_MEMORY: Final = 1024 * 1024


def problem(expression: str) -> str:
    """Why the expression cannot be used; empty = it can."""
    if len(expression) > MOST_CHARACTERS:
        return f"it is longer than {MOST_CHARACTERS} characters"
    try:
        _compiled(expression)
    except re2.error as error:
        said = error.args[0] if error.args else error
        return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return ""


def matches(expression: str, name: str) -> bool:
    """Whether the expression, one without a problem, is found anywhere in the name."""
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
    #: The least used first by what nodes report to use (seed 001, UtilizationReport).
    UTILIZATION = "utilization"


class GroupResolver(StrEnum):
    """`usergroupresolver.type`: where the groups of a user come from that its application does not name."""

    NONE = ""
    OS = "os"
    LDAP = "ldap"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One entry of `limits` (contract 2.7): what each of the users, and each of the groups, may use of a queue
    and all below it. "*" stands alone: every user, or every group, that no other entry names.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max: Limit = UNLIMITED
    #: 0 = unlimited.
    max_applications: int = 0
    #: The text of `limit`, for people.
    description: str = ""


@dataclass(frozen=True, slots=True)
class ChildTemplate:
    """`childtemplate` (contract 2.6): what a leaf made on demand below the queue gets."""

    max: Limit = UNLIMITED
    guaranteed: Resources = NOTHING
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    policies: QueuePolicies = DEFAULT_POLICIES


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """One queue of the file; `name` in lower case, without its parents."""

    name: str
    parent: bool = False
    children: tuple[QueueConfig, ...] = ()
    max: Limit = UNLIMITED
    guaranteed: Resources = NOTHING
    #: 0 = unlimited.
    max_applications: int = 0
    #: Effective: with what came down from the parent; `policies` is what they mean.
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    policies: QueuePolicies = DEFAULT_POLICIES
    submit_acl: AccessList = DENY_ALL
    admin_acl: AccessList = DENY_ALL
    limits: tuple[QuotaLimit, ...] = ()
    #: Its own, or that of the nearest queue above that has one.
    template: ChildTemplate | None = None


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """`filter` of a placement rule (contract 2.10): whom the rule is for (`allow`), or not for.

    Names are exact; an expression is searched for in the name. Nothing at all = everyone.
    """

    allow: bool = True
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    user_expression: str = ""
    group_expression: str = ""


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """One rule of `placementrules`; `parent` is the rule that makes the parent queue."""

    name: str
    create: bool = False
    value: str = ""
    parent: PlacementRule | None = None
    filter: RuleFilter | None = None


@dataclass(frozen=True, slots=True)
class NodeSort:
    """How nodes are ordered for placement: weights per resource name. `balanced`: and by how evenly they are used."""

    order: NodeOrder = NodeOrder.FAIR
    weights: tuple[tuple[str, float], ...] = (("vcore", 1.0), ("memory", 1.0))
    balanced: bool = False


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """One partition of the file; `name` as in the file, without the resource manager."""

    name: str
    root: QueueConfig
    rules: tuple[PlacementRule, ...] = ()
    node_sort: NodeSort = NodeSort()
    #: `preemption.enabled`: by guarantee and for required nodes.
    preemption: bool = True
    #: `preemption.quotapreemptionenabled`: for lowered maximums.
    quota_preemption: bool = False
    resolver: GroupResolver = GroupResolver.NONE


@dataclass(frozen=True, slots=True)
class Timing:
    """The clocks' lengths in nanoseconds (settings `gang.*` and `service.*`, muster_si.keys)."""

    placeholder_timeout_ns: int = 900 * _SECOND
    #: The longest that an application may ask for.
    max_placeholder_timeout_ns: int = 24 * 3600 * _SECOND
    #: 0 = off.
    wait_timeout_ns: int = 0
    starvation_age_ns: int = 600 * _SECOND
    completing_timeout_ns: int = 30 * _SECOND
    #: How long a release may stay unconfirmed before its swap is given up.
    release_timeout_ns: int = 120 * _SECOND
    #: How long a lost resource manager keeps its world (paused → stopped).
    manager_timeout_ns: int = 300 * _SECOND
    #: How long an ask that no node has room for waits before a node is reserved for it.
    reservation_delay_ns: int = 2 * _SECOND
    #: How long a node stays reserved for one ask.
    reservation_timeout_ns: int = 3600 * _SECOND
    #: Between two attempts of one ask to preempt.
    preemption_interval_ns: int = 15 * _SECOND
    #: How often at most a node that could be emptied is sought and recommended (seed 001); 0 = never.
    empty_node_interval_ns: int = 0
    #: How long an ended application is kept for people to look at (contract 6.3).
    expiry_ns: int = 72 * 3600 * _SECOND


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything a registration or an UpdateConfiguration puts in force."""

    partitions: tuple[PartitionConfig, ...]
    timing: Timing = Timing()
    #: Whether changes are noted for those who watch (event.trackingEnabled).
    tracking: bool = True
    #: SHA-256 of the text (contract 2), for REST.
    checksum: str = ""
