"""Spans reach a collector over OTLP as the standard variables say, and a collector that fails delays nothing."""

import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from structlog.testing import capture_logs

from devcluster.waiting import until
from muster_operator.model.errors import StartupRefused
from muster_operator.runtime import span_export, tracing
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.span_export import SpanExport

TRACE, ROOT, CHILD = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 0xB7
ROOT_SPAN = tracing.Span(
    "application", TRACE, ROOT, 0, 1_000, 5_000, {"muster.application.id": "job"}, (0xAB, 0xCD), "it failed"
)
CHILD_SPAN = tracing.Span("reserve", TRACE, CHILD, ROOT, 2_000, 3_000, {"muster.recovery": True})


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """The receiving side of OTLP. While `answers` is not set, requests are not answered."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.answers = threading.Event()
        self.answers.set()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 # the name in the protocol
        self.answers.wait(30)
        self.headers.append({key: str(value) for key, value in context.invocation_metadata()})
        for resource in request.resource_spans:
            self.resources.append({one.key: one.value.string_value for one in resource.resource.attributes})
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@contextmanager
def listening(address: str = "127.0.0.1:0") -> Iterator[tuple[Collector, str]]:
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield collector, f"127.0.0.1:{port}"
    finally:
        collector.answers.set()
        server.stop(None).wait()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


@pytest.fixture
def reserved_port() -> Iterator[int]:
    """A port that refuses connections until a gRPC server listens on it. No other process gets it."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # gRPC sets it, too
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def queued(export: Any) -> Any:
    """The spans that wait in the SDK."""
    (processor,) = export._provider._active_span_processor._span_processors
    return processor._batch_processor._queue


def results(metrics: Metrics) -> dict[str, float]:
    samples = [sample for one in metrics.trace_spans.collect() for sample in one.samples]
    found = {sample.labels["result"]: sample.value for sample in samples if sample.name.endswith("_total")}
    return {name: found.get(name, 0.0) for name in ("created", "exported", "failed")}


async def test_a_collector_receives_the_spans_with_their_ids_times_and_attributes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = Metrics()
    with listening() as (collector, address):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{address}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=prod")
        export = SpanExport(metrics)
        export.emit(CHILD_SPAN)
        export.emit(ROOT_SPAN)
        await export.close()
    child, root = collector.spans
    assert {int.from_bytes(span.trace_id) for span in (child, root)} == {TRACE}
    assert (int.from_bytes(child.span_id), int.from_bytes(child.parent_span_id)) == (CHILD, ROOT)
    assert (int.from_bytes(root.span_id), root.parent_span_id) == (ROOT, b"")
    assert (child.start_time_unix_nano, child.end_time_unix_nano) == (2_000, 3_000)
    assert {one.key: one.value.bool_value for one in child.attributes} == {"muster.recovery": True}
    [link] = root.links
    assert (int.from_bytes(link.trace_id), int.from_bytes(link.span_id)) == (0xAB, 0xCD)
    assert root.status.message == "it failed"
    assert collector.headers[0]["authorization"] == "Bearer secret"
    assert collector.resources[0] | {"service.name": "muster", "k8s.cluster.name": "prod"} == collector.resources[0]
    assert results(metrics) == {"created": 2, "exported": 2, "failed": 0}


async def test_an_outage_of_the_collector_is_logged_once_at_its_start_and_once_at_its_end(
    reserved_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{reserved_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{address}")
    metrics = Metrics()
    export = SpanExport(metrics)
    with capture_logs() as logged:
        for _ in range(3):
            export.emit(CHILD_SPAN)
            export._provider.force_flush()
        with listening(address) as (collector, _):

            async def is_exported() -> bool:  # the connection is tried again with growing pauses
                export.emit(ROOT_SPAN)
                export._provider.force_flush()
                return results(metrics)["exported"] > 0

            await until("spans are exported again", is_exported, 60)
            await export.close()
    assert [line["event"] for line in logged] == [
        "traces cannot be exported and are dropped",
        "traces are exported again",
    ]
    assert "UNAVAILABLE" in logged[0]["reason"]
    found = results(metrics)
    assert found["exported"] == 1 <= len(collector.spans)  # a slow answer to an earlier span counts as its failure
    assert found["failed"] == found["created"] - 1 >= 3


async def test_a_collector_that_does_not_answer_holds_up_neither_spans_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_export, "_LAST_SPANS_S", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "600")
    metrics = Metrics()
    with listening() as (collector, address):
        collector.answers.clear()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{address}")
        export = SpanExport(metrics)
        for _ in range(2_000):
            export.emit(CHILD_SPAN)
        await export.close()
        assert results(metrics) == {"created": 2_000, "exported": 0, "failed": 0}
        assert len(queued(export)) <= 600
        collector.answers.set()
        for thread in threading.enumerate():  # the sender tries again with random pauses until the server answers
            if thread.name == "span-export-end":
                thread.join(30)
                assert not thread.is_alive()


async def test_invalid_headers_are_reported_without_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Bearer secret-token")
    with capture_logs() as logged:
        await SpanExport(Metrics()).close()
    assert "secret-token" not in str(logged)
    assert "OTEL_EXPORTER_OTLP_HEADERS is invalid" in logged[0]["reason"]


async def test_the_sampler_of_the_standard_variables_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    export = SpanExport(Metrics())
    assert export.is_sampled(1)
    assert not export.is_sampled(2**64 - 1)
    await export.close()


async def test_http_is_another_protocol_and_an_unknown_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    await SpanExport(Metrics()).close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
    with pytest.raises(StartupRefused, match='"carrier-pigeon" is not supported'):
        SpanExport(Metrics())


def test_batches_larger_than_their_queue_refuse_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    with pytest.raises(StartupRefused, match="an OTEL_BSP_ variable is invalid"):
        SpanExport(Metrics())
