"""Metrics are written in the Prometheus format, in parts between which other tasks can run."""

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from muster_core.metrics.collector import counter, gauge, word
from muster_core.metrics.counters import Metrics, text_of


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
