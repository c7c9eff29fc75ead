"""What facts of nodes are worth to a pod: preferred node affinity, taints to be kept off, images that lie there.

kube-scheduler's formulas, whole numbers of points as there, and weights: NodeAffinity 2, TaintToleration 3,
ImageLocality 1. They read facts alone, so they are one constant column for all pods that want the same, remembered
until a fact changes. Asked by plan/scoring.py.

Differs: points are shared out among the nodes that the pod's constraints allow, full ones too; kube-scheduler
leaves these out (ADR 0017).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints
from muster_core.model.facts import NO_PREFERENCES, Preferences
from muster_core.plan.feasibility import filters
from muster_core.plan.feasibility.node_affinity import term_holds
from muster_core.plan.feasibility.taint_toleration import tolerates
from muster_core.world.columns import FloatColumn, IntColumn, most_kept
from muster_core.world.nodes import NodeTable

_MOST: Final = 100
_AFFINITY: Final = 2
_TAINTS: Final = 3
_IMAGES: Final = 1
_SOFT: Final = "PreferNoSchedule"
_MIB: Final = 1 << 20
#: Images on a node that are smaller altogether are worth nothing, larger ones (for each container) no more than 100.
_LEAST_BYTES: Final = 23 * _MIB
_MOST_BYTES: Final = 1000 * _MIB
#: Bytes of a point.
_EACH: Final = 8


def points(constraints: Constraints, preferences: Preferences, nodes: NodeTable) -> FloatColumn | None:
    """Points of every node, times their weights; None = all that are allowed have the same."""
    if preferences == NO_PREFERENCES and not nodes.taints:
        return None
    asked = constraints, preferences
    if asked not in nodes.points:
        if len(nodes.points) >= most_kept(nodes.rows.size, _EACH):
            nodes.points.clear()
        nodes.points[asked] = _points(constraints, preferences, nodes)
    return nodes.points[asked]


def _points(constraints: Constraints, preferences: Preferences, nodes: NodeTable) -> FloatColumn | None:
    allowed = np.flatnonzero(filters.allowed(constraints, nodes))
    if not len(allowed):
        return None
    total = np.zeros(nodes.rows.size, dtype=np.int64)
    for weight, worth in (
        (_AFFINITY, _in_hundreds(preferred(preferences, nodes), allowed)),
        (-_TAINTS, _in_hundreds(untolerated(constraints, nodes), allowed)),
        (_IMAGES, local_images(preferences, nodes)),
    ):
        total += weight * worth
    if np.ptp(total[allowed]) == 0:
        return None
    found = total.astype(np.float64)
    found.flags.writeable = False
    return found


def preferred(preferences: Preferences, nodes: NodeTable) -> IntColumn:
    """The sum of the weights of the preferred terms that hold."""
    found = np.zeros(nodes.rows.size, dtype=np.int64)
    for weight, term in preferences.terms:
        found += weight * term_holds(term, nodes)
    return found


def untolerated(constraints: Constraints, nodes: NodeTable) -> IntColumn:
    """How many PreferNoSchedule taints there are that the pod does not tolerate."""
    found = np.zeros(nodes.rows.size, dtype=np.int64)
    for taint in nodes.taints:
        if taint.effect == _SOFT and not any(tolerates(one, taint) for one in constraints.tolerations):
            found += nodes.taints.rows(taint, nodes.rows.size)
    return found


def local_images(preferences: Preferences, nodes: NodeTable) -> IntColumn:
    """0 to 100 by the bytes of the images of the pod's containers and volumes that lie on the node; an image counts in
    the share of nodes that have it, so that not all pods go where the first one went.
    """
    there = np.zeros(nodes.rows.size, dtype=np.int64)
    for name in (*preferences.images, *preferences.volume_images):
        sizes = nodes.images.sizes(name)
        rows = np.fromiter(sizes, dtype=np.int64, count=len(sizes))
        amounts = np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes))
        there[rows] += (amounts * (len(sizes) / max(len(nodes), 1))).astype(np.int64)
    most = _MOST_BYTES * max(len(preferences.images), 1)
    return _MOST * (np.clip(there, _LEAST_BYTES, most) - _LEAST_BYTES) // (most - _LEAST_BYTES)


def _in_hundreds(counts: IntColumn, among: IntColumn) -> IntColumn:
    """100 for the highest `among` the rows, the others in proportion."""
    highest = int(counts[among].max())
    return counts * _MOST // highest if highest > 0 else np.zeros_like(counts)
