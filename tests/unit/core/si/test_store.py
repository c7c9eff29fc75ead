"""Records are read in batches and followed as streams; slow readers are dropped, and their number is limited."""

import asyncio
import json

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.effects import ApplicationSummarized
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath
from muster_core.model.records import (
    AllocationsRecorded,
    AskRecorded,
    Change,
    Detail,
    EventRecorded,
    Notice,
    Recorded,
    count_of,
    records_of,
)
from muster_core.model.resources import Resources
from muster_core.model.states import ApplicationState
from muster_core.si.events import EventStore, Ring, TooManyStreams
from muster_si import muster_pb2, si_pb2
from tests.unit.builders import an_ask
from tests.unit.core import messages
from tests.unit.core.conftest import Bench
from tests.unit.core.messages import RM


def recorded_events(first: int, count: int) -> list[EventRecorded]:
    return [EventRecorded(RM, Notice.QUEUE, f"root.q{number}") for number in range(first, first + count)]


def a_store(kept: int = 100, lag: int = 50) -> EventStore:
    return EventStore("instance-1", capacity=kept, lag=lag)


def test_a_batch_starts_at_the_requested_id_and_names_the_range() -> None:
    store = a_store(kept=10)
    store.add(recorded_events(0, 25), now_ns=7)
    batch = store.batch(20, 3)
    assert (batch.instance, batch.lowest_id, batch.highest_id) == ("instance-1", 15, 24)
    assert batch.records is not None
    assert [(r.id, r.noted.subject, r.at_ns) for r in batch.records] == [
        (20, "root.q20", 7),
        (21, "root.q21", 7),
        (22, "root.q22", 7),
    ]


@pytest.mark.parametrize("start", [-1, 14, 25, 1000])
def test_a_start_outside_the_ring_gets_no_records_but_the_range(start: int) -> None:
    store = a_store(kept=10)
    store.add(recorded_events(0, 25), now_ns=7)
    batch = store.batch(start, 3)
    assert (batch.lowest_id, batch.highest_id, batch.records) == (15, 24, None)


def test_the_highest_id_of_an_empty_store_is_minus_one() -> None:
    assert a_store().batch(0, 1).highest_id == -1


async def test_a_stream_returns_the_requested_past_records_and_then_new_ones() -> None:
    store = a_store()
    store.add(recorded_events(0, 5), now_ns=1)
    stream = store.subscribe("here", count=2)
    assert [r.id for r in await anext(stream)] == [3, 4]
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    store.add(recorded_events(5, 2), now_ns=2)
    assert [r.id for r in await waiting] == [5, 6]


async def test_a_stream_returns_all_past_records_when_more_are_requested() -> None:
    store = a_store(kept=3)
    store.add(recorded_events(0, 5), now_ns=1)
    assert [r.id for r in await anext(store.subscribe("here", count=40))] == [2, 3, 4]


async def test_a_reader_that_falls_behind_is_dropped_and_the_others_continue() -> None:
    store = a_store(lag=10)
    slow, quick = store.subscribe("a"), store.subscribe("b")
    store.add(recorded_events(0, 10), now_ns=1)
    assert len(await anext(quick)) == 10
    store.add(recorded_events(10, 1), now_ns=1)
    assert (slow.dropped, quick.dropped) == (True, False)
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    assert [r.id for r in await anext(quick)] == [10]
    assert store.open_streams == 1


async def test_requested_past_records_do_not_count_as_falling_behind() -> None:
    store = a_store(kept=100, lag=10)
    store.add(recorded_events(0, 80), now_ns=1)
    stream = store.subscribe("a", count=80)
    store.add(recorded_events(80, 5), now_ns=1)
    assert [len(await anext(stream)), stream.dropped] == [85, False]


async def test_a_reader_is_dropped_when_its_position_leaves_the_ring_buffer() -> None:
    store = a_store(kept=5, lag=1000)
    stream = store.subscribe("a")
    store.add(recorded_events(0, 6), now_ns=1)
    assert stream.dropped


async def test_streams_are_counted_in_all_and_by_host_and_freed_when_they_end() -> None:
    store = a_store()
    store.configure(tracking=True, capacity=100, most_streams=3, most_per_host=2)
    first = store.subscribe("a")
    store.subscribe("a")
    with pytest.raises(TooManyStreams, match=r"host 'a'.*maxStreamsPerHost"):
        store.subscribe("a")
    store.subscribe("b")
    with pytest.raises(TooManyStreams, match=r"event\.maxStreams\b"):
        store.subscribe("c")
    first.close()
    first.close()
    assert store.subscribe("a").dropped is False


async def test_a_lower_stream_limit_closes_no_open_stream() -> None:
    store = a_store()
    stream = store.subscribe("a")
    store.configure(tracking=True, capacity=100, most_streams=0, most_per_host=0)
    store.add(recorded_events(0, 1), now_ns=1)
    assert len(await anext(stream)) == 1


async def test_every_stream_ends_with_the_core() -> None:
    store = a_store()
    waiting = asyncio.ensure_future(anext(store.subscribe("a")))
    await asyncio.sleep(0)
    store.close()
    with pytest.raises(StopAsyncIteration):
        await waiting
    assert store.open_streams == 0


