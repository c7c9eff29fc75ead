"""Sets of topology domains that may hold a gang, by what fits per domain, class of members and resource.

`DomainSets` chooses domains of one level, with at most so many domains of each level above. A dynamic program computes
the most that the domains behind each position can hold, so that an enumeration never follows a choice that any class or
resource rules out by itself. Both charge a `Work`, and the enumeration ends when no work is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster_core.placement.search.requests import Work
from muster_core.state.columns import BoolColumn, FloatColumn, IntColumn

#: Domains that are compared: of more, those with the least and those with the most room.
_MOST: Final = 1_000

#: Cost of a step of the enumeration, of a domain in the table at each level, and of a domain in an answer, as numbers
#: of evaluated rows.
_STEP: Final = 400
_COLUMN: Final = 500
_DOMAIN: Final = 20

#: A table column of more entries is too large for any search.
_MOST_CELLS: Final = 10**8

#: Marks what cannot be chosen. The sum with any amount is negative.
_NEVER: Final = -(2**62)


@dataclass(slots=True, eq=False)
class DomainSets:
    """Choices among domains, one per column of the tables, sorted by their domains of all levels.

    `paths`: a row per level, the outermost first, and the domains themselves. `costs`: whether each of them counts as
    one more domain. `amounts`: what fits, a row per class and resource. `base`: what fits in domains that are used
    anyway. `most`: number of further domains per level, at most.
    """

    paths: IntColumn
    costs: BoolColumn
    amounts: IntColumn
    base: IntColumn
    wanted: IntColumn
    most: Sequence[int]
    _shared: list[int] = field(default_factory=list)
    _bounds: list[IntColumn] = field(default_factory=list)

    @staticmethod
    def cost(domains: int, rows: int, most: Sequence[int]) -> int:
        """Returns what the table costs, as a number of evaluated rows."""
        cells = rows * np.prod([count + 1 for count in most], dtype=float)
        return domains * len(most) * (_COLUMN + int(min(cells, _MOST_CELLS)) // 2)

    def __post_init__(self) -> None:
        """Computes the most that the domains from each position on can hold.

        The table of a position has a row per number of open levels above it, then one per class and resource, then the
        number of domains that may still be chosen of each level.
        """
        depth = len(self.most) - 1
        same = np.logical_and.accumulate(self.paths[:-1, :-1] == self.paths[:-1, 1:], axis=0)
        self._shared = [*same.sum(axis=0).tolist(), 0]
        rows = len(self.wanted)
        after = np.zeros((depth + 1, rows, *(count + 1 for count in self.most)), np.int64)
        self._bounds.append(after)
        for at in range(self.paths.shape[1] - 1, -1, -1):
            shared, costs = self._shared[at], self.costs[:, at].tolist()
            taken = _paid(after[shared] + self.amounts[:, at].reshape(rows, *(1 for _ in self.most)), depth)
            here = np.empty_like(after)
            for opened in range(depth, -1, -1):
                if opened < depth and costs[opened]:
                    taken = _paid(taken, opened)
                np.maximum(after[min(opened, shared)], taken, out=here[opened])
            self._bounds.append(here)
            after = here
        self._bounds.reverse()

    @property
    def least(self) -> int:
        """The number of domains that every set has at least; one more than allowed if no set holds the gang."""
        best = self.base[:, None] + self._bounds[0][_index(0, self.most[:-1])]
        enough = np.flatnonzero((best >= self.wanted[:, None]).all(axis=0))
        return int(enough[0]) if len(enough) else self.most[-1] + 1

    def of(self, count: int, work: Work) -> Iterator[tuple[int, ...]]:
        """Yields the sets of `count` further domains that may hold the gang, those with domains of little room first,
        while work is left.
        """
        at, opened, left, reached = 0, 0, [*self.most[:-1], count], self.base
        taken: list[tuple[int, int, list[int], IntColumn]] = []
        while work.is_left:
            work.pay(_STEP)
            if not left[-1]:
                if (reached >= self.wanted).all():
                    work.pay(_DOMAIN * count)
                    yield tuple(self.paths[-1, one].item() for one, *_ in taken)
            elif at < self.paths.shape[1] and self._is_enough(at, opened, left, reached):
                shared = self._shared[at]
                after = self._left_after(at, opened, left)
                more = reached + self.amounts[:, at]
                if min(after) >= 0 and self._is_enough(at + 1, shared, after, more):
                    taken.append((at, opened, left, reached))
                    opened, left, reached = shared, after, more
                else:
                    opened = min(opened, shared)
                at += 1
                continue
            if not taken:
                return
            at, opened, left, reached = taken.pop()
            opened, at = min(opened, self._shared[at]), at + 1

    def _is_enough(self, at: int, opened: int, left: Sequence[int], reached: IntColumn) -> bool:
        return bool((reached + self._bounds[at][_index(opened, left)] >= self.wanted).all())

    def _left_after(self, at: int, opened: int, left: Sequence[int]) -> list[int]:
        """Returns how many domains may be chosen of each level after this one was."""
        costs = self.costs[:, at].tolist()
        return [one - (costs[level] and level >= opened) for level, one in enumerate(left)]


def comparable(domains: IntColumn, shares: FloatColumn) -> IntColumn:
    """Returns the domains that are compared, in any order. `shares`: how much room each has."""
    if len(domains) <= _MOST:
        return domains
    by_room = domains[np.argsort(shares, kind="stable")]
    return np.concatenate((by_room[: _MOST // 2], by_room[-_MOST // 2 :]))


def _index(opened: int, left: Sequence[int]) -> tuple[int | slice, ...]:
    """Where a table has the amounts for so many open levels and so many domains that are left of each level."""
    return (opened, slice(None), *left)


def _paid(amounts: IntColumn, level: int) -> IntColumn:
    """Returns the amounts by what is left before one domain of the level is chosen."""
    found = np.full_like(amounts, _NEVER)
    to: list[slice] = [slice(None)] * amounts.ndim
    begin = list(to)
    to[level + 1], begin[level + 1] = slice(1, None), slice(None, -1)
    found[tuple(to)] = amounts[tuple(begin)]
    return found
