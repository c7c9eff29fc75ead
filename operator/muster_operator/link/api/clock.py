"""How far our clock is ahead of the API server's, by the `Date` of its answers.

Times in objects are the API server's. Where such a time starts a timer, the difference between the two clocks would
shorten or lengthen it: a pod of ours whose clock is 15 minutes ahead would end every reserving gang at a restart.
"""

from __future__ import annotations

from collections import deque
from email.utils import parsedate_to_datetime
from typing import Final

#: Answers whose smallest difference counts: `Date` has whole seconds, and an answer takes its time to come.
ANSWERS: Final = 32
#: Seconds of difference that the resolution of `Date` and a slow answer may make up.
TOLERATED_S: Final = 2.0


class ServerClock:
    """Fed by the session with each answer that it reads."""

    def __init__(self) -> None:
        self._ahead_s: deque[float] = deque(maxlen=ANSWERS)

    def note(self, date: str | None, now: float) -> None:
        """An answer came at `now` (epoch seconds of our clock), with that `Date`."""
        try:
            self._ahead_s.append(now - parsedate_to_datetime(date or "").timestamp())
        except ValueError:
            return

    @property
    def ahead_s(self) -> float:
        """Seconds to add to a time of the API server to have it by our clock; 0 = the clocks agree, or unknown."""
        ahead_s = min(self._ahead_s, default=0.0)
        return ahead_s if abs(ahead_s) > TOLERATED_S else 0.0
