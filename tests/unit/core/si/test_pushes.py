"""Event records for users are sent to the resource manager at a limited rate, with the number of suppressed ones."""

import pytest

from muster_core.model.ids import RmId
from muster_core.model.records import Change, Detail, EventRecorded, Notice
from muster_core.si.events import PushFilter, is_pushed
from tests.unit.core.messages import RM

SECOND = 1_000_000_000


def a_record(number: int, about: Notice = Notice.REQUEST, message: str = "no room", rm: RmId = RM) -> EventRecorded:
    return EventRecorded(rm, about, f"pod-{number}", message)


@pytest.mark.parametrize(
    "noted, expected",
    [
        (a_record(1), True),
        (EventRecorded(RM, Notice.QUEUE, "root", "odd setting"), True),
        (EventRecorded(RM, Notice.NODE, "n1", change=Change.ADD), True),
        (EventRecorded(RM, Notice.NODE, "n1", change=Change.REMOVE, detail=Detail.NODE_DECOMISSION), True),
        (EventRecorded(RM, Notice.NODE, "n1", change=Change.ADD, detail=Detail.NODE_ALLOC), False),
        (EventRecorded(RM, Notice.NODE, "n1", change=Change.SET, detail=Detail.NODE_SCHEDULABLE), False),
        (EventRecorded(RM, Notice.APPLICATION, "a", change=Change.ADD, detail=Detail.APP_NEW), False),
        (EventRecorded(RM, Notice.APPLICATION, "a", detail=Detail.APP_CANNOTRUN_QUEUE), False),
    ],
)
def test_messages_and_added_or_removed_nodes_are_reported(noted: EventRecorded, expected: bool) -> None:  # noqa: FBT001
    assert is_pushed(noted) is expected


def test_a_repeated_message_is_reported_once_in_15_s_and_then_with_its_count() -> None:
    pushes = PushFilter()
    pushed = [pushes.chosen([a_record(1)], at * SECOND) for at in (0, 5, 14, 15, 16)]
    assert [len(each) for each in pushed] == [1, 0, 0, 1, 0]
    assert pushed[3][0].message == "no room (repeated 2 times since the last report)"
    assert pushes.held_back == 3


def test_different_messages_and_objects_are_reported_immediately() -> None:
    pushed = PushFilter().chosen(
        [a_record(1), a_record(1, message="another"), a_record(2), a_record(1, rm=RmId("other"))], 0
    )
    assert len(pushed) == 4


def test_events_per_2_s_are_limited_and_one_kind_gets_at_most_half_of_the_limit() -> None:
    pushes = PushFilter(capacity=10)
    requests = pushes.chosen([a_record(i) for i in range(20)], 0)
    nodes = pushes.chosen([a_record(i, Notice.NODE) for i in range(3)], SECOND)
    rest = pushes.chosen([a_record(i, Notice.QUEUE) for i in range(9)], SECOND)
    assert (len(requests), len(nodes), len(rest)) == (5, 3, 2)


def test_the_next_event_of_a_kind_reports_how_many_were_suppressed() -> None:
    pushes = PushFilter(capacity=10)
    pushes.chosen([a_record(i) for i in range(20)], 0)
    [node] = pushes.chosen([a_record(50, Notice.NODE)], 2 * SECOND)
    first, second = pushes.chosen([a_record(30), a_record(31)], 2 * SECOND)
    assert node.message == "no room"
    assert first.message == "no room (15 earlier events of this kind were suppressed)"
    assert second.message == "no room"
    assert (pushes.sent, pushes.held_back) == (8, 15)


def test_events_are_reported_again_after_a_resource_manager_restarts() -> None:
    pushes = PushFilter()
    pushes.chosen([a_record(1), a_record(1, rm=RmId("other"))], 0)
    pushes.forget(RM)
    assert len(pushes.chosen([a_record(1), a_record(1, rm=RmId("other"))], 1)) == 1
