"""The core's one place that outlives any failure: counts it, logs what caused it, and lets the rest go on.

Wrapped around each event, each cycle and each callback by loop.py and
outlet.py (style 29); what a failure means for the world is decided there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import structlog

from muster_core.edge.metrics.counted import Metrics

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
                    _log.error("the core goes on after a failure", cause=repr(cause)[:2000], exc_info=failure)
        return found

    def take_failure(self) -> Exception | None:
        """The failure since the last call, None if there was none."""
        failure, self.failure = self.failure, None
        return failure
