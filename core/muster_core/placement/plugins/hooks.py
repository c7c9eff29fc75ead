"""Hooks of the optional features (`muster_core.extensions`), and the filters and scores that call them.

They cost one comparison per request shape while no request uses the feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np

from muster_core.model.constraints import AllocationAffinity, Target
from muster_core.model.decisions import PlaceholderReplacement, Placement, Preemption
from muster_core.model.errors import FeatureNotInstalled
from muster_core.model.events import (
    CallbacksDeclared,
    PlacementsEvaluated,
    Timer,
    UtilizationReported,
    VictimsEvaluated,
)
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.specs import AskSpec, PodOnNode
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.snapshot import RequestShape, Snapshot

#: A reason, and the rows that are refused for it.
Refused = tuple[str, BoolColumn]

#: Reason of an allocation affinity that the end of pods on the node may resolve.
TOO_MANY: Final = "node(s) had as many allocations as the placement constraint allows"

#: Name of the filter by the answers of predicate callbacks.
PREDICATES: Final = "Predicates"

#: Commits a preemption if it is still valid, and returns whether it was.
Confirm = Callable[[Partition, Preemption, int], bool]

CallbackEvent = CallbacksDeclared | PlacementsEvaluated | VictimsEvaluated
Hook = TypeVar("Hook")


class StatefulFilter(Protocol):
    """A filter for one shape on one snapshot. Rows are the rows of the node table."""

    def allows(self) -> BoolColumn:
        """Rows that allow one more pod of the shape."""

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows, in their order."""

    def refusals(self) -> Sequence[Refused]:
        """Reasons and rows for all rows that `allows` excludes; each row under one reason only."""

    def add(self, row: int) -> IntColumn | None:
        """Adds one pod of the shape to the row. Returns the rows whose result may have changed; None = no row."""


class RefusedRows:
    """A filter that refuses these rows for these reasons, whatever is planned."""

    def __init__(self, snapshot: Snapshot, refused: Sequence[Refused]) -> None:
        self._refused = refused
        self._allowed = np.ones(snapshot.size, dtype=np.bool_)
        for _, rows in refused:
            self._allowed &= ~rows

    def allows(self) -> BoolColumn:
        """Rows that are not refused."""
        return self._allowed

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return self._allowed[rows]

    def refusals(self) -> Sequence[Refused]:
        """Rows by reason."""
        return self._refused

    def add(self, row: int) -> IntColumn | None:
        """Changes nothing."""
        return None


class Score(Protocol):
    """A score plugin for one shape on one snapshot."""

    def points(self) -> FloatColumn:
        """Points per row, higher is better: kube-scheduler's 0 to 100 of the plugin times its weight."""

    def add(self, row: int) -> IntColumn | None:
        """Adds one pod of the shape to the row. Returns the rows whose points have changed; None = no row."""


class AffinityPlugin(StatefulFilter, Score, Protocol):
    """Filter and score of an allocation affinity."""


class PlacementConstraints(Protocol):
    """Hook of placement constraints."""

    def affinity_plugin(
        self, snapshot: Snapshot, affinity: AllocationAffinity, pod_on_node: PodOnNode
    ) -> AffinityPlugin:
        """Creates the filter and score of an affinity to other allocations."""

    def matches_targets(self, targets: tuple[Target, ...], nodes: NodeTable) -> BoolColumn:
        """Rows of the nodes that match all targets."""


class PredicateCallbacks(Protocol):
    """Hook of predicate callbacks. A plan for which a callback is open is in `PendingCallbacks`."""

    def refused_nodes_filter(self, snapshot: Snapshot, refused: Mapping[NodeId, str]) -> StatefulFilter:
        """Creates the filter of nodes that the callback refused."""

    def propose_placements(
        self,
        partition: Partition,
        app: ApplicationId,
        decisions: Sequence[Placement | PlaceholderReplacement],
        now_ns: int,
    ) -> None:
        """Parks the decisions, and sends all their placements in one callback."""

    def propose_victims(self, partition: Partition, decision: Preemption, now_ns: int) -> None:
        """Parks a preemption, and sends one callback per placement."""

    def apply(self, scheduler_state: SchedulerState, event: CallbackEvent, confirm: Confirm, now_ns: int) -> None:
        """Handles a declaration of callbacks or the result of one."""

    def on_timer(self, partition: Partition, timer: Timer) -> None:
        """Handles a timer of kind INQUIRY or REFUSED."""


class UtilizationReports(Protocol):
    """Hook of utilization reports."""

    def report_utilization(
        self, scheduler_state: SchedulerState, partition: Partition, event: UtilizationReported
    ) -> None:
        """Stores a report."""


class Recommendations(Protocol):
    """Hook of recommendations for nodes."""

    def bind_failed(self, partition: Partition, spec: AskSpec, now_ns: int) -> None:
        """Counts the nodes that a new request avoids because its pod could not be bound there."""

    def node_to_empty(self, partition: Partition, now_ns: int) -> None:
        """Recommends a node that could be emptied, at most once per interval."""


@dataclass(slots=True)
class Hooks:
    """The hooks of the optional features, set once when the process starts (`muster_core.extensions`).

    None = not installed. The Scheduler Interface then rejects requests that use the feature, so none of its values
    reach the scheduler.
    """

    placement_constraints: PlacementConstraints | None = None
    predicate_callbacks: PredicateCallbacks | None = None
    utilization: UtilizationReports | None = None
    recommendations: Recommendations | None = None


HOOKS: Final = Hooks()


def matches_targets(targets: tuple[Target, ...], nodes: NodeTable) -> BoolColumn:
    """Rows of the nodes that match all node targets of a placement constraint."""
    return _installed(HOOKS.placement_constraints).matches_targets(targets, nodes)


def constraint_filter(snapshot: Snapshot, shape: RequestShape) -> StatefulFilter | None:
    """Creates the filter if the shape has a required allocation affinity."""
    if shape.affinity is None or not shape.affinity.required:
        return None
    return _installed(HOOKS.placement_constraints).affinity_plugin(snapshot, shape.affinity, shape.pod_on_node)


def constraint_score(snapshot: Snapshot, shape: RequestShape, among: BoolColumn) -> Score | None:
    """Creates the score if the shape has a preferred allocation affinity."""
    if shape.affinity is None or shape.affinity.required:
        return None
    return _installed(HOOKS.placement_constraints).affinity_plugin(snapshot, shape.affinity, shape.pod_on_node)


def predicate_filter(snapshot: Snapshot, shape: RequestShape) -> StatefulFilter | None:
    """Creates the filter if the callback has refused nodes for this shape."""
    refused = snapshot.nodes.refused and snapshot.nodes.refused.get(shape)
    return _installed(HOOKS.predicate_callbacks).refused_nodes_filter(snapshot, refused) if refused else None


def _installed(hook: Hook | None) -> Hook:
    if hook is None:
        raise FeatureNotInstalled
    return hook
