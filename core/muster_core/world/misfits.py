"""Classes that nodes have too little room for, and how many more of each may fit at the most.

The memo of failures (semantics 22). `room` is never too low: when a node
gains, it grows by what that node now holds. Which classes that concerns is one
comparison per resource over all of them, not a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from muster_core.model.ids import NodeId
from muster_core.model.resources import Resources
from muster_core.model.shortfall import Shortfall
from muster_core.world.classes import AskClass
from muster_core.world.columns import Amounts, Flags, IntColumn


@dataclass(slots=True, eq=False)
class Misfit:
    """A class of which no more than `room` have a place on the nodes, and why not more.

    `known`: how many had when that was last looked at; `where`: nodes that gained since; `then`: how many each row held
    at that time, None = none. So `room` is never more than `known` and what those nodes hold more than then.
    """

    known: int
    why: Shortfall
    room: int = 0
    where: dict[NodeId, None] = field(default_factory=dict)
    then: IntColumn | None = None


class Misfits:
    """All of a partition, by class."""

    __slots__ = ("_amounts", "_free", "_kinds", "_known", "_rows", "_used", "grown")

    def __init__(self) -> None:
        self._known: dict[AskClass, Misfit] = {}
        self._rows: dict[AskClass, int] = {}
        self._kinds: list[AskClass | None] = []
        self._free: list[int] = []
        self._amounts = Amounts()
        self._used = Flags()
        #: Those that some node may hold more of than was found.
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
            known.where.clear()
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
        self._known[kind] = Misfit(room, why, room, then=then)

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

    def grow(self, kind: AskClass, node: NodeId) -> None:
        """A node gained on which the class may run."""
        misfit = self._known[kind]
        misfit.where[node] = None
        self.grown[kind] = misfit

    def within(self, available: Resources) -> list[AskClass]:
        """The classes of which one fits into this amount."""
        size = len(self._kinds)
        found = self._used.view(size).copy()
        for name in self._amounts:
            column = self._amounts.column(name, size)
            if column is not None:
                found &= column <= max(available[name], 0)
        return [kind for row in np.flatnonzero(found).tolist() if (kind := self._kinds[row]) is not None]
