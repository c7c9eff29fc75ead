"""InterPodAffinity's score: near pods that are preferred, away from those that are not, and near those that want it.

Counted per node: the weights of the pod's preferred terms for each pod in the
same domain that they mean, the weights of these pods' own preferred terms that
mean it, and 1 for each of their required affinity terms that does
(kube-scheduler's hardPodAffinityWeight). The best node has 100, the worst 0.
Source: Kubernetes 1.36, InterPodAffinityArgs; its weight among the scores is 2.

Differs: while members of one shape are placed together, points stay relative to the nodes that were left for the
first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from muster_core.model.company import Company, PodTerm
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility.inter_pod_affinity import means_itself
from muster_core.plan.feasibility.topology import Part, Tally, cells, domains
from muster_core.plan.shape import Shape
from muster_core.world.columns import BoolColumn, FloatColumn, IntColumn
from muster_core.world.domains import Cells

_WEIGHT: Final = 2
_MOST: Final = 100.0
#: What a required affinity of one that is there weighs.
_HARD: Final = 1

_Weighed = tuple[PodTerm, int, Part]
#: A sum, and how many have it.
_Bound = tuple[int, int]


class PreferredCompany:
    """All of it, as one shape has it. `_sums`: per cell; `_steps`: what one more of the shape adds in its domains, by
    topology key; `_left`: which cells have a node that was left, `_least` and `_most`: sums of these and how many of
    them have it.
    """

    __slots__ = ("_cells", "_least", "_left", "_most", "_points", "_steps", "_sums")

    def __init__(self, cells: Cells, tallies: Mapping[str, Tally], steps: Mapping[str, int], among: BoolColumn) -> None:
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
        """Normalise the points of these anew; the rows whose points are others for it."""
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


def score(draft: Draft, shape: Shape, among: BoolColumn) -> PreferredCompany | None:
    """Of a shape with preferred terms, or one that terms of others mean."""
    parts: dict[tuple[str, int], list[Part]] = {}
    for term, weight, part in _weighed(draft, shape):
        parts.setdefault((term.topology, weight), []).append(part)
    tallies = {key: Tally(domains(draft.nodes, key)) for key, _ in parts}
    for (key, weight), found in parts.items():
        tallies[key].count(found, weight)
    steps = _steps(draft, shape)
    if not (tallies or steps) or not among.any():
        return None
    steps = {key: step for key, step in steps.items() if step}
    return PreferredCompany(cells(draft.nodes, (*tallies, *steps)), tallies, steps, among)


def _weighed(draft: Draft, shape: Shape) -> Iterator[_Weighed]:
    """Everything that counts for or against a node: because of which term, how much each, and where."""
    occupants, tags = draft.nodes.occupants, dict(shape.occupant.tags)
    for one in shape.occupant.facts.company.preferred:
        targets = occupants.targets(one.term)
        if targets is not None:
            yield from ((one.term, one.weight, part) for part in draft.tagged(targets))
    for term, weight, part in _terms_towards(draft, tags):
        if occupants.means(term, tags):
            yield term, weight, part


def _terms_towards(draft: Draft, tags: Mapping[str, str]) -> Iterator[_Weighed]:
    """Terms of those that are there, or are supposed to be, that may mean a pod with these tags; where they are."""
    occupants = draft.nodes.occupants
    if not draft.is_deserted:
        yield from ((one.term, one.weight, rows) for one, rows in occupants.drawn.that_may_mean(tags))
        yield from ((term, _HARD, rows) for term, rows in occupants.near.that_may_mean(tags))
    for occupant, came in draft.came():
        for term, weight in _terms_of(occupant.facts.company):
            yield term, weight, came


def _steps(draft: Draft, shape: Shape) -> dict[str, int]:
    """Per topology key what one of the shape that is there adds for the next: what that wants, and what it wants."""
    occupants, tags = draft.nodes.occupants, dict(shape.occupant.tags)
    company = shape.occupant.facts.company
    found = [(one.term, one.weight) for one in company.preferred if means_itself(occupants, one.term, tags)]
    found += [(term, weight) for term, weight in _terms_of(company) if occupants.means(term, tags)]
    steps: dict[str, int] = {}
    for term, weight in found:
        steps[term.topology] = steps.get(term.topology, 0) + weight
    return steps


def _terms_of(company: Company) -> Iterator[tuple[PodTerm, int]]:
    """What a pod that is there wants of the next."""
    yield from ((one.term, one.weight) for one in company.preferred)
    yield from ((term, _HARD) for term in company.near)
