"""Keeps the garbage collector away from the ledgers, for a full pass over them is a pause (semantics 26).

Ledgers hold no reference cycles, so counting references frees them; what the
collector looks for is elsewhere and young. With 20,000 allocations a full
pass took 80 ms. Used by loop.py where the process is the core's own.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Final

from muster_core.model.effects import AllocationAnswer, Effect

#: Events, effects and allocations between two freezes: the younger generations stay small enough for 1-2 ms a pass.
_EVENTS: Final = 5_000


def size(effects: Sequence[Effect]) -> int:
    """How many effects and allocations a cycle made."""
    return sum(1 + (len(one.new) if isinstance(one, AllocationAnswer) else 0) for one in effects)


class Freezer:
    """Does nothing unless `is_on`: the collector belongs to the whole process."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._events = 0

    def recovered(self) -> None:
        """Once all is told: one full pass, also over what an earlier recovery left, then out of sight."""
        if self._is_on:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._events = 0

    def heard(self, events: int) -> None:
        """After a turn: what the last events and decisions made and still is there has come to stay."""
        self._events += events
        if self._is_on and self._events >= _EVENTS:
            gc.collect(1)
            gc.freeze()
            self._events = 0