def test_the_story_of_an_application_has_its_records_and_those_of_its_requests() -> None:
    store, app = a_store(kept=100_000), ApplicationId("ns/job")
    place = (AllocationKey("pod"), NodeId("n1"), Resources({"vcore": 1}))
    allocated = AllocationsRecorded(
        RM, app, "kim", "staff", QueuePath("root.a"), Change.ADD, Detail.APP_ALLOC, (place,), asked=True, app_name="job"
    )
    notes: list[Recorded] = [
        EventRecorded(RM, Notice.APPLICATION, app, app_name="job", change=Change.ADD, detail=Detail.APP_NEW),
        EventRecorded(RM, Notice.APPLICATION, "ns/other", app_name="job"),
        AskRecorded(RM, an_ask("pod", app=app), Change.ADD, Detail.APP_REQUEST, "job"),
        EventRecorded(RM, Notice.REQUEST, "pod", "no node fits", app, app_name="job"),
        EventRecorded(RM, Notice.QUEUE, "root.a", "about the queue", app, app_name="job"),
        allocated,
    ]
    store.add(notes, now_ns=1_500_000_000)
    records = [record.noted for record in store.story(app) if record is not None]
    assert [record.detail for record in records] == [
        *(Detail.APP_NEW, Detail.APP_REQUEST, Detail.NONE, Detail.REQUEST_ALLOC, Detail.APP_ALLOC)
    ]
    assert store.last(app)[2] == "1.500 REQUEST pod ns/job no node fits"
    assert [line.split(" ", 1)[1] for line in store.last(app)[:2]] == [
        "APP ns/job APP_NEW",
        "APP ns/job APP_REQUEST pod",
    ]
    assert len(store.last()) == 11, "of everything"


def test_the_last_records_are_few_however_many_there_are() -> None:
    store, app = a_store(kept=100_000), ApplicationId("ns/job")
    places = tuple((AllocationKey(f"p{number}"), NodeId("n"), Resources({})) for number in range(500))
    store.add(
        [AllocationsRecorded(RM, app, "kim", "", QueuePath("root.a"), Change.ADD, Detail.APP_ALLOC, places)], now_ns=1
    )
    assert [line.split()[-1] for line in store.last(app)] == [f"p{number}" for number in range(480, 500)]
    store.add(recorded_events(0, 5_000), now_ns=2)
    assert store.last(app) == [], "a search visits a bounded number of entries"


# -- The ring numbers records from 0 and drops the oldest; compact records are expanded when they are read.

ONE = Resources({"vcore": 1})


def a_record(number: int) -> EventRecorded:
    return EventRecorded(RM, Notice.APPLICATION, f"app-{number}")


def recorded_allocations(count: int, *, requested: bool = False, group: str = "") -> AllocationsRecorded:
    found = tuple((AllocationKey(f"k{i}"), NodeId(f"n{i}"), ONE) for i in range(count))
    app, queue = ApplicationId("app"), QueuePath("root.a")
    return AllocationsRecorded(RM, app, "ann", group, queue, Change.ADD, Detail.APP_ALLOC, found, requested)


def test_allocations_are_read_as_application_node_queue_and_user_records() -> None:
    read = [(r.about, r.subject, r.reference, r.change, r.detail) for r in records_of(recorded_allocations(1))]
    assert read == [
        (Notice.APPLICATION, "app", "k0", Change.ADD, Detail.APP_ALLOC),
        (Notice.NODE, "n0", "k0", Change.ADD, Detail.NODE_ALLOC),
        (Notice.QUEUE, "root.a", "k0", Change.ADD, Detail.QUEUE_ALLOC),
        (Notice.USER_GROUP, "ann", "root.a", Change.ADD, Detail.UG_USER_RESOURCE),
    ]


def test_an_allocation_of_an_ask_also_records_the_removed_ask_and_the_group_usage() -> None:
    read = [(r.subject, r.change, r.detail) for r in records_of(recorded_allocations(1, requested=True, group="staff"))]
    assert read[0] == ("app", Change.REMOVE, Detail.REQUEST_ALLOC)
    assert read[-1] == ("staff", Change.ADD, Detail.UG_GROUP_RESOURCE)


@given(st.integers(0, 5), st.booleans(), st.sampled_from(["", "staff"]))
@settings(max_examples=20)
def test_the_ring_counts_as_many_records_as_are_read(count: int, requested: bool, group: str) -> None:  # noqa: FBT001
    noted = recorded_allocations(count, requested=requested, group=group)
    assert count_of(noted) == len(list(records_of(noted)))


@given(st.integers(1, 12), st.lists(st.integers(0, 4), max_size=10), st.integers(-3, 60), st.integers(0, 60))
@settings(max_examples=60)
def test_a_ring_buffer_equals_a_list_without_its_oldest_records(
    size: int, sizes: list[int], start: int, most: int
) -> None:
    ring, all_records = Ring(size), list[EventRecorded]()
    for number, count in enumerate(sizes):
        noted = recorded_allocations(count) if count else a_record(number)
        ring.extend([noted], number)
        all_records += records_of(noted)
    lowest = max(0, len(all_records) - size)
    assert (ring.lowest_id, ring.next_id, len(ring)) == (lowest, len(all_records), len(all_records) - lowest)
    expected = list(enumerate(all_records))[start : start + most] if start >= lowest else []
    assert [(record.id, record.noted) for record in ring.since(start, most)] == expected


def test_a_smaller_ring_drops_the_oldest_and_a_larger_one_keeps_more_from_then_on() -> None:
    ring = Ring(10)
    for number in range(10):
        ring.extend([a_record(number)], number)
    ring.resize(3)
    assert [record.id for record in ring.since(7, 10)] == [7, 8, 9]
    assert ring.since(6, 10) == []
    ring.resize(5)
    for number in range(10, 14):
        ring.extend([a_record(number)], number)
    assert (ring.lowest_id, ring.next_id) == (9, 14)
    assert [(r.noted.subject, r.at_ns) for r in ring.since(12, 1)] == [("app-12", 12)]


# -- Recorded events are delivered completely to the store, and those for users to the resource manager.

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
