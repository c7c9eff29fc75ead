"""A real OpenTelemetry Collector receives one trace per application: its phases, its waits, and after a restart."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from devcluster import ports
from devcluster.nodes import FakeNode
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, with_annotations
from tests.e2e.scenario import Scenario
from tests.frameworks import collector
from tests.frameworks.collector import Collector, Received

NODES = [FakeNode("node-0", cpu="8")]
QUEUE = "root.leaf"
QUOTA = queues(resources={"max": {"vcore": "3"}})
PHASES = ["submit", "accept", "reserve", "place", "bind", "run", "complete"]
OUTAGE = "traces cannot be exported"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest_asyncio.fixture(loop_scope="session")
async def receiver(tmp_path: Path) -> AsyncIterator[Collector]:
    """A collector for the test."""
    async with collector.running(tmp_path) as started:
        yield started


async def finished(scenario: Scenario, receiver: Collector, app: str) -> list[Received]:
    """Delete the pods, and wait for the root span of the application. Returns all its spans."""
    await scenario.api.delete_all("pods", scenario.namespace)

    async def is_there() -> list[Received]:
        return receiver.spans(app)

    return await scenario.eventually(f"the collector has the trace of {app}", is_there)


def only(spans: list[Received], name: str) -> Received:
    (found,) = [span for span in spans if span["name"] == name]
    return found


async def test_the_trace_of_a_gang_has_its_phases_and_the_reason_why_it_waited(
    open_scenario: OpenScenario, receiver: Collector
) -> None:
    scenario = await open_scenario(NODES, QUOTA, env=receiver.variables())
    await scenario.create([a_pod("holder", cpu="3", labels={"applicationId": "holder", "queue": QUEUE})])
    await scenario.all_bound(1)
    gang = a_gang("train", [Group("worker", 3)], queue=QUEUE, placement="Reserve", timeout_s=600)
    await scenario.create(with_annotations(pod, {"traceparent": TRACEPARENT}) for pod in gang)

    async def all_wait() -> bool:
        asks = await scenario.muster.dump()
        return len(await scenario.pods(placeholders=True)) == 3 and "not enough queue quota" in str(asks)

    await scenario.eventually("the placeholders wait for quota", all_wait)
    await scenario.api.delete("pods", "holder", scenario.namespace)
    await scenario.all_bound(3)
    spans = await finished(scenario, receiver, "train")

    root = only(spans, "application")
    assert root["parentSpanId"] == ""
    assert root["attributes"]["muster.application.state"] == "Completed"
    assert root["attributes"]["muster.gang.size"] == "3"
    assert root["attributes"]["k8s.namespace.name"] == scenario.namespace
    assert [(link["traceId"], link["spanId"]) for link in root["links"]] == [tuple(TRACEPARENT.split("-")[1:3])]
    phases = [span for span in spans if span["parentSpanId"] == root["spanId"]]
    assert [span["name"] for span in phases] == PHASES
    assert [span["end"] for span in phases[:-1]] == [span["start"] for span in phases[1:]]
    assert (phases[0]["start"], phases[-1]["end"]) == (root["start"], root["end"])

    waits = [span for span in spans if span["name"] == "wait"]
    quota = next(span for span in waits if span["attributes"]["muster.wait.reason"] == "quota")
    reserve = only(spans, "reserve")
    assert quota["parentSpanId"] == reserve["spanId"]
    assert reserve["start"] <= quota["start"] < quota["end"] <= reserve["end"]
    assert "root.leaf, requested cpu 1, available 0 of 3" in quota["attributes"]["muster.wait.message"]


async def test_a_restarted_operator_continues_the_trace_of_a_pod_that_waits_for_a_node(
    open_scenario: OpenScenario, receiver: Collector
) -> None:
    scenario = await open_scenario(NODES, env=receiver.variables("http/protobuf"))
    await scenario.create([a_pod("large", cpu="16", labels={"applicationId": "job"})])

    async def waits() -> bool:
        return "Unschedulable" in str(await scenario.pods())

    async def waits_in_core() -> bool:
        return "nodes are available" in str(await scenario.muster.dump())

    await scenario.eventually("the pod waits for a node", waits)
    await scenario.muster.stop()
    await scenario.muster.start()
    await scenario.eventually("the pod waits for a node again", waits_in_core)
    await scenario.cluster.add_nodes([FakeNode("node-large", cpu="32")])
    await scenario.all_bound(1)
    spans = await finished(scenario, receiver, "job")

    root = only(spans, "application")
    phases = [span for span in spans if span["parentSpanId"] == root["spanId"]]
    assert [span["name"] for span in phases][:3] == ["submit", "accept", "place"]
    assert [span["name"] for span in phases][-4:] == ["place", "bind", "run", "complete"]
    interrupted = [span["name"] for span in phases if "muster.operator.stopped" in span["attributes"]]
    assert interrupted == ["place"]
    assert any("muster.recovery" in span["attributes"] for span in phases)
    assert {span["attributes"]["muster.wait.reason"] for span in spans if span["name"] == "wait"} <= {
        "nodes",
        "cluster",
    }
    assert len([span for span in spans if span["name"] == "wait"]) == 2


async def test_a_collector_that_cannot_be_reached_stops_nothing(open_scenario: OpenScenario, tmp_path: Path) -> None:
    unreachable = Collector({"grpc": f"http://127.0.0.1:{ports.free(1)[0]}"}, tmp_path)
    scenario = await open_scenario(NODES, env={**unreachable.variables(), "OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    await scenario.create(a_gang("train", [Group("worker", 3)], placement="Reserve"))
    await scenario.all_bound(3)

    async def is_logged() -> bool:
        return OUTAGE in scenario.muster.tails(500)

    await scenario.eventually("the outage is in the log", is_logged)
    await scenario.api.delete_all("pods", scenario.namespace)

    async def has_failed_again() -> bool:
        samples = await scenario.muster.samples("muster_operator_trace_spans_total")
        return samples.get('{result="failed"}', 0) >= len(PHASES)

    await scenario.eventually("later batches fail, too", has_failed_again)
    assert scenario.muster.tails(500).count(OUTAGE) == 1
