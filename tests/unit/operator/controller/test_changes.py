"""A pod that changes later: resized, relabelled, with another priority class, deleted and recreated (ADR 0010)."""

from typing import Any

import pytest

from muster_operator.model.cluster_events import PriorityClassSeen
from muster_operator.model.commands import BindPod, Outcome, PostEvent
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    AllocationSpec,
    ApplicationRemoved,
    ApplicationSubmitted,
    AskCancelled,
    AskRejected,
    AskReleased,
    AskSubmitted,
    NodeCreated,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, PodUid
from muster_si import keys
from tests.unit.operator.controller.driver import (
    APP,
    Driver,
    done,
    events,
    live,
    orders,
    requested_keys,
    submitted,
    waiting,
)
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import APP_ID, QUEUE, Raw, a_container, a_node, a_pod


def running(driver: Driver, name: str = "w0") -> Raw:
    """A pod of APP on n1, as Kubernetes shows it."""
    waiting(driver, name)
    driver.allocated(f"uid-{name}")
    raw = a_pod(name, app=APP, nodeName="n1")
    driver.see(raw)
    return raw


def resized(raw: Raw, cpu: str) -> Raw:
    """The same pod with other requests, as after a write to its resize subresource."""
    return {**raw, "spec": {**raw["spec"], "containers": [a_container(cpu=cpu, memory="1Gi")]}}


def labelled(raw: Raw, **labels: str) -> Raw:
    metadata = {**raw["metadata"], "labels": {**raw["metadata"]["labels"], **labels}}
    return {**raw, "metadata": metadata}


def of_app(raw: Raw, app: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "labels": {APP_ID: app}}}


def reported_again(out: Outcome) -> AllocationSpec:
    [requests] = out.requests
    assert isinstance(requests, AllocationReported)
    return requests.allocation


def notes(out: Outcome) -> list[str]:
    return [command.note for command in out.commands if isinstance(command, PostEvent)]


@pytest.mark.parametrize("cpu, milli", [("2", 2000), ("500m", 500)])
def test_a_bound_pod_that_is_resized_is_reported_again_with_its_key_and_allocation_id(cpu: str, milli: int) -> None:
    driver = live()
    raw = running(driver)
    updates = reported_again(driver.see(resized(raw, cpu)))
    assert (updates.ask.key, updates.allocation_id, updates.node, updates.ask.app) == ("uid-w0", "uid-w0-0", "n1", APP)
    assert updates.ask.resources["vcore"] == milli
    assert not driver.see(resized(raw, cpu))


