"""A scrape of plain numbers equals that of the Prometheus client's own metrics."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from muster_operator.runtime.metrics import Tally, Times

BOUNDS = (0.002, 0.5, 1.0, 15.0)


def scraped_lines(registry: CollectorRegistry) -> list[str]:
    """Without the creation times of counters, which tallies do not have."""
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


def test_a_tally_is_exposed_as_a_counter() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally, counter = (
        Tally("some_things", "Of them", ("kind",), ours),
        Counter("some_things", "Of them", ("kind",), registry=theirs),
    )
    for kind in ("a", "b", "a"):
        tally.counts[kind,] += 1
        counter.labels(kind).inc()
    assert scraped_lines(ours) == scraped_lines(theirs)


@pytest.mark.parametrize("seconds", [[], [0.002], [0.0021, 0.5, 99.0], [0.0, 0.75, 0.75, 15.0]])
def test_times_are_exposed_as_a_histogram(seconds: list[float]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    times = Times("took_seconds", "How long", ("verb",), BOUNDS, ours)
    histogram = Histogram("took_seconds", "How long", ("verb",), buckets=BOUNDS, registry=theirs)
    for each in seconds:
        times.took(("GET",), each)
        histogram.labels("GET").observe(each)
    assert scraped_lines(ours) == scraped_lines(theirs)
