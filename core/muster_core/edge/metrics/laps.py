"""How long the steps of scheduling cycles take.

Timed step by step, counted once a cycle: a cycle has thousands of steps, and
putting each into a histogram would take longer than the step.

Differs: a search looks at all nodes at once, so `trynode_latency` is the mean time of a search in a cycle (one
application's), `trynode_evaluation` that of all searches of a cycle; the others are sums of a cycle, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from muster_core.engine.steps import Step

#: Buckets of contract 5: 0.0001 · 10^k seconds.
DECADES: Final = tuple(10.0 ** (exponent - 4) for exponent in range(8))


class Laps:
    """The steps of one cycle: seconds and number of each."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = clock()
        self.seconds: dict[Step, float] = {}
        self.counts: dict[Step, int] = {}

    def __call__(self, step: Step) -> None:
        """What happened since the last call was this step."""
        now = self._clock()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self.counts[step] = self.counts.get(step, 0) + 1
        self._last = now


class LapTimes:
    """The histograms of contract 5 for them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "yunikorn_scheduler"
        sorting = Histogram(
            f"{prefix}_node_sorting_latency_milliseconds",
            "Time to order queues, applications and nodes in one cycle, in seconds.",
            ["level"],
            buckets=DECADES,
            registry=registry,
        )
        self._sorting = {Step.QUEUE: sorting.labels("queue"), Step.APPLICATION: sorting.labels("app")}
        sorting.labels("node")  # nodes are ranked within the search
        one = "Mean time of one application's search for nodes in a cycle, in seconds."
        self._search = Histogram(f"{prefix}_trynode_latency_milliseconds", one, buckets=DECADES, registry=registry)
        every = "Time of all searches for nodes in a cycle, in seconds."
        self._searches = Histogram(
            f"{prefix}_trynode_evaluation_milliseconds", every, buckets=DECADES, registry=registry
        )
        victims = "Time to look for victims when the clock of a leaf or a lowered quota rings, in seconds."
        self.preemption = Histogram(
            f"{prefix}_trypreemption_latency_milliseconds", victims, buckets=DECADES, registry=registry
        )

    def count(self, laps: Laps) -> None:
        """Count one cycle."""
        for step, seconds in laps.seconds.items():
            if step in self._sorting:
                self._sorting[step].observe(seconds)
            elif step is Step.NODE:
                self._search.observe(seconds / laps.counts[step])
                self._searches.observe(seconds)
