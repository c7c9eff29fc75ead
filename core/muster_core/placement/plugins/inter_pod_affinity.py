"""Plugin InterPodAffinity: filter and score, and counts per topology domain that other plugins also use.

The score sums preferred terms of the shape, and preferred and required affinity of existing pods.

Differs: while pods of one shape are placed together, points are normalised over the nodes that were feasible for the
first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from muster_core.model.constraints import NO_INTER_POD_CONSTRAINTS, InterPodConstraints, PodTerm, Target, matches
from muster_core.state import indexes
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn, LabelColumn
from muster_core.state.node_pods import NodePods
from muster_core.state.nodes import Cells, Domains, NodeTable
from muster_core.state.snapshot import RequestShape, Snapshot

#: Number of pods per row of the node table: one part of a sum.
PodCounts = Mapping[int, int]

#: Number of topology keys, and of combinations of them, that are cached until a node property changes. The bound is
#: needed because users choose the keys.
MOST_KEYS: Final = 64


def domains(nodes: NodeTable, key: str) -> Domains:
    """Returns the topology domains of a node label. Cached until a node property changes."""
    return indexes.cached(nodes.domains, key, MOST_KEYS, lambda: _domains(nodes, key))


def _domains(nodes: NodeTable, key: str) -> Domains:
    column = nodes.labels.column(key) or LabelColumn()
    return Domains(column.codes(nodes.rows.size))


def cells(nodes: NodeTable, keys: Iterable[str], *, by_row: bool = False) -> Cells:
    """Returns the cells of the topology keys: sets of nodes that are in the same domain for each key.

    Cached until a node property changes. `by_row`: each node is a cell of its own.
    """
    wanted = tuple(sorted(set(keys)))
    return indexes.cached(nodes.cells, (by_row, wanted), MOST_KEYS, lambda: _cells(nodes, wanted, by_row=by_row))


def _cells(nodes: NodeTable, keys: tuple[str, ...], *, by_row: bool) -> Cells:
    return Cells({key: domains(nodes, key) for key in keys}, nodes.rows.size, by_row=by_row)


class DomainCounts:
    """Sum per topology domain. Pods on nodes without the label count 0."""

    def __init__(self, where: Domains) -> None:
        self._domains = where
        #: Indexed by domain. The last element, for nodes without the label (-1), stays 0.
        self._amounts = np.zeros(where.count + 1, dtype=np.int64)

    def count(self, parts: Iterable[PodCounts], weight: int = 1) -> None:
        """Adds the parts, each multiplied by `weight`."""
        found = list(parts)
        size = sum(map(len, found))
        rows = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=size)
        amounts = np.fromiter(chain.from_iterable(part.values() for part in found), dtype=np.int64, count=size)
        np.add.at(self._amounts, self._domains.codes[rows], amounts * weight)
        self._amounts[-1] = 0

    def total(self) -> int:
        """Sum over all domains."""
        return int(self._amounts.sum())

    def add(self, row: int, weight: int = 1) -> int:
        """Adds `weight` to the domain of a row. Returns the sum before; -1 = the row is in no domain."""
        code = self._domains.codes.item(row)
        if code < 0:
            return -1
        before = self._amounts.item(code)
        self._amounts[code] = before + weight
        return before

    def same_domain(self, row: int) -> IntColumn:
        """Rows of the same domain. The row must be in one."""
        return self._domains.members(self._domains.codes.item(row))

    def at(self, rows: IntColumn | None = None) -> IntColumn:
        """Sums of the domains of the rows, 0 for rows in no domain. None = all rows."""
        return self._amounts[self._codes(rows)]

    def of(self, codes: IntColumn) -> IntColumn:
        """Sums of domains by their numbers."""
        return self._amounts[codes]

    def is_in_one(self, rows: IntColumn | None = None) -> BoolColumn:
        """Which of the rows are in a domain."""
        return self._codes(rows) >= 0

    def _codes(self, rows: IntColumn | None) -> IntColumn:
        return self._domains.codes if rows is None else self._domains.codes[rows]


AFFINITY_NOT_MET: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_NOT_MET: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY_NOT_MET: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinityFilter:
    """Required affinity and anti-affinity of the shape, and required anti-affinity of existing pods.

    `_affinity`: pods that match all affinity terms, per topology key; `_found`: number of them in a domain.
    `_anti_affinity`: pods that match an anti-affinity term, per topology key. `_unwanted`: pods with an
    anti-affinity term that selects the shape, per topology key.
    """

    def __init__(self, snapshot: Snapshot, shape: RequestShape, unwanted: dict[str, DomainCounts]) -> None:
        inter_pod, tags = shape.pod_on_node.facts.inter_pod, dict(shape.pod_on_node.tags)
        pods_on_nodes = snapshot.nodes.pods_on_nodes
        self._size = snapshot.size
        self._unwanted = list(unwanted.values())
        joint = _joint(pods_on_nodes, inter_pod.affinity)
        self._affinity = _tallies(snapshot, inter_pod.affinity)
        for tally in self._affinity.values():
            tally.count(snapshot.tagged(joint) if joint is not None else ())
        self._found = sum(tally.total() for tally in self._affinity.values())
        #: Pods of the shape match its own affinity terms. `_repelled` has the counts of terms that select the shape
        #: itself.
        self._is_found = bool(inter_pod.affinity) and joint is not None and matches(joint, tags)
        self._anti_affinity = _tallies(snapshot, inter_pod.anti_affinity)
        for term in inter_pod.anti_affinity:
            targets = pods_on_nodes.targets(term)
            self._anti_affinity[term.topology].count(snapshot.tagged(targets) if targets is not None else ())
        against = dict.fromkeys(
            term.topology for term in inter_pod.anti_affinity if selects_itself(pods_on_nodes, term, tags)
        )
        self._repelled = [self._anti_affinity[key] for key in against]

    def allows(self) -> BoolColumn:
        """Rows that satisfy the three rules."""
        return self._allowed()

    def allows_at(self, rows: IntColumn) -> BoolColumn:
        """Like `allows`, for some rows."""
        return self._allowed(rows)

    def refusals(self) -> Sequence[tuple[str, BoolColumn]]:
        """Rows by the first rule that they violate."""
        affinity = self._meets_affinity()
        anti_affinity = _without(affinity, self._anti_affinity.values())
        return (
            (AFFINITY_NOT_MET, ~affinity),
            (ANTI_AFFINITY_NOT_MET, affinity & ~anti_affinity),
            (EXISTING_ANTI_AFFINITY_NOT_MET, anti_affinity & ~_without(anti_affinity, self._unwanted)),
        )

    def add(self, row: int) -> IntColumn | None:
        """Adds one pod of the shape. Results change where it is the first one in its domain.

        An anti-affinity term that selects the shape itself is counted in `_anti_affinity`, not in `_unwanted`.
        """
        changed = [tally.same_domain(row) for tally in self._repelled if tally.add(row) == 0]
        if self._is_found:
            began = not self._found
            for tally in self._affinity.values():
                before = tally.add(row)
                self._found += before >= 0
                if before == 0:
                    changed.append(tally.same_domain(row))
            if began and self._found:
                return np.arange(self._size)
        return np.concatenate(changed) if changed else None

    def _meets_affinity(self, rows: IntColumn | None = None) -> BoolColumn:
        passed = np.ones(self._size if rows is None else len(rows), dtype=np.bool_)
        begins = self._is_found and not self._found
        for tally in self._affinity.values():
            passed &= tally.is_in_one(rows) if begins else tally.at(rows) > 0
        return passed

    def _allowed(self, rows: IntColumn | None = None) -> BoolColumn:
        return _without(self._meets_affinity(rows), (*self._anti_affinity.values(), *self._unwanted), rows)


def _without(among: BoolColumn, tallies: Iterable[DomainCounts], rows: IntColumn | None = None) -> BoolColumn:
    """Returns which of the rows in `among` are in domains without any pod that the tallies count."""
    for tally in tallies:
        among = among & (tally.at(rows) <= 0)
    return among


def affinity_filter(snapshot: Snapshot, shape: RequestShape) -> InterPodAffinityFilter | None:
    """Creates the filter if the shape has required terms or an existing pod's anti-affinity selects it."""
    if not _has_terms(snapshot, shape):
        return None
    unwanted = _rejecting_pods(snapshot, shape)
    inter_pod = shape.pod_on_node.facts.inter_pod
    if not (inter_pod.affinity or inter_pod.anti_affinity or unwanted):
        return None
    return InterPodAffinityFilter(snapshot, shape, unwanted)


