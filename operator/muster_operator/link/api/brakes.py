"""When the API server tells one of us to come back later, it means all of that kind (API priority and fairness).

Who sends a thousand creates and hears 429 with `Retry-After` sends no other create until then: the others would only be
turned away too, and cost the server what it has not got. Other kinds go on; they may be served from another queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from muster_operator.link.api.urgency import Urgency


class Brakes:
    """Shared by who hears the server (`Kube`) and who starts writes (`Pool`). `applied`: called each time, for metrics.

    `clock`: seconds of any steady clock.
    """

    def __init__(
        self, applied: Callable[[str], None] = lambda kind: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._applied, self._clock = applied, clock
        self._until: dict[Urgency, float] = {}

    def hold(self, kind: Urgency, seconds: float) -> None:
        """No new write of this kind for so long; a longer word stands."""
        self._until[kind] = max(self._until.get(kind, 0.0), self._clock() + seconds)
        self._applied(kind.name.lower())

    def left_s(self, kind: Urgency) -> float:
        """Seconds until this kind may go on; 0 = it may."""
        until = self._until.get(kind)
        return 0.0 if until is None else max(0.0, until - self._clock())
