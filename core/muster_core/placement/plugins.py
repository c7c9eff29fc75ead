"""The tables of stateful filters and scores.

A filter of node properties alone is a function (`filters/node_properties`). One that depends on the pods on the nodes
is stateful: it is created per request shape and snapshot, evaluates all rows at once, and is updated with each
planned placement. It is not created for a shape that it does not concern.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from muster_core.placement.filters import extensions, inter_pod_affinity, node_properties, resources, topology_spread
from muster_core.placement.filters.extensions import TOO_MANY
from muster_core.placement.filters.inter_pod_affinity import ANTI_AFFINITY_NOT_MET, EXISTING_ANTI_AFFINITY_NOT_MET
from muster_core.placement.filters.resources import CROWDED, INSUFFICIENT, TAKEN
from muster_core.placement.filters.topology_spread import SKEWED
from muster_core.placement.scores import inter_pod_affinity as preferred_company
from muster_core.placement.scores import topology_spread as preferred_spread
from muster_core.placement.snapshot import RequestShape, Snapshot
from muster_core.placement.volumes import binding, restrictions
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn

#: Rows, and why they are refused.
Refused = tuple[str, BoolColumn]


class StatefulFilter(Protocol):
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
class FilterEntry:
    """A filter of the table. `after_fit`: kube-scheduler asks it after NodeResourcesFit."""

    name: str
    make: Callable[[Snapshot, RequestShape], StatefulFilter | None]
    after_fit: bool = True


@dataclass(frozen=True, slots=True)
class PodFilter:
    """Says why a pod can go nowhere, whatever the nodes are; empty = nothing of the kind."""

    name: str
    refusal: Callable[[Snapshot, RequestShape], str]


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """A score of the table. `among`: rows that are not refused, over which points are normalised."""

    name: str
    make: Callable[[Snapshot, RequestShape, BoolColumn], Score | None]


#: NodePorts, (NodeResourcesFit), VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone,
#: PodTopologySpread, InterPodAffinity; ours (seed 001) last.
STATEFUL_FILTERS: Final = (
    FilterEntry("NodePorts", resources.ports_filter, after_fit=False),
    FilterEntry("VolumeRestrictions", restrictions.restrictions_filter),
    FilterEntry("NodeVolumeLimits", restrictions.limits_filter),
    FilterEntry("VolumeBinding", binding.binding_filter),
    FilterEntry("VolumeZone", restrictions.zone_filter),
    FilterEntry("PodTopologySpread", topology_spread.spread_filter),
    FilterEntry("InterPodAffinity", inter_pod_affinity.affinity_filter),
    FilterEntry("PlacementConstraint", extensions.constraint_filter),
    FilterEntry("Predicates", extensions.predicate_filter),
)

#: What kube-scheduler finds out before it looks at any node (PreFilter), in its order; the guard of the same name,
#: or the filter, refuses every node then, too.
POD_FILTERS: Final = (
    PodFilter("NodeAffinity", lambda snapshot, shape: node_properties.conflict(shape.constraints)),
    PodFilter("VolumeRestrictions", binding.missing_claim),
    PodFilter("VolumeBinding", binding.unusable),
    PodFilter("VolumeZone", binding.vanished),
)

#: InterPodAffinity, PodTopologySpread; ours (seed 001) last.
SCORES: Final = (
    ScoreEntry("InterPodAffinity", preferred_company.score),
    ScoreEntry("PodTopologySpread", preferred_spread.score),
    ScoreEntry("PlacementConstraint", extensions.constraint_score),
)


def stateful_filters(snapshot: Snapshot, shape: RequestShape) -> list[tuple[FilterEntry, StatefulFilter]]:
    """Those that concern the shape, in their order."""
    made = ((entry, entry.make(snapshot, shape)) for entry in STATEFUL_FILTERS)
    return [(entry, guard) for entry, guard in made if guard is not None]


def pod_refusal(snapshot: Snapshot, shape: RequestShape, without: Container[str] = ()) -> str:
    """The first reason why the pod can go nowhere at all; empty = there is none."""
    found = (entry.refusal(snapshot, shape) for entry in POD_FILTERS if entry.name not in without)
    return next(filter(None, found), "")


def scores(snapshot: Snapshot, shape: RequestShape, among: BoolColumn) -> list[Score]:
    """Those that concern the shape."""
    made = (entry.make(snapshot, shape, among) for entry in SCORES)
    return [score for score in made if score is not None]


#: By their words; "Insufficient ..." aside.
RESOLVABLE: Final = frozenset(
    {
        *(TAKEN, CROWDED, restrictions.DISK, restrictions.IN_USE, restrictions.TOO_MANY),
        *(SKEWED, ANTI_AFFINITY_NOT_MET, EXISTING_ANTI_AFFINITY_NOT_MET, TOO_MANY),
    }
)


def is_resolvable(reason: str) -> bool:
    """Whether a node that is refused for it may be free for the pod once somebody left."""
    return reason in RESOLVABLE or reason.startswith(INSUFFICIENT)
