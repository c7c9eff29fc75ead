"""Node reservations, preemptions, take-overs and callbacks that are in progress.

A node reservation counts as used for all other requests, so resources that become free accumulate for its owner.
`scheduling` writes this module, plans read it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.decisions import PlaceholderReplacement, Placement, Preemption, ReservationTakeover
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, PartitionId, QueuePath
from muster_core.model.resources import Resources
from muster_core.state.request_classes import AskClass

#: An ask, among those of all applications.
AskId = tuple[ApplicationId, AllocationKey]


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """Room on `node` for one place of an ask. `number` tells its clock from those of earlier holds."""

    application: ApplicationId
    key: AllocationKey
    node: NodeId
    resources: Resources
    number: int
    #: The ask may run on no other node (DaemonSets): such holds stand beside others.
    required: bool = False
    #: The preemption whose victims made, or make, room for it; it holds headroom in the queues too (Queue.claimed).
    #: 0 = none did.
    preemption: int = 0

    @property
    def preempted(self) -> bool:
        """Whether victims go for it."""
        return self.preemption != 0

    @property
    def ask(self) -> AskId:
        """Whose it is."""
        return self.application, self.key


@dataclass(slots=True, eq=False)
class Reservations:
    """All holds of a partition: one an ask, by ask, by node and by application."""

    by_ask: dict[AskId, NodeReservation] = field(default_factory=dict)
    by_node: dict[NodeId, dict[AskId, NodeReservation]] = field(default_factory=dict)
    by_application: dict[ApplicationId, dict[AllocationKey, NodeReservation]] = field(default_factory=dict)
    #: Leaves with asks that no node could come to hold, while the nodes' `facts_epoch` is `without_node_since`.
    without_node: dict[QueuePath, None] = field(default_factory=dict)
    without_node_since: int = 0

    def __bool__(self) -> bool:
        return bool(self.by_ask)

    def on(self, node: NodeId) -> Iterator[NodeReservation]:
        """The holds on a node, oldest first."""
        return iter(tuple(self.by_node.get(node, {}).values()))

    def of(self, application: ApplicationId) -> Iterator[NodeReservation]:
        """The holds of an application, oldest first."""
        return iter(tuple(self.by_application.get(application, {}).values()))

    def add(self, hold: NodeReservation) -> None:
        """Take in the hold of an ask that has none."""
        self.by_ask[hold.ask] = hold
        self.by_node.setdefault(hold.node, {})[hold.ask] = hold
        self.by_application.setdefault(hold.application, {})[hold.key] = hold

    def remove(self, hold: NodeReservation) -> None:
        """Forget a hold."""
        del self.by_ask[hold.ask]
        on_node, of_app = self.by_node[hold.node], self.by_application[hold.application]
        del on_node[hold.ask]
        del of_app[hold.key]
        if not on_node:
            del self.by_node[hold.node]
        if not of_app:
            del self.by_application[hold.application]


#: Preemptions that are remembered for people to look at.
_KEPT: Final = 100

#: An allocation, among those of all applications.
PlaceId = tuple[ApplicationId, AllocationId]


@dataclass(slots=True, eq=False)
class RunningPreemption:
    """Victims that are being released and are still there. `asks`: for whom, none where a maximum was lowered."""

    number: int
    #: The leaf of the asks, or the queue that is over its maximum.
    queue: QueuePath
    asks: tuple[AskId, ...]
    victims: dict[PlaceId, None]
    since_ns: int
    is_quota: bool = False
    #: The gang that takes over what the victims reserve; None = it is no take-over.
    gang: ApplicationId | None = None


@dataclass(slots=True, eq=False)
class ThrashingGuard:
    """Two leaves that preempt from each other. `rounds`: how often the one that lost took back."""

    taker: QueuePath
    since_ns: int
    rounds: int = 0
    #: How often it was stopped.
    pauses: int = 0
    #: Until then neither takes from the other.
    paused_until_ns: int = 0


#: The paths of two leaves, the lower one first.
Pair = tuple[QueuePath, QueuePath]


def pair(one: QueuePath, other: QueuePath) -> Pair:
    """The key of two leaves' rivalry."""
    return (one, other) if one < other else (other, one)


#: What is searched for at once: the scheduling classes of the asks and how many of each.
Wanted = tuple[tuple[AskClass, int], ...]

#: When preemption could help last: changes of allocations and queues, and of nodes.
Epoch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PreemptionRefusal:
    """Preemption did not help. It is not tried again before `again_ns`, nor while the epoch is the same and no pause
    of queues that preempt from each other has ended (`until_ns`; 0 = there is none).
    """

    epoch: Epoch
    again_ns: int
    until_ns: int
    times: int


@dataclass(slots=True, eq=False)
class PreemptionSearch:
    """For whom preemption is tried in one leaf, and for whom it did not help."""

    refused: dict[Wanted, PreemptionRefusal] = field(default_factory=dict)
    #: Classes that are left to be looked at, each with its applications. Empty = nothing is under way.
    left: deque[tuple[AskClass, deque[ApplicationId]]] = field(default_factory=deque)
    #: Searches without success since the last pause.
    in_vain: int = 0
    #: When it was last tried; 0 = never.
    tried_ns: int = 0
    #: There are some whom it may help once something changes.
    is_refused: bool = False
    #: When the first ask is due that was not tried for it is too early; 0 = none is.
    next_ns: int = 0


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """One preemption, for people: when, who got what it made room for, and who had to go."""

    at_ns: int
    queue: QueuePath
    asks: tuple[AskId, ...]
    victims: tuple[PlaceId, ...]


