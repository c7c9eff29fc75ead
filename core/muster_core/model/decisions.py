"""Decisions of a plan, and the reason why a request cannot be scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster_core.model.claims import NOTHING_CHOSEN, ClaimChoice
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, PartitionId, QueuePath, value
from muster_core.model.resources import Resources
from muster_si import keys

#: Instead of a number of nodes: kube-scheduler gives no number for reasons that it finds before it filters nodes.
EVERY_NODE: Final = -1


class ReasonKind(StrEnum):
    """What a request is waiting for."""

    QUOTA = keys.REASON_QUOTA  # the maximum of a queue; a new node would not help
    USER_QUOTA = keys.REASON_USER_QUOTA  # a limit of a user or group
    APPLICATIONS = keys.REASON_APPLICATIONS  # maxapplications of a queue, user or group is reached
    QUEUE_ORDER = keys.REASON_QUEUE_ORDER  # another application is first in queue order
    NODES = keys.REASON_NODES  # no feasible node; an autoscaler may help
    RESERVED = keys.REASON_RESERVED  # a node is reserved, but its resources are not free yet
    ADMISSION = keys.REASON_ADMISSION  # the application's queue, or the groups of its user, are not known yet
    CLUSTER = keys.REASON_CLUSTER  # the nodes could not hold it even if they were empty


@dataclass(frozen=True, slots=True)
class UnschedulableReason:
    """Why a request is not scheduled.

    `counts`: number of nodes by reason, in kube-scheduler's wording; EVERY_NODE for a reason of the pod itself.
    `nodes`: number of all nodes. `detail`: a sentence that explains the reason.
    """

    kind: ReasonKind
    message: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    detail: str = ""

    def text(self) -> str:
        """Returns one line for users. Reasons of nodes are worded and sorted as in kube-scheduler; then the detail."""
        if not self.counts:
            return f"{self.message}. {self.detail}" if self.detail else self.message
        found = ", ".join(sorted([why if n == EVERY_NODE else f"{n} {why}" for why, n in self.counts]))
        head = f"{self.message}: " if self.message else ""
        tail = f" {self.detail}" if self.detail else ""
        return f"{head}0/{self.nodes} nodes are available: {found}.{tail}"


@value
class Placement:
    """Nodes for requests of one application; all of them are committed together.

    `places`: (request, node); a request with `max_allocations` above 1 may occur more than once. `chosen`: for their
    claims.
    """

    partition: PartitionId
    application: ApplicationId
    places: tuple[tuple[AllocationKey, NodeId], ...]
    chosen: ClaimChoice = NOTHING_CHOSEN


@dataclass(frozen=True, slots=True)
class PlaceholderReplacement:
    """A pod replaces a placeholder of its task group (docs/internals/semantics.md, rule 14).

    `node`: the node of the placeholder, or another one if the pod cannot run there. Resources on another node are
    reserved from then on.
    """

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    placeholder: AllocationId
    node: NodeId
    same_node: bool
    #: Volumes and devices for the claims of the pod on the node.
    chosen: ClaimChoice = NOTHING_CHOSEN


@dataclass(frozen=True, slots=True)
class PlaceholderRelease:
    """A placeholder is released without replacement, because the pod is larger or no node can run it.

    See docs/internals/semantics.md, rule 15.
    """

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    placeholder: AllocationId
    message: str


@dataclass(frozen=True, slots=True)
class QuotaReservation:
    """A gang reserves `amount` on every queue of its path, so that no other application takes it.

    `granted`: the quota is free; False = the gang starves and requests it with precedence. See
    docs/internals/semantics.md, rule 11.
    """

    partition: PartitionId
    application: ApplicationId
    amount: Resources
    granted: bool


@dataclass(frozen=True, slots=True)
class NodeReservationDecision:
    """Resources on a node are reserved for a waiting request."""

    partition: PartitionId
    application: ApplicationId
    ask: AllocationKey
    node: NodeId


@dataclass(frozen=True, slots=True)
class Preemption:
    """Victims are released, and their resources are reserved for requests of one application.

    `places`: (request, node). `victims`: (application, allocation).
    """

    partition: PartitionId
    application: ApplicationId
    places: tuple[tuple[AllocationKey, NodeId], ...]
    victims: tuple[tuple[ApplicationId, AllocationId], ...]


@dataclass(frozen=True, slots=True)
class ReservationTakeover:
    """Reservations of incomplete gangs with later keys are released and reserved for one gang.

    `places`: (request, node). `victims`: placeholders as (application, allocation). `reservations`: node reservations
    as (application, request). `losers`: gangs that lose any reservation. See docs/internals/semantics.md, rule 12.
    """

    partition: PartitionId
    application: ApplicationId
    places: tuple[tuple[AllocationKey, NodeId], ...]
    chosen: ClaimChoice
    victims: tuple[tuple[ApplicationId, AllocationId], ...]
    reservations: tuple[tuple[ApplicationId, AllocationKey], ...]
    losers: tuple[ApplicationId, ...]


@dataclass(frozen=True, slots=True)
class QuotaPreemption:
    """Allocations below a queue are released, because the queue exceeds its maximum."""

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
