"""Node and what others run on it (contract 4.1)."""

from __future__ import annotations

from pydantic import Field

from muster_core.edge.rest.shapes.applications import Allocation
from muster_core.edge.rest.shapes.base import Amounts, Percents, Shape, Texts, TimeNs


class ForeignAllocation(Shape):
    """What another scheduler runs on a node of ours."""

    allocationKey: str
    allocationTags: Texts
    allocationTime: TimeNs
    resource: Amounts
    priority: str
    nodeId: str
    preemptable: bool


class Node(Shape):
    """One node. In a dump `allocations` are keys, so that each allocation is said once."""

    nodeID: str
    hostName: str
    rackName: str
    attributes: Texts
    capacity: Amounts
    allocated: Amounts
    occupied: Amounts
    available: Amounts
    utilized: Percents
    allocations: list[Allocation | str]
    foreignAllocations: list[ForeignAllocation]
    schedulable: bool
    isReserved: bool
    reservations: list[str]
    state: str
    utilization: Amounts | None = Field(None, description="what it was last reported to really use")


class Outstanding(Shape):
    """Places of one shape that no node has room for (seed 001, AutoScalingMetrics)."""

    id: str
    partition: str
    resource: Amounts
    instanceType: str = Field(description="the kind of machine asked for; empty = any")
    count: int
    applications: int
