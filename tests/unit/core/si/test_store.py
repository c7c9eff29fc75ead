"""Records are read in batches and followed as streams; slow readers are dropped, and their number is limited."""

import asyncio

import pytest

from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath
from muster_core.model.records import (
    AllocationsRecorded,
    AskRecorded,
    Change,
    Detail,
    EventRecorded,
    Notice,
    Recorded,
)
from muster_core.model.resources import Resources
from muster_core.si.events import EventStore, TooManyStreams
from tests.unit.builders import an_ask
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