def _has_terms(snapshot: Snapshot, shape: RequestShape) -> bool:
    """Whether the shape, or any real or planned pod, has a term."""
    pods_on_nodes = snapshot.nodes.pods_on_nodes
    own = shape.pod_on_node.facts.inter_pod is not NO_INTER_POD_CONSTRAINTS
    return own or pods_on_nodes.has_terms or snapshot.has_changes


def _rejecting_pods(snapshot: Snapshot, shape: RequestShape) -> dict[str, DomainCounts]:
    """Returns the counts of pods whose anti-affinity terms select the shape, per topology key."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    parts: dict[str, list[PodCounts]] = {}
    for term, rows in _terms_against(snapshot, tags):
        if pods_on_nodes.selects(term, tags):
            parts.setdefault(term.topology, []).append(rows)
    found = {key: DomainCounts(domains(snapshot.nodes, key)) for key in parts}
    for key, tally in found.items():
        tally.count(parts[key])
    return found


def _terms_against(snapshot: Snapshot, tags: Mapping[str, str]) -> Iterable[tuple[PodTerm, PodCounts]]:
    """Yields the anti-affinity terms of existing and planned pods that may select a pod with these tags."""
    if not snapshot.is_emptied:
        yield from snapshot.nodes.pods_on_nodes.anti_affinity.that_may_select(tags)
    for pod_on_node, rows in snapshot.came():
        for term in pod_on_node.facts.inter_pod.anti_affinity:
            yield term, rows


def _tallies(snapshot: Snapshot, terms: Iterable[PodTerm]) -> dict[str, DomainCounts]:
    return {key: DomainCounts(domains(snapshot.nodes, key)) for key in dict.fromkeys(term.topology for term in terms)}


def selects_itself(pods_on_nodes: NodePods, term: PodTerm, tags: Mapping[str, str]) -> bool:
    """Whether a term of a pod that is to be placed selects pods with the same tags."""
    targets = pods_on_nodes.targets(term)
    return targets is not None and matches(targets, tags)


def _joint(pods_on_nodes: NodePods, terms: Iterable[PodTerm]) -> tuple[Target, ...] | None:
    """Returns the targets that a pod must match to match all terms. None = a term selects no pod."""
    joint: list[Target] = []
    for term in terms:
        targets = pods_on_nodes.targets(term)
        if targets is None:
            return None
        joint += targets
    return tuple(dict.fromkeys(joint))


_WEIGHT: Final = 2
_MOST: Final = 100.0

#: Weight of a required affinity term of an existing pod: kube-scheduler's default `hardPodAffinityWeight`.
_HARD: Final = 1
_Weighed = tuple[PodTerm, int, PodCounts]

#: A sum, and the number of feasible cells that have it.
_Bound = tuple[int, int]


class InterPodAffinityScore:
    """Sums of term weights per cell (nodes in the same domains), normalised to points.

    `_steps`: what one more pod of the shape adds to its domains, per topology key. `_left`: cells with a feasible node.
    `_least` and `_most`: the bounds of their sums.
    """

    def __init__(
        self, cells: Cells, tallies: Mapping[str, DomainCounts], steps: Mapping[str, int], among: BoolColumn
    ) -> None:
        self._cells, self._steps = cells, steps
        self._sums = np.zeros(cells.count, dtype=np.int64)
        for key, tally in tallies.items():
            self._sums += tally.of(cells.codes[key])
        self._left: BoolColumn = np.bincount(cells.of[among], minlength=cells.count) > 0
        self._least, self._most = self._bounds()
        self._points = self._normal(self._sums)[cells.of]

    def points(self) -> FloatColumn:
        """Points from 0 to 100, times the weight; 0 everywhere if all feasible nodes have the same sum."""
        return self._points

    def add(self, row: int) -> IntColumn | None:
        """Adds one pod to the domains of the row. The bounds may change, which changes the points of other cells."""
        cell, least, most = self._cells.of.item(row), self._least[0], self._most[0]
        changed = [
            self._step(self._cells.within(key, code), step)
            for key, step in self._steps.items()
            if (code := self._cells.codes[key].item(cell)) >= 0
        ]
        if not changed:
            return None
        is_new = not (self._least[1] and self._most[1])
        if is_new:
            self._least, self._most = self._bounds()
        if (least, most) == (self._least[0], self._most[0]):
            if len(changed) == 1:
                return self._replace(changed[0])
            others = np.zeros(len(self._sums), dtype=np.bool_)
        elif is_new or least == most or self._least[0] == self._most[0]:
            return self._replace(np.arange(len(self._sums)))
        else:
            # A bound moved. Cells at the unmoved and at the moved bound keep their points unless they changed.
            others = (self._sums != self._least[0]) & (self._sums != self._most[0])
        for there in changed:
            others[there] = True
        return self._replace(others.nonzero()[0])

    def _step(self, cells: IntColumn, step: int) -> IntColumn:
        """Adds `step` to the sums of the cells and updates the bounds."""
        left = cells[self._left[cells]]
        before = self._sums[left]
        self._sums[cells] += step
        self._least = _moved(self._least, before, before + step, lowest=True)
        self._most = _moved(self._most, before, before + step, lowest=False)
        return cells

    def _replace(self, cells: IntColumn) -> IntColumn | None:
        """Normalises the points of the cells again. Returns the rows whose points changed."""
        points = self._normal(self._sums[cells])
        is_moved = points != self._points[self._cells.first[cells]]
        if not is_moved.any():
            return None
        self._cells.put(self._points, cells[is_moved], points[is_moved])
        return self._cells.rows(cells[is_moved])

    def _bounds(self) -> tuple[_Bound, _Bound]:
        sums = self._sums[self._left]
        least, most = int(sums.min()), int(sums.max())
        return (least, int((sums == least).sum())), (most, int((sums == most).sum()))

    def _normal(self, sums: IntColumn) -> FloatColumn:
        least, most = self._least[0], self._most[0]
        if least == most:
            return np.zeros(len(sums))
        return np.floor(_MOST * ((sums - least) / (most - least))) * _WEIGHT


def _moved(bound: _Bound, before: IntColumn, after: IntColumn, *, lowest: bool) -> _Bound:
    """Returns the bound after some sums changed. A count of 0 means that the bound is no longer known."""
    value, count = bound
    if not len(after) or not count:
        return bound
    far = int(after.min() if lowest else after.max())
    if (far < value) if lowest else (far > value):
        return far, int((after == far).sum())
    return value, count - int((before == value).sum()) + int((after == value).sum())


def score(snapshot: Snapshot, shape: RequestShape, among: BoolColumn) -> InterPodAffinityScore | None:
    """Creates the score if the shape has preferred terms or a term of another pod selects it."""
    if not _has_terms(snapshot, shape):
        return None
    parts: dict[tuple[str, int], list[PodCounts]] = {}
    for term, weight, part in _weighed(snapshot, shape):
        parts.setdefault((term.topology, weight), []).append(part)
    tallies = {key: DomainCounts(domains(snapshot.nodes, key)) for key, _ in parts}
    for (key, weight), found in parts.items():
        tallies[key].count(found, weight)
    steps = _steps(snapshot, shape)
    if not (tallies or steps) or not among.any():
        return None
    steps = {key: step for key, step in steps.items() if step}
    return InterPodAffinityScore(cells(snapshot.nodes, (*tallies, *steps)), tallies, steps, among)


def _weighed(snapshot: Snapshot, shape: RequestShape) -> Iterator[_Weighed]:
    """Yields each term that affects the points, with its weight and the rows of the pods it counts."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    for one in shape.pod_on_node.facts.inter_pod.preferred:
        targets = pods_on_nodes.targets(one.term)
        if targets is not None:
            yield from ((one.term, one.weight, part) for part in snapshot.tagged(targets))
    for term, weight, part in _terms_towards(snapshot, tags):
        if pods_on_nodes.selects(term, tags):
            yield term, weight, part


