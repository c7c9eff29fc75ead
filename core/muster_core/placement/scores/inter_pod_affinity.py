"""Score InterPodAffinity: preferred terms of the shape, and preferred and required affinity of existing pods.

Differs: while pods of one shape are placed together, points are normalised over the nodes that were feasible for the
first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from muster_core.model.constraints import InterPodConstraints, PodTerm
from muster_core.placement.filters.inter_pod_affinity import DomainCounts, Part, cells, domains, selects_itself
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.state.nodes import Cells
from muster_core.state.snapshot import RequestShape, Snapshot

_WEIGHT: Final = 2
_MOST: Final = 100.0

#: Weight of a required affinity term of an existing pod: kube-scheduler's default `hardPodAffinityWeight`.
_HARD: Final = 1
_Weighed = tuple[PodTerm, int, Part]

#: A sum, and the number of feasible cells that have it.
_Bound = tuple[int, int]


class InterPodAffinityScore:
    """Sums of term weights per cell (nodes in the same domains), normalised to points.

    `_steps`: what one more pod of the shape adds to its domains, per topology key. `_left`: cells with a feasible node.
    `_least` and `_most`: the bounds of their sums.
    """

    __slots__ = ("_cells", "_least", "_left", "_most", "_points", "_steps", "_sums")

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
            return self._replace(changed[0] if len(changed) == 1 else np.unique(np.concatenate(changed)))
        if is_new or least == most or self._least[0] == self._most[0]:
            return self._replace(np.arange(len(self._sums)))
        # A bound moved. Cells at the unmoved bound and cells at the moved bound keep their points unless they changed.
        between = (self._sums != self._least[0]) & (self._sums != self._most[0])
        for there in changed:
            between[there] = True
        return self._replace(np.flatnonzero(between))

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
    parts: dict[tuple[str, int], list[Part]] = {}
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
        if pods_on_nodes.means(term, tags):
            yield term, weight, part


def _terms_towards(snapshot: Snapshot, tags: Mapping[str, str]) -> Iterator[_Weighed]:
    """Yields the terms of existing and planned pods that may select a pod with these tags, with the pods' rows."""
    pods_on_nodes = snapshot.nodes.pods_on_nodes
    if not snapshot.is_emptied:
        yield from ((one.term, one.weight, rows) for one, rows in pods_on_nodes.preferred.that_may_mean(tags))
        yield from ((term, _HARD, rows) for term, rows in pods_on_nodes.affinity.that_may_mean(tags))
    for pod_on_node, came in snapshot.came():
        for term, weight in _terms_of(pod_on_node.facts.inter_pod):
            yield term, weight, came


def _steps(snapshot: Snapshot, shape: RequestShape) -> dict[str, int]:
    """Returns what one pod of the shape adds for the next pod, per topology key, by the terms of both."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    inter_pod = shape.pod_on_node.facts.inter_pod
    found = [(one.term, one.weight) for one in inter_pod.preferred if selects_itself(pods_on_nodes, one.term, tags)]
    found += [(term, weight) for term, weight in _terms_of(inter_pod) if pods_on_nodes.means(term, tags)]
    steps: dict[str, int] = {}
    for term, weight in found:
        steps[term.topology] = steps.get(term.topology, 0) + weight
    return steps


def _terms_of(inter_pod: InterPodConstraints) -> Iterator[tuple[PodTerm, int]]:
    """Yields the terms by which an existing pod attracts or repels the next pod."""
    yield from ((one.term, one.weight) for one in inter_pod.preferred)
    yield from ((term, _HARD) for term in inter_pod.affinity)
