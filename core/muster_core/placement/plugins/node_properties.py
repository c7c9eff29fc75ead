"""Plugins that read only node properties.

Filters NodeName, NodeAffinity, NodeUnschedulable, TaintToleration and NodeDeclaredFeatures: each returns the rows that
pass. Scores NodeAffinity, TaintToleration, ImageLocality and NodeResourcesBalancedAllocation. Results are cached per
`Constraints`.

Differs: points are normalised over the nodes that the pod's constraints allow, including full nodes. kube-scheduler
leaves full nodes out ([ADR 17](adr/0017-add-pod-preferences-to-the-node-order.md)).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import gt, lt
from typing import Final

import numpy as np

from muster_core.model.constraints import Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.ids import NodeId
from muster_core.model.specs import NO_PREFERENCES, Preferences
from muster_core.state import indexes
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn, LabelColumn, most_kept
from muster_core.state.nodes import NodeTable


def declares_features(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows of nodes that declare all required features."""
    size = nodes.rows.size
    found = np.ones(size, dtype=np.bool_)
    for feature in constraints.features:
        found &= nodes.features.rows(feature, size)
    return found


def has_name(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows of the node named in `spec.nodeName`, or all rows if it is empty."""
    size = nodes.rows.size
    if not constraints.node_name:
        return np.ones(size, dtype=np.bool_)
    return named(NodeId(constraints.node_name), nodes)


def named(node: NodeId, nodes: NodeTable) -> BoolColumn:
    """The row of the node, if it exists."""
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    if node in nodes:
        found[nodes.rows.row(node)] = True
    return found


_HARD = frozenset({"NoSchedule", "NoExecute"})


def tolerates_taints(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows of nodes whose NoSchedule and NoExecute taints are all tolerated."""
    size = nodes.rows.size
    tainted = np.zeros(size, dtype=np.bool_)
    for taint in nodes.taints:
        if taint.effect in _HARD and not any(tolerates(t, taint) for t in constraints.tolerations):
            tainted |= nodes.taints.rows(taint, size)
    return ~tainted


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration matches the taint.

    Operators other than Exists and Equal match nothing: Gt and Lt are alpha in Kubernetes and disabled by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value


_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NAME: Final = "metadata.name"


def is_schedulable(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows of nodes that are schedulable, and of cordoned nodes if the pod tolerates the cordon.

    A DaemonSet pod that tolerates the cordon may run on any node, even while the node is drained.
    """
    columns = nodes.columns()
    is_open = columns.open.copy()
    if any(tolerates(one, _CORDONED) for one in constraints.tolerations):
        is_open |= columns.cordoned
        if is_made_for_one(constraints):
            is_open[:] = True
    return is_open


def is_made_for_one(constraints: Constraints) -> bool:
    """Whether every affinity term names one node, as the DaemonSet controller writes it."""
    terms = constraints.affinity or ()
    return bool(terms) and all(
        any(field.key == _NAME and field.operator == "In" and len(field.values) == 1 for field in term.fields)
        for term in terms
    )


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = range(-(2**63), 2**63)
_NAME_FIELD = "metadata.name"
CONFLICT: Final = "pod affinity terms conflict"
BOTH_NAMES: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]"
EXCLUDED: Final = f"{BOTH_NAMES} simultaneously"


def matches_node_affinity(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows that nodeSelector and required node affinity allow."""
    size = nodes.rows.size
    passed = np.ones(size, dtype=np.bool_)
    for key, value in constraints.node_selector:
        passed &= _column(key, nodes).has_any((value,), size)
    if constraints.affinity is not None:
        one_holds = np.zeros(size, dtype=np.bool_)
        for term in constraints.affinity:
            one_holds |= term_holds(term, nodes)
        passed &= one_holds
    return passed


def is_candidate(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows of the nodes that the affinity terms name in `metadata.name`, or all rows if some term names none."""
    names = _named_nodes(constraints)
    if names is None:
        return np.ones(nodes.rows.size, dtype=np.bool_)
    found = np.zeros(nodes.rows.size, dtype=np.bool_)
    found[[nodes.rows.row(node) for name in names if (node := NodeId(name)) in nodes]] = True
    return found


def is_named_twice(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows that both the node name and the affinity terms name, or all rows if one of them names none."""
    if not constraints.node_name or _named_nodes(constraints) is None:
        return np.ones(nodes.rows.size, dtype=np.bool_)
    return has_name(constraints, nodes) & is_candidate(constraints, nodes)


def conflict(constraints: Constraints) -> str:
    """Returns the reason if the named nodes exclude each other for every node, else an empty string."""
    names = _named_nodes(constraints)
    if names == set():
        return CONFLICT
    return EXCLUDED if names is not None and constraints.node_name and constraints.node_name not in names else ""


def _named_nodes(constraints: Constraints) -> set[str] | None:
    """Node names that the affinity terms allow. None = some term allows any name."""
    names: set[str] = set()
    for term in constraints.affinity or ():
        lists = [set(one.values) for one in term.fields if one.key == _NAME_FIELD and one.operator == "In"]
        if not lists:
            return None
        names |= set.intersection(*lists)
    return names if constraints.affinity else None


def _column(key: str, nodes: NodeTable) -> LabelColumn:
    return nodes.labels.column(key) or LabelColumn()


def term_holds(term: Term, nodes: NodeTable) -> BoolColumn:
    """Rows that satisfy all requirements of the term. An empty term matches no node, as in Kubernetes."""
    if not term.expressions and not term.fields:
        return np.zeros(nodes.rows.size, dtype=np.bool_)
    holds = np.ones(nodes.rows.size, dtype=np.bool_)
    for requirement in term.expressions:
        holds &= _label_holds(requirement, nodes)
    for requirement in term.fields:
        holds &= _field_holds(requirement, nodes)
    return holds


def _label_holds(requirement: Requirement, nodes: NodeTable) -> BoolColumn:
    size, column, values = nodes.rows.size, _column(requirement.key, nodes), requirement.values
    match requirement.operator:
        case "In" if values:
            return column.has_any(values, size)
        case "NotIn" if values:
            return ~column.has_any(values, size)
        case "Exists" if not values:
            return column.exists(size)
        case "DoesNotExist" if not values:
            return ~column.exists(size)
        case "Gt" if len(values) == 1:
            return column.has_any(_beyond(column, values[0], gt), size)
        case "Lt" if len(values) == 1:
            return column.has_any(_beyond(column, values[0], lt), size)
        case _:
            return np.zeros(size, dtype=np.bool_)


def _beyond(column: LabelColumn, bound: str, compare: Callable[[int, int], bool]) -> Iterator[str]:
    """Yields the values of the column that are integers greater or less than the bound."""
    limit = _integer(bound)
    for value in column.values():
        number = _integer(value)
        if limit is not None and number is not None and compare(number, limit):
            yield value


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _field_holds(requirement: Requirement, nodes: NodeTable) -> BoolColumn:
    """Kubernetes supports only the field `metadata.name`, with one value."""
    if requirement.key == _NAME_FIELD and len(requirement.values) == 1:
        node = named(NodeId(requirement.values[0]), nodes)
        if requirement.operator == "In":
            return node
        if requirement.operator == "NotIn":
            return ~node
    return np.zeros(nodes.rows.size, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that reads only node properties. The end of pods cannot resolve its reason. `last`: evaluated after all
    others.
    """

    name: str
    reason: str
    passes: Callable[[Constraints, NodeTable], BoolColumn]
    last: bool = False


FILTERS: Final = (
    Filter("NodeName", BOTH_NAMES, is_named_twice),
    Filter("NodeName", "node(s) didn't satisfy plugin(s) [NodeName]", has_name),
    Filter("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]", is_candidate),
    Filter("NodeUnschedulable", "node(s) were unschedulable", is_schedulable),
    Filter("TaintToleration", "node(s) had untolerated taint(s)", tolerates_taints),
    Filter("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", matches_node_affinity),
    Filter("NodeDeclaredFeatures", "node(s) didn't match Pod's required features", declares_features, last=True),
)


def allowed(constraints: Constraints, nodes: NodeTable) -> BoolColumn:
    """Rows that all filters pass."""
    return answers(constraints, nodes)[-1]


def asked(constraints: Constraints, nodes: NodeTable, *, last: bool = False) -> Iterator[tuple[Filter, BoolColumn]]:
    """Yields each filter with the rows that it passes: those with `last`, or the others."""
    for entry, passed in zip(FILTERS, answers(constraints, nodes), strict=False):
        if entry.last is last:
            yield entry, passed


def answers(constraints: Constraints, nodes: NodeTable) -> tuple[BoolColumn, ...]:
    """Returns the rows that each filter passes, in the order of `FILTERS`, and at the end the rows that all pass.

    Evaluated once per value of constraints until a node property changes. The columns are read-only.
    """
    known = nodes.answers.get(constraints)
    if known is None:
        columns = [entry.passes(constraints, nodes) for entry in FILTERS]
        known = (*columns, np.logical_and.reduce(columns))
        for column in known:
            column.flags.writeable = False
        if len(nodes.answers) >= most_kept(nodes.rows.size, len(known)):
            nodes.answers.clear()
        nodes.answers[constraints] = known
    return known


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
    most = most_kept(nodes.rows.size, _EACH)
    return indexes.cached(nodes.points, asked, most, lambda: _points(constraints, preferences, nodes))


def _points(constraints: Constraints, preferences: Preferences, nodes: NodeTable) -> FloatColumn | None:
    rows = np.flatnonzero(allowed(constraints, nodes))
    if not len(rows):
        return None
    total = np.zeros(nodes.rows.size, dtype=np.int64)
    for weight, worth in (
        (_AFFINITY, _in_hundreds(preferred(preferences, nodes), rows)),
        (-_TAINTS, _in_hundreds(untolerated(constraints, nodes), rows)),
        (_IMAGES, local_images(preferences, nodes)),
    ):
        total += weight * worth
    if np.ptp(total[rows]) == 0:
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
