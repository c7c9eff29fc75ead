"""Recorded events are delivered completely to the store, and those for users to the resource manager."""

import json

import structlog

from muster_core.model.effects import ApplicationSummarized
from muster_core.model.ids import ApplicationId, QueuePath
from muster_core.model.records import Detail
from muster_core.model.states import ApplicationState
from muster_si import muster_pb2, si_pb2
from tests.unit.core import messages
from tests.unit.core.conftest import Bench

EVENT = si_pb2.EventRecord


def delivered(bench: Bench) -> list[si_pb2.EventRecord]:
    """Events that the resource manager received."""
    callbacks = [item for item in bench.rm.received if isinstance(item, muster_pb2.Callback)]
    return [record for callback in callbacks for record in callback.events.events]


def stored_details(bench: Bench) -> list[Detail]:
    records = bench.core.events.batch(0, 1000).records
    return [record.noted.detail for record in records or ()]


async def with_a_pod(bench: Bench, **settings: str) -> None:
    await bench.register(**settings)
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.core.update_application(messages.applications(messages.an_application()))
    await bench.core.update_allocation(messages.asks(messages.an_ask()))
    await bench.rm.until(lambda: any(isinstance(heard, si_pb2.AllocationResponse) for heard in bench.rm.received))
    await bench.wait_until_idle()


async def test_an_allocation_event_is_stored_and_not_pushed(bench: Bench) -> None:
    await with_a_pod(bench)
    assert stored_details(bench).count(Detail.APP_ALLOC) == 1
    assert [record.type for record in delivered(bench)] == [EVENT.NODE]


async def test_an_added_node_is_reported_with_its_capacity(bench: Bench) -> None:
    await bench.register()
    await bench.core.update_node(messages.nodes(messages.a_node()))
    await bench.wait_until_idle()
    [record] = delivered(bench)
    assert (record.objectID, record.eventChangeType, record.message) == (
        "node-1",
        EVENT.ADD,
        "Node added to the scheduler",
    )
    assert record.resource.resources["vcore"].value > 0
    assert record.timestampNano == bench.clock.now


async def test_disabling_tracking_stores_no_new_events_and_keeps_the_stored_ones(bench: Bench) -> None:
    await with_a_pod(bench)
    before = stored_details(bench)
    await bench.core.update_configuration(
        si_pb2.UpdateConfigurationRequest(rmID=messages.RM, extraConfig={"event.trackingEnabled": "false"})
    )
    await bench.core.update_allocation(messages.releases(messages.a_release()))
    await bench.wait_until_idle()
    assert stored_details(bench) == before
    assert not bench.core.events.tracking


async def test_settings_bound_the_ring_and_the_pushes(bench: Bench) -> None:
    settings = {"event.ringBufferCapacity": "2", "event.requestCapacity": "2"}
    await bench.register(**settings)
    await bench.core.update_node(messages.nodes(*(messages.a_node(f"node-{i}") for i in range(5))))
    await bench.wait_until_idle()
    assert len(bench.core.events) == 2
    assert len(delivered(bench)) == 1
    assert bench.metric("muster_core_events_suppressed_total") == 4
    assert bench.metric("yunikorn_event_total_collected") == 1


async def test_a_finished_application_logs_one_line_with_its_usage(bench: Bench) -> None:
    summed = ApplicationSummarized(
        rm=messages.RM,
        application=ApplicationId("app-1"),
        queue=QueuePath("root.a"),
        user="ann",
        state=ApplicationState.COMPLETED,
        times_ns=(1_000_000, 2_000_000, 3_000_000),
        used={"m5": {"vcore": 70}},
        preempted={},
        placeholders={"m5": {"vcore": 7}},
    )
    with structlog.testing.capture_logs() as logs:
        bench.core.dispatcher.carry([summed], 5)
    [line] = [entry["event"] for entry in logs if "SUMMARY" in entry["event"]]
    assert json.loads(line.removeprefix("YK_APP_SUMMARY: ")) == {
        "appId": "app-1",
        "submissionTime": 1,
        "startTime": 2,
        "finishTime": 3,
        "user": "ann",
        "queue": "root.a",
        "state": "Completed",
        "rmID": messages.RM,
        "resourceUsage": {"m5": {"vcore": 70}},
        "preemptedResource": {},
        "placeholderResource": {"m5": {"vcore": 7}},
    }
    assert bench.metric("muster_core_undelivered_total", what="effects of a session that is over") == 0
