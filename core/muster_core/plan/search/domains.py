"""The values of a node label, and how much of a gang each of them has room for: read from columns, for all at once.

A share is an upper bound: room is counted, and what nodes' facts refuse, but not who is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster_core.model.resources import NOTHING
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters
from muster_core.plan.search.demand import Demand, rooms
from muster_core.world.attributes import value_of
from muster_core.world.columns import BoolColumn, CodeColumn, FloatColumn, IntColumn

_MOST: Final = 2**40
#: No sum over all nodes is larger: each node counts for its share of this at the most.
_LARGEST_SUM: Final = 2**62


@dataclass(frozen=True, slots=True)
class Values:
    """Of one label. `codes`: the number of each row's value, -1 = it has none; `names` by number, empty where no node
    has that number.
    """

    codes: CodeColumn
    names: tuple[str, ...]

    def rows(self, *codes: int) -> BoolColumn:
        """Rows whose node has one of these values."""
        return np.isin(self.codes, codes)

    def by_room(self, shares: FloatColumn, *, most: bool) -> list[int]:
        """Values that nodes have, those with most room first or last; of equals the first by name first."""
        sign = -1.0 if most else 1.0
        codes = np.unique(self.codes[self.codes >= 0]).tolist()
        return sorted(codes, key=lambda code: (sign * shares[code], self.names[code]))

    def able(self, shares: FloatColumn, most: int) -> list[int]:
        """Values that may hold all: the fullest first, so many, and then those with most room, as many."""
        able = [code for code in self.by_room(shares, most=False) if shares[code] >= 1]
        return [*able[:most], *reversed(able[most:][-most:])]


def values(draft: Draft, key: str) -> Values:
    """The values of a label, or attribute of nodes."""
    nodes = draft.nodes
    codes = nodes.attribute(key).codes(draft.size)
    found, first = np.unique(codes, return_index=True)
    names = [""] * (int(codes.max(initial=-1)) + 1)
    for code, row in zip(found.tolist(), first.tolist(), strict=True):
        if code >= 0:
            names[code] = value_of(nodes.record(nodes.rows.at(row)).spec, key) or ""
    return Values(codes, tuple(names))


def shares_of(draft: Draft, demands: Sequence[Demand], found: Values) -> FloatColumn:
    """How much of the demands each value has room for, at the most: 1 = all of them."""
    room = room_of(draft, demands, found)
    shares: FloatColumn = (room.amounts / room.wanted[:, None]).min(axis=0)
    return shares


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Of each demand in members, and of each resource in its unit, a row each: what each value has room for, a column
    each, and what is wanted in all. Integers, so that sums are equal in whatever order they are made.
    """

    amounts: IntColumn
    wanted: IntColumn

    def is_enough(self, amounts: IntColumn) -> bool:
        """Whether these sums, one for each row, are what is wanted."""
        return bool((amounts >= self.wanted).all())


def room_of(draft: Draft, demands: Sequence[Demand], found: Values) -> Room:
    """What each value has room for. Values together have room for the sum of theirs."""
    size = len(found.names)
    has = found.codes >= 0
    if draft.within is not None:
        has &= draft.within
    codes, asked = found.codes[has], NOTHING
    most = _LARGEST_SUM // max(len(codes), 1)
    rows: list[IntColumn] = []
    for shape, count in demands:
        asked = asked.plus(shape.resources, count)
        room = rooms(draft, shape, filters.allowed(shape.constraints, draft.nodes), _MOST)[has]
        rows.append(_sums(codes, np.minimum(room, most), size))
    for name, _ in asked.items():  # noqa: PERF102 # no dict
        column = draft.available(name)
        left = np.zeros(len(codes), np.int64) if column is None else np.clip(column[has], 0, most)
        rows.append(_sums(codes, left, size))
    wanted = [*(count for _, count in demands), *(amount for _, amount in asked.items())]
    return Room(np.array(rows), np.array([min(most, _LARGEST_SUM + 1) for most in wanted], np.int64))


def _sums(codes: CodeColumn, amounts: IntColumn, size: int) -> IntColumn:
    sums = np.zeros(size, np.int64)
    np.add.at(sums, codes, amounts)
    return sums
