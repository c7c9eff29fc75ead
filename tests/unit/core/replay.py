"""Replay of a journal: the same events and cycle budgets on an empty state must produce the same effects."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import orjson

from muster_core.metrics.counters import Metrics
from muster_core.model.effects import Effect
from muster_core.model.events import Event
from muster_core.runtime.journal import from_plain, to_plain
from muster_core.runtime.sessions import Supervisor
from muster_core.scheduling.scheduler import cycle, step_part
from muster_core.state.scheduler_state import SchedulerState


@dataclass(frozen=True, slots=True)
class Deviation:
    """A line of the journal (counted from 1) whose effects differ in the replay."""

    line: int
    written: object
    now: object


def replay(lines: Iterable[bytes]) -> Iterator[Deviation]:
    """Repeats all events and cycles on an empty state. Yields nothing if all effects are equal."""
    scheduler_state, supervisor = SchedulerState(), Supervisor(Metrics())
    event: Event | None = None
    for number, text in enumerate(lines, start=1):
        line = cast("dict[str, object]", orjson.loads(text))
        if "restart" in line:
            scheduler_state = SchedulerState()
            continue
        now_ns = cast("int", line["now"])
        if "event" in line:
            event = cast("Event", from_plain(line["event"]))
        if "granted" not in line:
            assert event is not None
            redo = partial(step_part, scheduler_state, event, now_ns)
        else:
            budget = _budget_for(cast("int", line["granted"]))
            redo = partial(_cycled, scheduler_state, now_ns, budget)
        taken = supervisor.attempt(redo, None, number)
        effects = scheduler_state.outbox.drain() if taken is None else taken  # as the scheduler task does
        plain = to_plain(effects)
        if plain != line["effects"]:
            yield Deviation(number, line["effects"], plain)


def _cycled(scheduler_state: SchedulerState, now_ns: int, budget: Callable[[], bool]) -> list[Effect]:
    return cycle(scheduler_state, now_ns, budget).effects


def _budget_for(times: int) -> Callable[[], bool]:
    left = iter(range(times))
    return lambda: next(left, None) is not None
