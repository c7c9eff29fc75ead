"""Metrics of the operator.

Frequent events are counted in plain numbers that a scrape converts, because the Prometheus client takes a lock for
each increment.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

#: Values of labels. Numbers become text when they are read.
Labels = tuple[str | int, ...]


class Tally(Collector):
    """A counter with labels; `counts[labels] += 1` increments it."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self.counts: defaultdict[Labels, int] = defaultdict(int)
        self._name, self._meaning, self._labels = name, meaning, labels
        registry.register(self)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The samples of a scrape."""
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, count in self.counts.items():
            family.add_metric([*map(str, labels)], count)
        yield family


class Times(Collector):
    """A histogram of seconds with labels. `bounds`: upper bounds of its buckets."""

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._bounds: Final = bounds
        self._name, self._meaning, self._labels = name, meaning, labels
        self._counts: defaultdict[Labels, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self._sums: defaultdict[Labels, float] = defaultdict(float)
        registry.register(self)

    def took(self, labels: Labels, seconds: float) -> None:
        """Records a duration."""
        self._counts[labels][bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The samples of a scrape."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        names = [*map(str, map(float, self._bounds)), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
            family.add_metric([*map(str, labels)], buckets, self._sums[labels])
        yield family


CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

#: Upper bounds of request times in seconds. An idle API server answers in 2 to 10 ms.
REQUEST_BUCKETS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0)
Depths = Callable[[], Mapping[str, int]]


class Metrics:
    """All metrics of an operator, in a registry of its own, so that several operators can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._last_activity: dict[str, float] = {}
        self._sources: list[tuple[str, Depths]] = []
        self._of_streams()
        self._of_requests()
        self.differences = self._counter(
            "state_repairs",
            "Repaired differences between the core's and the operator's state; must stay 0",
            "difference",
        )
        self.compared = self._counter(
            "state_comparisons", "Completed comparisons of a part of the state with the core", "part"
        )
        self._commands = self._tally(
            "commands", "Commands by kind and final HTTP status (0 = no response)", "kind", "status"
        )
        self.retries = self._counter(
            "command_retries", "Retried commands, by the HTTP status of the failed attempt", "kind", "status"
        )
        self.dropped_events = self._counter("dropped_events", "Kubernetes events dropped because the buffer was full")
        self.sweep_repairs = self._counter(
            "sweep_repairs", "Writes without a result that the sweep has repeated; must stay 0", "kind"
        )
        self.sessions = self._counter("core_reconnects", "Registrations with the core after the first one")
        self.failures = self._counter("loop_failures", "Items whose handler raised an exception; must stay 0", "kind")
        self.ready = Gauge(
            "muster_operator_ready", "1 = the session with the core is open and recovered", registry=self.registry
        )
        self.leader = Gauge(
            "muster_operator_leader", "1 = this operator holds the Lease and may write", registry=self.registry
        )
        self.transitions = Gauge(
            "muster_operator_lease_transitions", "Number of leadership changes", registry=self.registry
        )
        self.held = Gauge(
            "muster_operator_writes_paused",
            "1 = a watch of pods or nodes is stale, or a scheduler name is lost: binds, deletes and creates are paused",
            registry=self.registry,
        )
        self.signing_keys = Gauge(
            "muster_operator_signing_keys",
            "Keys that verify placeholders and bindings; 0 = none could be read: no placeholder is created or trusted",
            registry=self.registry,
        )
        self.unverified = Gauge(
            "muster_operator_unverified_placeholders",
            "Placeholders signed with an unknown key: counted in their queue once bound, never used or deleted",
            registry=self.registry,
        )
        self.blocked = self._counter("blocked_writes", "Writes blocked because this operator does not hold the Lease")
        self.trace_spans = self._counter(
            "trace_spans",
            "Spans of applications: created, exported, failed; the rest are queued or were dropped",
            "result",
        )
        self._depths = Gauge(
            "muster_operator_queue_depth", "Waiting items, by queue", ("queue",), registry=self.registry
        )

    def _of_streams(self) -> None:
        """Creates the metrics of watches and lists."""
        self.watched = self._tally(
            "watch_events", "Events of watch streams (also BOOKMARK) and objects of lists (LIST)", "resource", "type"
        )
        self.lists = self._counter("lists", "Complete lists", "resource")
        self.streams_expired = self._counter(
            "watch_expired",
            "Watch streams that needed a new list: 410 Gone, or a restored etcd",
            "resource",
        )
        self._idle = Gauge(
            "muster_operator_watch_idle_seconds",
            "Seconds since the last byte of a watch or the last complete list; bookmarks arrive every minute",
            ("resource",),
            registry=self.registry,
        )
        self.streams_broken = self._counter("watch_restarts", "Restarted watch streams", "resource")
        self.coalesced = self._counter(
            "coalesced_updates", "Object updates that a newer update replaced while the core was slow"
        )
        self.repairs = self._counter(
            "resync_repairs", "Deleted objects that the watch missed and a list revealed", "resource"
        )

    def _of_requests(self) -> None:
        """Creates the metrics of requests to the API server."""
        self._requests = self._tally(
            "api_requests",
            "Requests to the API server, by response status (0 = no response)",
            "verb",
            "resource",
            "status",
        )
        self._request_seconds = Times(
            "muster_operator_api_request_seconds",
            "Response time of the API server; for a watch, until it starts",
            ("verb", "resource"),
            REQUEST_BUCKETS,
            self.registry,
        )
        self.throttle = self._counter(
            "api_throttled", "Requests that the API server throttled (429), by kind of write", "kind"
        )

    def record_activity(self, plural: str) -> None:
        """Records the time at which a watch delivered data."""
        self._last_activity[plural] = time.monotonic()

    def requested(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Records a request to the API server; status 0 = no answer."""
        self._requests.counts[verb, resource, status] += 1
        self._request_seconds.took((verb, resource), seconds)

    def ended(self, kind: str, status: int) -> None:
        """Counts a command with its final status."""
        self._commands.counts[kind, status] += 1

    def watch(self, prefix: str, depths: Depths) -> None:
        """Adds a source of queue depths, which is read at each scrape."""
        self._sources.append((prefix, depths))

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format."""
        for prefix, depths in self._sources:
            for name, depth in depths().items():
                self._depths.labels(f"{prefix}{name}").set(depth)
        now = time.monotonic()
        for plural, active_at in self._last_activity.items():
            self._idle.labels(plural).set(now - active_at)
        return generate_latest(self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"muster_operator_{name}", meaning, labels, registry=self.registry)

    def _tally(self, name: str, meaning: str, *labels: str) -> Tally:
        """Creates a counter for frequent events."""
        return Tally(f"muster_operator_{name}", meaning, labels, self.registry)
