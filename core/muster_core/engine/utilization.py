"""What nodes and allocations really use is kept, for people and for the node order `utilization` (seed 001)."""

from __future__ import annotations

from muster_core.model.events import UtilizationReported
from muster_core.world.world import Partition, World


def report(world: World, partition: Partition, event: UtilizationReported) -> None:
    """Keep the newest report; one about something that is not there is counted and left."""
    if event.node is not None:
        if event.node in partition.nodes:
            partition.nodes.report(event.node, event.used)
        else:
            world.ignore("utilization of an unknown node")
        return
    app = partition.applications.get(event.application)
    allocation = app.allocations.get(event.allocation) if app is not None else None
    if allocation is None:
        world.ignore("utilization of an unknown allocation")
    else:
        allocation.utilization = event.used
