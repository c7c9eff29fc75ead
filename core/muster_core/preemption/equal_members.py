"""Selects the fewest victims for many equal members of a gang.

Members of one class are interchangeable, so only their number per node matters. On each node, the largest candidates
are taken first; after each of them, the number of members that fit there is computed, for all nodes in a few arrays.
Nodes are then chosen by victims per member. Where that leaves a rest, a few nodes around it are compared exactly.
`planning` calls `divide`, which knows neither filters nor guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from muster_core.model.resources import Resources
from muster_core.preemption.candidates import Candidate
from muster_core.state.columns import BoolColumn, IntColumn

#: Nodes that are compared exactly, and the number of members times numbers of victims that this may take.
_MOST_EXACT: Final = 64
_MOST_COMPARED: Final = 2_000_000

#: Weight of a victim. The order of candidates decides only between equal numbers of victims.
_VICTIM: Final = 1 << 40
_NEVER: Final = 1 << 60

#: Worth of earlier victims, and a worth that no candidate has.
_EARLIER: Final = -1
_NOBODY: Final = -2


@dataclass(frozen=True, slots=True)
class Share:
    """Members for one row, and the victims that make room for them. `victims` may be empty."""

    row: int
    members: int
    victims: tuple[Candidate, ...]


def worth(candidate: Candidate) -> tuple[bool, bool, int]:
    """What must not become worse in order to preempt fewer pods."""
    return candidate.is_protected, candidate.breaks_gang, candidate.priority


def divide(
    count: int, each: Resources, available: Mapping[str, IntColumn], rows: Sequence[tuple[int, Sequence[Candidate]]]
) -> list[Share] | None:
    """Returns where `count` members of size `each` fit, with as few victims as possible. None = they do not fit.

    `available`: what each of the rows has without victims, in their order. `rows`: with their candidates, in the order
    of preemption. The worst victim is as little worth as possible, then the number of victims is.
    """
    if not rows or any(name not in available for name in each):
        return None
    return _Division(count, each, available, rows).run()


#: Weight and number of the victims of a row, and the members that fit.
_Point = tuple[int, int, int]
_NOTHING: Final[_Point] = (0, 0, 0)


class _Division:
    def __init__(
        self,
        count: int,
        each: Resources,
        available: Mapping[str, IntColumn],
        rows: Sequence[tuple[int, Sequence[Candidate]]],
    ) -> None:
        self._count, self._rows = count, rows
        flat = [one for _, candidates in rows for one in candidates]
        self._of = np.repeat(np.arange(len(rows)), [len(candidates) for _, candidates in rows])
        names = list(each)
        self._each = np.array([each[name] for name in names])[:, None]
        self._available = np.array([available[name] for name in names])
        kinds = {one.resources: index for index, one in enumerate({one.resources: one for one in flat}.values())}
        amounts = np.array([[kind[name] for kind in kinds] for name in names], np.int64)
        self._freed = amounts[:, [kinds[one.resources] for one in flat]]
        self._earlier = np.array([one.is_earlier_victim for one in flat], np.bool_)
        self._worth = _numbered([worth(one) for one in flat])
        self._worth[self._earlier] = _EARLIER
        self._rank = _numbered([one.key[1:8] for one in flat])

    def run(self) -> list[Share] | None:
        low, high = _NOBODY, int(self._worth.max(initial=_NOBODY))
        if self._room(self._worth <= high) < self._count:
            return None
        while low < high:  # the lowest worth that suffices
            middle = (low + high) // 2
            if self._room(self._worth <= middle) < self._count:
                low = middle + 1
            else:
                high = middle
        order, points = self._points(self._worth <= low)
        return [self._share(row, point, order) for row, point in self._chosen(points).items() if point[2]]

    def _room(self, among: BoolColumn) -> int:
        """Returns how many members fit once these candidates have ended."""
        left = self._available.copy()
        for column, freed in zip(left, self._freed, strict=True):
            np.add.at(column, self._of[among], freed[among])
        return int(np.maximum((left // self._each).min(axis=0), 0).sum())

    def _points(self, among: BoolColumn) -> tuple[dict[int, list[int]], list[list[_Point]]]:
        """Returns the candidates of each row, the largest first, and after which of them more members fit.

        The largest have most of the resource that they have least of, among those that are short.
        """
        is_short = (self._available < self._each)[:, self._of]
        parts = self._freed / self._each
        size, least = (is_short * parts).sum(axis=0), np.where(is_short, parts, np.inf).min(axis=0)
        order = np.lexsort((np.arange(len(size)), -size, -least, ~self._earlier, self._of))
        order = order[among[order]]
        of, weights = self._of[order], np.where(self._earlier, 0, _VICTIM + self._rank)[order].cumsum()
        sums = self._freed[:, order].cumsum(axis=1)
        begins = np.searchsorted(of, np.arange(len(self._rows)))
        before = np.concatenate((np.zeros((len(sums), 1), np.int64), sums), axis=1)[:, begins[of]]
        weighed = np.concatenate(([0], weights))[begins[of]]
        fits = np.maximum(((self._available[:, of] + sums - before) // self._each).min(axis=0), 0)
        at_first = np.maximum((self._available // self._each).min(axis=0), 0)
        previous = np.concatenate(([0], fits[:-1]))
        is_begin = np.arange(len(of)) == begins[of]
        previous[is_begin] = at_first[of[is_begin]]
        points: list[list[_Point]] = [[(0, 0, int(there))] if there else [] for there in at_first]
        found = np.flatnonzero(fits > previous)
        for row, weight, number, there in zip(
            of[found].tolist(),
            (weights - weighed)[found].tolist(),
            (found - begins[of[found]] + 1).tolist(),
            fits[found].tolist(),
            strict=True,
        ):
            points[row].append((weight, number, there))
        by_row: dict[int, list[int]] = {}
        for row, index in zip(of.tolist(), order.tolist(), strict=True):
            by_row.setdefault(row, []).append(index)
        return by_row, points

    def _chosen(self, points: list[list[_Point]]) -> dict[int, _Point]:
        """Returns the point of each row that is used. Together they have exactly the members that are wanted."""
        steps = sorted(step for row, found in enumerate(points) for step in _steps(row, found))
        taken: dict[int, _Point] = {}
        total = index = 0
        while total < self._count:
            _, row, _, point = steps[index]
            index += 1
            if point[2] > (before := taken.get(row, _NOTHING)[2]):
                total, taken[row] = total + point[2] - before, point
        if total > self._count:
            compared = self._around(steps, index - 1, points)
            for row in compared:
                taken.pop(row, None)
            left = self._count - sum(point[2] for point in taken.values())
            taken |= _fewest(left, {row: points[row] for row in compared})
        return taken

    @staticmethod
    def _around(steps: list[_Step], at: int, points: list[list[_Point]]) -> list[int]:
        """Returns the rows of the steps around the last one, which are compared exactly."""
        rows: dict[int, None] = {steps[at][1]: None}
        numbers, members = len(points[steps[at][1]]), points[steps[at][1]][-1][2]
        for distance in range(1, len(steps)):
            for index in (at - distance, at + distance):
                if 0 <= index < len(steps) and (row := steps[index][1]) not in rows:
                    numbers, members = numbers + len(points[row]), members + points[row][-1][2]
                    if len(rows) == _MOST_EXACT or numbers * members > _MOST_COMPARED:
                        return list(rows)
                    rows[row] = None
        return list(rows)

    def _share(self, row: int, point: _Point, order: dict[int, list[int]]) -> Share:
        number, candidates = self._rows[row]
        first = int(np.searchsorted(self._of, row))
        mine = order.get(row, [])
        victims = sorted(index - first for index in mine[: point[1]])
        needed = point[2] * self._each[:, 0] - self._available[:, row]
        is_mixed = int((needed > 0).sum()) > 1  # then some victims may only have what others have enough of
        for index in reversed(mine[: point[1]] if is_mixed else ()):
            fewer = [one for one in victims if one != index - first]
            if self._is_enough(first, fewer, needed):
                victims = fewer
        for index in sorted(mine[point[1] :]):  # candidates that come first replace larger ones
            if not victims or index - first > victims[-1]:
                break
            swapped = sorted([*victims[:-1], index - first])
            if self._is_enough(first, swapped, needed):
                victims = swapped
        return Share(number, point[2], tuple(candidates[index] for index in victims))

    def _is_enough(self, first: int, victims: Sequence[int], needed: IntColumn) -> bool:
        return bool((self._freed[:, [one + first for one in victims]].sum(axis=1) >= needed).all())


#: Weight per member, row, number in the row, and the point that the step leads to.
_Step = tuple[float, int, int, _Point]


def _steps(row: int, points: Sequence[_Point]) -> Iterator[_Step]:
    """Yields the steps of a row from point to point. Each costs at least as much per member as the one before."""
    hull: list[_Point] = [_NOTHING]
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) > _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    for index, (start, end) in enumerate(pairwise(hull)):
        yield _slope(start, end), row, index, end


def _slope(start: _Point, end: _Point) -> float:
    return (end[0] - start[0]) / (end[2] - start[2])


def _fewest(count: int, points: Mapping[int, Sequence[_Point]]) -> dict[int, _Point]:
    """Returns the points with the lowest weight that have room for `count` members; the last row gets fewer if need be.

    The rows have enough room together.
    """
    least = np.full(count + 1, _NEVER, np.int64)
    least[0] = 0
    came: list[tuple[int, IntColumn, IntColumn]] = []
    for row, options in points.items():
        now, pick, origin = least.copy(), np.full(count + 1, -1), np.arange(count + 1)
        for number, (weight, _, members) in enumerate(options):
            # `members` or fewer are placed here, so the number before is at least that number less.
            begin = np.maximum(np.arange(count + 1) - members, 0)
            better = least[begin] + weight < now
            now[better], pick[better], origin[better] = least[begin][better] + weight, number, begin[better]
        came.append((row, pick, origin))
        least = now
    found: dict[int, _Point] = {}
    at = count
    for row, pick, origin in reversed(came):
        if pick[at] >= 0:
            weight, number, _ = points[row][pick.item(at)]
            found[row] = weight, number, at - origin.item(at)
            at = origin.item(at)
    return found


def _numbered(keys: Sequence[tuple[int, ...]]) -> IntColumn:
    """Returns the rank of each key among all."""
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], np.int64)
