"""Counts and times of the core, for `/ws/v1/metrics`.

Names of contract 5 where YuniKorn has one, with its meaning and unit (its
`…_milliseconds` histograms hold seconds); ours under `muster_core_`.
Written by loop.py and outlet.py, read by rest.py. One registry per core, so
that two cores in one process do not meet.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from muster_core.model.effects import (
    AllocationAnswer,
    ApplicationAccepted,
    ApplicationRejected,
    Effect,
)
from muster_core.model.events import ApplicationAdded, Event

_CYCLE_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """Every counter and histogram of one core."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        attempts = Counter(
            "yunikorn_scheduler_container_allocation_attempt",
            "Allocations made, refused and released.",
            ["state"],
            registry=self.registry,
        )
        submissions = Counter(
            "yunikorn_scheduler_application_submission",
            "Applications told, accepted and rejected.",
            ["result"],
            registry=self.registry,
        )
        self._allocated = attempts.labels("allocated")
        self._refused = attempts.labels("rejected")
        self._released = attempts.labels("released")
        self._new = submissions.labels("new")
        self._accepted = submissions.labels("accepted")
        self._rejected = submissions.labels("rejected")
        self.cycle = Histogram(
            "yunikorn_scheduler_scheduling_cycle_milliseconds",
            "Time of one scheduling cycle, in seconds.",
            buckets=_CYCLE_BUCKETS,
            registry=self.registry,
        )
        self.turn = Histogram(
            "muster_core_turn_seconds",
            "Time between two moments at which the event loop was free.",
            buckets=_CYCLE_BUCKETS,
            registry=self.registry,
        )
        self.longest_turn = Gauge(
            "muster_core_turn_max_seconds", "The longest such time since start.", registry=self.registry
        )
        self._events = Counter(
            "muster_core_events", "Events that the world has seen, by kind.", ["kind"], registry=self.registry
        )
        self.mailbox = Gauge("muster_core_mailbox_depth", "Messages that wait for the world.", registry=self.registry)
        self.failures = Counter(
            "muster_core_failures", "Events and cycles that failed; each is logged.", registry=self.registry
        )
        self._unheard = Counter(
            "muster_core_unheard", "What was said to nobody, or heard unasked.", ["what"], registry=self.registry
        )
        self._longest = 0.0

    def heard(self, event: Event) -> None:
        """Count an event."""
        self._events.labels(type(event).__name__).inc()
        if isinstance(event, ApplicationAdded):
            self._new.inc()

    def said(self, effect: Effect) -> None:
        """Count an effect."""
        match effect:
            case AllocationAnswer():
                self._allocated.inc(len(effect.new))
                self._released.inc(len(effect.released))
                self._refused.inc(len(effect.rejected_asks) + len(effect.rejected_allocations))
            case ApplicationAccepted():
                self._accepted.inc()
            case ApplicationRejected():
                self._rejected.inc()
            case _:
                pass

    def unheard(self, what: str) -> None:
        """Count something that went nowhere."""
        self._unheard.labels(what).inc()

    def turned(self, seconds: float) -> None:
        """Count one turn of the loop."""
        self.turn.observe(seconds)
        if seconds > self._longest:
            self._longest = seconds
            self.longest_turn.set(seconds)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)
