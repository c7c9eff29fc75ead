"""Messages that cross: a response to an older request is not applied to the current one."""

import pytest

from muster_operator.controller.reconciliation import compare
from muster_operator.model.cluster_events import NodeGone
from muster_operator.model.commands import BindPod, Outcome
from muster_operator.model.core_messages import (
    AllocationReported,
    AllocationResponse,
    AskRejected,
    Inventory,
    InventoryPart,
    NodeCreated,
    NodeResponse,
)
from muster_operator.model.ids import NodeName, PodUid
from muster_si import keys
from tests.unit.operator.controller.driver import APP, live, live_with_pod, orders, refused, requested_keys, waiting
from tests.unit.operator.controller.gang import reserving, uid
from tests.unit.operator.controller.kubernetes import node_seen
from tests.unit.operator.controller.objects import a_container, a_node, a_pod


def reported(out: Outcome) -> list[PodUid]:
    return [item.allocation.ask.key for item in out.requests if isinstance(item, AllocationReported)]


def test_the_rejection_of_a_superseded_request_does_not_block_the_bind() -> None:
    """Resized while the core decided on a deleted node: only the third request of the pod counts."""
    driver = live("n1", "n2")
    raw = waiting(driver)
    raw["spec"]["containers"] = [a_container(cpu="2")]
    assert requested_keys(driver.see(raw)) == ["uid-w0"]
    driver.fact(NodeGone(NodeName("n1")))
    assert requested_keys(driver.allocated("uid-w0", "n1")) == ["uid-w0"]
    driver.receive(AllocationResponse(rejected_asks=(AskRejected(APP, PodUid("uid-w0"), "allocated already"),)))
    [bind] = orders(driver.allocated("uid-w0", "n2"))
    assert isinstance(bind, BindPod)
    assert bind.node == "n2"


def test_a_rejected_request_of_a_terminating_pod_causes_no_state_mismatch() -> None:
    """A bind failed and was requested again while the core failed the gang and released the old allocation."""
    driver, (first, second) = reserving(parameters="gangSchedulingStyle=Hard")
    [bind] = orders(driver.allocated(uid(first)))
    assert requested_keys(driver.result(refused(bind))) == [uid(first)]
    driver.cancelled(uid(second))
    driver.updated(keys.APP_FAILING, "the time is over")
    driver.updated(keys.APP_FAILED)
    unknown = AskRejected(APP, PodUid(uid(first)), "application job is not known")
    driver.receive(AllocationResponse(rejected_asks=(unknown,)))
    found = compare(driver.ledger, Inventory(InventoryPart.APPLICATIONS), set(), driver.now)
    assert found.found == []


@pytest.mark.parametrize("scheduler", ["muster", "default-scheduler"])
def test_a_pod_on_a_new_node_is_reported_after_the_core_accepted_the_node(scheduler: str) -> None:
    """Nodes and pods are reported on separate streams: the pod could arrive first and be rejected."""
    driver, n2 = live("n1"), NodeName("n2")
    waiting(driver, "w0")
    driver.fact(node_seen(a_node("n2")))
    bound = a_pod("w1", app=APP, nodeName="n2", schedulerName=scheduler)
    assert reported(driver.see(bound)) == []
    assert reported(driver.receive(NodeResponse(accepted=(n2,)))) == ["uid-w1"]
    assert driver.ledger.awaiting_node == {}


def test_a_pod_that_is_reported_with_its_node_and_then_resized_is_reported_again() -> None:
    driver, n2 = live("n1"), NodeName("n2")
    small = a_pod("dns", nodeName="n2", schedulerName="default-scheduler")
    driver.see(small)
    driver.fact(node_seen(a_node("n2")))
    small["spec"]["containers"] = [a_container(cpu="3")]
    assert reported(driver.see(small)) == []
    assert reported(driver.receive(NodeResponse(accepted=(n2,)))) == ["uid-dns"]


@pytest.mark.parametrize("answers", [1, 2])
def test_a_node_that_was_deleted_and_added_again_is_accepted_with_the_last_answer(answers: int) -> None:
    driver, n2 = live("n1"), NodeName("n2")
    for fact in (node_seen(a_node("n2")), NodeGone(n2), node_seen(a_node("n2"))):
        driver.fact(fact)
    driver.see(a_pod("dns", nodeName="n2", schedulerName="default-scheduler"))
    reports = [reported(driver.receive(NodeResponse(accepted=(n2,)))) for _ in range(answers)]
    assert reports == [[], ["uid-dns"]][:answers]


def test_a_pod_on_a_rejected_node_waits_for_another_node_of_that_name() -> None:
    driver, n2 = live("n1"), NodeName("n2")
    driver.fact(node_seen(a_node("n2")))
    driver.see(a_pod("dns", nodeName="n2", schedulerName="default-scheduler"))
    assert reported(driver.receive(NodeResponse(rejected={n2: "its capacity is negative"}))) == []
    driver.fact(NodeGone(n2))
    [created] = driver.fact(node_seen(a_node("n2"))).requests
    assert isinstance(created, NodeCreated)
    assert [one.ask.key for one in created.existing] == ["uid-dns"]


def test_a_pod_whose_bind_failed_no_longer_waits_for_its_deleted_node() -> None:
    driver = live_with_pod("n1", "n2")
    [bind] = orders(driver.allocated("uid-w0", "n2"))
    driver.fact(NodeGone(NodeName("n2")))
    driver.result(refused(bind))
    assert driver.ledger.awaiting_node == {}
