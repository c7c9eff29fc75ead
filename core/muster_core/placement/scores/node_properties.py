"""Scores NodeAffinity, TaintToleration, ImageLocality and NodeResourcesBalancedAllocation.

Differs: points are normalised over the nodes that the pod's constraints allow, including full nodes. kube-scheduler
leaves full nodes out ([ADR 17](adr/0017-add-pod-preferences-to-the-node-order.md)).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints
from muster_core.model.specs import NO_PREFERENCES, Preferences
from muster_core.placement.filters import node_properties
from muster_core.placement.filters.node_properties import term_holds, tolerates
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn, most_kept
from muster_core.state.nodes import NodeTable

_MOST: Final = 100
_AFFINITY: Final = 2
_TAINTS: Final = 3
_IMAGES: Final = 1
_SOFT: Final = "PreferNoSchedule"
_MIB: Final = 1 << 20

#: Total image size that gives 0 points, and total size per container that gives 100 points, as in kube-scheduler.
_LEAST_BYTES: Final = 23 * _MIB
_MOST_BYTES: Final = 1000 * _MIB

#: Bytes per element of a column.
_EACH: Final = 8


def points(constraints: Constraints, preferences: Preferences, nodes: NodeTable) -> FloatColumn | None:
    """Returns the points of every node times the weights. None = all allowed nodes have the same points."""
    if preferences == NO_PREFERENCES and not nodes.taints:
        return None
    asked = constraints, preferences
    if asked not in nodes.points:
        if len(nodes.points) >= most_kept(nodes.rows.size, _EACH):
            nodes.points.clear()
        nodes.points[asked] = _points(constraints, preferences, nodes)
    return nodes.points[asked]


def _points(constraints: Constraints, preferences: Preferences, nodes: NodeTable) -> FloatColumn | None:
    allowed = np.flatnonzero(node_properties.allowed(constraints, nodes))
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
    """Sum of the weights of the preferred terms that the node matches."""
    found = np.zeros(nodes.rows.size, dtype=np.int64)
    for weight, term in preferences.terms:
        found += weight * term_holds(term, nodes)
    return found


def untolerated(constraints: Constraints, nodes: NodeTable) -> IntColumn:
    """Number of PreferNoSchedule taints that the pod does not tolerate."""
    found = np.zeros(nodes.rows.size, dtype=np.int64)
    for taint in nodes.taints:
        if taint.effect == _SOFT and not any(tolerates(one, taint) for one in constraints.tolerations):
            found += nodes.taints.rows(taint, nodes.rows.size)
    return found


def local_images(preferences: Preferences, nodes: NodeTable) -> IntColumn:
    """Points from 0 to 100 by the size of the pod's images that the node already has.

    Each image counts in proportion to the share of nodes that have it. Otherwise all pods would follow the first one.
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
    """Scales the counts so that the highest one in `among` becomes 100."""
    highest = int(counts[among].max())
    return counts * _MOST // highest if highest > 0 else np.zeros_like(counts)


_QUARTER: Final = 0.25

#: Capacity, available amount, and 1 / capacity, per row.
Amount = tuple[IntColumn, IntColumn, FloatColumn]


class BalancedAllocation:
    """How a pod changes the balance of cpu and memory on each node, as node keys of `node_search`: lower is preferred.

    A key of 1.0 corresponds to 100 points.
    """

    __slots__ = ("_asked", "_both", "_first", "_second")

    def __init__(self, first: Amount, second: Amount, asked: tuple[int, int]) -> None:
        self._first, self._second, self._asked = first, second, asked
        self._both: BoolColumn = (first[0] > 0) & (second[0] > 0)

    def keys(self, at: IntColumn | slice, placed: int = 0) -> FloatColumn:
        """Returns the keys of the rows in their present state, or after `placed` more pods on each."""
        (one, left, by), (other, rest, per) = self._first, self._second
        here, there, by, per = one[at] - left[at], other[at] - rest[at], by[at], per[at]
        if placed:
            here += placed * self._asked[0]
            there += placed * self._asked[1]
        without = _gaps(here, by, there, per)
        here += self._asked[0]
        there += self._asked[1]
        change = _gaps(here, by, there, per)
        change -= without
        change *= self._both[at]
        change *= _QUARTER
        return change

    def key(self, row: int, placed: int) -> float:
        """Returns the key of one row after `placed` more pods. Bitwise equal to the result of `keys`."""
        if not self._both.item(row):
            return 0.0
        first, second = self._asked
        here, by = self._used(self._first, row, placed * first)
        there, per = self._used(self._second, row, placed * second)
        without = abs(min(here * by, 1.0) - min(there * per, 1.0))
        return (abs(min((here + first) * by, 1.0) - min((there + second) * per, 1.0)) - without) * _QUARTER

    @staticmethod
    def _used(amount: Amount, row: int, more: int) -> tuple[int, float]:
        """Returns the used amount of a row with `more`, and 1 / capacity."""
        capacity, available, reciprocal = amount
        return capacity.item(row) - available.item(row) + more, reciprocal.item(row)


def _gaps(here: IntColumn, by: FloatColumn, there: IntColumn, per: FloatColumn) -> FloatColumn:
    """Difference between the used shares of the two resources. A node above its capacity counts as full."""
    gap = here * by
    np.minimum(gap, 1.0, out=gap)
    gap -= np.minimum(there * per, 1.0)
    return np.abs(gap, out=gap)
