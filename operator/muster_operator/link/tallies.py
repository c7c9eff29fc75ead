"""Counters and times for what happens with every pod, as plain numbers that a scrape makes metrics of.

A counter of the Prometheus client takes a lock and looks three times whether it may count: 0.5 us, and a histogram 1.5.
Here one event loop counts, and who scrapes asks in the same loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

Labels = tuple[str, ...]


class Tally(Collector):
    """A counter by labels; `counts[labels] += 1` counts."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self.counts: defaultdict[Labels, int] = defaultdict(int)
        self._name, self._meaning, self._labels = name, meaning, labels
        registry.register(self)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """As a scrape shows it."""
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, count in self.counts.items():
            family.add_metric(labels, count)
        yield family


class Times(Collector):
    """A histogram of seconds by labels. `bounds`: upper ones of its buckets."""

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._bounds: Final = bounds
        self._name, self._meaning, self._labels = name, meaning, labels
        self._counts: defaultdict[Labels, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self._sums: defaultdict[Labels, float] = defaultdict(float)
        registry.register(self)

    def took(self, labels: Labels, seconds: float) -> None:
        """Once more, and so long."""
        self._counts[labels][bisect_left(self._bounds, seconds)] += 1
        self._sums[labels] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """As a scrape shows it."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        names = [*map(str, map(float, self._bounds)), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family
