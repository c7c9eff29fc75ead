"""Plans nodes for pods without placeholders. The scheduling cycle calls `plan_pods` once per application.

Classes that differ only in the names of their pods' own claims have the same result on every node. They share one
refusal (`claim_independent_class`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Final

from muster_core.model.decisions import Placement, UnschedulableReason
from muster_core.model.ids import NodeId, value
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import NO_VOLUMES, PodProperties
from muster_core.model.storage import Volume
from muster_core.placement import node_search
from muster_core.placement.devices import filter as devices
from muster_core.placement.node_reservations import lift
from muster_core.placement.volumes.binding import unusable
from muster_core.queues import quota
from muster_core.queues.quota import FREELY, FairnessQuantum
from muster_core.state.applications import Application
from muster_core.state.columns import BoolColumn
from muster_core.state.node_pods import Attachments
from muster_core.state.ordering import classes
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import NoNodeFits
from muster_core.state.snapshot import (
    AllocationPlan,
    Snapshot,
    Unplaced,
    assign,
    chosen_for,
    has_unreported,
    shape_of,
    wanted,
)


def claim_independent_class(snapshot: Snapshot, wanted: AskClass) -> Hashable | None:
    """Returns a key of all data of the class that decides about nodes, except the names of its claims.

    Classes with equal keys are refused by the same nodes for the same reasons. None = the class must be evaluated by
    itself.
    """
    facts = wanted.pod_on_node.facts
    if not facts.has_claims or wanted.required_node or wanted.placement is not None:
        return None
    volumes, shape = facts.volumes, shape_of(wanted)
    demands = devices.claim_independent_demands(snapshot, facts.devices)
    if demands is None or unusable(snapshot, shape) or devices.unusable(snapshot, shape):
        return None
    attachments = snapshot.nodes.pods_on_nodes.attachments
    own = {name for name, _ in volumes.ephemeral}
    kinds: list[Hashable] = []
    for name in volumes.claims:
        found = _claim(snapshot, attachments, name)
        if found is None:
            return None
        kinds.append((found, name in own))
    if attachments.rows_with(volumes.attached) or len(set(volumes.claims)) < len(volumes.claims):
        return None
    others = PodProperties(
        inter_pod=facts.inter_pod, ports=facts.ports, volumes=NO_VOLUMES, preferences=facts.preferences
    )
    drivers = tuple(handle.driver for handle in dict.fromkeys(volumes.attached))
    about = (wanted.resources, wanted.constraints, wanted.avoid, wanted.home, wanted.pod_on_node.tags, others)
    return (about, tuple(kinds), volumes.disks, drivers, demands)


def _claim(snapshot: Snapshot, attachments: Attachments, name: str) -> Hashable | None:
    """Returns the data of a claim that decides about nodes. None = other pods, volumes or plans use its name."""
    storage = attachments.storage
    claim = storage.claims[name]
    if name in attachments.claims or snapshot.assumptions.of(name) is not None:
        return None
    if any(volume != claim.volume for volume in storage.referring(name)):  # one is kept for it
        return None
    if not claim.is_bound:
        return (claim.request, claim.demand, claim.selected_node)
    volume = storage.volumes.get(claim.volume)
    if volume is None:
        return None
    handle = storage.handle(name)
    if handle is not None and attachments.rows_with((handle,)):
        return None
    return (claim.demand.access_modes, _nameless(volume))


#: Everything of a volume except its own name and those that refer to it.
_NAMELESS: Final = attrgetter(*(one.name for one in fields(Volume) if one.name not in ("name", "reference", "handle")))


def _nameless(volume: Volume) -> Hashable:
    handle = volume.handle
    return _NAMELESS(volume), None if handle is None else (handle.driver, bool(handle.id))


@value
class SearchBudget:
    """Budget of one plan: number of node searches, and whether time is left. The next plan continues where this one
    ends.

    `only`: the classes that are planned, and how many requests of each; None = all.
    """

    may_go_on: Callable[[], bool]
    looks: int
    only: Mapping[AskClass, int] | None = None


UNBOUNDED: Final = SearchBudget(lambda: True, sys.maxsize)


def plan_pods(
    partition: Partition,
    app: Application,
    at_most: int,
    quantum: FairnessQuantum = FREELY,
    budget: SearchBudget = UNBOUNDED,
    inside: Sequence[BoolColumn] = (),
) -> AllocationPlan:
    """Plans nodes for the waiting pods of an application, class by class in their order.

    Places at most `at_most` pods, within the quota and the fairness quantum `quantum`. At least one class is evaluated
    whatever the budget is. `inside`: the rows that members of its gang use first, the most preferred ones first.
    """
    allocation_plan = AllocationPlan()
    search = _PodSearch(partition, app, allocation_plan, quantum, at_most, budget.looks, inside, budget.only)
    kinds = classes(app)
    if budget.only is not None:
        kinds = [kind for kind in kinds if kind in budget.only]
    is_first = True
    for index, kind in enumerate(kinds):
        if app.has_placeholder(kind):
            continue
        if search.left <= 0 or allocation_plan.more:
            allocation_plan.more = True
            break
        unschedulable_class = partition.unschedulable_classes.get(kind)
        if unschedulable_class is not None and not unschedulable_class.room:
            allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1))
            refused = quota.quota_refusal(partition, app, kind.resources, search.planned)
            if refused is not None or has_unreported(app, kind):
                allocation_plan.unplaced.append(
                    Unplaced(kind, unschedulable_class.why if refused is None else refused.why)
                )
                if refused is not None:  # once it fits into the quota, it is reported as waiting for nodes
                    allocation_plan.blocking_reasons.append(refused.blocking_reason)
            continue
        if not is_first and not (search.may_look(kind) and budget.may_go_on()):
            allocation_plan.more, allocation_plan.left = True, len(kinds) - index
            break
        is_first = False
        search.place(kind)
    return allocation_plan


@dataclass(slots=True)
class _PodSearch:
    """State that the classes of one plan share."""

    partition: Partition
    app: Application
    allocation_plan: AllocationPlan
    quantum: FairnessQuantum
    left: int
    looks: int
    inside: Sequence[BoolColumn] = ()
    only: Mapping[AskClass, int] | None = None
    planned: Resources = NOTHING
    snapshot: Snapshot | None = None
    room: Limit | None = None
    #: Refusals since the last placement, by `claim_independent_class`.
    refused: dict[Hashable, UnschedulableReason] = field(default_factory=dict)

    def place(self, kind: AskClass) -> None:
        """Plans pods of a class. The rest is refused with a reason, or waits for the next attempt."""
        partition, app = self.partition, self.app
        if self.room is None:
            self.room = quota.room(partition, app)
        wants = wanted(app, kind, self.left + 1 if self.only is None else self.only[kind])
        count = self.quantum.count(kind.resources, min(self.left, wants), self.planned)
        allowed = self.room.count(kind.resources, count)
        placed, why = self._look(kind, allowed) if allowed else (0, None)
        self.left -= placed
        if why is not None:
            self.allocation_plan.unplaced.append(Unplaced(kind, why, room=0))
            self.allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1))
        elif allowed < count:
            refused = quota.quota_refusal(partition, app, kind.resources, self.planned)
            if refused is not None:
                self.allocation_plan.unplaced.append(Unplaced(kind, refused.why))
                self.allocation_plan.blocking_reasons.append(refused.blocking_reason)
        elif count < wants:
            self.allocation_plan.more = True

    def may_look(self, kind: AskClass) -> bool:
        """Whether the budget allows to evaluate the class: a node search is left, or the refusal is already known."""
        return self.looks > 0 or (
            self.snapshot is not None and claim_independent_class(self.snapshot, kind) in self.refused
        )

    def _look(self, kind: AskClass, allowed: int) -> tuple[int, UnschedulableReason | None]:
        """Returns how many pods of the class were placed, and why the next one does not fit if fewer than `allowed`
        were.
        """
        snapshot = self.snapshot = self.snapshot or Snapshot(self.partition.nodes)
        alike = claim_independent_class(snapshot, kind)
        if alike is not None and alike in self.refused:
            return 0, self.refused[alike]
        self.looks -= 1
        if kind.required_node:
            lift(self.partition, snapshot, kind, 1)
        placed = self._give(kind, allowed, snapshot)
        why = node_search.unschedulable_reason(snapshot, shape_of(kind)) if placed < allowed else None
        if kind.required_node:
            lift(self.partition, snapshot, kind, -1)
        if placed:  # placed pods may satisfy the pod affinity of other classes
            self.refused.clear()
        elif alike is not None and why is not None:
            self.refused[alike] = why
        return placed, why

    def _give(self, kind: AskClass, allowed: int, snapshot: Snapshot) -> int:
        partition = self.partition
        is_last, sort = len(self.app.waiting) == 1, partition.config.node_sort
        spots: list[tuple[NodeId, int]] = []
        placed = 0
        for rows in (*self.inside, None) if kind.group and self.inside else (None,):
            if placed < allowed:
                snapshot.within, last = rows, is_last and rows is None
                spots += node_search.place(snapshot, shape_of(kind), allowed - placed, sort, is_last=last)
                placed = sum(there for _, there in spots)
        snapshot.within = None
        if placed and self.room is not None:
            chosen = chosen_for(snapshot, kind)
            self.allocation_plan.decisions.append(
                Placement(partition.id, self.app.id, assign(self.app, kind, spots), chosen)
            )
            taken = kind.resources.times(placed)
            self.room = self.room.room(taken)
            self.planned += taken
        return placed
