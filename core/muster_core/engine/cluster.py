"""Facts about other objects of the cluster are put in force: who waits and may be concerned looks again."""

from __future__ import annotations

from muster_core.model.cluster import NamespaceLabels
from muster_core.model.events import FactsTold
from muster_core.model.storage import Claim, ObjectGone, ObjectKind, StorageFact
from muster_core.world.gains import ANY_CLAIM
from muster_core.world.world import Partition


def tell(partition: Partition, event: FactsTold) -> None:
    """Put them in force in their order; the newest of one object counts."""
    for fact in event.facts:
        if isinstance(fact, NamespaceLabels):
            partition.nodes.occupants.namespace(fact.name, fact.labels)
            partition.nodes.epoch += 1  # anywhere
        else:
            _tell(partition, fact)


def _tell(partition: Partition, fact: StorageFact) -> None:
    """A claim concerns those who use it, anything else may be what some claim waits for."""
    nodes = partition.nodes
    attachments = nodes.occupants.attachments
    storage = attachments.storage
    kept = len(storage.taken)
    attachments.resolved(storage.tell(fact))
    is_claim = isinstance(fact, Claim) or (isinstance(fact, ObjectGone) and fact.kind is ObjectKind.CLAIM)
    # A volume that is not kept for its claim any more may be any other's.
    is_own = is_claim and len(storage.taken) == kept
    nodes.gains.note_claim(fact.name if is_own else ANY_CLAIM)
    nodes.epoch += 1
