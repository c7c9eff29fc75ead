"""What plan/ answers and engine/commit.py carries out: whole or not at all.

A decision names everything it will change. commit re-checks it against the
world and raises BrokenDecision before the first write (style 15).
"""

from __future__ import annotations

from dataclasses import dataclass

from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, PartitionId, QueuePath
from muster_core.model.resources import Resources
from muster_core.model.storage import NO_CHOICE, Choice


@dataclass(frozen=True, slots=True)
class Placement:
    """Places for asks of one application, all members of one decision together.

    `places`: (ask, node); a key may come more than once (max_allocations > 1). `volumes`: for claims of theirs.
    """

    partition: PartitionId
    application: ApplicationId
    places: tuple[tuple[AllocationKey, NodeId], ...]
    volumes: Choice = NO_CHOICE


@dataclass(frozen=True, slots=True)
class Swap:
    """A real ask takes over from a placeholder of its task group (semantics 14).

    `node` is the placeholder's own, or another one where the real pod may not
    run there: then the room is held on that node from now on.
    """

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    placeholder: AllocationId
    node: NodeId
    same_node: bool
    #: For its claims, on the node.
    volumes: Choice = NO_CHOICE


@dataclass(frozen=True, slots=True)
class Eviction:
    """A placeholder goes without a swap: the real ask is larger than it, or the
    real pod may run neither on its node nor on another (semantics 15).
    """

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    placeholder: AllocationId
    message: str


@dataclass(frozen=True, slots=True)
class Pledge:
    """A gang begins to reserve: `amount` is promised to it on every queue of its
    path, so that nobody else takes it meanwhile (semantics 11). `backed`: the head
    room is there; else the gang starves and asks for it first.
    """

    partition: PartitionId
    application: ApplicationId
    amount: Resources
    backed: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """Resources on a node are reserved for an ask that waits (contract 13)."""

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    node: NodeId


@dataclass(frozen=True, slots=True)
class Preemption:
    """Allocations of others go, and room is held for the asks of one application: (ask, node) each (contract 10.1).
    `victims`: (application, allocation).
    """

    partition: PartitionId
    application: ApplicationId
    places: tuple[tuple[AllocationKey, NodeId], ...]
    victims: tuple[tuple[ApplicationId, AllocationId], ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Reservations of incomplete gangs with later keys go, and what they free is reserved for all that one gang lacks
    (semantics 12). `places`: (ask, node) each; `victims`: placeholders, (application, allocation); `holds`: of room
    on nodes, by (application, ask); `losers`: gangs that lose any of it, or their quota reservation.
    """

    partition: PartitionId
    application: ApplicationId
    places: tuple[tuple[AllocationKey, NodeId], ...]
    volumes: Choice
    victims: tuple[tuple[ApplicationId, AllocationId], ...]
    holds: tuple[tuple[ApplicationId, AllocationKey], ...]
    losers: tuple[ApplicationId, ...]


@dataclass(frozen=True, slots=True)
class QuotaPreemption:
    """Allocations below a queue go because it has more than its maximum (contract 10.3)."""

    partition: PartitionId
    queue: QueuePath
    victims: tuple[tuple[ApplicationId, AllocationId], ...]


Decision = Placement | Swap | Eviction | Pledge | Reservation | Preemption | QuotaPreemption
