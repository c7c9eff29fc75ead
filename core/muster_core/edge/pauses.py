"""When the next cycle may begin: a cycle costs something however few it is for, so one waits for company.

Who asks alone is served at once. While asks keep coming, cycles follow each other at a distance, and take no more than
a share of the time: a burst is planned in few passes, which is what a burst needs. Used by loop.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: From one cycle's beginning to the next one's, at least: what somebody may wait who asks just after another.
_LEAST_S: Final = 0.004
#: From its end, at most, however long it took.
_MOST_S: Final = 0.040
#: Cycles' share of the time is one of so many parts.
_PARTS: Final = 5


@dataclass(slots=True)
class Pauses:
    """Seconds of any steady clock."""

    #: Before it no cycle begins.
    until_s: float = 0.0

    def cycled(self, began_s: float, ended_s: float) -> None:
        """A cycle was made."""
        took_s = ended_s - began_s
        self.until_s = ended_s + min(max(_LEAST_S - took_s, (_PARTS - 1) * took_s), _MOST_S)

    def left_s(self, now_s: float) -> float:
        """Seconds until the next one may begin; 0 = now."""
        return max(0.0, self.until_s - now_s)
