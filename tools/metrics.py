"""Writes the tables of ``docs/reference/metrics.md`` from the two registries.

The metrics are those of a core and an operator in which every metric has a sample. The tests of dashboard and alerts
use the same ones. Called by ``make diagrams``; a test fails if the page is stale.
"""

from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from tests.unit.core.metrics.metrics_core import busy_core
from tests.unit.deploy.sample_metrics import busy_operator
from tools.tables import put

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "metrics.md"
GENERAL = ("process_", "python_", "pause")
"""Prefixes of metrics of every Python program, which the page describes in one sentence."""
QUEUE = "root_a_"
"""Part of metric names that contain a queue name."""
METRICS_HEAD = "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"


def tables() -> dict[str, str]:
    """Return the Markdown tables by their headings."""
    core = [*metrics(busy_core())]
    ours = [row for row in core if row.startswith("| `muster_")]
    return {
        "## Operator metrics": METRICS_HEAD + "".join(metrics(busy_operator())),
        "## Core metrics": METRICS_HEAD + "".join(ours),
        "## Core metrics with YuniKorn's names": METRICS_HEAD + "".join(row for row in core if row not in ours),
    }


def metrics(registry: CollectorRegistry) -> Iterator[str]:
    """Yield a row per metric, sorted by name."""
    found = {exposed(metric): metric for metric in registry.collect() if not metric.name.startswith(GENERAL)}
    for name, metric in sorted(found.items()):
        labels = sorted({label for sample in metric.samples for label in sample.labels} - {"le"})
        shown = ", ".join(f"`{label}`" for label in labels)
        shown_name = name.replace(QUEUE, "QUEUE_")
        yield f"| `{shown_name}` | {metric.type} | {shown} | {metric.documentation.rstrip('.')} |\n"


def exposed(metric: Metric) -> str:
    """Return the name as exposed to Prometheus."""
    if metric.type != "counter" or any(sample.name == metric.name for sample in metric.samples):
        return metric.name
    return f"{metric.name}_total"


def main() -> None:
    """Write the page."""
    PAGE.write_text(put(PAGE.read_text(), tables()))


if __name__ == "__main__":
    main()
