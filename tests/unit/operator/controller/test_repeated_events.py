"""A restart does not repeat events that the API server already has, even with 20,000 waiting pods."""

from muster_operator.controller import recovery
from muster_operator.model.commands import SetCondition
from muster_operator.model.core_messages import (
    CoreEvent,
    CoreEvents,
    EventKind,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from tests.unit.operator.controller.driver import APP, Driver, events, orders, whole
from tests.unit.operator.controller.objects import Raw, a_pod, gang_annotations
from tests.unit.operator.controller.test_recovery import a_member, gathered, placeholder, recovered

REASON = "0/4 nodes are available: 4 Insufficient cpu."
ROOMIER = "0/4 nodes are available: 3 Insufficient cpu."


def that_waited(raw: Raw, message: str = REASON) -> Raw:
    """What the operator before wrote on it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    raw["status"]["conditions"] = [condition]
    return raw


def restarted(raw: Raw) -> Driver:
    driver = gathered(raw)
    recovered(driver)
    return driver


def core_event(name: str, message: str) -> CoreEvents:
    return CoreEvents((CoreEvent(EventKind.REQUEST, f"uid-{name}", "", message),))


def test_a_reason_that_the_pod_condition_already_shows_is_not_reported_again() -> None:
    driver = restarted(that_waited(a_pod("w0", app=APP)))
    assert events(driver.receive(core_event("w0", REASON))) == []
    assert events(driver.receive(core_event("w0", ROOMIER))) == []


def test_another_reason_is_reported() -> None:
    driver = restarted(that_waited(a_pod("w0", app=APP)))
    assert events(driver.receive(core_event("w0", "0/4 nodes are available: 4 Too many pods."))) == [
        ("w0", "FailedScheduling", "FailedScheduling")
    ]


def test_the_reason_is_reported_if_the_pod_has_no_condition() -> None:
    driver = restarted(a_pod("w0", app=APP))
    assert events(driver.receive(core_event("w0", REASON))) == [("w0", "FailedScheduling", "FailedScheduling")]


def test_a_current_condition_is_not_written_again() -> None:
    driver = restarted(that_waited(a_pod("w0", app=APP)))
    change = SchedulingStateChanged(
        APP, driver.ledger.applications[APP].originator.ref.uid, SchedulingState.FAILED, REASON
    )
    driver.now = 10.0
    assert not driver.receive(SchedulingStates((change,)))
    other = SchedulingStateChanged(APP, change.key, SchedulingState.SKIPPED, "the queue is full")
    assert [type(order) for order in orders(driver.receive(SchedulingStates((other,))))] == [SetCondition]


def test_a_gang_that_fits_on_no_node_gets_one_event() -> None:
    impossible = "the gang would not fit even in an empty cluster: 1 of 2 members of task group g would not fit"
    event = CoreEvents((CoreEvent(EventKind.APP, APP, "g", impossible),))
    fresh = restarted(a_member("w0"))
    assert events(fresh.receive(event)) == [("w0", "GangIncomplete", "GangIncomplete")]
    assert events(fresh.receive(event)) == []
    assert events(restarted(that_waited(a_member("w0"), impossible)).receive(event)) == []


def test_an_invalid_gang_definition_is_reported_while_its_pod_is_pending() -> None:
    broken = gang_annotations(member_of="g") | {"yunikorn.apache.org/task-groups": "[7"}
    for node, expected in ((None, [("w0", "GangScheduling", "TaskGroupsError")]), ("n1", [])):
        raw = a_pod("w0", app=APP, annotations=broken, **({"nodeName": node} if node else {}))
        assert events(whole(recovery.begin(gathered(raw).ledger, 0.0))) == expected


def test_gang_progress_is_reported_when_it_increases() -> None:
    driver = gathered(a_member("w0"), placeholder("ph0", nodeName="n1"), placeholder("ph1"))
    recovered(driver)
    assert [event for event in events(driver.wait(3)) if event[2] == "PlaceholderAllocated"] == []
    driver.see(placeholder("ph1", nodeName="n1"))
    assert ("w0", "GangScheduling", "PlaceholderAllocated") in events(driver.wait(5))
