"""What the agent has to say to the core. Order within the list is the order of sending (semantics 19).

Application news goes on the application stream, node news on the node stream, the rest on the allocation stream. What
is told of other objects goes before the application news behind it, and is in force in the core by then.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster_operator.model.allocations import AllocationSpec, AskSpec, TerminationType
from muster_operator.model.applications import ApplicationSpec
from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, PodUid
from muster_operator.model.nodes import Node
from muster_operator.model.objects import ClusterObject


@dataclass(frozen=True, slots=True)
class ApplicationSubmitted:
    """A new application."""

    spec: ApplicationSpec


@dataclass(frozen=True, slots=True)
class ApplicationRemoved:
    """The last pod of an application is gone before it could complete."""

    app: AppId


@dataclass(frozen=True, slots=True)
class AskSubmitted:
    """A pod wants a node; with a known key it replaces that ask (semantics 3)."""

    ask: AskSpec


@dataclass(frozen=True, slots=True)
class AskReleased:
    """A pod no longer wants a node. The type is STOPPED_BY_RM, or TIMEOUT to confirm the core's own release."""

    app: AppId
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


@dataclass(frozen=True, slots=True)
class AllocationReported:
    """A pod has a node that the core did not give it: a foreign pod, or one that came bound."""

    allocation: AllocationSpec


@dataclass(frozen=True, slots=True)
class AllocationReleased:
    """A pod has left its node. STOPPED_BY_RM is ours; any other type confirms the core's release with the same type
    (semantics 4). ``app`` is None for a foreign pod."""

    app: AppId | None
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeCreated:
    """A new node. ``drained`` = CREATE_DRAIN: it takes nothing before NodeOpened. ``existing`` are the pods on it."""

    node: Node
    drained: bool
    existing: tuple[AllocationSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeUpdated:
    """Capacity or attributes of a known node changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeDrained:
    """A node was cordoned (DRAIN_NODE)."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class NodeOpened:
    """A drained node takes pods again (DRAIN_TO_SCHEDULABLE)."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class NodeDecommissioned:
    """A node is gone, and everything on it (DECOMISSION)."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class FactTold:
    """An object that filters read exists and looks like this, or is gone."""

    fact: ClusterObject


ApplicationNews = ApplicationSubmitted | ApplicationRemoved
AllocationNews = AskSubmitted | AskReleased | AllocationReported | AllocationReleased
NodeNews = NodeCreated | NodeUpdated | NodeDrained | NodeOpened | NodeDecommissioned
News = ApplicationNews | AllocationNews | NodeNews | FactTold
