"""Classes that nodes have too little room for, and how many more of each may fit at the most.

The memo of failures (semantics 22). `room` is never too low: what nodes that
gained since hold more is added before it is read (engine/growth.py). Which
classes a gain concerns is one comparison per resource over all of them, and
which nodes gained since is one over all nodes: neither is a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from muster_core.model.shortfall import Shortfall
from muster_core.world.classes import AskClass
from muster_core.world.columns import Amounts, Flags, IntColumn


@dataclass(slots=True, eq=False)
class Misfit:
    """A class of which no more than `room` have a place on the nodes, and why not more.

    `known`: how many had when that was last looked at; `seen`: how often nodes had gained until then; `then`: how many
    each row held at that time, None = none. So `room` is `known` and what rows that gained since hold more than then.
    """

    known: int
    why: Shortfall
    room: int = 0
    seen: int = 0
    then: IntColumn | None = None


class Misfits:
    """All of a partition, by class."""

    __slots__ = ("_amounts", "_free", "_gained", "_gains", "_kinds", "_known", "_rows", "_used", "grown")

    def __init__(self) -> None:
        self._known: dict[AskClass, Misfit] = {}
        self._rows: dict[AskClass, int] = {}
        self._kinds: list[AskClass | None] = []
        self._free: list[int] = []
        self._amounts = Amounts()
        self._used = Flags()
        #: Which gain was the last of each row of the nodes; 0 = none.
        self._gained: IntColumn = np.zeros(0, dtype=np.int64)
        self._gains = 0
        #: Those that some node may hold more of than was found: their room is to be counted before it is read.
        self.grown: dict[AskClass, Misfit] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[AskClass]:
        return iter(list(self._known))

    def get(self, kind: AskClass) -> Misfit | None:
        """What is remembered of the class."""
        return self._known.get(kind)

    def put(self, kind: AskClass, room: int, why: Shortfall, then: IntColumn | None = None) -> None:
        """Remember that only `room` of the class fit as the nodes are; `then`: how many each row holds, or less."""
        self.grown.pop(kind, None)
        known = self._known.get(kind)
        if known is not None:
            known.known, known.room, known.why = room, room, why
            known.then = then
            known.seen = self._gains
            return
        row = self._free.pop() if self._free else len(self._kinds)
        if row == len(self._kinds):
            self._kinds.append(kind)
        else:
            self._kinds[row] = kind
        self._amounts.reach(row + 1)
        self._amounts.change(row, kind.resources, 1)
        self._used.set(row, value=True)
        self._rows[kind] = row
        self._known[kind] = Misfit(room, why, room, self._gains, then)

    def drop(self, kind: AskClass) -> None:
        """Remember nothing of the class."""
        if kind not in self._known:
            return
        del self._known[kind]
        self.grown.pop(kind, None)
        row = self._rows.pop(kind)
        self._kinds[row] = None
        self._free.append(row)
        self._used.set(row, value=False)
        self._amounts.clear(row)

    def clear(self) -> None:
        """Remember nothing at all."""
        for kind in self:
            self.drop(kind)

    def gained(self, rows: IntColumn, size: int) -> None:
        """These rows of the nodes, of `size` in all, hold more than before."""
        if size > len(self._gained):
            longer = np.zeros(size, dtype=np.int64)
            longer[: len(self._gained)] = self._gained
            self._gained = longer
        self._gains += 1
        self._gained[rows] = self._gains

    def since(self, misfit: Misfit) -> IntColumn:
        """The rows that gained since a class was looked at."""
        return np.flatnonzero(self._gained > misfit.seen)

    def grow(self, kind: AskClass) -> None:
        """A node gained on which the class may run."""
        self.grown[kind] = self._known[kind]

    def within(self, most: Callable[[str], int]) -> list[AskClass]:
        """The classes of which one fits into this amount of each resource."""
        size = len(self._kinds)
        found = self._used.view(size).copy()
        for name in self._amounts:
            column = self._amounts.column(name, size)
            if column is not None:
                found &= column <= max(most(name), 0)
        return [kind for row in np.flatnonzero(found).tolist() if (kind := self._kinds[row]) is not None]