def test_a_resize_is_reported_when_requested_when_applied_and_when_infeasible() -> None:
    """KEP-1287: until then the larger of the two counts."""
    driver = live()
    raw = resized(running(driver), "500m")
    before: dict[str, Any] = {
        "name": "main",
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
    }
    assert not driver.see(raw, containerStatuses=[before])  # a smaller request does not change the allocation
    now = {"name": "main", "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}}
    assert reported_again(driver.see(raw, containerStatuses=[now])).ask.resources["vcore"] == 500
    huge = resized(raw, "1000")
    assert reported_again(driver.see(huge, containerStatuses=[now])).ask.resources["vcore"] == 1_000_000
    infeasible = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    out = driver.see(huge, containerStatuses=[now], conditions=infeasible)
    assert reported_again(out).ask.resources["vcore"] == 500


def test_a_pod_that_is_resized_between_decision_and_bind_is_reported_as_an_allocation() -> None:
    driver = live()
    raw = waiting(driver)
    driver.allocated("uid-w0")
    assert reported_again(driver.see(resized(raw, "3"))).ask.resources["vcore"] == 3000


def test_a_request_update_that_the_core_rejects_after_allocating_is_reported_as_an_allocation() -> None:
    """The core decided on the old request before it received the update, which it rejected."""
    driver = live()
    raw = waiting(driver)
    assert requested_keys(driver.see(resized(raw, "3"))) == ["uid-w0"]
    driver.allocated("uid-w0")
    out = driver.receive(AllocationResponse(rejected_asks=(AskRejected(APP, PodUid("uid-w0"), "allocated already"),)))
    assert reported_again(out).ask.resources["vcore"] == 3000
    assert events(out) == []


def test_a_label_of_a_running_pod_reaches_the_core() -> None:
    """Selectors of other pods read it."""
    driver = live()
    raw = running(driver)
    assert reported_again(driver.see(labelled(raw, role="db"))).ask.tags["kubernetes.io/label/role"] == "db"
    annotated = {**raw, "metadata": {**labelled(raw, role="db")["metadata"], "annotations": {"note": "x"}}}
    assert not driver.see(annotated)


def test_for_a_pod_that_the_core_released_only_its_termination_is_reported() -> None:
    driver = live()
    raw = running(driver)
    driver.released("uid-w0", TerminationType.TIMEOUT)
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not driver.see(raw).requests
    assert [type(item) for item in driver.gone("w0").requests] == [AllocationReleased]


def test_the_deletion_time_of_a_preempted_pod_is_reported_once() -> None:
    """The core selects no other victim before this time."""
    driver = live()
    raw = running(driver)
    driver.released("uid-w0", TerminationType.PREEMPTED_BY_SCHEDULER)
    assert not driver.see(labelled(raw, role="db")).requests, "no other change of a victim matters"
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reported_again(driver.see(raw)).ask.tags[keys.TAG_DELETION_TIME] == "1767225600"
    assert not driver.see({**raw, "status": {**raw["status"], "phase": "Running"}}).requests
    assert [type(item) for item in driver.gone("w0").requests] == [AllocationReleased]


def test_a_resize_without_its_node_is_reported_when_the_node_is_added() -> None:
    driver = live("n2")
    raw = a_pod("w0", app=APP, nodeName="n1")
    driver.see(raw)
    driver.accepted()
    assert not driver.see(resized(raw, "3")).requests
    [created] = driver.fact(node_seen(a_node("n1"))).requests
    assert isinstance(created, NodeCreated)
    assert [one.ask.resources["vcore"] for one in created.existing] == [3000]


def test_a_priority_class_that_is_seen_after_its_pods_is_reported_with_each_of_them() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, priorityClassName="batch"))
    driver.accepted()
    driver.allocated("uid-w0")
    driver.see(a_pod("w1", app=APP, priorityClassName="batch"))
    driver.see(a_pod("w2", app=APP))
    opted = {"yunikorn.apache.org/allow-preemption": "true"}
    driver.see(a_pod("w3", app=APP, priorityClassName="batch", annotations=opted))
    allocated, ask = driver.fact(PriorityClassSeen("batch", allow_preemption=False)).requests
    assert isinstance(allocated, AllocationReported)
    assert isinstance(ask, AskSubmitted)
    assert (allocated.allocation.ask.key, ask.ask.key) == ("uid-w0", "uid-w1")
    assert {allocated.allocation.ask.allow_preempt_self, ask.ask.allow_preempt_self} == {False}
    assert not driver.fact(PriorityClassSeen("batch", allow_preemption=False))


def test_a_waiting_pod_whose_application_id_changes_moves_to_that_application() -> None:
    driver = live()
    raw = waiting(driver)
    waiting(driver, "w1")
    out = driver.see(of_app(raw, "other"))
    assert out.requests[0] == AskReleased(APP, PodUid("uid-w0"), TerminationType.STOPPED_BY_RM)
    assert isinstance(out.requests[1], ApplicationSubmitted)
    assert out.requests[1].spec.app == "dev/other"
    late = driver.allocated("uid-w0")  # decided for the old application before it read that
    assert orders(late) == []
    assert [type(item) for item in late.requests] == [AllocationReleased]


def test_an_unanswered_application_is_removed_when_its_last_waiting_pod_moves_away() -> None:
    driver = live()
    raw = a_pod("w0", app=APP)
    driver.see(raw)
    assert [type(item) for item in driver.see(of_app(raw, "other")).requests] == [
        AskReleased,
        ApplicationRemoved,
        ApplicationSubmitted,
        AskSubmitted,
    ]


