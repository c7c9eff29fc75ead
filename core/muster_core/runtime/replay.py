"""Replay of a journal: the same events and cycle budgets on an empty state make the same decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO, cast

import orjson

from muster_core.metrics.counters import Metrics
from muster_core.model.effects import Effect
from muster_core.model.events import Event
from muster_core.runtime.journal import from_plain
from muster_core.runtime.sessions import Supervisor
from muster_core.scheduling.scheduler import cycle, step_part
from muster_core.state.scheduler_state import SchedulerState


class Replay:
    """The scheduler state after the lines of a journal that `redo` has received."""

    def __init__(self) -> None:
        self.scheduler_state = SchedulerState()
        self._supervisor = Supervisor(Metrics())
        self._event: Event | None = None

    def redo(self, line: Mapping[str, Any]) -> list[Effect]:
        """Repeats the event or cycle of a line. Returns its effects."""
        if "restart" in line:
            self.scheduler_state = SchedulerState()
            return []
        state, now_ns = self.scheduler_state, line["now"]
        if "event" in line:
            self._event = cast("Event", from_plain(line["event"]))
        if "granted" in line:
            repeated: Callable[[], list[Effect]] = partial(_cycled, state, now_ns, _budget(line["granted"]))
        else:
            assert self._event is not None  # noqa: S101 # the first part of an event has it
            repeated = partial(step_part, state, self._event, now_ns)
        effects = self._supervisor.attempt(repeated, None, "a line of the journal")
        return state.outbox.drain() if effects is None else effects  # as the scheduler task does


def _cycled(scheduler_state: SchedulerState, now_ns: int, budget: Callable[[], bool]) -> list[Effect]:
    return cycle(scheduler_state, now_ns, budget).effects


def _budget(times: int) -> Callable[[], bool]:
    left = iter(range(times))
    return lambda: next(left, None) is not None


class JournalReader:
    """The states of a journal that is still being written, at times that do not decrease."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._replay = Replay()
        self._next: dict[str, Any] | None = None
        self.reached_ns = 0

    def state_at(self, at_ns: int, may_go_on: Callable[[], bool]) -> SchedulerState | None:
        """Returns the state after everything until this time. None = it may not go on; the next call continues."""
        while (line := self._next or self._read()) is not None:
            self._next = line
            if line.get("now", 0) > at_ns:
                break
            if not may_go_on():
                return None
            self._replay.redo(line)
            self._next, self.reached_ns = None, line.get("now", self.reached_ns)
        return self._replay.scheduler_state

    def _read(self) -> dict[str, Any] | None:
        """The next line; None = it is not written completely."""
        position = self._file.tell()
        text = self._file.readline()
        if not text.endswith(b"\n"):
            self._file.seek(position)
            return None
        line: dict[str, Any] = orjson.loads(text)
        return line
