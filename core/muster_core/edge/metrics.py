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
        attempts = self._counter(
            "yunikorn_scheduler_container_allocation_attempt", "Allocations made, refused and released.", "state"
        )
        submissions = self._counter(
            "yunikorn_scheduler_application_submission", "Applications told, accepted and rejected.", "result"
        )
        self._allocated, self._refused, self._released = map(attempts.labels, ("allocated", "rejected", "released"))
        self._new, self._accepted, self._rejected = map(submissions.labels, ("new", "accepted", "rejected"))
        self._events = self._counter("muster_core_events", "Events that the world has seen, by kind.", "kind")
        self._by_kind: dict[type[Event], Counter] = {}
        self._unheard = self._counter("muster_core_unheard", "What was said to nobody, or heard unasked.", "what")
        self.failures = self._counter("muster_core_failures", "Events and cycles that failed; each is logged.")
        self.mailbox = self._gauge("muster_core_mailbox_depth", "Messages that wait for the world.")
        self.cycle = self._histogram(
            "yunikorn_scheduler_scheduling_cycle_milliseconds", "Time of one scheduling cycle, in seconds."
        )
        self._turn = self._histogram(
            "muster_core_turn_seconds", "Time between two moments at which the event loop was free."
        )
        self._longest_turn = self._gauge("muster_core_turn_max_seconds", "The longest such time since start.")
        self._longest = 0.0

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self.registry)

    def _histogram(self, name: str, meaning: str) -> Histogram:
        return Histogram(name, meaning, buckets=_CYCLE_BUCKETS, registry=self.registry)

    def heard(self, event: Event) -> None:
        """Count an event."""
        kind = type(event)
        counter = self._by_kind.get(kind)
        if counter is None:
            counter = self._by_kind[kind] = self._events.labels(kind.__name__)
        counter.inc()
        if kind is ApplicationAdded:
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
        self._turn.observe(seconds)
        if seconds > self._longest:
            self._longest = seconds
            self._longest_turn.set(seconds)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)
