"""Goes back over single places: looks for places for all members, taking the last choice back where it leads nowhere.

A choice is one row and how many of a shape go there; of members whose places
change where others may go, one. Before each choice everybody who is left has
to have room enough on its own. No two ways to one arrangement are followed,
and of nodes that are alike only the first is tried. Bounded by Work; may miss
what is there, never says what is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster_core.plan import fit
from muster_core.plan.draft import Draft
from muster_core.plan.feasibility import filters
from muster_core.plan.guards import guards
from muster_core.plan.search.demand import Demand, Places, is_entangled, rooms
from muster_core.plan.search.fills import snug_rows
from muster_core.plan.search.work import Work
from muster_core.world.columns import BoolColumn, IntColumn

#: Rows that one choice is made among.
_WIDTH: Final = 48
#: Choices that have to be made one after the other, at the most.
_DEPTH: Final = 96

#: Which demand, on which row, how many.
_Choice = tuple[int, int, int]


def search(draft: Draft, demands: Sequence[Demand], queue: Sequence[int], work: Work) -> Places | None:
    """Places for all members, with the draft charged; None, with the draft as it was, if none were found."""
    return _Search(draft, demands, queue, work).run()


class _Search:
    """One search. `_chosen`: how many of which demand are on which row."""

    def __init__(self, draft: Draft, demands: Sequence[Demand], queue: Sequence[int], work: Work) -> None:
        self._draft, self._demands, self._queue, self._work = draft, demands, queue, work
        shapes = [shape for shape, _ in demands]
        #: Nobody's place changes where others may go, but for the room it takes.
        self._is_plain = not any(is_entangled(shape) or guards(draft, shape) for shape in shapes)
        self._masks = [
            fit.allowed(draft, shape) if self._is_plain else self._at_best(index) for index, shape in enumerate(shapes)
        ]
        self._left = [count for _, count in demands]
        self._chosen: dict[tuple[int, int], int] = {}
        self._seen: set[frozenset[tuple[tuple[int, int], int]]] = set()

    def run(self) -> Places | None:
        """Depth first, with a stack of its own."""
        if not self._is_small():
            return None
        taken: list[_Choice] = []
        ahead = [self._choices()]
        while ahead:
            choice = next(ahead[-1], None)
            if choice is None or not self._work.is_left:
                ahead.pop()
                if taken:
                    self._move(taken.pop(), -1)
                continue
            self._move(choice, 1)
            if not any(self._left):
                return self._places()
            arrangement = frozenset(self._chosen.items())
            if arrangement in self._seen:
                self._move(choice, -1)
                continue
            self._seen.add(arrangement)
            taken.append(choice)
            ahead.append(self._choices())
        return None

    def _is_small(self) -> bool:
        """Whether a way without turning back is within bounds."""
        depth = 0
        for index, (_, count) in enumerate(self._demands):
            most = int(self._room(index).max(initial=0)) if self._is_plain else 1
            depth += -(-count // max(most, 1))
        return depth <= _DEPTH and self._work.covers(depth * len(self._demands), self._draft)

    def _move(self, choice: _Choice, sign: int) -> None:
        index, row, count = choice
        fit.charge(self._draft, self._demands[index][0], row, sign * count)
        self._left[index] -= sign * count
        there = self._chosen.get((index, row), 0) + sign * count
        if there:
            self._chosen[index, row] = there
        else:
            del self._chosen[index, row]

    def _choices(self) -> Iterator[_Choice]:
        """What may be done next; nothing where somebody has too little room already."""
        waiting = [index for index in self._queue if self._left[index]]
        found = {index: self._room(index) for index in waiting}
        if any(int(room.sum()) < self._left[index] for index, room in found.items()):
            return iter(())
        return self._of_plain(waiting, found) if self._is_plain else self._of_entangled(waiting)

    def _of_plain(self, waiting: Sequence[int], found: dict[int, IntColumn]) -> Iterator[_Choice]:
        index = waiting[0]
        shape, room = self._demands[index][0], found[index]
        later = [self._demands[other] for other in waiting[1:]]
        for _ in later:
            self._work.look(self._draft)
        alike: set[tuple[int, ...]] = set()
        for row in snug_rows(self._draft, (shape, self._left[index]), room, later)[:_WIDTH].tolist():
            signature = self._signature(row, found)
            if (index, row) in self._chosen or signature in alike:
                continue
            alike.add(signature)
            for count in range(room.item(row), 0, -1):
                yield index, row, count

    def _signature(self, row: int, found: dict[int, IntColumn]) -> tuple[int, ...]:
        """Rows that agree in it can be exchanged for each other."""
        names = dict.fromkeys(name for index in found for name in self._demands[index][0].resources)
        columns = (self._draft.available(name) for name in names)
        amounts = [0 if column is None else column.item(row) for column in columns]
        return (*amounts, *(int(self._masks[index][row]) for index in found))

    def _of_entangled(self, waiting: Sequence[int]) -> Iterator[_Choice]:
        """One member of the first that may go anywhere now."""
        for index in waiting:
            shape, _ = self._demands[index]
            self._work.look(self._draft, shape, 1)
            room = rooms(self._draft, shape, fit.allowed(self._draft, shape), self._left[index])
            later = [self._demands[other] for other in waiting if other != index]
            rows = snug_rows(self._draft, (shape, self._left[index]), room, later)[:_WIDTH].tolist()
            if rows:
                yield from ((index, row, 1) for row in rows)
                return

    def _room(self, index: int) -> IntColumn:
        self._work.look(self._draft)
        return rooms(self._draft, self._demands[index][0], self._masks[index], self._left[index])

    def _at_best(self, index: int) -> BoolColumn:
        """Rows where the shape might go if its company were right."""
        found = filters.allowed(self._demands[index][0].constraints, self._draft.nodes)
        return found if self._draft.within is None else found & self._draft.within

    def _places(self) -> Places:
        at = self._draft.nodes.rows.at
        return Places(
            tuple(
                tuple((at(row), count) for (owner, row), count in self._chosen.items() if owner == index)
                for index in range(len(self._demands))
            )
        )
