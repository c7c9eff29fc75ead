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
        attempts = self._counter(
            "yunikorn_scheduler_container_allocation_attempt",
            "Allocations by result: allocated, rejected, failed at commit, or released.",
            "state",
        )
        states = map(attempts.labels, ("allocated", "rejected", "error", "released"))
        self._allocated, self._refused, self._faulty, self._released = states
        about = "Applications submitted, accepted and rejected."
        submissions = self._counter("yunikorn_scheduler_application_submission", about, "result")
        self._new, self._accepted, self._rejected = map(submissions.labels, ("new", "accepted", "rejected"))
        self._events = self._counter("muster_core_events", "Events that the scheduler received, by kind.", "kind")
        self._by_kind: dict[type[Event], Counter] = {}
        about = "Messages without a receiver, and unexpected messages."
        self._undelivered = self._counter("muster_core_undelivered", about, "what")
        self.failures = self._counter("muster_core_failures", "Events and cycles that failed; each is logged.")
        about = "Requests reported as unschedulable, by reason."
        unschedulable = self._counter("muster_core_unschedulable", about, "reason")
        self._unschedulable = {kind: unschedulable.labels(kind.value) for kind in ReasonKind}
        prefix = "yunikorn_scheduler"
        cycle = f"{prefix}_scheduling_cycle_milliseconds"
        self._cycle = self._histogram(cycle, "Time of one scheduling cycle, in seconds.")
        about = "Time of one loop iteration: events, timers and a cycle, in seconds."
        self._latency = self._histogram(f"{prefix}_scheduling_latency_milliseconds", about)
        self._our_cycle = self._histogram("muster_core_cycle_seconds", "Time of one scheduling cycle.", _SECONDS)
        about = "Time for which the scheduler task occupied the event loop without a pause."
        self._iteration = self._histogram("muster_core_loop_busy_seconds", about, _SECONDS)
        about = "Waiting time of messages for the scheduler task."
        self._wait = self._histogram("muster_core_event_queue_wait_seconds", about, _SECONDS)
        self._batch = self._histogram("muster_core_batch_size", "Allocations per decision.", _SIZES)
        about = "Longest time without a pause since the start."
        self._longest_iteration = Gauge("muster_core_loop_busy_max_seconds", about, registry=registry)
        self._longest = 0.0
        about = "Time to order queues, applications and nodes in one cycle, in seconds."
        sorting = self._histogram(f"{prefix}_node_sorting_latency_milliseconds", about, label="level")
        self._sorting = {CyclePhase.QUEUE: sorting.labels("queue"), CyclePhase.APPLICATION: sorting.labels("app")}
        sorting.labels("node")  # nodes are ranked within the search
        about = "Mean time of one application's search for nodes in a cycle, in seconds."
        self._search = self._histogram(f"{prefix}_trynode_latency_milliseconds", about)
        about = "Time of all searches for nodes in a cycle, in seconds."
        self._searches = self._histogram(f"{prefix}_trynode_evaluation_milliseconds", about)
        about = "Time to select preemption victims, in seconds."
        self._preemption = self._histogram(f"{prefix}_trypreemption_latency_milliseconds", about)
        #: Rejected nodes, and decommissioned nodes, since the start.
        self.nodes_refused = 0
        self.nodes_gone = 0
        #: Result of the last health checks; None = not run yet.
        self.healthy: bool | None = None

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...] = DECADES, *, label: str = "") -> Histogram:
        return Histogram(name, about, (label,) if label else (), buckets=buckets, registry=self.registry)

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
            self._batch.observe(len(answer.new))

    def dropped(self, what: str) -> None:
        """Counts a message that could not be delivered."""
        self._undelivered.labels(what).inc()

    def cycled(self, seconds: float, faulty: int, phases: CyclePhases) -> None:
        """Counts one cycle with its phases, and the decisions that were invalid when they were committed."""
        for phase, phase_seconds in phases.seconds.items():
            if phase in self._sorting:
                self._sorting[phase].observe(phase_seconds)
            elif phase is CyclePhase.NODE:
                self._search.observe(phase_seconds / phases.counts[phase])
                self._searches.observe(phase_seconds)
        self._cycle.observe(seconds)
        self._our_cycle.observe(seconds)
        self._faulty.inc(faulty)

    def iterated(self, seconds: float) -> None:
        """Counts one iteration of the loop."""
        self._iteration.observe(seconds)
        self._latency.observe(seconds)
        if seconds > self._longest:
            self._longest = seconds
            self._longest_iteration.set(seconds)

    def searched_for_victims(self, seconds: float) -> None:
        """Counts one search for preemption victims."""
        self._preemption.observe(seconds)

    def waited(self, seconds: float) -> None:
        """Counts the waiting time of a message for the scheduler task."""
        self._wait.observe(seconds)

    def pieces(self) -> Iterator[bytes]:
        """Yields the metrics in Prometheus text format. Other work may run between two pieces."""
        return text_of(self.registry.collect())

    def text(self) -> bytes:
        """Returns the metrics in Prometheus text format."""
        return b"".join(self.pieces())


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
