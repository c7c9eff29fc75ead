"""Utilization reports of nodes and allocations, which Muster's operator does not send.

The node order `utilization` (`placement/node_search`) and REST read what is stored here.
"""

from __future__ import annotations

from muster_core.model.events import UtilizationReported
from muster_core.state.scheduler_state import Partition, SchedulerState


def report(scheduler_state: SchedulerState, partition: Partition, event: UtilizationReported) -> None:
    """Stores the newest report. A report about an unknown object is counted and ignored."""
    if event.node is not None:
        if event.node in partition.nodes:
            partition.nodes.report(event.node, event.used)
        else:
            scheduler_state.ignore("utilization of an unknown node")
        return
    app = partition.applications.get(event.application)
    allocation = app.allocations.get(event.allocation) if app is not None else None
    if allocation is None:
        scheduler_state.ignore("utilization of an unknown allocation")
    else:
        allocation.utilization = event.used
