"""How shapes see all nodes, remembered, and which nodes changed since: a plan then looks at these alone.

Filled by plan/scoring.py; world/nodes.py notes the rows that change. What is
remembered is of the table itself, never of a draft that supposes something.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from muster_core.world.columns import FloatColumn

#: Changes that are remembered; who missed more looks at all rows.
_MOST_CHANGES: Final = 4096


@dataclass(slots=True, eq=False)
class Standing:
    """A key per row, right for all but those that changed after the first `seen` changes. `liked`: a column it was
    made of; another one makes another standing.
    """

    keys: FloatColumn
    liked: FloatColumn | None
    seen: int


class Standings:
    """By what a shape wants to know."""

    __slots__ = ("_changes", "_forgotten", "kept")

    def __init__(self) -> None:
        self.kept: dict[Hashable, Standing] = {}
        self._changes: list[int] = []
        self._forgotten = 0

    @property
    def now(self) -> int:
        """Changes so far."""
        return self._forgotten + len(self._changes)

    def changed(self, rows: Iterable[int]) -> None:
        """What is on these rows, or on offer, is another amount now."""
        if not self.kept:
            return
        self._changes += rows
        if len(self._changes) > _MOST_CHANGES:
            self._forgotten += len(self._changes)
            self._changes.clear()

    def since(self, seen: int) -> list[int] | None:
        """The rows that changed after the first `seen` changes, some of them often; None = that is not known."""
        return self._changes[seen - self._forgotten :] if seen >= self._forgotten else None

    def forget(self) -> None:
        """Rows came or went."""
        self.kept.clear()
        self._changes.clear()
        self._forgotten = 0
