"""Metrics that are updated when something happens, and the text format of all metrics.

Differs: one search evaluates all nodes. Therefore `trynode_latency` is the mean time of one application's search in a
cycle, and `trynode_evaluation` is the total time of all searches in a cycle. The others are totals per cycle too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from muster_core.model.decisions import ReasonKind
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    Effect,
    NodeRejected,
    SchedulingStateChanged,
)
from muster_core.model.events import ApplicationAdded, Event, NodeAction, NodeActionReported
from muster_core.scheduling.scheduler import CyclePhase

#: Buckets of YuniKorn: 0.0001 · 10^k seconds.
DECADES: Final = tuple(10.0 ** (exponent - 4) for exponent in range(8))


class CyclePhases:
    """Durations in seconds and counts of the phases of one cycle. Called at the end of each phase."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = clock()
        self.seconds: dict[CyclePhase, float] = {}
        self.counts: dict[CyclePhase, int] = {}

    def __call__(self, phase: CyclePhase) -> None:
        """Adds the time since the previous call to this phase."""
        now = self._clock()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self.counts[phase] = self.counts.get(phase, 0) + 1
        self._last = now


class PhaseTimes:
    """YuniKorn's histograms of the phases."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "yunikorn_scheduler"
        sorting = Histogram(
            f"{prefix}_node_sorting_latency_milliseconds",
            "Time to order queues, applications and nodes in one cycle, in seconds.",
            ["level"],
            buckets=DECADES,
            registry=registry,
        )
        self._sorting = {CyclePhase.QUEUE: sorting.labels("queue"), CyclePhase.APPLICATION: sorting.labels("app")}
        sorting.labels("node")  # nodes are ranked within the search
        one = "Mean time of one application's search for nodes in a cycle, in seconds."
        self._search = Histogram(f"{prefix}_trynode_latency_milliseconds", one, buckets=DECADES, registry=registry)
        every = "Time of all searches for nodes in a cycle, in seconds."
        self._searches = Histogram(
            f"{prefix}_trynode_evaluation_milliseconds", every, buckets=DECADES, registry=registry
        )
        victims = "Time to select preemption victims, in seconds."
        self.preemption = Histogram(
            f"{prefix}_trypreemption_latency_milliseconds", victims, buckets=DECADES, registry=registry
        )

    def count(self, phases: CyclePhases) -> None:
        """Adds one cycle."""
        for phase, seconds in phases.seconds.items():
            if phase in self._sorting:
                self._sorting[phase].observe(seconds)
            elif phase is CyclePhase.NODE:
                self._search.observe(seconds / phases.counts[phase])
                self._searches.observe(seconds)


_SECONDS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

#: Not a metric: yielded between the steps of a long computation, so that other work may run.
PAUSE: Final = Metric("pause", "", "unknown")

#: Lines of a metric that are computed and written before other work may run, at about 10 us each.
LINES: Final = 250


class Metrics:
    """All counters and histograms of one core."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        attempts = Counter(
            "yunikorn_scheduler_container_allocation_attempt",
            "Allocations by result: allocated, rejected, failed at commit, or released.",
            ["state"],
            registry=registry,
        )
        submissions = Counter(
            "yunikorn_scheduler_application_submission",
            "Applications submitted, accepted and rejected.",
            ["result"],
            registry=registry,
        )
        states = map(attempts.labels, ("allocated", "rejected", "error", "released"))
        self._allocated, self._refused, self._faulty, self._released = states
        self._new, self._accepted, self._rejected = map(submissions.labels, ("new", "accepted", "rejected"))
        self._events = Counter(
            "muster_core_events", "Events that the scheduler received, by kind.", ["kind"], registry=registry
        )
        self._by_kind: dict[type[Event], Counter] = {}
        self._undelivered = Counter(
            "muster_core_undelivered",
            "Messages without a receiver, and unexpected messages.",
            ["what"],
            registry=registry,
        )
        self.failures = Counter(
            "muster_core_failures", "Events and cycles that failed; each is logged.", registry=registry
        )
        unschedulable = Counter(
            "muster_core_unschedulable", "Requests reported as unschedulable, by reason.", ["reason"], registry=registry
        )
        self._unschedulable = {kind: unschedulable.labels(kind.value) for kind in ReasonKind}
        self._times = _Times(registry)
        self._phases = PhaseTimes(registry)
        #: Rejected nodes, and decommissioned nodes, since the start.
        self.nodes_refused = 0
        self.nodes_gone = 0
        #: Result of the last health checks; None = not run yet.
        self.healthy: bool | None = None

    def received(self, events: Sequence[Event]) -> None:
        """Counts received events. The events of a message usually have one type."""
        for kind, run in groupby(events, key=type):
            some = list(run)
            if kind is NodeActionReported or kind is ApplicationAdded:
                self._count_changes(some)
            counter = self._by_kind.get(kind)
            if counter is None:
                counter = self._by_kind[kind] = self._events.labels(kind.__name__)
            counter.inc(len(some))

    def _count_changes(self, events: Sequence[Event]) -> None:
        """Counts decommissioned nodes and new applications."""
        for event in events:
            if isinstance(event, NodeActionReported) and event.action is NodeAction.DECOMMISSION:
                self.nodes_gone += 1
            elif isinstance(event, ApplicationAdded) and not event.spec.is_renewal:
                self._new.inc()

    def sent(self, effect: Effect) -> None:
        """Counts an effect."""
        match effect:
            case AllocationResponse():
                self._answered(effect)
            case SchedulingStateChanged(reason_kind=ReasonKind() as kind):
                self._unschedulable[kind].inc()
            case ApplicationAccepted():
                self._accepted.inc()
            case ApplicationRejected():
                self._rejected.inc()
            case NodeRejected():
                self.nodes_refused += 1
            case _:
                pass

    def _answered(self, answer: AllocationResponse) -> None:
        self._allocated.inc(len(answer.new))
        self._released.inc(len(answer.released))
        self._refused.inc(len(answer.rejected_asks) + len(answer.rejected_allocations))
        if answer.new:
            self._times.batch.observe(len(answer.new))

    def dropped(self, what: str) -> None:
        """Counts a message that could not be delivered."""
        self._undelivered.labels(what).inc()

    def cycled(self, seconds: float, faulty: int, phases: CyclePhases) -> None:
        """Counts one cycle with its phases, and the decisions that were invalid when they were committed."""
        self._phases.count(phases)
        self._times.cycle.observe(seconds)
        self._times.our_cycle.observe(seconds)
        self._faulty.inc(faulty)

    def iterated(self, seconds: float) -> None:
        """Counts one iteration of the loop."""
        self._times.iterated(seconds)

    def searched_for_victims(self, seconds: float) -> None:
        """Counts one search for preemption victims."""
        self._phases.preemption.observe(seconds)

    def waited(self, seconds: float) -> None:
        """Counts the waiting time of a message for the scheduler task."""
        self._times.wait.observe(seconds)

    def pieces(self) -> Iterator[bytes]:
        """Yields the metrics in Prometheus text format. Other work may run between two pieces."""
        return text_of(self.registry.collect())

    def text(self) -> bytes:
        """Returns the metrics in Prometheus text format."""
        return b"".join(self.pieces())


