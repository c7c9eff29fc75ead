"""What the agent has to say to the core. Order within the list is the order of sending (semantics 19).

Application news goes on the application stream, node news on the node stream, the rest on the allocation stream. What
is told of other objects goes before the application news behind it, and is in force in the core by then.
"""

from __future__ import annotations

from msgspec import Struct

from muster_operator.model.allocations import AllocationSpec, AskSpec, TerminationType
from muster_operator.model.applications import ApplicationSpec
from muster_operator.model.ids import NO_ALLOCATION_ID, AllocationId, AppId, NodeName, PodUid
from muster_operator.model.nodes import Node
from muster_operator.model.objects import ClusterObject


class ApplicationSubmitted(Struct, frozen=True, gc=False):
    """A new application."""

    spec: ApplicationSpec


class ApplicationRemoved(Struct, frozen=True, gc=False):
    """The last pod of an application is gone before it could complete."""

    app: AppId


class AskSubmitted(Struct, frozen=True, gc=False):
    """A pod wants a node; with a known key it replaces that ask (semantics 3)."""

    ask: AskSpec


class AskReleased(Struct, frozen=True, gc=False):
    """A pod no longer wants a node. The type is STOPPED_BY_RM, or TIMEOUT to confirm the core's own release."""

    app: AppId
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


class AllocationReported(Struct, frozen=True, gc=False):
    """A pod has a node that the core did not give it: a foreign pod, or one that came bound."""

    allocation: AllocationSpec


class AllocationReleased(Struct, frozen=True, gc=False):
    """A pod has left its node. STOPPED_BY_RM is ours; any other type confirms the core's release with the same type
    (semantics 4). ``app`` is None for a foreign pod."""

    app: AppId | None
    key: PodUid
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    allocation_id: AllocationId = NO_ALLOCATION_ID
    message: str = ""


class NodeCreated(Struct, frozen=True, gc=False):
    """A new node. ``drained`` = CREATE_DRAIN: it takes nothing before NodeOpened. ``existing`` are the pods on it."""

    node: Node
    drained: bool
    existing: tuple[AllocationSpec, ...] = ()


class NodeUpdated(Struct, frozen=True, gc=False):
    """Capacity or attributes of a known node changed; or ``existing``: more pods on it than its creation could say."""

    node: Node
    existing: tuple[AllocationSpec, ...] = ()


class NodeDrained(Struct, frozen=True, gc=False):
    """A node was cordoned (DRAIN_NODE)."""

    name: NodeName


class NodeOpened(Struct, frozen=True, gc=False):
    """A drained node takes pods again (DRAIN_TO_SCHEDULABLE)."""

    name: NodeName


class NodeDecommissioned(Struct, frozen=True, gc=False):
    """A node is gone, and everything on it (DECOMISSION)."""

    name: NodeName


class FactTold(Struct, frozen=True, gc=False):
    """An object that filters read exists and looks like this, or is gone."""

    fact: ClusterObject


ApplicationNews = ApplicationSubmitted | ApplicationRemoved
AllocationNews = AskSubmitted | AskReleased | AllocationReported | AllocationReleased
NodeNews = NodeCreated | NodeUpdated | NodeDrained | NodeOpened | NodeDecommissioned
News = ApplicationNews | AllocationNews | NodeNews | FactTold
