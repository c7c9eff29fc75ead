"""Gated pods, pods with a node, pods that finish, and pods that terminate slowly."""

from typing import Any

import pytest

from muster_operator.controller import recovery
from muster_operator.model.commands import FailPod, Outcome, PostEvent, SetCondition
from muster_operator.model.core_messages import (
    AllocationReleased,
    AllocationReported,
    AllocationSpec,
    ApplicationRejected,
    ApplicationResponse,
    ApplicationSubmitted,
    AskReleased,
    AskSubmitted,
    ClusterObjectReported,
    NodeCreated,
)
from muster_operator.model.ids import PodUid
from tests.unit.operator.controller.driver import APP, events, live, orders, requested_keys, waiting, whole
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import Raw, a_container, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Simulation

GATES = [{"name": "example.com/quota"}, {"name": "example.com/data"}]


def reported(out: Outcome) -> list[AllocationSpec]:
    return [item.allocation for item in out.requests if isinstance(item, AllocationReported)]


def foreign(name: str, node: str, **spec: Any) -> Raw:
    return a_pod(name, schedulerName="default-scheduler", nodeName=node, **spec)


def leaving(raw: Raw) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}}


def test_all_gates_are_named_and_the_pod_waits_for_the_last_of_them() -> None:
    driver = live()
    [event] = driver.see(a_pod("w0", app=APP, schedulingGates=GATES)).commands
    assert isinstance(event, PostEvent)
    assert event.note == "waiting for scheduling gates: example.com/quota, example.com/data"
    assert not driver.see(a_pod("w0", app=APP, schedulingGates=GATES[1:]))
    assert [type(item) for item in driver.see(a_pod("w0", app=APP, schedulingGates=[])).requests] == [
        ApplicationSubmitted,
        AskSubmitted,
    ]


def test_a_gated_pod_that_is_deleted_leaves_nothing() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, schedulingGates=GATES))
    assert not driver.gone("w0")
    assert (driver.ledger.noticed, driver.ledger.applications) == (set(), {})


def test_an_error_of_a_pod_is_reported_even_if_its_gates_were_reported_before() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, schedulingGates=GATES))
    driver.see(a_pod("w0", app=APP))
    long = a_pod("w0", annotations={"yunikorn.apache.org/app-id": "x" * 64})
    assert events(driver.see(long)) == [("w0", "TaskRejected", "TaskRejected")]


CLAIMS = [{"name": "gpu", "resourceClaimName": "mine"}, {"name": "nic", "resourceClaimTemplateName": "any"}]


def test_a_pod_with_resource_claims_is_never_requested_without_the_setting() -> None:
    driver = live()
    condition, event = driver.see(a_pod("w0", app=APP, resourceClaims=CLAIMS)).commands
    assert isinstance(condition, SetCondition)
    assert isinstance(event, PostEvent)
    assert (condition.reason, event.reason) == ("UnsupportedResourceClaims", "UnsupportedResourceClaims")
    assert event.note.startswith('resource claims (DRA) need the setting kubernetes.deviceClaims: "true"')
    assert condition.message == event.note
    pod = a_pod("w0", app=APP, resourceClaims=CLAIMS)
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": condition.reason, "message": condition.message}
    ]
    assert not driver.see(pod)
    assert not driver.wait(3600)
    again = live()
    assert [type(command) for command in again.see(pod).commands] == [PostEvent]
    assert not driver.gone("w0")
    assert (driver.ledger.noticed, driver.ledger.applications) == (set(), {})


def test_a_pod_with_resource_claims_that_another_client_bound_counts_as_used() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, resourceClaims=CLAIMS, nodeName="n1"))
    assert [one.node for one in reported(driver.accepted())] == ["n1"]


def test_a_gated_pod_that_was_bound_anyway_counts_as_used() -> None:
    driver = live()
    driver.see(a_pod("w0", app=APP, schedulingGates=GATES, nodeName="n1"))
    assert [one.node for one in reported(driver.accepted())] == ["n1"]


@pytest.mark.parametrize("late", [False, True])
def test_a_gated_member_of_a_gang_takes_over_its_placeholder_when_its_gates_are_removed(late: bool) -> None:  # noqa: FBT001
    """It is reserved like the others, and replaces its placeholder after its gates are removed, at any time."""
    simulation = Simulation()
    simulation.kubernetes.add_nodes(2)
    simulation.start()
    annotations = gang_annotations(a_group("g", 2), member_of="g")
    gated = a_pod("gated", app="job", annotations=annotations, schedulingGates=GATES)
    simulation.kubernetes.add(a_pod("first", app="job", annotations=annotations), gated)
    for _ in range(0 if late else 12):
        simulation.step()
    if late:
        simulation.run()
        assert simulation.kubernetes.node_of("first")
        assert len(simulation.kubernetes.placeholders()) == 1
    gated["spec"]["schedulingGates"] = []
    simulation.kubernetes.edit("uid-gated")
    simulation.run()
    assert simulation.kubernetes.node_of("gated")
    assert simulation.kubernetes.placeholders() == []


def test_a_pod_whose_user_set_its_node_is_counted_and_never_bound() -> None:
    """It has what it has, also where that is too much."""
    driver = live()
    huge = a_pod("w0", app=APP, nodeName="n1", containers=[a_container(cpu="1000")])
    driver.see(huge)
    out = driver.accepted()
    assert [(one.ask.key, one.node, one.ask.resources["vcore"]) for one in reported(out)] == [
        ("uid-w0", "n1", 1_000_000)
    ]
    assert orders(out) == []


