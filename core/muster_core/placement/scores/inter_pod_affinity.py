"""Score InterPodAffinity.

Differs: while members of one shape are placed together, points stay relative to the nodes that were left for the
first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from muster_core.model.constraints import InterPodConstraints, PodTerm
from muster_core.placement.filters.inter_pod_affinity import DomainCounts, Part, cells, domains, selects_itself
from muster_core.placement.snapshot import RequestShape, Snapshot
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.state.nodes import Cells

_WEIGHT: Final = 2
_MOST: Final = 100.0

#: What a required affinity of one that is there weighs.
_HARD: Final = 1
_Weighed = tuple[PodTerm, int, Part]

#: A sum, and how many have it.
_Bound = tuple[int, int]


class InterPodAffinityScore:
    """All of it, as one shape has it. `_sums`: per cell; `_steps`: what one more of the shape adds in its domains, by
    topology key; `_left`: which cells have a node that was left, `_least` and `_most`: sums of these and how many of
    them have it.
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
        """From 0 to 100, times the weight; 0 everywhere where no node is better than another."""
        return self._points

    def add(self, row: int) -> IntColumn | None:
        """Every node of its domains counts one more; who is best or worst may be others then."""
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
        # Somebody went beyond all others: who is as good or as bad as can be, and was, has the points for that.
        between = (self._sums != self._least[0]) & (self._sums != self._most[0])
        for there in changed:
            between[there] = True
        return self._replace(np.flatnonzero(between))

    def _step(self, cells: IntColumn, step: int) -> IntColumn:
        """So much more for all of these. Counts who has the least and the most, as long as there is somebody."""
        left = cells[self._left[cells]]
        before = self._sums[left]
        self._sums[cells] += step
        self._least = _moved(self._least, before, before + step, lowest=True)
        self._most = _moved(self._most, before, before + step, lowest=False)
        return cells

    def _replace(self, cells: IntColumn) -> IntColumn | None:
        """Normalise the points of these again; the rows whose points are others for it."""
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
    """The least sum or the most, and how many have it, when some changed; of 0 it is not known any more."""
    value, count = bound
    if not len(after) or not count:
        return bound
    far = int(after.min() if lowest else after.max())
    if (far < value) if lowest else (far > value):
        return far, int((after == far).sum())
    return value, count - int((before == value).sum()) + int((after == value).sum())


def score(snapshot: Snapshot, shape: RequestShape, among: BoolColumn) -> InterPodAffinityScore | None:
    """Of a shape with preferred terms, or one that terms of others mean."""
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
    """Everything that counts for or against a node: because of which term, how much each, and where."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    for one in shape.pod_on_node.facts.inter_pod.preferred:
        targets = pods_on_nodes.targets(one.term)
        if targets is not None:
            yield from ((one.term, one.weight, part) for part in snapshot.tagged(targets))
    for term, weight, part in _terms_towards(snapshot, tags):
        if pods_on_nodes.means(term, tags):
            yield term, weight, part


def _terms_towards(snapshot: Snapshot, tags: Mapping[str, str]) -> Iterator[_Weighed]:
    """Terms of those that are there, or are supposed to be, that may mean a pod with these tags; where they are."""
    pods_on_nodes = snapshot.nodes.pods_on_nodes
    if not snapshot.is_deserted:
        yield from ((one.term, one.weight, rows) for one, rows in pods_on_nodes.preferred.that_may_mean(tags))
        yield from ((term, _HARD, rows) for term, rows in pods_on_nodes.near.that_may_mean(tags))
    for pod_on_node, came in snapshot.came():
        for term, weight in _terms_of(pod_on_node.facts.inter_pod):
            yield term, weight, came


def _steps(snapshot: Snapshot, shape: RequestShape) -> dict[str, int]:
    """Per topology key what one of the shape that is there adds for the next: what that wants, and what it wants."""
    pods_on_nodes, tags = snapshot.nodes.pods_on_nodes, dict(shape.pod_on_node.tags)
    inter_pod = shape.pod_on_node.facts.inter_pod
    found = [(one.term, one.weight) for one in inter_pod.preferred if selects_itself(pods_on_nodes, one.term, tags)]
    found += [(term, weight) for term, weight in _terms_of(inter_pod) if pods_on_nodes.means(term, tags)]
    steps: dict[str, int] = {}
    for term, weight in found:
        steps[term.topology] = steps.get(term.topology, 0) + weight
    return steps


def _terms_of(inter_pod: InterPodConstraints) -> Iterator[tuple[PodTerm, int]]:
    """What a pod that is there wants of the next."""
    yield from ((one.term, one.weight) for one in inter_pod.preferred)
    yield from ((term, _HARD) for term in inter_pod.near)
