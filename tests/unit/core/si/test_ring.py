"""The ring numbers records from 0 and drops the oldest; compact records are expanded when they are read."""

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, QueuePath
from muster_core.model.records import AllocationsRecorded, Change, Detail, EventRecorded, Notice, count_of, records_of
from muster_core.model.resources import Resources
from muster_core.si.events import Ring
from tests.unit.core.messages import RM

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
