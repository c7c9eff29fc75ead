"""Replay of a journal: the same events and cycle budgets on an empty state make the same decisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO, Final, cast

import orjson

from muster_core.metrics.counters import Metrics
from muster_core.model.effects import Effect
from muster_core.model.events import Event
from muster_core.runtime.journal import from_plain
from muster_core.runtime.sessions import Supervisor
from muster_core.scheduling.scheduler import cycle, step_part
from muster_core.state.scheduler_state import SchedulerState

#: Bytes of a line. The longest ones have the effects of a cycle that starts thousands of pods.
_MOST_LINE: Final = 64 << 20

#: Characters of a message.
_SHOWN: Final = 300


class BrokenJournal(Exception):
    """A line of the journal cannot be read or repeated. The message says which."""


class Replay:
    """The scheduler state after the lines of a journal that `redo` has received."""

    def __init__(self) -> None:
        self.scheduler_state = SchedulerState()
        self._supervisor = Supervisor(Metrics())
        self._event: Event | None = None

    def redo(self, line: Mapping[str, Any]) -> list[Effect]:
        """Repeats the event or cycle of a line. Returns its effects.

        Raises MemoryError, which the core that wrote the line did not have, and other exceptions for a broken line.
        """
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
        for failure in (self._supervisor.take_failure(), *(one.error for one in state.outbox.take_failures())):
            if isinstance(failure, MemoryError):
                raise failure
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
        self._lines = 0
        self.reached_ns = 0

    def state_at(self, at_ns: int, may_go_on: Callable[[], bool]) -> SchedulerState | None:
        """Returns the state after everything until this time. None = it may not go on; the next call continues.

        Raises BrokenJournal, also for each later call that has to pass the same line.
        """
        try:
            while (line := self._read() if self._next is None else self._next) is not None:
                self._next = line
                if line.get("now", 0) > at_ns:
                    break
                if not may_go_on():
                    return None
                self._replay.redo(line)
                self._next, self.reached_ns = None, line.get("now", self.reached_ns)
                self._lines += 1
        except (MemoryError, OSError):
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"[:_SHOWN]
            raise BrokenJournal(f"line {self._lines + 1} of the journal cannot be repeated: {what}") from error
        return self._replay.scheduler_state

    def _read(self) -> dict[str, Any] | None:
        """The next line; None = it is not written completely."""
        position = self._file.tell()
        text = self._file.readline(_MOST_LINE)
        if text.endswith(b"\n"):
            try:
                line: dict[str, Any] = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                self._file.seek(position)  # the next call reads it again
                if error.msg.startswith("Not enough memory"):
                    raise MemoryError from error
                raise
            return line
        self._file.seek(position)
        if len(text) == _MOST_LINE or os.fstat(self._file.fileno()).st_size < position:
            raise ValueError("it is too long, or the file was truncated")
        return None
