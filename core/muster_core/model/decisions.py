"""Decisions of a plan, and the reason why a request cannot be scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, PartitionId, QueuePath
from muster_core.model.resources import Resources
from muster_core.model.storage import NO_CHOICE, Choice

#: Stands for a number of nodes where kube-scheduler gives none: it did not look at any.
EVERY_NODE: Final = -1


class ReasonKind(StrEnum):
    """What is missing."""

    QUOTA = "quota"  # a queue's max; nothing a new node would help with
    USER_QUOTA = "user quota"  # a limit of a user or a group
    APPLICATIONS = "applications"  # as many run as may: maxapplications of a queue, a user or a group
    TURN = "turn"  # another application goes first (a gang waiting, a pledge)
    NODES = "nodes"  # no node has it: what an autoscaler may help with
    RESERVED = "reserved"  # room is held for it on a node, and is not all there yet
    ADMISSION = "admission"  # the application's queue, or the groups of its user, are not known yet
    CLUSTER = "cluster"  # the cluster's nodes could not hold it even if empty


@dataclass(frozen=True, slots=True)
class UnschedulableReason:
    """Why something has no place. `counts`: reason text → number of nodes, in
    kube-scheduler's wording where nodes are the reason; `nodes`: how many there are.
    A reason that is of the pod and not of nodes has EVERY_NODE for a number.
    """

    lack: ReasonKind
    message: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    nodes: int = 0

    def text(self) -> str:
        """One line for people, as kube-scheduler words and sorts it when nodes are the reason."""
        if not self.counts:
            return self.message
        found = ", ".join(sorted(_counted(reason, count) for reason, count in self.counts))
        head = f"{self.message}: " if self.message else ""
        return f"{head}0/{self.nodes} nodes are available: {found}."


def _counted(reason: str, count: int) -> str:
    return reason if count == EVERY_NODE else f"{count} {reason}"


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
class PlaceholderReplacement:
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
class PlaceholderRelease:
    """A placeholder goes without a swap: the real ask is larger than it, or the
    real pod may run neither on its node nor on another (semantics 15).
    """

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    placeholder: AllocationId
    message: str


@dataclass(frozen=True, slots=True)
class QuotaReservation:
    """A gang begins to reserve: `amount` is promised to it on every queue of its
    path, so that nobody else takes it meanwhile (semantics 11). `granted`: the head
    room is there; else the gang starves and asks for it first.
    """

    partition: PartitionId
    application: ApplicationId
    amount: Resources
    granted: bool


@dataclass(frozen=True, slots=True)
class NodeReservationDecision:
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
class ReservationTakeover:
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


Decision = (
    Placement
    | PlaceholderReplacement
    | PlaceholderRelease
    | QuotaReservation
    | NodeReservationDecision
    | Preemption
    | QuotaPreemption
)
