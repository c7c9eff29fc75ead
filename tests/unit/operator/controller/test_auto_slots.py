"""An Auto gang counts the slots that members have used. A slot that is left gets a placeholder pod."""

from muster_operator.model.core_messages import SchedulingState, TerminationType
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, done, orders, refused
from tests.unit.operator.controller.gang import creates, pod_of
from tests.unit.operator.controller.index_checks import work_of
from tests.unit.operator.controller.kubernetes import SETTINGS
from tests.unit.operator.controller.objects import Raw
from tests.unit.operator.controller.test_auto import (
    BOUND,
    WAIT_S,
    began,
    bound,
    member,
    rejected_by_kubelet,
    restart,
    with_bound_pods,
)
from tests.unit.operator.controller.test_direct import FULL, gang_state


def running(*names: str, count: int = 4) -> Driver:
    """Return a running gang. These members are bound."""
    driver = began(*names, count=count)
    driver.updated(keys.APP_RUNNING)
    for name in names:
        bound(driver, f"uid-{name}")
    return driver


def test_members_that_replace_ended_members_use_no_further_slots() -> None:
    driver = running("w0", "w1", "w2", "w3")
    driver.gone("w3")
    driver.see(member("w4"))
    bound(driver, "uid-w4")
    rejected_by_kubelet(driver, member("w1"))
    driver.wait(SETTINGS.keep_slot_s)
    assert len(creates(driver.wait(60))) == 1, "the kept slot is that of an absent member"


def test_an_additional_member_whose_bind_fails_returns_no_slot() -> None:
    driver = running("w0", "w1", "w2", "w3")
    driver.see(member("w4"))
    [order] = orders(driver.allocated("uid-w4"))
    driver.result(refused(order))
    driver.gone("w4")
    assert creates(driver.wait(60)) == []


def test_the_originators_end_costs_no_more_work_for_more_bound_placeholder_pods() -> None:
    def work(pods: int) -> int:
        driver = running("w0", "w1", count=2 + pods)
        waiting = creates(driver.wait(12 * WAIT_S))
        while waiting:
            command = waiting.pop()
            driver.see(pod_of(command))
            waiting += creates(driver.result(done(command)))
            bound(driver, pod_of(command)["metadata"]["uid"])
        assert len(driver.ledger.applications[APP].slots) == pods
        return work_of(lambda: driver.gone("w0"))

    work(10)
    assert work(200) < 1.1 * work(50)


def short_of_nodes(*names: str) -> tuple[Driver, list[Raw]]:
    """Return a gang after a restart in which the core found too few nodes. Its members and pods are bound."""
    driver, pods = with_bound_pods(*names)
    for raw in (*(member(name) for name in names), *pods):
        driver.see(raw | {"spec": raw["spec"] | {"nodeName": "n1"}}, **BOUND)
    restart(driver)
    gang_state(driver, SchedulingState.FAILED, FULL)
    return driver, pods


def test_in_a_gang_without_enough_nodes_the_slot_of_a_rejected_pod_gets_another_pod() -> None:
    driver, pods = short_of_nodes("w0")
    rejected_by_kubelet(driver, pods[0])
    assert len(creates(driver.wait(60))) == 1


def test_in_a_gang_without_enough_nodes_a_kept_slot_that_the_core_releases_gets_a_pod() -> None:
    driver, _ = short_of_nodes("w0", "w1")
    rejected_by_kubelet(driver, member("w1"))
    assert creates(driver.wait(30)) == []
    driver.released("uid-w1/place", TerminationType.PREEMPTED_BY_SCHEDULER)
    assert len(creates(driver.wait(60))) == 1
