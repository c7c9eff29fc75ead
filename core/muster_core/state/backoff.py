"""Back-off: bounds the failed attempts of applications that a change may have made schedulable.

A change often helps none of the applications that it concerns. Two rules bound the cost (docs/internals/semantics.md,
rule 22):

* After a failed attempt, the application is in back-off: 1 s, doubled with each further one up to 10 s, and up to 60 s
  for an application that failed often. A wake-up that only may help has no effect before the end of the back-off.
* Of all applications that were woken, a few are tried at once. The next ones follow when failed attempts are allowed
  again.

While a partition is not overloaded, neither delays an application: a few attempts per second may come before the end of
the back-off. Changes of an application's own requests are never delayed. Times are in nanoseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from muster_core.model.ids import ApplicationId
from muster_core.model.limits import (
    ATTEMPTS_IN_VAIN,
    ATTEMPTS_IN_VAIN_PER_S,
    EARLY_ATTEMPTS_PER_S,
    LOOKS_PER_S,
    RETRY_FIRST_NS,
    RETRY_MOST_NS,
    RETRY_MOST_OFTEN_NS,
    RETRY_OFTEN,
)
from muster_core.state.ordered_sets import LeafQueue, SchedulingContext

_SECOND_NS: Final = 1_000_000_000

#: Blocking reasons whose first applications are active at the same time, and that one call puts into back-off.
_AT_ONCE: Final = 64
_LOOKS: Final = 1024

#: Share of a failed attempt that an application costs whose attempt ends before nodes are searched.
_REFUSED: Final = 0.2

#: Time until the next attempts after a part of the woken applications was tried.
_PERIOD_NS: Final = _SECOND_NS // 10


def delay_ns(failures: int) -> int:
    """Returns the back-off after this number of failed attempts in a row."""
    first = min(RETRY_FIRST_NS << min(max(failures - 1, 0), 32), RETRY_MOST_NS)
    return min(first << min(max(failures - RETRY_OFTEN, 0), 32), RETRY_MOST_OFTEN_NS)


@dataclass(slots=True)
class _Allowance:
    """What is allowed now, at most `most`, and how much more per second."""

    most: int
    per_s: int
    left: float = 0
    since_ns: int = 0

    def refill(self, now_ns: int, *, at_least: int) -> None:
        self.left = min(self.left + max(now_ns - self.since_ns, 0) * self.per_s / _SECOND_NS, self.most)
        self.left = max(self.left, at_least)
        self.since_ns = now_ns


class BlockedApplications(LeafQueue):
    """The applications with the same blocking reason, in scheduling order."""

    __slots__ = ("heads", "repairs", "retry_ns")

    def __init__(self, cluster: SchedulingContext) -> None:
        super().__init__(cluster)
        #: End of the back-off after the last failed attempt; 0 = none.
        self.retry_ns = 0
        #: Applications that are active because the reason may no longer apply.
        self.heads: dict[ApplicationId, None] = {}
        #: Those with replacements that have precedence (`repairs`), longest first.
        self.repairs: dict[ApplicationId, None] = {}


class Backoff:
    """Blocking reasons that may no longer apply, and which of them have active applications."""

    def __init__(self) -> None:
        #: Time of the last cycle.
        self.now_ns = 0
        #: Whether a reason was woken since the last cycle began.
        self._has_news = False
        #: Those whose first applications are not active, the first one first.
        self.woken: OrderedDict[BlockedApplications, None] = OrderedDict()
        #: Those whose first applications are active, and whether their back-off has not ended.
        self.tried: dict[BlockedApplications, bool] = {}
        #: Those that wait for the end of their back-off: its number in the heap.
        self._delayed: dict[BlockedApplications, int] = {}
        self._heap: list[tuple[int, int, BlockedApplications]] = []
        self._sequence = 0
        #: Those that had active applications when no further attempt was allowed, and were not tried since. Each is in
        #: `woken` or `tried`.
        self._postponed: OrderedDict[BlockedApplications, None] = OrderedDict()
        self._attempts = _Allowance(ATTEMPTS_IN_VAIN, ATTEMPTS_IN_VAIN_PER_S)
        self._early = _Allowance(ATTEMPTS_IN_VAIN, EARLY_ATTEMPTS_PER_S)
        #: Evaluations of reasons that still apply, or may still apply.
        self._looks = _Allowance(_AT_ONCE, LOOKS_PER_S)

    def __contains__(self, entry: BlockedApplications) -> bool:
        """Whether the reason may no longer apply."""
        return entry in self.woken or entry in self.tried or entry in self._delayed

    def begin(self, now_ns: int, *, has_news: bool) -> None:
        """Begins a cycle. `has_news`: something has changed since the last one, so at least one attempt is allowed."""
        self.now_ns = now_ns
        for allowance in (self._attempts, self._early, self._looks):
            allowance.refill(now_ns, at_least=has_news or self._has_news)
        self._has_news = False

    @property
    def looks(self) -> int:
        """Number of blocking reasons that may be evaluated now."""
        if self._attempts.left < 1:
            return 0
        return max(min(_AT_ONCE - len(self.woken) - len(self.tried), int(self._looks.left)), 0)

    def looked(self, count: int) -> None:
        """Counts reasons that still apply, or may still apply, after they were evaluated."""
        self._looks.left -= count

    def wake(self, entry: BlockedApplications, *, is_certain: bool = False) -> None:
        """The reason may no longer apply. `is_certain`: it does not, so its first application precedes others."""
        self._has_news = True
        if is_certain:
            entry.retry_ns = 0
            self.again(entry)
            if self._postponed:
                self._postponed[entry] = None
                self._postponed.move_to_end(entry, last=False)
        else:
            self.woken[entry] = None

    def again(self, entry: BlockedApplications) -> None:
        """Its first applications are not active, and the next ones are due before those of other reasons."""
        self.tried.pop(entry, None)
        self._delayed.pop(entry, None)
        self.woken[entry] = None
        self.woken.move_to_end(entry, last=False)

    def discard(self, entry: BlockedApplications) -> None:
        """The reason applies again, or nothing waits for it any more."""
        self.woken.pop(entry, None)
        self.tried.pop(entry, None)
        self._delayed.pop(entry, None)
        self._postponed.pop(entry, None)

    @property
    def has_any(self) -> bool:
        """Whether `take` can have a result. Most cycles ask where no reason was woken."""
        return bool(self.woken or self._heap)

    def take(self) -> BlockedApplications | None:
        """Returns the next reason whose first applications become active. None = there is none that is allowed now."""
        if len(self.tried) >= _AT_ONCE or self._attempts.left < 1:
            return None
        while not self._postponed and self._heap and self._heap[0][0] <= self.now_ns:
            _, number, entry = heappop(self._heap)
            if self._delayed.get(entry) == number:
                del self._delayed[entry]
                self.tried[entry] = False
                return entry
        for _ in range(min(len(self.woken), _LOOKS)):
            if (following := self._first()) is None:
                return None
            entry = following
            del self.woken[entry]
            is_early = entry.retry_ns > self.now_ns
            if not is_early or self._early.left >= 1 + sum(self.tried.values()):
                self.tried[entry] = is_early
                return entry
            self._postponed.pop(entry, None)
            self._sequence = self._delayed[entry] = self._sequence + 1
            heappush(self._heap, (entry.retry_ns, self._sequence, entry))
        return None

    def _first(self) -> BlockedApplications | None:
        """The reason of `woken` that is next. None = those that were postponed have active applications."""
        if not self._postponed:
            return next(iter(self.woken))
        return next((entry for entry in self._postponed if entry in self.woken), None)

    def attempted(
        self, heads: Collection[BlockedApplications], *, is_in_vain: bool, is_early: bool, is_refused: bool
    ) -> list[BlockedApplications]:
        """Counts an attempt of an application that these reasons made active.

        `is_refused`: it ended before nodes were searched. Returns the reasons that had active applications and were not
        tried, if no further attempt is allowed now. No others become active before all of these were tried. Else the
        order of the queues would choose among more and more of them, and always the same ones.
        """
        for entry in heads if self._postponed else ():
            self._postponed.pop(entry, None)
        if is_in_vain:
            for allowance in (self._attempts, self._early) if is_early else (self._attempts,):
                allowance.left -= _REFUSED if is_refused else 1
        if not is_in_vain or self._attempts.left >= 1:
            return []
        left = list(self.tried)
        for entry in reversed(left):
            self.again(entry)
        self._postponed |= dict.fromkeys(left)
        return left

    def next_ns(self) -> int:
        """Returns when the next attempts are due; 0 = nothing waits for that."""
        while self._heap and self._delayed.get(self._heap[0][2]) != self._heap[0][1]:
            heappop(self._heap)
        if self.woken:
            return self.soon_ns
        return max(self._heap[0][0], self.soon_ns) if self._heap else 0

    @property
    def soon_ns(self) -> int:
        """When further attempts are allowed."""
        return self.now_ns + _PERIOD_NS