def test_a_bound_pod_of_a_rejected_application_still_counts_as_used() -> None:
    driver = live()
    seen = driver.see(a_pod("w0", app=APP, nodeName="n1"))
    assert [(one.ask.key, one.ask.app, one.node) for one in reported(seen)] == [("uid-w0", None, "n1")]
    out = driver.receive(ApplicationResponse(rejected=(ApplicationRejected(APP, "no queue"),)))
    assert out.requests == []
    assert not any(isinstance(command, FailPod) for command in out.commands)
    late = driver.see(a_pod("w1", app=APP, nodeName="n1"))
    assert [(one.ask.key, one.ask.app) for one in reported(late)] == [("uid-w1", None)]
    driver.see(a_pod("w2", app=APP))
    bound = driver.see(a_pod("w2", app=APP, nodeName="n1"))
    assert [(one.ask.key, one.ask.app) for one in reported(bound)] == [("uid-w2", None)]
    assert driver.gone("w0").requests == [AllocationReleased(None, PodUid("uid-w0"))]
    for name in ("w1", "w2"):
        assert [type(item) for item in driver.gone(name).requests] == [AllocationReleased]
    assert driver.ledger.applications == {}


@pytest.mark.parametrize("owner, kind", [({"kind": "Node", "name": "n1"}, "static"), (None, "default")])
def test_mirror_pods_and_pods_of_another_scheduler_count_as_used(owner: Raw | None, kind: str) -> None:
    driver = live()
    raw = foreign("other", "n1")
    raw["metadata"]["ownerReferences"] = [owner] if owner else []
    [reported_pod] = reported(driver.see(raw))
    assert (reported_pod.ask.app, reported_pod.ask.tags["foreign"], reported_pod.node) == (None, kind, "n1")
    assert not driver.see(raw)
    assert [type(item) for item in driver.see(raw, phase="Succeeded").requests] == [AllocationReleased]


def test_a_static_pod_with_our_scheduler_name_counts_in_an_application() -> None:
    """The kubelet runs it on its node without a scheduler."""
    driver = live()
    raw = a_pod("static-n1", app=APP, nodeName="n1")
    raw["metadata"] |= {
        "ownerReferences": [{"kind": "Node", "name": "n1"}],
        "annotations": {"kubernetes.io/config.mirror": "x"},
    }
    driver.see(raw)
    assert len(reported(driver.accepted())) == 1


def test_a_foreign_pod_that_is_resized_is_reported_again() -> None:
    driver = live()
    driver.see(foreign("other", "n1"))
    [reported_pod] = reported(driver.see(foreign("other", "n1", containers=[a_container(cpu="3")])))
    assert reported_pod.ask.resources["vcore"] == 3000


def test_foreign_and_managed_pods_on_an_unknown_node_are_reported_with_it() -> None:
    driver = live("n1")
    driver.see(foreign("other", "n2"))
    driver.see(a_pod("w0", app=APP, nodeName="n2"))
    assert not driver.accepted().requests
    assert driver.ledger.awaiting_node == {"n2": {"uid-other", "uid-w0"}}
    driver.gone("other")
    [created] = driver.fact(node_seen(a_node("n2"))).requests
    assert isinstance(created, NodeCreated)
    assert [one.ask.key for one in created.existing] == ["uid-w0"]
    assert driver.ledger.awaiting_node == {}


def test_thousands_of_finished_pods_leave_nothing() -> None:
    driver = live()
    for number in range(3000):
        assert not driver.see(a_pod(f"done-{number}", app=APP, nodeName="n1"), phase="Succeeded")
        assert not driver.see(foreign(f"other-{number}", "n1"), phase="Failed")
    ledger = driver.ledger
    kept = (ledger.pods, ledger.foreign, ledger.tasks, ledger.applications, ledger.untracked_pods, ledger.noticed)
    assert not any(kept)
    assert [type(item) for item in whole(recovery.begin(ledger, 0.0)).requests] == [
        ClusterObjectReported
    ]  # of the namespace


def test_a_terminating_pod_keeps_its_resources_until_its_containers_have_stopped() -> None:
    """A finalizer keeps the object; its resources are free when the kubelet reports that all containers stopped."""
    driver = live()
    raw = waiting(driver)
    driver.allocated("uid-w0")
    bound = {**raw, "spec": {**raw["spec"], "nodeName": "n1"}}
    driver.see(bound, phase="Running")
    update = driver.see(leaving(bound), phase="Running").requests
    assert [type(item) for item in update] == [AllocationReported]
    assert not driver.see(leaving(bound), phase="Running").requests
    assert [type(item) for item in driver.see(leaving(bound), phase="Failed").requests] == [AllocationReleased]
    assert not driver.see(leaving(bound), phase="Failed")
    assert not driver.gone("w0")


def test_a_deleted_waiting_pod_with_a_finalizer_releases_its_request_only_once() -> None:
    driver = live()
    raw = waiting(driver)
    assert [type(item) for item in driver.see(leaving(raw)).requests] == [AskReleased]
    assert not driver.see(leaving(raw))
    assert not driver.gone("w0")


def test_a_pod_deleted_between_allocation_and_bind_releases_its_allocation() -> None:
    driver = live()
    raw = waiting(driver)
    driver.allocated("uid-w0")
    assert [type(item) for item in driver.see(leaving(raw)).requests] == [AllocationReleased]


def test_a_job_retry_requests_a_new_pod_while_the_others_run() -> None:
    driver = live()
    for name in ("try-0", "side-0"):
        waiting(driver, name)
        driver.allocated(f"uid-{name}")
        driver.see(a_pod(name, app=APP, nodeName="n1"))
    failed = driver.see(a_pod("try-0", app=APP, nodeName="n1"), phase="Failed")
    assert [type(item) for item in failed.requests] == [AllocationReleased]
    assert requested_keys(driver.see(a_pod("try-1", app=APP))) == ["uid-try-1"]