def test_an_allocated_pod_stays_in_its_application_and_reports_the_ignored_id_once() -> None:
    driver = live()
    raw = of_app(running(driver), "other")
    out = driver.see(raw)
    assert reported_again(out).ask.app == APP
    assert ["application ID other is ignored" in note for note in notes(out)] == [True]
    assert not driver.see(raw)
    assert driver.gone("w0").requests[0] == AllocationReleased(
        APP, PodUid("uid-w0"), TerminationType.STOPPED_BY_RM, AllocationId("uid-w0-0")
    )


def test_a_queue_that_is_set_on_a_pod_later_is_ignored_and_reported_once() -> None:
    driver = live()
    raw = labelled(waiting(driver), **{QUEUE: "root.fast"})
    assert any("queue root.fast is ignored" in note for note in notes(driver.see(raw)))
    assert not notes(driver.see(raw))


def test_an_application_id_that_becomes_too_long_is_rejected() -> None:
    driver = live()
    raw = waiting(driver)
    raw["metadata"]["annotations"] = {APP_ID: "x" * 64}
    raw["metadata"]["labels"] = {}
    out = driver.see(raw)
    assert events(out) == [("w0", "TaskRejected", "TaskRejected")]
    assert [type(item) for item in out.requests] == [AskReleased]


def test_the_deletion_of_a_pod_does_not_affect_a_new_pod_of_the_same_name() -> None:
    """A StatefulSet creates the next pod as soon as the name is free; the watch may report both in any order."""
    driver = live()
    running(driver, "db-0")
    again = a_pod("db-0", app=APP)
    again["metadata"]["uid"] = "uid-second"
    assert requested_keys(driver.see(again)) == ["uid-second"]
    stopped = TerminationType.STOPPED_BY_RM
    first = AllocationReleased(APP, PodUid("uid-db-0"), stopped, AllocationId("uid-db-0-0"))
    assert driver.gone("db-0").requests == [first]
    [bind] = orders(driver.allocated("uid-second"))
    assert isinstance(bind, BindPod)
    assert bind.pod.uid == "uid-second"
    assert events(driver.result(done(bind))) == [("db-0", "Scheduled", "Scheduled")]
    assert not driver.gone("db-0")
    assert driver.ledger.tasks.keys() == {"uid-second"}


def test_pods_that_were_requested_for_a_completed_application_begin_another_one() -> None:
    """Late answers to their earlier requests have no effect, because the other one has another ID in the core."""
    driver = live()
    running(driver)
    driver.gone("w0")
    driver.see(a_pod("w1", app=APP))
    driver.see(a_pod("w2", app=APP))
    assert submitted(driver.updated("Completed")) == ["dev#1/job"]
    cancelled = AllocationResponse(cancelled_asks=(AskCancelled(APP, PodUid("uid-w1"), TerminationType.TIMEOUT),))
    assert not driver.receive(cancelled)
    assert not driver.receive(AllocationResponse(rejected_asks=(AskRejected(APP, PodUid("uid-w2"), "not known"),)))
    assert requested_keys(driver.accepted(AppId("dev#1/job"))) == ["uid-w1", "uid-w2"]


def test_a_waiting_pod_that_becomes_too_large_is_rejected_until_it_changes_again() -> None:
    driver = live()
    raw = waiting(driver)
    labels = {f"example.com/{number:050}": "v" * 63 for number in range(1000)}
    out = driver.see(labelled(raw, **labels))
    assert [requests.key for requests in out.requests if isinstance(requests, AskReleased)] == ["uid-w0"]
    assert events(out) == [("w0", "TaskRejected", "TaskRejected")]
    assert notes(out)[0].startswith("labels: ")
    assert "more than 65536 in total; write fewer or shorter entries" in notes(out)[0]
    assert events(driver.see(labelled(raw, **labels, one="more"))) == []
    assert requested_keys(driver.see(raw)) == ["uid-w0"]


def test_an_allocated_pod_that_becomes_too_large_keeps_its_last_request() -> None:
    driver = live()
    raw = {**waiting(driver)}
    driver.allocated("uid-w0")
    labels = {f"example.com/{number:050}": "v" * 63 for number in range(1000)}
    assert not driver.see(labelled(raw, **labels))
