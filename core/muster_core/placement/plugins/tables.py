"""The tables of stateful filters and scores.

A filter that reads only node properties is a function (`node_properties`). A filter that depends on the pods on
the nodes is stateful: it is created per request shape and snapshot, evaluates all rows at once, and is updated with
each planned placement. No filter is created for a shape that it does not apply to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster_core.placement.devices import filter as devices
from muster_core.placement.plugins import hooks, inter_pod_affinity, node_properties, resources, topology_spread
from muster_core.placement.plugins.hooks import PREDICATES, TOO_MANY, Score, StatefulFilter
from muster_core.placement.plugins.inter_pod_affinity import ANTI_AFFINITY_NOT_MET, EXISTING_ANTI_AFFINITY_NOT_MET
from muster_core.placement.plugins.resources import CROWDED, INSUFFICIENT, TAKEN
from muster_core.placement.plugins.topology_spread import SKEWED
from muster_core.placement.volumes import binding, restrictions
from muster_core.state.columns import BoolColumn
from muster_core.state.devices import CANNOT
from muster_core.state.snapshot import RequestShape, Snapshot


@dataclass(frozen=True, slots=True)
class FilterEntry:
    """Entry of the filter table.

    `after_fit`: kube-scheduler runs the filter after NodeResourcesFit. `reads_pod`: it applies only to pods with
    `concerns_others`.
    """

    name: str
    make: Callable[[Snapshot, RequestShape], StatefulFilter | None]
    after_fit: bool = True
    reads_pod: bool = True


@dataclass(frozen=True, slots=True)
class PodFilter:
    """PreFilter check of the pod alone. `refusal` returns why no node can run the pod, or an empty string."""

    name: str
    refusal: Callable[[Snapshot, RequestShape], str]


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """Entry of the score table. `make` receives the feasible rows, over which points are normalised."""

    name: str
    make: Callable[[Snapshot, RequestShape, BoolColumn], Score | None]


#: In the order of kube-scheduler's default plugins. The two filters of the Scheduler Interface are last.
STATEFUL_FILTERS: Final = (
    FilterEntry("NodePorts", resources.ports_filter, after_fit=False),
    FilterEntry("VolumeRestrictions", restrictions.restrictions_filter),
    FilterEntry("NodeVolumeLimits", restrictions.limits_filter),
    FilterEntry("VolumeBinding", binding.binding_filter),
    FilterEntry("VolumeZone", restrictions.zone_filter),
    FilterEntry("PodTopologySpread", topology_spread.spread_filter),
    FilterEntry("InterPodAffinity", inter_pod_affinity.affinity_filter, reads_pod=False),
    FilterEntry("DynamicResources", devices.devices_filter),
    FilterEntry("PlacementConstraint", hooks.constraint_filter, reads_pod=False),
    FilterEntry(PREDICATES, hooks.predicate_filter, reads_pod=False),
)

#: PreFilter checks of kube-scheduler, in its order. The stateful filter or node filter of the same name also refuses
#: every node then.
POD_FILTERS: Final = (
    PodFilter("NodeAffinity", lambda snapshot, shape: node_properties.conflict(shape.constraints)),
    PodFilter("VolumeRestrictions", binding.missing_claim),
    PodFilter("VolumeBinding", binding.unusable),
    PodFilter("VolumeZone", binding.vanished),
    PodFilter("DynamicResources", devices.unusable),
)

#: In the order of kube-scheduler's default plugins. The score of the Scheduler Interface is last.
SCORES: Final = (
    ScoreEntry("InterPodAffinity", inter_pod_affinity.score),
    ScoreEntry("PodTopologySpread", topology_spread.score),
    ScoreEntry("PlacementConstraint", hooks.constraint_score),
)


#: Reasons that the end of pods on the node may resolve (kube-scheduler's status Unschedulable). Reasons that start with
#: "Insufficient", and those of a CSI driver that is not installed, also belong to them.
RESOLVABLE: Final = frozenset(
    {
        *(TAKEN, CROWDED, restrictions.DISK, restrictions.IN_USE, restrictions.TOO_MANY),
        *(SKEWED, ANTI_AFFINITY_NOT_MET, EXISTING_ANTI_AFFINITY_NOT_MET, TOO_MANY, CANNOT),
    }
)


def is_resolvable(reason: str) -> bool:
    """Whether the end of pods on the node may resolve the reason."""
    return reason in RESOLVABLE or reason.startswith(INSUFFICIENT) or reason.endswith(restrictions.NOT_INSTALLED)
