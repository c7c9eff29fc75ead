"""Node reservations, preemptions, takeovers and predicate callbacks that are in progress.

A node reservation counts as used for all other requests, so resources that become free accumulate for its request.
`scheduling` writes this module, plans read it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.claims import ClaimChoice
from muster_core.model.decisions import PlaceholderReplacement, Placement, Preemption, ReservationTakeover
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, PartitionId, QueuePath
from muster_core.model.resources import Resources
from muster_core.state import indexes
from muster_core.state.request_classes import AskClass

#: ID of a request among those of all applications.
AskId = tuple[ApplicationId, AllocationKey]


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """Resources reserved on `node` for one allocation of a request. `number`: identifies its timer."""

    application: ApplicationId
    key: AllocationKey
    node: NodeId
    resources: Resources
    number: int
    #: The request requires this node (DaemonSet pods). Such reservations may coexist with others on the node.
    required: bool = False
    #: Number of the preemption that makes room for it; quota of the queues is reserved too. 0 = none.
    preemption: int = 0

    @property
    def preempted(self) -> bool:
        """Whether victims are released for it."""
        return self.preemption != 0

    @property
    def ask(self) -> AskId:
        """ID of its request."""
        return self.application, self.key


@dataclass(slots=True, eq=False)
class Reservations:
    """All node reservations of a partition, at most one per request: by request, node and application."""

    by_ask: dict[AskId, NodeReservation] = field(default_factory=dict)
    by_node: dict[NodeId, dict[AskId, NodeReservation]] = field(default_factory=dict)
    by_application: dict[ApplicationId, dict[AllocationKey, NodeReservation]] = field(default_factory=dict)
    #: Leaves with requests for which no node could be reserved. Valid while `facts_epoch` is `without_node_since`.
    without_node: dict[QueuePath, None] = field(default_factory=dict)
    without_node_since: int = 0

    def __bool__(self) -> bool:
        return bool(self.by_ask)

    def on(self, node: NodeId) -> Iterator[NodeReservation]:
        """Yields the reservations on a node, oldest first."""
        return iter(tuple(self.by_node.get(node, {}).values()))

    def of(self, application: ApplicationId) -> Iterator[NodeReservation]:
        """Yields the reservations of an application, oldest first."""
        return iter(tuple(self.by_application.get(application, {}).values()))

    def add(self, reservation: NodeReservation) -> None:
        """Adds a reservation for a request that has none."""
        self.by_ask[reservation.ask] = reservation
        self.by_node.setdefault(reservation.node, {})[reservation.ask] = reservation
        self.by_application.setdefault(reservation.application, {})[reservation.key] = reservation

    def remove(self, reservation: NodeReservation) -> None:
        """Removes a reservation."""
        del self.by_ask[reservation.ask]
        indexes.remove(self.by_node, reservation.node, reservation.ask)
        indexes.remove(self.by_application, reservation.application, reservation.key)


#: Number of finished preemptions that are stored for the REST API.
_KEPT: Final = 100

#: ID of an allocation among those of all applications.
PlaceId = tuple[ApplicationId, AllocationId]


@dataclass(slots=True, eq=False)
class RunningPreemption:
    """Victims whose release is not confirmed yet. `asks`: the requests that preempt; empty for quota preemption."""

    number: int
    #: The leaf of the requests, or the queue above its maximum.
    queue: QueuePath
    asks: tuple[AskId, ...]
    victims: dict[PlaceId, None]
    since_ns: int
    #: The gang that takes over the reservations of the victims; None = not a takeover.
    gang: ApplicationId | None = None


@dataclass(slots=True, eq=False)
class ThrashingGuard:
    """Two leaves that preempt from each other. `rounds`: how often the losing leaf preempted back."""

    taker: QueuePath
    since_ns: int
    rounds: int = 0
    #: Number of pauses.
    pauses: int = 0
    #: Until then neither leaf preempts from the other.
    paused_until_ns: int = 0


#: Paths of two leaves in ascending order.
Pair = tuple[QueuePath, QueuePath]


def pair(one: QueuePath, other: QueuePath) -> Pair:
    """Returns the key of two leaves."""
    return (one, other) if one < other else (other, one)


#: Subject of one search: scheduling classes with the number of requests.
Wanted = tuple[tuple[AskClass, int], ...]

#: Counters of changes of allocations and queues, and of nodes.
Epoch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PreemptionRefusal:
    """A preemption attempt that did not help.

    It is repeated only after `again_ns`, and only if the epoch changed or a thrashing pause ended (`until_ns`; 0 =
    none).
    """

    epoch: Epoch
    again_ns: int
    until_ns: int
    times: int


@dataclass(slots=True, eq=False)
class Examined:
    """What the attempts of one victim search found so far. `preemption.planning` adds to it.

    `useless`: rows of nodes by class; None = for further quota, on any node.
    """

    useless: dict[AskClass | None, set[int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PreemptionSearch:
    """Preemption attempts in one leaf: pending ones, and those that did not help."""

    refused: dict[Wanted, PreemptionRefusal] = field(default_factory=dict)
    #: Classes to evaluate with their applications. Empty = no search is running.
    left: deque[tuple[AskClass, deque[ApplicationId]]] = field(default_factory=deque)
    #: What a search that a bound cut short is for; None = no search was. `examined`: what it found.
    examining: Wanted | None = None
    examined: Examined = field(default_factory=Examined)
    #: Failed attempts since the last pause.
    in_vain: int = 0
    #: Time of the last attempt; 0 = never.
    tried_ns: int = 0
    #: Some requests may succeed after a change.
    is_refused: bool = False
    #: Time of the first request that is not old enough yet; 0 = none.
    next_ns: int = 0


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """A finished preemption for the REST API."""

    at_ns: int
    queue: QueuePath
    asks: tuple[AskId, ...]
    victims: tuple[PlaceId, ...]


@dataclass(slots=True, eq=False)
class Preemptions:
    """Preemptions of one partition."""

    running: dict[int, RunningPreemption] = field(default_factory=dict)
    #: Allocations of pods that were preempted and still terminated when they were first reported, after a restart. They
    #: are selected before others until a release times out, because they may take long to terminate.
    earlier_victims: dict[PlaceId, None] = field(default_factory=dict)
    thrashing_guards: dict[Pair, ThrashingGuard] = field(default_factory=dict)
    #: The newest reports.
    reports: deque[PreemptionReport] = field(default_factory=lambda: deque(maxlen=_KEPT))
    #: Since the partition exists: preemptions, victims, and thrashing pauses.
    count: int = 0
    victims: int = 0
    livelocks: int = 0
    #: Grows with each change of allocations or queues after which preemption may help.
    epoch: int = 0
    #: Leaves whose requests wait for a change. Preemption does not help them while the epoch is `idle_since`.
    idle: dict[QueuePath, None] = field(default_factory=dict)
    idle_since: Epoch = (0, 0)
    #: Leaves whose timers the next cycles set: usage below a guarantee was released, or they are no longer idle.
    to_watch: dict[QueuePath, None] = field(default_factory=dict)
    to_retry: dict[QueuePath, None] = field(default_factory=dict)

    def paused_until_ns(self, queue: QueuePath) -> int:
        """Returns the end of the last thrashing pause of the queue; 0 = never paused."""
        return max((one.paused_until_ns for both, one in self.thrashing_guards.items() if queue in both), default=0)


#: Epoch of the node properties, and the waiting requests of the gang by class.
Basis = tuple[int, tuple[tuple[AskClass, int], ...]]

#: (negative priority, creation time, ID): the lowest key is first.
GangKey = tuple[int, int, ApplicationId]


@dataclass(slots=True, eq=False)
class OpenTakeOver:
    """Resources reserved for a gang until the placeholders of the losing gangs have ended.

    `number`: of the preemption that waits for them. `places`: (request, node), as in the decision.
    """

    number: int
    losers: tuple[ApplicationId, ...]
    nodes: dict[NodeId, Resources]
    places: tuple[tuple[str, NodeId], ...]
    chosen: ClaimChoice


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes that are reserved for a starving gang until all its members fit: node → resources.

    `others`: pods of others that were there when the set was chosen and had not ended at `since_ns`, when some of them
    had ended last.
    """

    application: ApplicationId
    nodes: dict[NodeId, Resources]
    chosen_ns: int
    since_ns: int
    others: frozenset[PlaceId]


