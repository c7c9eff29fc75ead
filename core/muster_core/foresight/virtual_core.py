"""The scheduler state under a virtual clock: events, timers and cycles in the order of the scheduler task.

`simulation` drives it, and tests. It does what `runtime/loop` does, without time budgets, pauses, sessions and metrics:
all events of an instant are applied, then the timers that are due, then cycles until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_core.model.effects import Effect, TimerSet
from muster_core.model.events import Event
from muster_core.runtime.sessions import TimerHeap
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState

#: Cycles and timers without progress of the clock. More are a defect of the core.
_MOST_ROUNDS: Final = 10_000


class EndlessWork(Exception):
    """The core still has something to do at one instant after many cycles."""


class VirtualCore:
    """A core whose time is `now_ns`, which the caller only increases. `scheduler_state` may be a copy of another."""

    def __init__(self, now_ns: int, scheduler_state: SchedulerState | None = None) -> None:
        self.now_ns = now_ns
        self.scheduler_state = scheduler_state or SchedulerState()
        self.timers = TimerHeap()

    def send(self, events: Iterable[Event]) -> list[Effect]:
        """Applies the events, fires the timers that are due, and schedules. Returns all effects except timers."""
        effects = self.apply(events)
        for _ in range(_MOST_ROUNDS):
            while (due := self.timers.due(self.now_ns)) is not None:
                self._keep(self.step(due), effects)
            decided, more = self.cycle()
            self._keep(decided, effects)
            if not more and not self.is_due:
                return effects
        raise EndlessWork(f"the core is not done after {_MOST_ROUNDS} cycles at {self.now_ns} ns")

    def apply(self, events: Iterable[Event]) -> list[Effect]:
        """Applies the events without scheduling. Returns all effects except timers."""
        effects: list[Effect] = []
        for event in events:
            self._keep(self.step(event), effects)
        return effects

    def step(self, event: Event) -> list[Effect]:
        """Applies one event. Returns all effects."""
        return step(self.scheduler_state, event, self.now_ns)

    def cycle(self) -> tuple[list[Effect], bool]:
        """Runs one cycle. Returns all effects, and whether another cycle has to follow."""
        result = cycle(self.scheduler_state, self.now_ns, _always)
        return result.effects, result.more

    @property
    def is_due(self) -> bool:
        """Whether a timer is due."""
        next_ns = self.timers.next_ns()
        return next_ns is not None and next_ns <= self.now_ns

    def _keep(self, produced: Iterable[Effect], effects: list[Effect]) -> None:
        for effect in produced:
            if isinstance(effect, TimerSet):
                self.timers.set(effect)
            else:
                effects.append(effect)


def _always() -> bool:
    return True
