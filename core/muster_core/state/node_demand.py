"""The requests that are reported as waiting for nodes, and the quota that they will need.

An autoscaler adds nodes for each of them. So together with the usage they stay within the maximum of each queue, user
and group; the other requests without a node are reported as waiting for quota (docs/internals/semantics.md, rule 6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster_core.model.ids import ApplicationId
from muster_core.model.resources import NOTHING, Resources
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.users import LimitSubject


@dataclass(slots=True, eq=False)
class Demand:
    """The demand of one application. `counts`: number of allocations by class, for its oldest requests.

    `total`: their resources. `holders`: the maximums that they count towards. `refused`: the classes of which the quota
    does not allow more, and `NodeDemand.version` at that time.
    """

    counts: dict[AskClass, int] = field(default_factory=dict)
    total: Resources = NOTHING
    holders: tuple[LimitSubject, ...] = ()
    refused: dict[AskClass, int] = field(default_factory=dict)

    def add(self, more: Iterable[tuple[AskClass, int]]) -> None:
        """Adds classes that are not counted yet, with a number of requests each."""
        for kind, count in more:
            if count:
                self.counts[kind] = count
                self.total = self.total.plus(kind.resources, count)

    def remove(self, kind: AskClass) -> None:
        """Removes all requests of the class."""
        self.refused.pop(kind, None)
        if count := self.counts.pop(kind, 0):
            self.total = self.total.plus(kind.resources, -count)


@dataclass(slots=True, eq=False)
class NodeDemand:
    """The demand of all applications of a partition, and its total for each maximum."""

    by_application: dict[ApplicationId, Demand] = field(default_factory=dict)
    by_holder: dict[LimitSubject, Resources] = field(default_factory=dict)
    #: Number of times that more requests could be reported as waiting for nodes.
    version: int = 0

    def put(self, app: Application, demand: Demand) -> None:
        """Counts the demand of an application, of which none is counted."""
        if demand.counts or demand.refused:
            self.by_application[app.id] = demand
            app.lost_asks = {}
            self._count(demand, demand.total, 1)

    def take(self, app: Application) -> Demand:
        """Stops counting the demand of the application and returns it."""
        demand = self.by_application.pop(app.id, None)
        app.lost_asks = None
        if demand is None:
            return Demand()
        self._count(demand, demand.total, -1)
        return demand

    def trim(self, app: Application, kind: AskClass, count: int) -> bool:
        """Lowers the number of requests of the class to `count`. Returns whether it was higher.

        If the class was refused, it must be evaluated again, because other requests of it are the oldest now.
        """
        demand = self.by_application[app.id]
        if kind not in app.waiting:
            demand.refused.pop(kind, None)
        elif kind in demand.refused:
            demand.refused[kind] = -1
        fewer = demand.counts.get(kind, 0) - count
        if fewer <= 0:
            return False
        if count:
            demand.counts[kind] = count
        else:
            del demand.counts[kind]
        demand.total = demand.total.plus(kind.resources, -fewer)
        self._count(demand, kind.resources, -fewer)
        return True

    def of_others(self, holder: LimitSubject, app: ApplicationId) -> Resources:
        """Returns the demand of the other applications that counts towards the maximum."""
        total = self.by_holder.get(holder, NOTHING)
        mine = self.by_application.get(app)
        return total - mine.total if total and mine is not None and holder in mine.holders else total

    def count(self, app: ApplicationId, kind: AskClass) -> int:
        """Returns how many allocations of the class are reported as waiting for nodes."""
        demand = self.by_application.get(app)
        return 0 if demand is None else demand.counts.get(kind, 0)

    def is_limited(self, app: ApplicationId, kind: AskClass) -> bool:
        """Whether requests of the class are reported as waiting for quota because of the demand."""
        demand = self.by_application.get(app)
        return demand is not None and kind in demand.refused

    def is_due(self, app: ApplicationId, kind: AskClass) -> bool:
        """Whether the class was refused, and more of its requests may be allowed now."""
        demand = self.by_application.get(app)
        return demand is not None and demand.refused.get(kind, self.version) != self.version

    def _count(self, demand: Demand, amount: Resources, times: int) -> None:
        for holder in demand.holders:
            left = self.by_holder.get(holder, NOTHING).plus(amount, times)
            if left:
                self.by_holder[holder] = left
            else:
                self.by_holder.pop(holder, None)