@dataclass(slots=True, eq=False)
class Planning:
    """A takeover plan that continues in the next cycle.

    `epoch`: state of the changes at its start. `basis`: the plan is invalid if this changes. `restarts`: how often that
    happened.
    """

    steps: Generator[None, None, ReservationTakeover | None]
    epoch: tuple[int, int]
    basis: Basis
    restarts: int = 0


@dataclass(slots=True, eq=False)
class Contention:
    """Contention state of one partition: gangs with reservations, and pending takeovers."""

    #: Incomplete gangs with placeholders, or with a quota reservation.
    holding: dict[ApplicationId, GangKey] = field(default_factory=dict)
    #: Gangs without enough free resources in this cycle. A takeover is tried for them in the order of keys.
    due: dict[ApplicationId, None] = field(default_factory=dict)
    #: Running plans of these gangs.
    planning: dict[ApplicationId, Planning] = field(default_factory=dict)
    #: Gangs without a later gang that has reservations. The first one that gets some wakes them up.
    idle: dict[ApplicationId, None] = field(default_factory=dict)
    #: Takeovers by the gang that takes over.
    open: dict[ApplicationId, OpenTakeOver] = field(default_factory=dict)
    #: The set of nodes that is reserved for a starving gang; None = no gang has one.
    node_set: NodeSet | None = None
    #: No set is searched before this time.
    node_set_search_ns: int = 0
    #: Pauses after sets without effect, by queue and user, the last one last: end, and number of such sets in a row.
    node_set_pauses: dict[tuple[QueuePath, str], tuple[int, int]] = field(default_factory=dict)
    #: Number of changes after which a quota, limit or slot of `maxApplications` may be larger.
    wake_ups: int = 0
    #: Number of takeovers since the partition exists.
    count: int = 0
    #: The last key of all gangs with reservations; None = no such gang.
    last: GangKey | None = None

    def own_nodes(self, app: ApplicationId) -> Iterator[tuple[NodeId, Resources]]:
        """Yields the resources that a takeover, and the set of nodes, reserve for the gang."""
        if app in self.open:
            yield from self.open[app].nodes.items()
        if self.node_set is not None and self.node_set.application == app:
            yield from self.node_set.nodes.items()

    def note_reserving(self, app: ApplicationId, key: GangKey) -> None:
        """Records that the incomplete gang has reservations."""
        self.holding[app] = key
        if self.last is None or key > self.last:
            self.last = key

    def forget(self, app: ApplicationId) -> None:
        """Records that the gang is complete, has ended, or has no reservations."""
        if self.holding.pop(app, None) == self.last:
            self.last = max(self.holding.values(), default=None)

    def has_later(self, key: GangKey) -> bool:
        """Whether an incomplete gang with a later key has reservations."""
        return self.last is not None and self.last > key


