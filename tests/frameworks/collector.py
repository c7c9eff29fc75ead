"""The OpenTelemetry Collector as a local process that writes what it receives to a file."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster import binaries, ports
from devcluster.process import Process
from devcluster.programs import COLLECTOR

Received = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Collector:
    """A running collector: its endpoints by protocol, and the file with the spans."""

    endpoints: dict[str, str]
    file: Path

    def variables(self, protocol: str = "grpc") -> dict[str, str]:
        """The environment of an operator that sends its spans here, without long pauses."""
        return {
            "MUSTER_TRACING": "true",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoints[protocol],
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def spans(self, app: str) -> list[Received]:
        """The spans of the trace of this application, by start and end; empty until its root span arrives.

        Attributes are a mapping. Times are epoch nanoseconds.
        """
        lines = self.file.read_text().splitlines(keepends=True) if self.file.exists() else []
        received = [json.loads(line) for line in lines if line.endswith("\n")]
        found = [
            _read(span)
            for batch in received
            for resource in batch["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]
        traces = {one["traceId"] for one in found if one["attributes"].get("muster.application.id") == app}
        return sorted((one for one in found if one["traceId"] in traces), key=lambda one: (one["start"], one["end"]))


def _read(span: Received) -> Received:
    attributes = {one["key"]: next(iter(one["value"].values())) for one in span.get("attributes", ())}
    times = {"start": int(span["startTimeUnixNano"]), "end": int(span["endTimeUnixNano"])}
    return {**span, **times, "attributes": attributes, "parentSpanId": span.get("parentSpanId", "")}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Collector]:
    """Run a collector until the end of the block. Whoever sends to it retries until it listens."""
    grpc, http = ports.free(2)
    file, config = folder / "spans.jsonl", folder / "collector.yaml"
    endpoints = {"grpc": {"endpoint": f"127.0.0.1:{grpc}"}, "http": {"endpoint": f"127.0.0.1:{http}"}}
    settings = {
        "receivers": {"otlp": {"protocols": endpoints}},
        "exporters": {"file": {"path": str(file), "flush_interval": "100ms"}},
        "service": {
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    config.write_text(yaml.safe_dump(settings))
    program = binaries.ensure([COLLECTOR])[COLLECTOR.name]
    process = Process("collector", [str(program), "--config", f"file:{config}"], folder / "collector.log")
    process.start()
    try:
        yield Collector({"grpc": f"http://127.0.0.1:{grpc}", "http/protobuf": f"http://127.0.0.1:{http}"}, file)
        process.check()
    finally:
        await process.stop()
