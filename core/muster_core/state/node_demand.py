"""Demand for new nodes: the requests that wait for nodes, and how much of each maximum they will use.

An autoscaler adds nodes for every request that is reported as waiting for nodes. A demand is therefore admitted only
as far as all maximums of its application have headroom for it; the other requests are reported as waiting for quota
(docs/internals/semantics.md, rule 6). Only reports depend on this module: no plan reads it. `scheduling/reporting.py`
admits the demand. Amounts are integers in the units of `muster_core.model.resources`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from muster_core.model.decisions import UnschedulableReason
from muster_core.model.ids import AllocationKey, ApplicationId
from muster_core.model.limits import DEMAND_QUEUES
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.state import indexes
from muster_core.state.applications import Application, Ask
from muster_core.state.ordered_sets import LeafQueue, SchedulingContext
from muster_core.state.queues import LazySum, Queue
from muster_core.state.request_classes import AskClass
from muster_core.state.users import Account, LimitSubject


@dataclass(slots=True, eq=False)
class Demand:
    """The requests of one class of an application that wait for nodes, or all placeholder requests of a gang.

    `kind`: the class; None = a gang, which is admitted completely or not at all.
    """

    app: Application
    kind: AskClass | None
    #: The maximums that apply to the application.
    holders: tuple[LimitSubject, ...]
    #: Requests that are reported as waiting for nodes, with the number of allocations that count for the maximums.
    admitted: dict[AllocationKey, int] = field(default_factory=dict)
    #: The other requests, oldest first. They are reported as waiting for quota.
    refused: OrderedDict[AllocationKey, None] = field(default_factory=OrderedDict)
    #: Requests whose state is not reported yet.
    unreported: dict[AllocationKey, None] = field(default_factory=dict)
    #: Some of `unreported` waited for quota before.
    fits_again: bool = False
    #: Total that counts for the maximums.
    total: Resources = NOTHING
    #: When it was first counted, or when one of its requests was last placed.
    since_ns: int = 0
    #: It did not get a node in time. It is no longer counted, and its other requests are admitted after those of
    #: other demands.
    is_late: bool = False
    #: The queue in which it waits for a decision, or for a maximum.
    queue: DemandQueue | None = None
    #: The reason why the refused requests are refused.
    why: UnschedulableReason | None = None


class DemandQueueKey(NamedTuple):
    """Properties that all demands of a queue share. `app`: an application with reservations, so other headroom."""

    is_late: bool
    amount: Resources
    app: ApplicationId | None


class DemandQueue:
    """Demands that wait for the same amount of one maximum, or for a decision, in scheduling order.

    If more than DEMAND_QUEUES amounts wait, the others share one queue without an amount: each of them waits for
    those before it.
    """

    __slots__ = ("demands", "holder", "key", "order")

    def __init__(self, cluster: SchedulingContext, holder: LimitSubject | None, key: DemandQueueKey) -> None:
        self.holder = holder
        self.key = key
        self.order = LeafQueue(cluster)
        self.demands: dict[ApplicationId, dict[Demand, None]] = {}

    def enter(self, demand: Demand) -> None:
        """Adds the demand."""
        demand.queue = self
        of_app = self.demands.setdefault(demand.app.id, {})
        if of_app:
            self.order.moved(demand.app)
        else:
            self.order.enter(demand.app)
        of_app[demand] = None

    def remove(self, demand: Demand) -> None:
        """Removes the demand."""
        demand.queue = None
        indexes.remove(self.demands, demand.app.id, demand)
        if demand.app.id not in self.demands:
            self.order.remove(demand.app)


@dataclass(slots=True, eq=False)
class RefusingMaximum:
    """A maximum that refuses some demand, its usage, and the refused demands.

    `limit` is not read for a queue, because its maximum may have changed.
    """

    limit: Limit
    taken: Queue | Account
    queues: dict[DemandQueueKey, DemandQueue] = field(default_factory=dict)

    def headroom(self) -> Limit:
        """Returns at least what is left of the maximum, without the admitted demand."""
        limit = self.taken.max if isinstance(self.taken, Queue) else self.limit
        return limit.room(self.taken.allocated)


class NodeDemand:  # long: every way in which the demand changes
    """The demand for nodes of one partition."""

    def __init__(self, cluster: SchedulingContext) -> None:
        self._cluster = cluster
        self.by_app: dict[ApplicationId, dict[AskClass | None, Demand]] = {}
        #: Admitted demand by maximum.
        self.counted: dict[LimitSubject, LazySum] = {}
        #: Maximums that refuse some demand.
        self.refusing: dict[LimitSubject, RefusingMaximum] = {}
        #: Demands to be decided, and maximums with more headroom than before.
        self.undecided = DemandQueue(cluster, None, DemandQueueKey(is_late=False, amount=NOTHING, app=None))
        self.grown: OrderedDict[LimitSubject, None] = OrderedDict()
        #: Queues of maximums with more headroom that are still to be tried.
        self.to_try: deque[DemandQueue] = deque()
        #: Counted demands, ordered by `since_ns`.
        self.by_age: OrderedDict[Demand, None] = OrderedDict()
        #: Number of the timer that ends the wait of the first of them; 0 = none.
        self.timer = 0
        #: Time of the cycle.
        self.now_ns = 0

    @property
    def is_due(self) -> bool:
        """Whether some demand is to be decided."""
        return bool(self.undecided.demands or self.grown or self.to_try)

    @property
    def needs_timer(self) -> bool:
        """Whether a timer must be set, because some demand keeps quota from another."""
        return bool(self.refusing and self.by_age and not self.timer)

    def find(self, app: Application, kind: AskClass) -> Demand | None:
        """Returns the demand that requests of the class belong to, or None."""
        mine = self.by_app.get(app.id)
        return None if mine is None else mine.get(demand_key(app, kind))

    def is_refused(self, app: Application, ask: Ask) -> bool:
        """Whether the request is not admitted, so that no node may be added for it."""
        demand = self.find(app, ask.kind)
        return demand is not None and ask.spec.key in demand.refused

    def refusal(self, app: Application, ask: Ask) -> UnschedulableReason | None:
        """Returns why the request is not admitted; None = it is, or it does not wait for nodes."""
        demand = self.find(app, ask.kind)
        return demand.why if demand is not None and ask.spec.key in demand.refused else None

    def count(self, demand: Demand, amount: Resources, times: int) -> None:
        """Adds an amount to what the demand counts for its maximums. `times` = -1 removes it."""
        if not amount:
            return
        if not demand.total and times > 0:
            demand.since_ns = self.now_ns
        demand.total = demand.total.plus(amount, times)
        self._charge(demand, amount, times)

    def set_holders(self, demand: Demand, holders: tuple[LimitSubject, ...]) -> None:
        """Counts the demand for other maximums than before."""
        left = tuple(holder for holder in demand.holders if holder not in holders)
        self._charge(demand, demand.total, -1)
        demand.holders = holders
        self._charge(demand, demand.total, 1)
        if demand.total:
            self.grew(left)

    def _charge(self, demand: Demand, amount: Resources, times: int) -> None:
        for holder in demand.holders if amount else ():
            total = self.counted.setdefault(holder, LazySum())
            total.add(amount, times)
            if not total:
                del self.counted[holder]
        if demand.total and demand.holders:
            self.by_age.setdefault(demand, None)
        else:
            self.by_age.pop(demand, None)

    def uncount(self, demand: Demand) -> None:
        """Stops counting the demand. Its requests stay admitted."""
        demand.admitted = dict.fromkeys(demand.admitted, 0)
        self.count(demand, demand.total, -1)
        self.grew(demand.holders)

    def expire(self, demand: Demand) -> None:
        """Lets a demand that got no node in time wait after the others."""
        demand.is_late, queue = True, demand.queue
        if queue is not None and queue.holder is not None:
            at = self.refusing[queue.holder]
            self.take_out(demand)
            self.refuse(demand, queue.holder, at.limit, at.taken, queue.key.amount)
        self.uncount(demand)

    def suspend(self, app: Application) -> None:
        """Removes the demands of the application from their queues, because it gets another queue."""
        for demand in self.by_app.get(app.id, {}).values():
            self.take_out(demand)

    def reserved(self, app: Application) -> None:
        """Admits the demand of a gang and stops counting it, because its quota reservation counts instead."""
        demand = self.by_app.get(app.id, {}).get(None)
        if demand is None:
            return
        if demand.total:
            self.uncount(demand)
        if demand.refused:
            self.undecide(demand)

    def leave(self, app: Application, ask: Ask, *, placed: bool = False) -> None:
        """Removes a request that does not wait for nodes any more. `placed`: its resources count as usage now."""
        demand = self.find(app, ask.kind) if app.id in self.by_app else None
        if demand is None:
            return
        key = ask.spec.key
        demand.unreported.pop(key, None)
        if key in demand.refused:
            del demand.refused[key]
            self._refused_changed(demand, ask)
        self._lower(demand, ask, demand.admitted.pop(key, 0), placed=placed)
        if not demand.admitted and not demand.refused:
            self._forget(demand)

    def lower(self, app: Application, ask: Ask, *, placed: bool = False) -> None:
        """Updates a request that needs fewer allocations than before."""
        demand = self.find(app, ask.kind) if app.id in self.by_app else None
        if demand is None:
            return
        key = ask.spec.key
        if key in demand.refused:
            self._refused_changed(demand, ask)
        more = demand.admitted.get(key, 0) - ask.left
        if more > 0:
            demand.admitted[key] = ask.left
            self._lower(demand, ask, more, placed=placed)

    def rise(self, app: Application, ask: Ask, more: int) -> None:
        """Updates a request that needs `more` allocations than before."""
        demand = self.find(app, ask.kind) if app.id in self.by_app else None
        if demand is None:
            return
        if ask.spec.key in demand.refused:
            self._refused_changed(demand, ask)
        elif demand.admitted.get(ask.spec.key):
            demand.admitted[ask.spec.key] += more
            self.count(demand, ask.spec.resources.times(more), 1)

    def orders(self, app: Application | None) -> list[LeafQueue]:
        """Returns the ordered sets with the application; None = all."""
        if app is not None:
            return [demand.queue.order for demand in self.by_app.get(app.id, {}).values() if demand.queue is not None]
        return [self.undecided.order, *(queue.order for at in self.refusing.values() for queue in at.queues.values())]

    def grew(self, holders: tuple[LimitSubject, ...]) -> None:
        """Records that maximums have more headroom."""
        for holder in holders:
            if holder in self.refusing:
                self.grown[holder] = None

    def undecide(self, demand: Demand) -> None:
        """Has the demand decided again."""
        self.take_out(demand)
        self.undecided.enter(demand)

    def refuse(
        self, demand: Demand, holder: LimitSubject, limit: Limit, taken: Queue | Account, each: Resources
    ) -> None:
        """Lets the demand wait until the maximum has headroom for `each`."""
        at = self.refusing.setdefault(holder, RefusingMaximum(limit, taken))
        app = demand.app
        reserving = app.id if app.gang.quota_reservation or app.node_reserved else None
        key = DemandQueueKey(demand.is_late, each, reserving)
        if key not in at.queues and len(at.queues) >= DEMAND_QUEUES:
            key = DemandQueueKey(is_late=True, amount=NOTHING, app=None)
        queue = at.queues.get(key)
        if queue is None:
            queue = at.queues[key] = DemandQueue(self._cluster, holder, key)
        queue.enter(demand)

    def take_out(self, demand: Demand) -> None:
        """Removes the demand from its queue."""
        queue = demand.queue
        if queue is None:
            return
        queue.remove(demand)
        if queue.holder is not None and not queue.demands:
            at = self.refusing[queue.holder]
            del at.queues[queue.key]
            if not at.queues:
                del self.refusing[queue.holder]
                self.grown.pop(queue.holder, None)

    def next_queue(self) -> DemandQueue | None:
        """Returns a queue of a grown maximum; None = there is none."""
        while True:
            while self.to_try:
                queue = self.to_try[0]
                at = self.refusing.get(queue.holder) if queue.holder is not None else None
                if at is not None and at.queues.get(queue.key) is queue:
                    return queue
                self.to_try.popleft()
            if not self.grown:
                return None
            holder, _ = self.grown.popitem(last=False)
            queues = self.refusing[holder].queues.values()
            self.to_try.extend(queue for is_late in (False, True) for queue in queues if queue.key.is_late is is_late)

    def may_fit(self, queue: DemandQueue) -> bool:
        """Whether the maximum has headroom for the first demand. Quota reservations are ignored here."""
        if queue.holder is None:
            return True
        return self.left_of(self.refusing[queue.holder].headroom(), queue.holder).allows(queue.key.amount)

    def left_of(self, limit: Limit, holder: LimitSubject) -> Limit:
        """Returns what the admitted demand leaves of the headroom of a maximum."""
        counted = self.counted.get(holder)
        return limit if counted is None else counted.left_of(limit)

    def _refused_changed(self, demand: Demand, ask: Ask) -> None:
        """Updates the queue of the demand, because it needs another amount now, or nothing."""
        if not demand.refused:
            self.take_out(demand)
        elif demand.kind is None or ask.spec.max_allocations > 1:
            self.undecide(demand)

    def _lower(self, demand: Demand, ask: Ask, count: int, *, placed: bool) -> None:
        if placed:
            demand.is_late = False
        if not count:
            return
        self.count(demand, ask.spec.resources.times(count), -1)
        if not placed:
            self.grew(demand.holders)
            return
        demand.since_ns = self.now_ns
        if demand in self.by_age:
            self.by_age.move_to_end(demand)

    def _forget(self, demand: Demand) -> None:
        self.take_out(demand)
        indexes.remove(self.by_app, demand.app.id, demand.kind)


def demand_key(app: Application, kind: AskClass) -> AskClass | None:
    """Returns the key of a demand in its application."""
    return None if kind.placeholder and app.spec.is_gang else kind