@dataclass(slots=True, eq=False)
class PendingCallback:
    """Decisions of one plan that wait for predicate callbacks.

    `questions`: callback number → index of the placement. For victims there is one callback per placement.
    """

    partition: PartitionId
    application: ApplicationId
    decisions: tuple[Placement | PlaceholderReplacement | Preemption, ...]
    questions: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PendingCallbacks:
    """Predicate callbacks of one resource manager. `places`, `victims`: the callbacks that it declared."""

    places: bool = False
    victims: bool = False
    #: By callback number.
    open: dict[int, PendingCallback] = field(default_factory=dict)
    #: Number of open callbacks per application.
    waiting: dict[tuple[PartitionId, ApplicationId], int] = field(default_factory=dict)
    sequence: int = 0

    def awaits_callback(self, partition: PartitionId, app: ApplicationId) -> bool:
        """Whether the application waits for a callback."""
        return (partition, app) in self.waiting

    def add(self, inquiry: PendingCallback, place: int = 0) -> int:
        """Adds a callback for the placement with this index. Returns its number."""
        self.sequence += 1
        self.open[self.sequence] = inquiry
        inquiry.questions[self.sequence] = place
        indexes.count(self.waiting, (inquiry.partition, inquiry.application), 1)
        return self.sequence

    def close(self, number: int) -> PendingCallback | None:
        """Removes a callback that was answered or is obsolete. None = it is unknown."""
        inquiry = self.open.pop(number, None)
        if inquiry is not None:
            indexes.count(self.waiting, (inquiry.partition, inquiry.application), -1)
        return inquiry
