"""Metric families and the Prometheus text format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

#: Not a metric: yielded between the steps of a long computation, so that other work may run.
PAUSE: Final = Metric("pause", "", "unknown")
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_]")


def gauge(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Returns a gauge with exactly this name."""
    return _metric(name, name, meaning, "gauge", values)


def counter(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Returns a counter. A name that does not end in `_total` is kept unchanged."""
    return _metric(name.removesuffix("_total"), name, meaning, "counter", values)


def word(text: str) -> str:
    """Returns a valid part of a metric name: other characters become `_`."""
    return _INVALID.sub("_", text)


def _metric(
    family: str, name: str, meaning: str, kind: str, values: Iterable[tuple[Mapping[str, str], float]]
) -> Metric:
    metric = Metric(family, meaning, kind)
    metric.samples = [Sample(name, dict(labels), value) for labels, value in values]
    return metric


_LINES: Final = 500


def pieces(metrics: Iterable[Metric]) -> Iterator[bytes]:
    """Yields the text of all metrics in order."""
    for metric in metrics:
        if metric is PAUSE:
            yield b""
            continue
        samples = [sample for sample in metric.samples if sample.name != f"{metric.name}_created"]
        lines = _head(metric, samples)
        for sample in samples:
            lines.append(_line(sample))
            if len(lines) >= _LINES:
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
