"""The nodes by their values of one label: what a term with a topology key counts by.

Made by plan/feasibility/topology.py when a key is first asked for, and thrown
away when a fact of nodes changes; the members of a value are looked up when
they are first asked for.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_core.world.columns import CodeColumn, FloatColumn, IntColumn

#: Cells of fewer rows than this on average are not worth telling apart from rows.
_WORTH: Final = 2
#: Codes of combined keys that an int64 tells apart.
_MOST_CODES: Final = 2**62


class Domains:
    """One topology key. `codes`: per row the number of its value, -1 = it lacks the label; `count`: numbers go up to
    here.
    """

    __slots__ = ("_order", "_starts", "codes", "count")

    def __init__(self, codes: CodeColumn) -> None:
        self.codes: IntColumn = codes.astype(np.int64)
        self.codes.flags.writeable = False
        self.count = int(codes.max(initial=-1)) + 1
        #: Rows sorted by their codes, and where those of each code begin.
        self._order: IntColumn | None = None
        self._starts: list[int] = []

    def members(self, code: int) -> IntColumn:
        """The rows with this value."""
        if self._order is None:
            self._order = np.argsort(self.codes, kind="stable")
            self._starts = np.cumsum(np.bincount(self.codes + 1, minlength=self.count + 1)).tolist()
        return self._order[self._starts[code] : self._starts[code + 1]]


class Cells:
    """Rows that lie in the same domains of several keys: what depends on domains alone is one number for all of them.

    `of`: per row its cell; `codes`: by key, per cell the number of its domain; `first`: per cell one of its rows.
    """

    __slots__ = ("_domains", "_members", "codes", "first", "of")

    def __init__(self, domains: dict[str, Domains], size: int, *, by_row: bool = False) -> None:
        self._domains = domains
        self._members: list[IntColumn] = []
        if by_row or any(one.count > size // _WORTH for one in domains.values()):
            self.of = self.first = np.arange(size)
            self.codes = {key: one.codes for key, one in domains.items()}
            return
        combined = np.zeros(size, dtype=np.int64)
        span = 1
        for one in domains.values():
            if span * (one.count + 1) > _MOST_CODES:  # number the combinations so far anew: there are at most `size`
                combined = np.unique(combined, return_inverse=True)[1]
                span = size
            combined = combined * (one.count + 1) + one.codes + 1
            span *= one.count + 1
        _, self.first, self.of = np.unique(combined, return_index=True, return_inverse=True)
        self.codes = {key: one.codes[self.first] for key, one in domains.items()}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.first)

    def within(self, key: str, code: int) -> IntColumn:
        """The cells in a domain."""
        if self.first is self.of:
            return self._domains[key].members(code)
        return np.flatnonzero(self.codes[key] == code)

    def rows(self, cells: IntColumn) -> IntColumn:
        """The rows of some cells."""
        if self.first is self.of:
            return cells
        parts = [self.rows_of(cell) for cell in cells.tolist()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def rows_of(self, cell: int) -> IntColumn:
        """The rows of one."""
        if self.first is self.of:
            return self.of[cell : cell + 1]
        if not self._members:
            order = np.argsort(self.of, kind="stable")
            self._members = np.split(order, np.searchsorted(self.of[order], np.arange(1, self.count)))
        return self._members[cell]

    def put(self, column: FloatColumn, cells: IntColumn, values: FloatColumn) -> None:
        """Write a value for all rows of each cell."""
        if self.first is self.of:
            column[cells] = values
            return
        for cell, value in zip(cells.tolist(), values.tolist(), strict=True):
            column[self.rows_of(cell)] = value
