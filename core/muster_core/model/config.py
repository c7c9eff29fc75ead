"""The configuration that is in force, as plain values.

Parsed and validated from people's YAML in edge/config/; the world only ever
sees a configuration that is whole and consistent. Rooms that a later issue
furnishes (limits, ACLs, templates, preemption) are kept as read, not acted on.
Source: contract 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources

_EMPTY: Mapping[str, str] = MappingProxyType({})
_SECOND = 1_000_000_000


class ApplicationOrder(StrEnum):
    """`application.sort.policy` of a leaf."""

    FIFO = "fifo"
    FAIR = "fair"


class NodeOrder(StrEnum):
    """`nodesortpolicy.type`."""

    FAIR = "fair"
    BINPACKING = "binpacking"


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """One queue of the file; `name` in lower case, without its parents."""

    name: str
    parent: bool = False
    children: tuple[QueueConfig, ...] = ()
    max: Limit = UNLIMITED
    guaranteed: Resources = NOTHING
    order: ApplicationOrder = ApplicationOrder.FIFO
    #: 0 = unlimited.
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    submit_acl: str = ""
    admin_acl: str = ""


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """One rule of `placementrules`; `parent` is the rule that makes the parent queue."""

    name: str
    create: bool = False
    value: str = ""
    parent: PlacementRule | None = None


@dataclass(frozen=True, slots=True)
class NodeSort:
    """How nodes are ordered for placement: weights per resource name."""

    order: NodeOrder = NodeOrder.FAIR
    weights: tuple[tuple[str, float], ...] = (("vcore", 1.0), ("memory", 1.0))


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """One partition of the file; `name` as in the file, without the resource manager."""

    name: str
    root: QueueConfig
    rules: tuple[PlacementRule, ...] = ()
    node_sort: NodeSort = NodeSort()


@dataclass(frozen=True, slots=True)
class Timing:
    """The clocks' lengths in nanoseconds (settings `gang.*` and `service.*`, muster_si.keys)."""

    placeholder_timeout_ns: int = 900 * _SECOND
    #: 0 = off.
    wait_timeout_ns: int = 0
    starvation_age_ns: int = 600 * _SECOND
    completing_timeout_ns: int = 30 * _SECOND
    #: How long a release may stay unconfirmed before its swap is given up.
    release_timeout_ns: int = 120 * _SECOND
    #: How long a lost resource manager keeps its world (paused → stopped).
    manager_timeout_ns: int = 300 * _SECOND


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything a registration or an UpdateConfiguration puts in force."""

    partitions: tuple[PartitionConfig, ...]
    timing: Timing = Timing()
    #: SHA-256 of the text (contract 2), for REST.
    checksum: str = ""
