"""The requests that are reported as waiting for nodes, and the quota that they will need.

An autoscaler adds nodes for each of them. So together with the usage they stay within the maximum of each queue, user
and group; the other requests without a node are reported as waiting for quota (docs/internals/semantics.md, rule 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster_core.model.ids import ApplicationId
from muster_core.model.resources import NOTHING, Resources
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.users import LimitSubject


@dataclass(slots=True, eq=False)
class Demand:
    """The demand of one application. `counts`: number of allocations by class, for its oldest requests.

    `total`: their resources. `holders`: the maximums that they count towards. `is_limited`: the quota does not allow
    more.
    """

    counts: dict[AskClass, int]
    total: Resources
    holders: tuple[LimitSubject, ...]
    is_limited: bool


@dataclass(slots=True, eq=False)
class NodeDemand:
    """The demand of all applications of a partition, and its total for each maximum."""

    by_application: dict[ApplicationId, Demand] = field(default_factory=dict)
    by_holder: dict[LimitSubject, Resources] = field(default_factory=dict)

    def put(self, app: Application, demand: Demand | None) -> bool:
        """Replaces the demand of the application. Returns whether some of it is gone, so that others gain by it."""
        before = self.by_application.pop(app.id, None)
        app.lost_asks = None
        if before is not None:
            self._count(before, before.total, -1)
        if demand is not None and (demand.counts or demand.is_limited):
            self.by_application[app.id] = demand
            app.lost_asks = {}
            self._count(demand, demand.total, 1)
        return before is not None and (demand is None or not demand.total.covers(before.total))

    def trim(self, app: Application, kind: AskClass, count: int) -> bool:
        """Lowers the number of requests of the class to `count`. Returns whether it was higher."""
        demand = self.by_application[app.id]
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

    def is_limited(self, app: ApplicationId) -> bool:
        """Whether requests of the application are reported as waiting for quota because of the demand."""
        demand = self.by_application.get(app)
        return demand is not None and demand.is_limited

    def _count(self, demand: Demand, amount: Resources, times: int) -> None:
        for holder in demand.holders:
            left = self.by_holder.get(holder, NOTHING).plus(amount, times)
            if left:
                self.by_holder[holder] = left
            else:
                self.by_holder.pop(holder, None)
