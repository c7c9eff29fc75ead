"""How many of something lie in each domain: the nodes that share a value of a label.

What inter-pod affinity counts, of its filter and of its score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import numpy as np

from muster_core.world.columns import BoolColumn, IntColumn
from muster_core.world.domains import Cells, Domains
from muster_core.world.labels import LabelColumn
from muster_core.world.nodes import NodeTable

#: Row → how many: a part of what is counted.
Part = Mapping[int, int]
#: Topology keys that are remembered between two changes of facts, and combinations of them: pods name what they like.
MOST_KEYS: Final = 64


def domains(nodes: NodeTable, key: str) -> Domains:
    """The nodes by a label, until a fact of theirs changes."""
    known = nodes.domains.get(key)
    if known is None:
        if len(nodes.domains) >= MOST_KEYS:
            nodes.domains.clear()
        column = nodes.labels.column(key) or LabelColumn()
        known = nodes.domains[key] = Domains(column.codes(nodes.rows.size))
    return known


def cells(nodes: NodeTable, keys: Iterable[str], *, by_row: bool = False) -> Cells:
    """The nodes by several labels at once, until a fact of theirs changes; `by_row`: and each for itself."""
    wanted = tuple(sorted(set(keys)))
    known = nodes.cells.get((by_row, wanted))
    if known is None:
        if len(nodes.cells) >= MOST_KEYS:
            nodes.cells.clear()
        parts = {key: domains(nodes, key) for key in wanted}
        known = nodes.cells[by_row, wanted] = Cells(parts, nodes.rows.size, by_row=by_row)
    return known


class Tally:
    """Amounts by domain; what lies on nodes that are in none counts for nothing."""

    __slots__ = ("_amounts", "_domains")

    def __init__(self, where: Domains) -> None:
        self._domains = where
        #: By number of the domain; the last, of nodes in none (-1), stays 0.
        self._amounts = np.zeros(where.count + 1, dtype=np.int64)

    def count(self, parts: Iterable[Part], weight: int = 1) -> None:
        """So many times the parts."""
        found = list(parts)
        size = sum(map(len, found))
        rows = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=size)
        amounts = np.fromiter(chain.from_iterable(part.values() for part in found), dtype=np.int64, count=size)
        np.add.at(self._amounts, self._domains.codes[rows], amounts * weight)
        self._amounts[-1] = 0

    def total(self) -> int:
        """In all domains together."""
        return int(self._amounts.sum())

    def add(self, row: int, weight: int = 1) -> int:
        """So much more on a row. Returns what was in its domain before; -1 = it is in none."""
        code = self._domains.codes.item(row)
        if code < 0:
            return -1
        before = self._amounts.item(code)
        self._amounts[code] = before + weight
        return before

    def beside(self, row: int) -> IntColumn:
        """The rows of its domain, which is one."""
        return self._domains.members(self._domains.codes.item(row))

    def at(self, rows: IntColumn | None = None) -> IntColumn:
        """What is in the domain of each of the rows, 0 where it is in none; None = all rows."""
        return self._amounts[self._codes(rows)]

    def of(self, codes: IntColumn) -> IntColumn:
        """What is in domains, by their numbers."""
        return self._amounts[codes]

    def is_in_one(self, rows: IntColumn | None = None) -> BoolColumn:
        """Which of the rows are in a domain."""
        return self._codes(rows) >= 0

    def _codes(self, rows: IntColumn | None) -> IntColumn:
        return self._domains.codes if rows is None else self._domains.codes[rows]
