"""What members that are placed together have in common."""

from __future__ import annotations

from dataclasses import dataclass

from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.facts import NOBODY, Occupant
from muster_core.model.ids import NO_NODE, NodeId
from muster_core.model.placement import AllocationAffinity, PlacementConstraint
from muster_core.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Shape:
    """What the nodes are asked about. `avoid`: semantics 5; `occupant`: as others see one that is placed."""

    resources: Resources
    constraints: Constraints = ANYWHERE
    avoid: frozenset[NodeId] = frozenset()
    placement: PlacementConstraint | None = None
    occupant: Occupant = NOBODY
    #: The one node it may run on; empty = any.
    required: NodeId = NO_NODE

    @property
    def affinity(self) -> AllocationAffinity | None:
        """To other allocations (seed 001); None = none."""
        return None if self.placement is None else self.placement.allocations
