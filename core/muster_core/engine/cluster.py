"""Facts about other objects of the cluster are put in force: who waits looks again, for anything may fit now."""

from __future__ import annotations

from muster_core.model.effects import Effect
from muster_core.model.events import FactsTold
from muster_core.world.world import Partition


def tell(partition: Partition, event: FactsTold) -> list[Effect]:
    """Put them in force in their order; the newest of one object counts."""
    for fact in event.facts:
        partition.nodes.occupants.namespace(fact.name, fact.labels)
    partition.nodes.epoch += 1  # anywhere
    return []