@dataclass(slots=True, eq=False)
class Preemptions:
    """Of one partition."""

    running: dict[int, RunningPreemption] = field(default_factory=dict)
    thrashing_guards: dict[Pair, ThrashingGuard] = field(default_factory=dict)
    #: The newest ones.
    reports: deque[PreemptionReport] = field(default_factory=lambda: deque(maxlen=_KEPT))
    #: Since the partition is there: preemptions, victims, and how often a livelock was stopped.
    count: int = 0
    victims: int = 0
    livelocks: int = 0
    #: Grows with each change of allocations or queues after which preemption may help that did not before.
    epoch: int = 0
    #: Leaves in which some wait for a change: while the epoch is `idle_since` it does not help them.
    idle: dict[QueuePath, None] = field(default_factory=dict)
    idle_since: Epoch = (0, 0)

    def paused_until_ns(self, queue: QueuePath) -> int:
        """Until when the queue is, or was, kept from taking back what another took from it; 0 = never."""
        return max((one.paused_until_ns for both, one in self.thrashing_guards.items() if queue in both), default=0)


#: The epoch of the nodes' facts, and the gang's waiting requests by class.
Basis = tuple[int, tuple[tuple[AskClass, int], ...]]

#: (priority, negative; creation time; identity): the lowest goes first.
GangKey = tuple[int, int, ApplicationId]


@dataclass(slots=True, eq=False)
class OpenTakeOver:
    """Resources that are reserved for a gang until the placeholders of the losers have ended.

    `number`: of the preemption that waits for them. `places`: as in the decision, (request, node) each.
    """

    number: int
    losers: tuple[ApplicationId, ...]
    nodes: dict[NodeId, Resources]
    places: tuple[tuple[str, NodeId], ...]
    volumes: tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class Planning:
    """A take-over whose plan continues in the next cycle. `epoch`: of what may let it succeed, when it began; `basis`:
    what it is void without; `restarts`: how often changes made it void.
    """

    steps: Generator[None, None, ReservationTakeover | None]
    epoch: tuple[int, int]
    basis: Basis
    restarts: int = 0


@dataclass(slots=True, eq=False)
class Contention:
    """Contention state of one partition: gangs with reservations, and pending takeovers."""

    #: Incomplete gangs that hold reservations, or a quota reservation.
    holding: dict[ApplicationId, GangKey] = field(default_factory=dict)
    #: Gangs that found too few free resources in this cycle: a take-over is tried for them, in the order of keys.
    due: dict[ApplicationId, None] = field(default_factory=dict)
    #: Plans of due gangs that have begun.
    planning: dict[ApplicationId, Planning] = field(default_factory=dict)
    #: Gangs that found no later gang that holds anything: the first later one that does wakes them.
    idle: dict[ApplicationId, None] = field(default_factory=dict)
    #: By the gang that takes over.
    open: dict[ApplicationId, OpenTakeOver] = field(default_factory=dict)
    #: How often what is left of a queue, a limit or the slots of `maxApplications` may have grown.
    growths: int = 0
    #: Take-overs since the partition is there.
    count: int = 0
    #: The last key among those that hold something; None = no gang does.
    last: GangKey | None = None

    def hold(self, app: ApplicationId, key: GangKey) -> None:
        """The incomplete gang holds something."""
        self.holding[app] = key
        if self.last is None or key > self.last:
            self.last = key

    def forget(self, app: ApplicationId) -> None:
        """The gang is complete, is over, or holds nothing any more."""
        if self.holding.pop(app, None) == self.last:
            self.last = max(self.holding.values(), default=None)

    def has_later(self, key: GangKey) -> bool:
        """Whether an incomplete gang with a later key holds something."""
        return self.last is not None and self.last > key


@dataclass(slots=True, eq=False)
class PendingCallback:
    """Decisions of one plan for one application. `questions`: their numbers, and which place each is about; of victims
    there is one per place, answered one by one.
    """

    partition: PartitionId
    application: ApplicationId
    decisions: tuple[Placement | PlaceholderReplacement | Preemption, ...]
    questions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PendingCallbacks:
    """`places`, `victims`: what the resource manager declared that it is to be asked."""

    places: bool = False
    victims: bool = False
    #: By the numbers of their questions.
    open: dict[int, PendingCallback] = field(default_factory=dict)
    #: How many questions of an application are open.
    waiting: dict[tuple[PartitionId, ApplicationId], int] = field(default_factory=dict)
    sequence: int = 0

    def is_parked(self, partition: PartitionId, app: ApplicationId) -> bool:
        """Whether a word about something of the application is awaited."""
        return (partition, app) in self.waiting

    def add(self, inquiry: PendingCallback, place: int = 0) -> int:
        """A question more, about its place of that position; returns the number."""
        self.sequence += 1
        self.open[self.sequence] = inquiry
        inquiry.questions[self.sequence] = place
        name = (inquiry.partition, inquiry.application)
        self.waiting[name] = self.waiting.get(name, 0) + 1
        return self.sequence

    def close(self, number: int) -> PendingCallback | None:
        """The question is answered, or its request waits for it no more; None = it is not open."""
        inquiry = self.open.pop(number, None)
        if inquiry is None:
            return None
        name = (inquiry.partition, inquiry.application)
        self.waiting[name] -= 1
        if not self.waiting[name]:
            del self.waiting[name]
        return inquiry
