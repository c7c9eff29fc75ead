"""Nodes for pods without placeholders.

Pods that differ only in the names of their own claims share one kind of scheduling class, because nodes reject all of
them or none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from muster_core.model.decisions import Placement, UnschedulableReason
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import NO_VOLUMES, PodProperties
from muster_core.model.storage import Volume, VolumeHandle
from muster_core.placement import node_search
from muster_core.placement.node_reservations import lift
from muster_core.placement.replacement import has_placeholder
from muster_core.placement.snapshot import (
    AllocationPlan,
    Snapshot,
    Unplaced,
    assign,
    has_untold,
    shape_of,
    volumes_of,
    wanted,
)
from muster_core.placement.volumes.binding import unusable
from muster_core.queues import quota
from muster_core.queues.quota import FREELY, FairnessQuantum
from muster_core.state.applications import Application
from muster_core.state.node_pods import Attachments
from muster_core.state.ordering import classes
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import NoNodeFits


def claim_independent_class(snapshot: Snapshot, wanted: AskClass) -> Hashable | None:
    """What nodes read of asks of the class; equal for classes that the same nodes refuse for the same reasons.
    None = the class has to be asked about itself.
    """
    volumes = wanted.pod_on_node.facts.volumes
    if not volumes.claims or wanted.required_node or wanted.placement is not None:
        return None
    if unusable(snapshot, shape_of(wanted)):
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
    facts = wanted.pod_on_node.facts
    others = PodProperties(
        inter_pod=facts.inter_pod, ports=facts.ports, volumes=NO_VOLUMES, preferences=facts.preferences
    )
    drivers = tuple(handle.driver for handle in dict.fromkeys(volumes.attached))
    about = (wanted.resources, wanted.constraints, wanted.avoid, wanted.pod_on_node.tags, others)
    return (about, tuple(kinds), volumes.disks, drivers)


def _claim(snapshot: Snapshot, attachments: Attachments, name: str) -> Hashable | None:
    """The kind of a claim that only the pod uses and nothing is planned for; None = it has none."""
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


def _nameless(volume: Volume) -> Volume:
    handle = VolumeHandle(volume.handle.driver, "-" if volume.handle.id else "") if volume.handle is not None else None
    return replace(volume, name="", reference=None, handle=handle)


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """What one plan may spend: so many looks at all nodes, and no more time than there is. The next plan continues."""

    may_go_on: Callable[[], bool]
    looks: int


UNBOUNDED: Final = SearchBudget(lambda: True, sys.maxsize)


def plan_pods(
    partition: Partition,
    app: Application,
    at_most: int,
    pace: FairnessQuantum = FREELY,
    budget: SearchBudget = UNBOUNDED,
) -> AllocationPlan:
    """As many places as queues, limits and nodes have: `at_most` in all, and no more than the pace allows. At least one
    class is looked at whatever the budget is.
    """
    allocation_plan = AllocationPlan()
    search = _PodSearch(partition, app, allocation_plan, pace, at_most, budget.looks)
    kinds = classes(app)
    is_first = True
    for index, kind in enumerate(kinds):
        if has_placeholder(app, kind):
            continue
        if search.left <= 0 or allocation_plan.more:
            allocation_plan.more = True
            break
        unschedulable_class = partition.unschedulable_classes.get(kind)
        if unschedulable_class is not None and not unschedulable_class.room:
            allocation_plan.blocking_reasons.append(NoNodeFits(kind, 1))
            if has_untold(app, kind):
                refused = quota.quota_refusal(partition, app, kind.resources, search.planned)
                allocation_plan.unplaced.append(
                    Unplaced(kind, unschedulable_class.why if refused is None else refused.why)
                )
            continue
        if not is_first and not (search.may_look(kind) and budget.may_go_on()):
            allocation_plan.more, allocation_plan.left = True, len(kinds) - index
            break
        is_first = False
        search.place(kind)
    return allocation_plan


@dataclass(slots=True)
class _PodSearch:
    """What the classes of one plan share."""

    partition: Partition
    app: Application
    allocation_plan: AllocationPlan
    pace: FairnessQuantum
    left: int
    looks: int
    planned: Resources = NOTHING
    snapshot: Snapshot | None = None
    room: Limit | None = None
    #: Why the nodes refused classes that differ by their claims alone, since something was placed (claim_kinds.py).
    refused: dict[Hashable, UnschedulableReason] = field(default_factory=dict)

    def place(self, kind: AskClass) -> None:
        """Places for a class; what is not given is refused, or left for another turn."""
        partition, app = self.partition, self.app
        if self.room is None:
            self.room = quota.room(partition, app)
        wants = wanted(app, kind, self.left + 1)
        count = self.pace.count(kind.resources, min(self.left, wants), self.planned)
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
        """Whether the budget allows what the class needs: a look at all nodes, unless its answer is known."""
        return self.looks > 0 or (
            self.snapshot is not None and claim_independent_class(self.snapshot, kind) in self.refused
        )

    def _look(self, kind: AskClass, allowed: int) -> tuple[int, UnschedulableReason | None]:
        """How many of the class get a place, and why the next one of them gets none, if so many do not."""
        snapshot = self.snapshot = self.snapshot or Snapshot(self.partition.nodes)
        alike = claim_independent_class(snapshot, kind)
        if alike is not None and alike in self.refused:
            return 0, self.refused[alike]
        self.looks -= 1
        lift(self.partition, snapshot, kind, 1)
        placed = self._give(kind, allowed, snapshot)
        why = node_search.unschedulable_reason(snapshot, shape_of(kind)) if placed < allowed else None
        lift(self.partition, snapshot, kind, -1)
        if placed:  # what was placed may draw others near
            self.refused.clear()
        elif alike is not None and why is not None:
            self.refused[alike] = why
        return placed, why

    def _give(self, kind: AskClass, allowed: int, snapshot: Snapshot) -> int:
        partition = self.partition
        is_last = len(self.app.waiting) == 1
        spots = node_search.place(snapshot, shape_of(kind), allowed, partition.config.node_sort, is_last=is_last)
        placed = sum(there for _, there in spots)
        if placed and self.room is not None:
            volumes = volumes_of(snapshot, kind)
            self.allocation_plan.decisions.append(
                Placement(partition.id, self.app.id, assign(self.app, kind, spots), volumes)
            )
            taken = kind.resources.times(placed)
            self.room = self.room.room(taken)
            self.planned += taken
        return placed
