"""What is counted and timed as it happens; written by loop.py, outlet.py and supervisor.py.

Names of contract 5 where YuniKorn has one, with its meaning and unit (its
`…_milliseconds` histograms hold seconds); ours under `muster_core_`. One
registry per core, so that two cores in one process do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector

from muster_core.edge.metrics import text
from muster_core.edge.metrics.laps import DECADES, Laps, LapTimes
from muster_core.model.effects import (
    AllocationAnswer,
    ApplicationAccepted,
    ApplicationRejected,
    Effect,
    NodeRejected,
    SchedulingStateChanged,
)
from muster_core.model.events import ApplicationAdded, Event, NodeAction, NodeTold
from muster_core.model.shortfall import Lack

_SECONDS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Metrics:
    """Every counter and histogram of one core."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        attempts = Counter(
            "yunikorn_scheduler_container_allocation_attempt",
            "Allocations made, refused, failed for a fault of the core, and released.",
            ["state"],
            registry=registry,
        )
        submissions = Counter(
            "yunikorn_scheduler_application_submission",
            "Applications told, accepted and rejected.",
            ["result"],
            registry=registry,
        )
        states = map(attempts.labels, ("allocated", "rejected", "error", "released"))
        self._allocated, self._refused, self._faulty, self._released = states
        self._new, self._accepted, self._rejected = map(submissions.labels, ("new", "accepted", "rejected"))
        self._events = Counter("muster_core_events", "What the world was told, by kind.", ["kind"], registry=registry)
        self._by_kind: dict[type[Event], Counter] = {}
        self._unheard = Counter(
            "muster_core_unheard", "What was said to nobody, or heard unasked.", ["what"], registry=registry
        )
        self.failures = Counter(
            "muster_core_failures", "Events and cycles that failed; each is logged.", registry=registry
        )
        shortfalls = Counter(
            "muster_core_shortfalls", 'Asks that were told "no", by what is lacking.', ["lack"], registry=registry
        )
        self._shortfalls = {lack: shortfalls.labels(lack.value) for lack in Lack}
        self._times = _Times(registry)
        self._laps = LapTimes(registry)
        #: Nodes that were refused, and nodes that went, since the start.
        self.nodes_refused = 0
        self.nodes_gone = 0
        #: What the last health checks found; None = there were none.
        self.healthy: bool | None = None

    def heard(self, events: Sequence[Event]) -> None:
        """Count events: of one message, mostly of one kind."""
        for kind, run in groupby(events, key=type):
            count = 0
            for event in run:
                count += 1
                if isinstance(event, NodeTold) and event.action is NodeAction.DECOMMISSION:
                    self.nodes_gone += 1
            counter = self._by_kind.get(kind)
            if counter is None:
                counter = self._by_kind[kind] = self._events.labels(kind.__name__)
            counter.inc(count)
            if kind is ApplicationAdded:
                self._new.inc(count)

    def said(self, effect: Effect) -> None:
        """Count an effect."""
        match effect:
            case AllocationAnswer():
                self._answered(effect)
            case SchedulingStateChanged(lack=Lack() as lack):
                self._shortfalls[lack].inc()
            case ApplicationAccepted():
                self._accepted.inc()
            case ApplicationRejected():
                self._rejected.inc()
            case NodeRejected():
                self.nodes_refused += 1
            case _:
                pass

    def _answered(self, answer: AllocationAnswer) -> None:
        self._allocated.inc(len(answer.new))
        self._released.inc(len(answer.released))
        self._refused.inc(len(answer.rejected_asks) + len(answer.rejected_allocations))
        if answer.new:
            self._times.batch.observe(len(answer.new))

    def unheard(self, what: str) -> None:
        """Count something that went nowhere."""
        self._unheard.labels(what).inc()

    def cycled(self, seconds: float, faulty: int, laps: Laps) -> None:
        """Count one cycle, its steps, and decisions in it that no longer held when they were carried out."""
        self._laps.count(laps)
        self._times.cycle.observe(seconds)
        self._times.our_cycle.observe(seconds)
        self._faulty.inc(faulty)

    def turned(self, seconds: float) -> None:
        """Count one turn of the loop."""
        self._times.turned(seconds)

    def sought(self, seconds: float) -> None:
        """Count one search for victims of preemption."""
        self._laps.preemption.observe(seconds)

    def waited(self, seconds: float) -> None:
        """Count how long a message waited for the world."""
        self._times.wait.observe(seconds)

    def pieces(self) -> Iterator[bytes]:
        """Everything in Prometheus' text format; between two pieces others may run."""
        return text.pieces(self.registry.collect())

    def text(self) -> bytes:
        """Everything in Prometheus' text format, at once."""
        return b"".join(self.pieces())


class _Times:
    """The histograms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, meaning, buckets=buckets, registry=registry)

        prefix = "yunikorn_scheduler_scheduling"
        self.cycle = histogram(f"{prefix}_cycle_milliseconds", "Time of one scheduling cycle, in seconds.", DECADES)
        self.latency = histogram(
            f"{prefix}_latency_milliseconds", "Time of one turn: mail, clocks and a cycle, in seconds.", DECADES
        )
        self.our_cycle = histogram("muster_core_cycle_seconds", "Time of one scheduling cycle.", _SECONDS)
        meaning = "Time between two moments at which the event loop was free."
        self.turn = histogram("muster_core_turn_seconds", meaning, _SECONDS)
        self.wait = histogram("muster_core_mailbox_wait_seconds", "How long messages waited for the world.", _SECONDS)
        self.batch = histogram("muster_core_batch_size", "Allocations that one decision made.", _SIZES)
        self._longest_turn = Gauge(
            "muster_core_turn_max_seconds", "The longest such time since start.", registry=registry
        )
        self._longest = 0.0

    def turned(self, seconds: float) -> None:
        self.turn.observe(seconds)
        self.latency.observe(seconds)
        if seconds > self._longest:
            self._longest = seconds
            self._longest_turn.set(seconds)
