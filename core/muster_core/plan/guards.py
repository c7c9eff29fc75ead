"""Filters and scores that see the plan so far: what they have in common, and the tables of them.

A filter of node facts alone answers once per value of constraints
(feasibility/filters.py). One that depends on who is where is a Guard: made for
one shape over one draft, asked for all rows at once, told of each place that
the plan gives. A Score is the same for preferences. A maker returns None where
the shape does not concern it, so an ordinary pod pays nothing.

The order of GUARDS is kube-scheduler's; a row counts under the first that refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import (
    inter_pod_affinity,
    node_affinity,
    node_ports,
    placement,
    topology_spread,
    verdicts,
)
from muster_core.plan.feasibility.volumes import binding, claims, limits, restrictions, zone
from muster_core.plan.liking import inter_pod_affinity as preferred_company
from muster_core.plan.liking import topology_spread as preferred_spread
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, FloatColumn, IntColumn

#: Rows, and why they are refused.
Refused = tuple[str, BoolColumn]


class Guard(Protocol):
    """A filter, as one shape meets it on one draft. Rows are those of the draft's columns."""

    def allows(self) -> BoolColumn:
        """Rows where one more of the shape may go now."""

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """The same of some rows, in their order."""

    def refusals(self) -> Sequence[Refused]:
        """Reason and rows for all rows that it does not allow now, each row under one reason only."""

    def add(self, row: int) -> IntColumn | None:
        """One more of the shape is on the row. Returns the rows whose answer may be another now; None = no row's."""


class Score(Protocol):
    """A preference, as one shape has it on one draft."""

    def points(self) -> FloatColumn:
        """Per row, more = preferred: kube-scheduler's 0 to 100 of the plugin, times its weight."""

    def add(self, row: int) -> IntColumn | None:
        """One more of the shape is on the row. Returns the rows whose points are others now; None = no row's."""


@dataclass(frozen=True, slots=True)
class GuardEntry:
    """A filter of the table. `after_fit`: kube-scheduler asks it after NodeResourcesFit."""

    name: str
    make: Callable[[Draft, Shape], Guard | None]
    after_fit: bool = True


@dataclass(frozen=True, slots=True)
class PodFilter:
    """Says why a pod can go nowhere, whatever the nodes are; empty = nothing of the kind."""

    name: str
    refusal: Callable[[Draft, Shape], str]


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """A score of the table. `among`: rows that are not refused, over which points are normalised."""

    name: str
    make: Callable[[Draft, Shape, BoolColumn], Score | None]


#: NodePorts, (NodeResourcesFit), VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone,
#: PodTopologySpread, InterPodAffinity; ours (seed 001) last.
GUARDS: Final = (
    GuardEntry("NodePorts", node_ports.guard, after_fit=False),
    GuardEntry("VolumeRestrictions", restrictions.guard),
    GuardEntry("NodeVolumeLimits", limits.guard),
    GuardEntry("VolumeBinding", binding.guard),
    GuardEntry("VolumeZone", zone.guard),
    GuardEntry("PodTopologySpread", topology_spread.guard),
    GuardEntry("InterPodAffinity", inter_pod_affinity.guard),
    GuardEntry("PlacementConstraint", placement.guard),
    GuardEntry("Predicates", verdicts.guard),
)

#: What kube-scheduler finds out before it looks at any node (PreFilter), in its order; the guard of the same name,
#: or the filter, refuses every node then, too.
POD_FILTERS: Final = (
    PodFilter("NodeAffinity", lambda draft, shape: node_affinity.conflict(shape.constraints)),
    PodFilter("VolumeRestrictions", claims.missing),
    PodFilter("VolumeBinding", claims.unusable),
    PodFilter("VolumeZone", claims.vanished),
)

#: InterPodAffinity, PodTopologySpread; ours (seed 001) last.
SCORES: Final = (
    ScoreEntry("InterPodAffinity", preferred_company.score),
    ScoreEntry("PodTopologySpread", preferred_spread.score),
    ScoreEntry("PlacementConstraint", placement.score),
)


def guards(draft: Draft, shape: Shape) -> list[tuple[GuardEntry, Guard]]:
    """Those that concern the shape, in their order."""
    made = ((entry, entry.make(draft, shape)) for entry in GUARDS)
    return [(entry, guard) for entry, guard in made if guard is not None]


def pod_refusal(draft: Draft, shape: Shape, without: Container[str] = ()) -> str:
    """The first reason why the pod can go nowhere at all; empty = there is none."""
    found = (entry.refusal(draft, shape) for entry in POD_FILTERS if entry.name not in without)
    return next(filter(None, found), "")


def scores(draft: Draft, shape: Shape, among: BoolColumn) -> list[Score]:
    """Those that concern the shape."""
    made = (entry.make(draft, shape, among) for entry in SCORES)
    return [score for score in made if score is not None]
