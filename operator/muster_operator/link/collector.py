"""Keeps Python's garbage collector off what a cluster looks like: a pass over it is a pause (semantics 26).

A pod of 8 KB is some hundred dicts and lists once decoded; with Python's thresholds each decoded pod starts a pass, and
every hundredth one walks all the pods that are known. With 20,000 pods that took 0.9 ms of each watch event, 0.03 ms
without. Nothing here makes reference cycles per event, so counting references frees what is dropped; what does make
cycles (tasks that failed, exceptions) is young when it dies, and is found before the rest is put out of sight.
"""

from __future__ import annotations

import gc
from typing import Final

#: Containers allocated and not freed before a pass over the youngest, which takes 2 to 4 ms: far more than one decoded
#: object, which is freed before the next.
YOUNG: Final = 20_000
#: Passes over one generation before one over the next.
MIDDLE: Final = 10
OLD: Final = 20
#: Facts taken between two freezes; a pass over what they left takes 5 ms.
EVERY: Final = 2_000
#: Freezes between two passes over everything: what was frozen alive, a task say, may have died in a cycle since.
#: With 20,000 pods it takes 50 ms, some times a day; under 5,000 events a second every 80 s.
FULL: Final = 200


class Collector:
    """Owned by the loop, because the ledger is what it spares. Does nothing before `begin`."""

    def __init__(self) -> None:
        self._is_on = False
        self._taken = self._freezes = 0

    def begin(self) -> None:
        """From now on the process is ours to tune."""
        self._is_on = True
        gc.set_threshold(YOUNG, MIDDLE, OLD)

    def taken(self) -> None:
        """One more fact was taken in; what the last ones left in the ledger has come to stay."""
        self._taken += 1
        if not self._is_on or self._taken < EVERY:
            return
        self._taken, self._freezes = 0, self._freezes + 1
        if self._freezes % FULL:
            gc.collect(1)
        else:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
