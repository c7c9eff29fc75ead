"""The JSON of an event record has the names and numbers that clients expect."""

import pytest

from muster_core.model.records import Change, Detail, EventRecorded, Notice
from muster_core.model.resources import Resources
from muster_core.si import events
from muster_core.si.events import Record
from muster_si import si_pb2
from tests.unit.core.messages import RM


def test_a_record_has_all_its_fields() -> None:
    amount = Resources({"vcore": 10, "memory": 5})
    noted = EventRecorded(RM, Notice.APPLICATION, "app", "why", "pod", Change.REMOVE, Detail.ALLOC_PREEMPT, amount)
    assert events.as_json(Record(3, 77, noted)) == {
        "type": 2,
        "objectID": "app",
        "referenceID": "pod",
        "message": "why",
        "timestampNano": 77,
        "eventChangeType": 3,
        "eventChangeDetail": 501,
        "resource": {"resources": {"vcore": {"value": 10}, "memory": {"value": 5}}},
    }


def test_empty_fields_are_omitted_except_the_resource() -> None:
    assert events.as_json(Record(0, 5, EventRecorded(RM, Notice.USER_GROUP, "ann"))) == {
        "type": 5,
        "objectID": "ann",
        "timestampNano": 5,
        "eventChangeType": 0,
        "resource": {"resources": {}},
    }


@pytest.mark.parametrize("length, expected", [(1024, 1024), (1025, 1024)])
def test_a_message_is_cut_at_1024_characters(length: int, expected: int) -> None:
    text = events.text("x" * length)
    assert (len(text), text.endswith("...")) == (expected, length > 1024)


def test_all_details_but_two_are_supported_with_their_interface_numbers() -> None:
    known = set(si_pb2.EventRecord.ChangeDetail.keys())
    assert known - {detail.value for detail in Detail} == {"APP_STARTING", "NODE_READY"}
    assert {events.DETAILS[detail] for detail in Detail} < set(si_pb2.EventRecord.ChangeDetail.values())