def _terms_towards(snapshot: Snapshot, tags: Mapping[str, str]) -> Iterator[_Weighed]:
    """Yields the terms of existing and planned pods that may select a pod with these tags, with the pods' rows."""
    pods_on_nodes = snapshot.nodes.pods_on_nodes
    if not snapshot.is_emptied:
        yield from ((one.term, one.weight, rows) for one, rows in pods_on_nodes.preferred.that_may_select(tags))
        yield from ((term, _HARD, rows) for term, rows in pods_on_nodes.affinity.that_may_select(tags))
    for pod_on_node, came in snapshot.came():
        for term, weight in _terms_of(pod_on_node.facts.inter_pod):
            yield term, weight, came


def _steps(snapshot: Snapshot, shape: RequestShape) -> dict[str, int]:
    """Returns what one pod of the shape adds for the next pod, per topology key, by the terms of both."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    inter_pod = shape.pod_on_node.facts.inter_pod
    found = [(one.term, one.weight) for one in inter_pod.preferred if selects_itself(pods_on_nodes, one.term, tags)]
    found += [(term, weight) for term, weight in _terms_of(inter_pod) if pods_on_nodes.selects(term, tags)]
    steps: dict[str, int] = {}
    for term, weight in found:
        steps[term.topology] = steps.get(term.topology, 0) + weight
    return steps


def _terms_of(inter_pod: InterPodConstraints) -> Iterator[tuple[PodTerm, int]]:
    """Yields the terms by which an existing pod attracts or repels the next pod."""
    yield from ((one.term, one.weight) for one in inter_pod.preferred)
    yield from ((term, _HARD) for term in inter_pod.affinity)
