"""Tuning of Python's garbage collector for the operator's process. `loop` calls it."""

from __future__ import annotations

import gc
from typing import Final

#: Threshold of the youngest generation (gc.set_threshold): net allocations before a collection, which takes 2 to 4 ms.
#: It is far more than the containers of one decoded object.
YOUNG: Final = 20_000

#: Collections of one generation before a collection of the next.
MIDDLE: Final = 10
OLD: Final = 20

#: Events between two freezes. They leave fewer objects than YOUNG, so no other collection visits these objects first.
#: The collection before a freeze takes 2 to 3 ms.
EVERY: Final = 1_000

#: Freezes between two full collections, because frozen objects, such as a task, can become garbage in a cycle. With
#: 20,000 pods a full collection takes 50 ms and runs a few times a day, under 5,000 events a second every 80 s.
FULL: Final = 400


class GarbageCollectorFreezer:
    """Freezes long-lived objects of the state, so that collections skip them. It does nothing before `begin`."""

    def __init__(self) -> None:
        self._is_on = False
        self._freezes = 0

    def begin(self) -> None:
        """Starts tuning the process."""
        self._is_on = True
        gc.set_threshold(YOUNG, MIDDLE, OLD)

    def freeze(self) -> None:
        """Freezes what remains in the state. To be called after every EVERY events."""
        if not self._is_on:
            return
        self._freezes += 1
        if self._freezes % FULL:
            gc.collect(1)
        else:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
