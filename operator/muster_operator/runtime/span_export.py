"""Exports spans with OpenTelemetry (OTLP). Loaded only with `--tracing`, because the SDK takes a second to import.

Endpoint, headers, protocol, sampling, batches and resource attributes are set with the standard `OTEL_*` environment
variables. The SDK sends batches in a thread of its own from a bounded queue and drops spans while it is full, so a
collector that does not answer never delays the operator.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from muster_operator.model.errors import StartupRefused
from muster_operator.model.limits import LOGGED_CHARACTERS
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.tracing import Span

log = structlog.get_logger("muster.tracing")

#: Maximum seconds that the last spans take at shutdown.
_LAST_SPANS_S: Final = 3.0
_GRPC: Final = "grpc"
_HTTP: Final = "http/protobuf"
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class _Ids(IdGenerator):
    """Gives the next span the IDs that the tracer has chosen."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


#: Logger of the SDK that reads headers.
_HEADER_PARSER: Final = "opentelemetry.util.re"


class _LastError(logging.Handler):
    """Keeps the SDK's last message. It logs one for each attempt and batch; the exporter logs one for each outage."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == _HEADER_PARSER:  # its messages contain the headers, which are secrets
            self.text = "OTEL_EXPORTER_OTLP_HEADERS is invalid; use name=value, with %20 for a blank"
        else:
            self.text = record.getMessage()[:LOGGED_CHARACTERS]


class _Reporting(SpanExporter):
    """Counts exported spans, and logs when an outage begins and ends."""

    def __init__(self, exporter: SpanExporter, metrics: Metrics, last_error: _LastError) -> None:
        self._exporter, self._metrics, self._last_error = exporter, metrics, last_error
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:  # the SDK catches exceptions
            self._report(len(spans), is_failing=result is not SpanExportResult.SUCCESS)
        return result

    def _report(self, spans: int, *, is_failing: bool) -> None:
        self._metrics.trace_spans.labels("failed" if is_failing else "exported").inc(spans)
        if is_failing and not self._is_failing:
            reason = str(sys.exception() or self._last_error.text)[:LOGGED_CHARACTERS]
            log.warning("traces cannot be exported and are dropped", reason=reason)
        elif self._is_failing and not is_failing:
            log.info("traces are exported again")
        self._is_failing = is_failing

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))


class SpanExport:
    """Converts spans and hands them to the SDK. Used by the task that owns the state; sending is in another thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        last_error = _LastError()
        sdk_log = logging.getLogger("opentelemetry")
        sdk_log.propagate, sdk_log.handlers = False, [last_error]
        self._ids = _Ids()
        self._provider = TracerProvider(
            id_generator=self._ids, resource=Resource.create(_resource()), shutdown_on_exit=False
        )
        self._provider.add_span_processor(_batch_processor(_Reporting(_exporter(), metrics, last_error)))
        self._tracer = self._provider.get_tracer("muster")
        if last_error.text:
            log.warning("OpenTelemetry reported a problem with its settings", reason=last_error.text)

    def is_sampled(self, trace_id: int) -> bool:
        """Whether the sampler (`OTEL_TRACES_SAMPLER`) takes a trace with this ID."""
        found = self._provider.sampler.should_sample(None, trace_id, "application")
        return bool(found.decision is Decision.RECORD_AND_SAMPLE)

    def emit(self, span: Span) -> None:
        """Queues a finished span. Never waits."""
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        context = Context()
        if span.parent_id:
            parent = SpanContext(span.trace_id, span.parent_id, is_remote=False, trace_flags=_SAMPLED)
            context = set_span_in_context(NonRecordingSpan(parent), context)
        links = [Link(SpanContext(*span.link, is_remote=True))] if span.link is not None else []
        made = self._tracer.start_span(
            span.name, context, attributes=span.attributes, links=links, start_time=span.start_ns
        )
        if span.error:
            made.set_status(Status(StatusCode.ERROR, span.error))
        self._metrics.trace_spans.labels("created").inc()
        made.end(span.end_ns)

    async def close(self) -> None:
        """Sends the last spans, for _LAST_SPANS_S at most."""
        closing = threading.Thread(target=self._provider.shutdown, name="span-export-end", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _LAST_SPANS_S)


def _resource() -> dict[str, str]:
    """The service name, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` has one."""
    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {} if is_named else {SERVICE_NAME: "muster"}


def _batch_processor(exporter: SpanExporter) -> BatchSpanProcessor:
    """Creates the batch processor. Raises StartupRefused if an `OTEL_BSP_` variable is invalid."""
    try:
        return BatchSpanProcessor(exporter)
    except ValueError as error:
        raise StartupRefused(f"tracing: an OTEL_BSP_ variable is invalid: {error}") from error


def _exporter() -> SpanExporter:
    """The exporter for `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` or `OTEL_EXPORTER_OTLP_PROTOCOL`.

    Raises:
        StartupRefused: the protocol is not supported, or a variable is invalid.
    """
    names = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = next((os.environ[name] for name in names if os.environ.get(name)), _GRPC)
    try:
        if protocol == _GRPC:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

            return OTLPSpanExporter()
        if protocol == _HTTP:
            from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415

            return trace_exporter.OTLPSpanExporter()
    except (ValueError, OSError) as error:
        raise StartupRefused(f"tracing: an OTEL_EXPORTER_OTLP_ variable is invalid: {error}") from error
    raise StartupRefused(f'tracing: protocol "{protocol[:40]}" is not supported; use {_GRPC} or {_HTTP}')
