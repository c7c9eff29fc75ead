"""A gang's definition: task groups, style, time-outs; and the placeholder pod that stands for one member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster_operator.model.ids import AppId
from muster_operator.model.pods import GangSource, PodRef
from muster_operator.model.resources import Resources
from muster_si import keys


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """One group of equal members (contract 1.3).

    ``min_member`` is 0 if all had their places before a restart, and have ended. ``min_resource`` is one member in
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
