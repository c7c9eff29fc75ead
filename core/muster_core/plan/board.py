"""Places for members of one shape, one after the other, where each changes where the next may or would rather go.

Every row has one number, the lowest is taken next; a row that is full or
refused has none. A place changes the number of its own row and of those that
a guard or a score names, so a step costs little more than finding the lowest.
Equal to asking everything anew for each member. Ties go to the lowest node id
(style 18). Called by fit.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster_core.model.config import NodeSort
from muster_core.plan.draft import Draft
from muster_core.plan.guards import Guard, Score
from muster_core.plan.scoring import POINTS, Fill, Preference
from muster_core.plan.shape import Shape
from muster_core.world.columns import FloatColumn, IntColumn


class Board:
    """One shape over one draft; the draft is read, not charged."""

    __slots__ = (
        "_base",
        "_guards",
        "_is_sorted",
        "_keys",
        "_placed",
        "_positions",
        "_preference",
        "_room",
        "_rows",
        "_scores",
    )

    def __init__(
        self,
        draft: Draft,
        shape: Shape,
        room: IntColumn,
        sort: NodeSort,
        watch: tuple[Sequence[Guard], Sequence[Score]],
    ) -> None:
        """`room`: how many of the shape each row has room for, 0 where nodes' facts refuse it; it is used up."""
        (self._guards, self._scores), self._room = watch, room
        self._placed: dict[int, int] = {}
        self._rows, self._positions = draft.nodes.rows.order()
        self._is_sorted = bool((self._rows[1:] > self._rows[:-1]).all())
        self._preference = Preference(draft, shape, sort)
        self._base = self._preference.keys()
        self._keys = self._all_keys()

    def fill(self, count: int) -> list[Fill]:
        """Up to `count` places: rows in the order in which they were first taken, and how many go there."""
        while count and len(self._keys):
            at = int(self._keys.argmin())
            if self._keys.item(at) == np.inf:
                break
            self._take(int(self._rows[at]))
            count -= 1
        return list(self._placed.items())

    def _take(self, row: int) -> None:
        there = self._placed[row] = self._placed.get(row, 0) + 1
        self._room[row] -= 1
        self._base[row] = self._preference.key(row, there)
        own = np.array([row], dtype=np.int64)
        changed = [rows for guard in self._guards if (rows := guard.add(row)) is not None]
        moved = [rows for score in self._scores if (rows := score.add(row)) is not None]
        for rows in (own, *changed, *moved):
            self._refresh(rows)

    def _refresh(self, rows: IntColumn) -> None:
        if len(rows) > len(self._keys) // 2:
            self._keys = self._all_keys()
            return
        at = rows if self._is_sorted else self._positions[rows]
        open_rows = self._room[rows] > 0
        for guard in self._guards:
            open_rows &= guard.allows_at(rows)
        if not open_rows.any():
            self._keys[at] = np.inf
            return
        keys = self._base[rows]
        for score in self._scores:
            keys = keys - score.points()[rows] / POINTS
        self._keys[at] = np.where(open_rows, keys, np.inf)

    def _all_keys(self) -> FloatColumn:
        """By position; whole columns are quicker than most of their rows."""
        open_rows = self._room > 0
        for guard in self._guards:
            open_rows &= guard.allows()
        keys = self._base
        for score in self._scores:
            keys = keys - score.points() / POINTS
        keys = np.where(open_rows, keys, np.inf)
        return keys if self._is_sorted else keys[self._rows]
