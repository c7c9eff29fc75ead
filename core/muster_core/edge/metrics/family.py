"""One metric with its samples, made when somebody scrapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

#: Between two steps of what takes long to count: no metric, but a moment at which others may run.
PAUSE: Final = Metric("pause", "", "unknown")
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_]")


def gauge(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """What is now, under exactly this name."""
    return _metric(name, name, meaning, "gauge", values)


def counter(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """What only grows; the name ends in `_total`, or it is written as it is."""
    return _metric(name.removesuffix("_total"), name, meaning, "counter", values)


def word(text: str) -> str:
    """A part of a metric's name: what may not stand there is `_`."""
    return _INVALID.sub("_", text)


def _metric(
    family: str, name: str, meaning: str, kind: str, values: Iterable[tuple[Mapping[str, str], float]]
) -> Metric:
    metric = Metric(family, meaning, kind)
    metric.samples = [Sample(name, dict(labels), value) for labels, value in values]
    return metric
