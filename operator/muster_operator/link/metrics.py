"""What the operator counts, for `/metrics`. Names begin with `muster_operator_`; times are seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

Depths = Callable[[], Mapping[str, int]]


class Metrics:
    """One registry per operator, so that several live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.watch_events = self._counter("watch_events", "Events taken from watch streams", "resource")
        self.streams_broken = self._counter("watch_restarts", "Watch streams that had to be started over", "resource")
        self.repairs = self._counter(
            "resync_repairs", "Objects that vanished unseen and that a list showed", "resource"
        )
        self.commands = self._counter(
            "commands", "Commands by kind and final HTTP status (0 = no answer)", "kind", "status"
        )
        self.retries = self._counter(
            "command_retries", "Tries beyond the first, by what the one before met", "kind", "status"
        )
        self.dropped_events = self._counter("dropped_events", "Kubernetes events dropped because the buffer was full")
        self.sessions = self._counter("core_reconnects", "Registrations with the core beyond the first")
        self.failures = self._counter("loop_failures", "Inputs that the agent failed on", "kind")
        self.ready = Gauge("muster_operator_ready", "1 = recovered and in session", registry=self.registry)
        self.leader = Gauge("muster_operator_leader", "1 = we hold the lease and may write", registry=self.registry)
        self.transitions = Gauge(
            "muster_operator_lease_transitions", "How often the lease has changed hands", registry=self.registry
        )
        self.fenced = self._counter("fenced_writes", "Writes that were stopped because we do not hold the lease")
        self._depths = Gauge("muster_operator_queue_depth", "What waits, by queue", ("queue",), registry=self.registry)
        self._watched: dict[str, Counter] = {}
        self._sources: list[tuple[str, Depths]] = []

    def count_watched(self, plural: str) -> None:
        """One more watch event; keeps the counter at hand, because looking its label up costs more than counting."""
        counter = self._watched.get(plural)
        if counter is None:
            counter = self._watched[plural] = self.watch_events.labels(plural)
        counter.inc()

    def watch(self, prefix: str, depths: Depths) -> None:
        """Read queue depths from here each time somebody looks."""
        self._sources.append((prefix, depths))

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        for prefix, depths in self._sources:
            for name, depth in depths().items():
                self._depths.labels(f"{prefix}{name}").set(depth)
        return generate_latest(self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"muster_operator_{name}", meaning, labels, registry=self.registry)
