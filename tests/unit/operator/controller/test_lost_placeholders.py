"""Placeholders that a kubelet rejects, whose name is in use, or that are no longer needed."""

import pytest

from muster_operator.model import names
from muster_operator.model.commands import DeletePod, Outcome
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    AskSubmitted,
    Released,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, PodUid
from muster_si import keys
from tests.unit.operator.controller.driver import APP, done, events, live, orders, refused, requested_keys
from tests.unit.operator.controller.gang import a_member, creates, pod_of, reserving, uid


def test_a_rejected_placeholder_is_recreated_under_a_new_name_and_temporarily_avoids_the_node() -> None:
    """The gang continues to reserve."""
    driver, placeholders = reserving()
    first = placeholders[0]
    driver.result(done(orders(driver.allocated(uid(first)))[0]))
    first["spec"]["nodeName"] = "n1"
    out = driver.see(first, phase="Failed", reason="UnexpectedAdmissionError", message="no GPU is left")
    (again,) = creates(out)
    assert again.spec.name not in {raw["metadata"]["name"] for raw in placeholders}
    assert [command.pod.uid for command in out.commands if isinstance(command, DeletePod)] == [uid(first)]
    assert [item.key for item in out.requests if isinstance(item, AllocationReleased)] == [uid(first)]
    assert events(out) == [("w0", "MemberRejected", "MemberRejected")]
    assert avoided(driver.see(pod_of(again))) == "n1"
    assert avoided(driver.wait(60)) is None


def avoided(outcome: Outcome) -> str | None:
    """The nodes that the only ask of this outcome avoids."""
    (ask,) = (item.ask for item in outcome.requests if isinstance(item, AskSubmitted))
    return ask.tags.get(keys.TAG_AVOID_NODES)


def test_a_placeholder_name_that_a_users_pod_has_is_replaced() -> None:
    """The gang continues with another one; its other placeholders are not affected."""
    driver = live()
    driver.see(a_member())
    first, second = creates(driver.accepted())
    driver.result(refused(first, 409, "already exists"))
    driver.result(done(second))
    driver.see(pod_of(second))
    (again,) = creates(driver.wait(10))
    assert again.spec.name not in {first.spec.name, second.spec.name}
    assert requested_keys(driver.see(pod_of(again))) == [f"ph-{again.spec.name}"]


def test_a_placeholder_that_was_created_before_a_crash_is_found_by_its_name() -> None:
    driver = live()
    driver.see(a_member())
    first, second = creates(driver.accepted())
    driver.result(refused(first, 409, "already exists"))
    driver.see(pod_of(first))
    driver.result(done(second))
    driver.see(pod_of(second))
    assert creates(driver.wait(10)) == []


def test_a_gang_gives_up_if_all_placeholder_names_are_taken() -> None:
    driver = live()
    driver.see(a_member(count=1))
    (create,) = creates(driver.accepted())
    for _ in range(4):
        driver.result(refused(create, 409, "already exists"))
        (create,) = creates(driver.wait(10))
    driver.result(refused(create, 409, "already exists"))
    out = driver.wait(10)
    assert ("w0", "GangScheduling", "PlaceholderCreateFailed") in events(out)


def test_a_recreated_placeholder_is_not_waited_for_once_the_application_runs() -> None:
    """The Running state and the deletion of a placeholder cross."""
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    (again,) = creates(driver.gone_uid(PodUid(uid(placeholders[0]))))
    assert requested_keys(driver.updated("Running")) == ["uid-w0", "uid-w1"]
    assert [type(command) for command in driver.see(pod_of(again)).commands] == [DeletePod]


def test_a_placeholder_request_that_arrives_too_late_does_not_fail_the_gang() -> None:
    """The request of the recreated placeholder was already sent: the core releases it."""
    driver, placeholders = reserving(parameters="gangSchedulingStyle=Hard")
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    (again,) = creates(driver.gone_uid(PodUid(uid(placeholders[0]))))
    late = pod_of(again)
    driver.see(late)
    assert [type(command) for command in driver.cancelled(uid(late)).commands] == [DeletePod]
    assert creates(driver.gone_uid(PodUid(uid(late)))) == []
    assert requested_keys(driver.updated("Running")) == ["uid-w0", "uid-w1"]


def test_a_member_that_cannot_be_bound_takes_over_its_own_reservation() -> None:
    """The gang keeps its reservation. Without it the member would be queued behind all other requests."""
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    driver.updated("Running")
    driver.released(uid(placeholders[0]), TerminationType.PLACEHOLDER_REPLACED)
    driver.gone_uid(PodUid(uid(placeholders[0])))
    (bind,) = orders(driver.allocated("uid-w0"))
    place, gone, again = driver.result(refused(bind)).requests
    assert isinstance(place, AllocationReported)
    assert (place.allocation.ask.key, place.allocation.ask.placeholder) == ("uid-w0/place", True)
    assert isinstance(gone, AllocationReleased)
    assert isinstance(again, AskSubmitted)
    assert (again.ask.key, again.ask.tags[keys.TAG_AVOID_NODES]) == ("uid-w0", "n1")
    key, replaced = PodUid("uid-w0/place"), TerminationType.PLACEHOLDER_REPLACED
    confirmed = driver.released(key, replaced).requests
    assert confirmed == [AllocationReleased(APP, key, replaced, AllocationId(f"{key}-0"))]
    assert driver.ledger.places == {}


@pytest.mark.parametrize("at_once", [False, True])
def test_a_placeholder_that_need_not_end_first_is_deleted_by_force(*, at_once: bool) -> None:
    """The delete is also repeated by force, and the release is confirmed when the pod is gone."""
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    driver.updated("Running")
    key, replaced = PodUid(uid(placeholders[0])), TerminationType.PLACEHOLDER_REPLACED
    order = Released(APP, key, replaced, AllocationId(f"{key}-0"), at_once=at_once)
    [delete] = orders(driver.receive(AllocationResponse(released=(order,))))
    assert isinstance(delete, DeletePod)
    assert delete.force is at_once
    driver.result(done(delete))
    assert orders(driver.wait(10)) == [delete], "it still exists and is not terminating"
    assert driver.gone_uid(key).requests == [AllocationReleased(APP, key, replaced, AllocationId(f"{key}-0"))]


def test_a_placeholder_that_is_rejected_during_its_replacement_counts_as_released() -> None:
    """Its member uses the reservation, so none is kept."""
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.result(done(orders(driver.allocated(uid(raw)))[0]))
    driver.updated("Running")
    terminating, replaced = placeholders[0], TerminationType.PLACEHOLDER_REPLACED
    driver.released(uid(terminating), replaced)
    requests = driver.see(terminating, phase="Failed", reason="OutOfcpu").requests
    assert [(type(item), item.termination) for item in requests if isinstance(item, AllocationReleased)] == [
        (AllocationReleased, replaced)
    ]
    assert len(requests) == 1


def test_a_placeholder_whose_annotation_was_removed_still_belongs_to_its_gang() -> None:
    driver, placeholders = reserving()
    for raw in placeholders:
        driver.allocated(uid(raw))
    driver.updated(keys.APP_RUNNING)
    first, second = placeholders
    del first["metadata"]["annotations"][names.ANNOTATION_PLACEHOLDER]
    driver.see(first)
    first["spec"]["nodeName"] = second["spec"]["nodeName"] = "n1"
    driver.see(first)
    assert requested_keys(driver.see(second)) == ["uid-w0", "uid-w1"]
    driver.gone_uid(PodUid(uid(first)))
    driver.gone_uid(PodUid(uid(second)))
    assert driver.ledger.applications[APP].placeholders == {}
