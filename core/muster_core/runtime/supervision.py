"""Failure handling of the scheduler task, its clock, and garbage collection.

An exception in one event or application is logged and counted, and the task continues. The steady clock never goes
backwards. Long-lived objects are frozen so that garbage collection does not pause the task.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import structlog

from muster_core.metrics.counters import Metrics
from muster_core.model.effects import AllocationResponse, Effect

_log = structlog.get_logger(__name__)
T = TypeVar("T")
C = TypeVar("C")


class Supervisor:
    """`failure`: the last one since it was taken, None while all is well."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.failure: Exception | None = None

    def attempt(self, act: Callable[[], T], instead: T, cause: object) -> T:
        """What `act` returns, or `instead` where it failed; `cause` is what the log shows."""
        found = self.attempt_each(lambda _: (act(),), (cause,))
        return found[0] if found else instead

    def attempt_each(self, act: Callable[[C], Iterable[T]], causes: Iterable[C]) -> list[T]:
        """What `act` returns for one after the other, less those for which it failed."""
        found: list[T] = []
        for cause in causes:
            try:
                found += act(cause)
            except Exception as failure:  # noqa: BLE001 - the one supervisor of the core
                self._metrics.failures.inc()
                self.failure = failure
                with suppress(OSError, ValueError):  # a log that cannot be written stops nothing
                    _log.error("recovered from a failure in the core", cause=repr(cause)[:2000], exc_info=failure)
        return found

    def take_failure(self) -> Exception | None:
        """The failure since the last call, None if there was none."""
        failure, self.failure = self.failure, None
        return failure


class SteadyClock:
    """Never goes back, and never jumps."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def __call__(self) -> int:
        """Nanoseconds since the epoch."""
        return self._offset_ns + self._monotonic_ns()


#: Events, effects and allocations between two freezes: the younger generations stay small enough for 1-2 ms a pass.
_EVENTS: Final = 5_000


def size(effects: Sequence[Effect]) -> int:
    """How many effects and allocations a cycle made."""
    return sum(1 + (len(one.new) if isinstance(one, AllocationResponse) else 0) for one in effects)


class GarbageCollectorFreezer:
    """Does nothing unless `is_on`: the collector belongs to the whole process."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._events = 0

    def recovered(self) -> None:
        """Once all is told: one full pass, also over what an earlier recovery left, then out of sight."""
        if self._is_on:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._events = 0

    def heard(self, events: int) -> None:
        """After a turn: what the last events and decisions made and still is there has come to stay."""
        self._events += events
        if self._is_on and self._events >= _EVENTS:
            gc.collect(1)
            gc.freeze()
            self._events = 0
