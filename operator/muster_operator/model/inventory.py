"""What the core says it holds, a part at a time (ADR 0015)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from muster_operator.model.allocations import TerminationType
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid


class Part(Enum):
    """What is looked at."""

    APPLICATIONS = "applications"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class HeldInCore:
    """An allocation. ``going``: how it was told to go, None = it stays."""

    key: PodUid
    node: NodeName
    allocation_id: AllocationId
    going: TerminationType | None = None


@dataclass(frozen=True, slots=True)
class ApplicationInCore:
    """An application: the keys of its asks, and its allocations."""

    app: AppId
    asks: frozenset[PodUid]
    held: tuple[HeldInCore, ...]


@dataclass(frozen=True, slots=True)
class NodeInCore:
    """A node. ``foreign``: keys of what is on it without belonging to an application."""

    name: NodeName
    schedulable: bool
    foreign: frozenset[PodUid]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All names of one part beyond one up to another; empty = from the first, to the last."""

    part: Part
    beyond: str = ""
    last: str = ""
    applications: tuple[ApplicationInCore, ...] = ()
    nodes: tuple[NodeInCore, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether a name of its part would be in it."""
        return self.beyond < name and (not self.last or name <= self.last)