class _Times:
    """Histograms of cycles and loop iterations."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, meaning, buckets=buckets, registry=registry)

        prefix = "yunikorn_scheduler_scheduling"
        self.cycle = histogram(f"{prefix}_cycle_milliseconds", "Time of one scheduling cycle, in seconds.", DECADES)
        self.latency = histogram(
            f"{prefix}_latency_milliseconds",
            "Time of one loop iteration: events, timers and a cycle, in seconds.",
            DECADES,
        )
        self.our_cycle = histogram("muster_core_cycle_seconds", "Time of one scheduling cycle.", _SECONDS)
        meaning = "Time for which the scheduler task occupied the event loop without a pause."
        self.iteration = histogram("muster_core_loop_busy_seconds", meaning, _SECONDS)
        self.wait = histogram(
            "muster_core_event_queue_wait_seconds", "Waiting time of messages for the scheduler task.", _SECONDS
        )
        self.batch = histogram("muster_core_batch_size", "Allocations per decision.", _SIZES)
        self._longest_iteration = Gauge(
            "muster_core_loop_busy_max_seconds", "Longest time without a pause since the start.", registry=registry
        )
        self._longest = 0.0

    def iterated(self, seconds: float) -> None:
        self.iteration.observe(seconds)
        self.latency.observe(seconds)
        if seconds > self._longest:
            self._longest = seconds
            self._longest_iteration.set(seconds)


def text_of(metrics: Iterable[Metric]) -> Iterator[bytes]:
    """Yields the metrics in order in Prometheus text format, in pieces. Consecutive parts of a metric have one head."""
    written = ""
    for metric in metrics:
        if metric is PAUSE:
            yield b""
            continue
        samples = [sample for sample in metric.samples if sample.name != f"{metric.name}_created"]
        lines = [] if metric.name == written else _head(metric, samples)
        written = metric.name
        for sample in samples:
            lines.append(_line(sample))
            if len(lines) >= LINES:
                yield "".join(lines).encode()
                lines = []
        yield "".join(lines).encode()


def _head(metric: Metric, samples: list[Sample]) -> list[str]:
    name = metric.name
    if metric.type == "counter" and (not samples or samples[0].name != name):
        name += "_total"
    meaning = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
    kind = "untyped" if metric.type == "unknown" else metric.type
    return [f"# HELP {name} {meaning}\n", f"# TYPE {name} {kind}\n"]


def _line(sample: Sample) -> str:
    number = _number(sample.value)
    if not sample.labels:
        return f"{sample.name} {number}\n"
    labels = ",".join([f'{name}="{_escaped(text)}"' for name, text in sample.labels.items()])
    return f"{sample.name}{{{labels}}} {number}\n"


def _number(value: float) -> str:
    """Formats a number for Prometheus."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


@lru_cache(maxsize=8192)
def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
