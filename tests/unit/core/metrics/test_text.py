"""Metrics are written in the Prometheus format, in parts between which other tasks can run."""

from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from muster_core.metrics.collector import counter, gauge, word
from muster_core.metrics.counters import Metrics, text_of
from tests.unit.core.metrics.metrics_core import busy_core
from tools import compatibility


class Fixed(Collector):
    """Always the same."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def test_written_metrics_can_be_read_back() -> None:
    odd = 'a "quoted" \\ back\nslash'
    metrics = [
        gauge("depth", "How deep.\nReally \\.", [({"of": odd}, 3), ({"of": "b"}, 0.25)]),
        counter("things_total", "Things.", [({}, 1 << 60)]),
        counter("yunikorn_root_queue_container", "As it is.", [({"state": "allocated"}, 2)]),
        gauge("nothing", "No sample.", []),
    ]
    written = b"".join(text_of(metrics)).decode()
    read = {family.name: family for family in text_string_to_metric_families(written)}
    assert [(sample.labels, sample.value) for sample in read["depth"].samples] == [
        ({"of": odd}, 3),
        ({"of": "b"}, 0.25),
    ]
    assert read["things"].samples[0].value == 1 << 60
    assert "# TYPE yunikorn_root_queue_container counter\n" in written
    assert 'yunikorn_root_queue_container{state="allocated"} 2\n' in written
    assert "# TYPE nothing gauge\n" in written


def test_many_lines_come_in_several_pieces() -> None:
    many = gauge("many", "Many.", [({"n": str(n)}, n) for n in range(1200)])
    pieces = list(text_of([many]))
    assert len(pieces) >= 3
    assert b"".join(pieces).count(b"\n") == 1202


def test_counter_creation_times_are_omitted_and_gauges_of_such_a_name_are_kept() -> None:
    metrics = Metrics()
    metrics.registry.register(Fixed([gauge("yunikorn_event_total_created", "Made.", [({}, 3)])]))
    written = metrics.text().decode()
    assert "yunikorn_event_total_created 3\n" in written
    assert "muster_core_failures_created" not in written


def test_prometheus_can_read_every_metric() -> None:
    metrics = Metrics()
    metrics.iterated(0.5)
    read = {family.name for family in text_string_to_metric_families(metrics.text().decode())}
    assert {"muster_core_loop_busy_seconds", "yunikorn_scheduler_scheduling_latency_milliseconds"} <= read
    assert "process_cpu_seconds" in read


def test_a_metric_name_part_has_no_special_characters() -> None:
    assert word("root.team-a.nvidia.com/gpu") == "root_team_a_nvidia_com_gpu"


# -- docs/reference/compatibility.yaml has every metric as the registry has it, and names a test of it.

ROWS: list[dict[str, Any]] = [row.model_dump() for row in compatibility.load().section("metrics").rows]
THERE = [row for row in ROWS if row["type"]]


def registered_metrics() -> dict[str, tuple[str, set[str]]]:
    """Name as it is written → type and labels."""
    found: dict[str, tuple[str, set[str]]] = {}
    for metric in busy_core().collect():
        for sample in metric.samples:
            name = metric.name if metric.type == "histogram" else sample.name
            if sample.name != f"{metric.name}_created":
                found.setdefault(name, (metric.type, set()))[1].update(sample.labels.keys() - {"le"})
    return found


KNOWN = registered_metrics()


def concrete(name: str) -> str:
    return name.replace("<resource>", "vcore").replace("<queue>", "root_a")


@pytest.mark.parametrize("row", THERE, ids=[row["name"] for row in THERE])
def test_a_metric_of_the_contract_has_its_type_and_labels(row: dict[str, Any]) -> None:
    assert KNOWN.get(concrete(row["name"])) == (row["type"], set(row["labels"]))


def test_every_metric_with_a_name_of_yunikorn_has_a_row() -> None:
    resources = {concrete(row["name"]) for row in ROWS} | {
        row["name"].replace("<resource>", name) for row in ROWS for name in ("memory", "pods")
    }
    assert {name for name in KNOWN if name.startswith("yunikorn_")} <= resources


def test_an_unsupported_metric_has_a_reason_and_is_not_registered() -> None:
    absent = [row for row in ROWS if not row["type"]]
    assert [row["name"] for row in absent if not row["differs"] or row["name"] in KNOWN] == []


def test_every_metric_of_our_own_has_a_row() -> None:
    assert {name for name in KNOWN if name.startswith("muster_core_")} == set(
        compatibility.load().section("own-metrics").names
    )
