"""Binding conditions: devices that drivers prepare after their allocation, for pods and for whole gangs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from muster_operator.model.cluster_events import ClusterEvent
from muster_operator.model.commands import BindPod, Outcome, PostEvent, Repeat, ReserveClaim
from muster_operator.model.core_messages import (
    ApplicationRemoved,
    ApplicationSubmitted,
    AskSubmitted,
    ClusterObjectReported,
    CoreRequest,
)
from muster_operator.model.ids import AppId
from muster_operator.model.storage import ClaimRef
from muster_si import keys
from tests.unit.operator.controller.devices import ENTRY, a_result, an_allocation, chosen, device_claim_seen
from tests.unit.operator.controller.driver import APP, Driver, done, orders, refused, requested_keys, submitted
from tests.unit.operator.controller.gang import a_member as a_gang_pod
from tests.unit.operator.controller.test_device_claims import BIND, a_driver, a_user, restarted, waiting

Raw = dict[str, Any]
WAIT_S = 600.0
CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
#: When the allocations of these tests were made.
ALLOCATED_S = 1_767_225_600


def allocated_claim(name: str = "gpu", *reserved: str, condition: str = "", manager: str = "muster") -> ClusterEvent:
    """A claim whose device has conditions, and that of them which is true."""
    allocation = an_allocation()
    allocation["devices"]["results"][0] |= CONDITIONS
    allocation["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    true = [{"type": condition, "status": "True", "message": "no link"}] if condition else []
    status = [{**a_result(), "conditions": true}]
    return device_claim_seen(name, reserved=reserved, allocation=allocation, devices_status=status, manager=manager)


def choice(name: str = "gpu", node: str = "n1") -> Any:
    """The core's choice of a device with conditions."""
    found = chosen(ClaimRef("dev", name, f"uid-{name}"), node=node)
    return (replace(found, devices=(replace(found.devices[0], conditions=("ready",), failures=("broken",)),)),)


def undone(out: Outcome) -> list[tuple[str, str, bool]]:
    """Claim, pod and whether the allocation is kept, of the commands that take something back."""
    found = (one.command if isinstance(one, Repeat) else one for one in out.commands)
    return [(one.claim.name, one.pod.uid, one.keeps) for one in found if isinstance(one, ReserveClaim) and one.undo]


def bound(out: Outcome) -> list[str]:
    return [one.pod.uid for one in out.commands if isinstance(one, BindPod)]


def why_waits(requests: Iterable[CoreRequest], name: str = "gpu") -> str:
    """Why the core cannot use the claim, in the last report of it; empty = it can."""
    facts = [item.fact for item in requests if isinstance(item, ClusterObjectReported)]
    [*found] = [orjson.loads(fact.attributes[keys.FACT_OBJECT]) for fact in facts if fact.name == f"dev/{name}"]
    return str(found[-1].get("waits", ""))


def answer(driver: Driver, out: Outcome) -> Outcome:
    """All commands of the outcome succeed."""
    total = Outcome()
    for command in orders(out):
        total.add(driver.result(done(command)))
    return total


BROKEN = "a device is not ready: broken of device gpu-0: no link"
LATE = "not ready within 600 s: gpu"


# -- pods -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manager", ["muster", "kube-scheduler"])
@pytest.mark.parametrize("condition", ["broken", ""], ids=["broken", "late"])
def test_an_allocation_of_before_a_restart_is_given_up(condition: str, manager: str) -> None:
    """The time of its devices began with the allocation, whoever made it."""
    driver = a_driver(allocated_claim("gpu", "uid-w0", manager=manager))
    waiting(driver)
    restarted(driver)
    driver.ledger.epoch_s = ALLOCATED_S + 500
    answer(driver, driver.allocated("uid-w0"))
    assert undone(driver.wait(99)) == []
    if condition:
        out = driver.fact(allocated_claim("gpu", "uid-w0", condition=condition, manager=manager))
    else:
        out = driver.wait(1)
    assert undone(out) == [("gpu", "uid-w0", False)]
    assert why_waits(out.requests) == (BROKEN if condition else LATE)
    [event] = [one for one in out.commands if isinstance(one, PostEvent)]
    assert (event.reason, "reserving devices for node n1 failed: " in event.note) == ("PodDevicesBindFailure", True)
    assert requested_keys(out) == ["uid-w0"]


@pytest.mark.parametrize("manager", ["muster", "kube-scheduler"])
def test_an_allocation_that_failed_while_no_operator_ran_is_removed_at_once(manager: str) -> None:
    driver = a_driver(allocated_claim("gpu", "uid-w0", "uid-w1", condition="broken", manager=manager))
    waiting(driver)
    driver.see(a_user(name="w1"))
    assert undone(restarted(driver)) == [("gpu", "uid-w0", False), ("gpu", "uid-w1", False)]


def test_an_allocation_that_another_pod_uses_stays_and_the_pod_waits() -> None:
    failed = allocated_claim("gpu", "uid-w0", "uid-x", condition="broken")
    driver = a_driver(failed)
    waiting(driver)
    out = restarted(driver)
    assert (undone(out), why_waits(out.requests)) == ([], BROKEN)


def test_all_pods_that_share_a_claim_take_it_back() -> None:
    """The last one deallocates it, in whatever order they are written."""
    driver = a_driver()
    waiting(driver)
    driver.see(a_user(name="w1"))
    answer(driver, driver.allocated("uid-w0", devices=choice()))
    driver.fact(allocated_claim("gpu", "uid-w0"))
    answer(driver, driver.allocated("uid-w1"))
    assert bound(driver.fact(allocated_claim("gpu", "uid-w0", "uid-w1"))) == []
    out = driver.fact(allocated_claim("gpu", "uid-w0", "uid-w1", condition="broken"))
    assert undone(out) == [("gpu", "uid-w0", False), ("gpu", "uid-w1", False)]


def test_a_claim_that_failed_is_planned_again_after_a_pause_that_doubles() -> None:
    driver = a_driver()
    waiting(driver)
    for pause in (1, 2, 4):
        answer(driver, driver.allocated("uid-w0", devices=choice()))
        out = driver.fact(allocated_claim("gpu", "uid-w0", condition="broken"))
        assert why_waits(out.requests) == BROKEN
        free = driver.fact(device_claim_seen())
        assert why_waits(answer(driver, out).requests + free.requests + out.requests) == BROKEN
        assert driver.wait(pause - 0.5).requests == []
        assert why_waits(driver.wait(0.5).requests) == ""


def test_a_claim_is_not_planned_while_its_devices_are_taken_back() -> None:
    """The core would plan on the allocation that it still sees."""
    driver = a_driver()
    waiting(driver)
    answer(driver, driver.allocated("uid-w0", devices=(chosen(),)))
    driver.fact(device_claim_seen(reserved=("uid-w0",), allocation=an_allocation()))
    out = driver.result(refused(BIND))
    kinds = [type(item) for item in out.requests if isinstance(item, ClusterObjectReported | AskSubmitted)]
    assert kinds == [ClusterObjectReported, AskSubmitted]
    assert why_waits(out.requests) == "its devices are being deallocated"
    assert why_waits(answer(driver, out).requests) == ""
    driver.ledger.devices.undoing["dev/gpu"] = {"uid-w0"}
    assert why_waits(restarted(driver).requests) == ""


# -- gangs ------------------------------------------------------------------------------------------------------------


def a_gang(*, has_plain_member: bool = False) -> Driver:
    """A gang of two members: both have a claim with conditions, or the second has none."""
    driver = a_driver(device_claim_seen("gpu1"))
    for number, claim in enumerate(("gpu", "gpu1")):
        raw = a_gang_pod(f"w{number}")
        if not (number and has_plain_member):
            raw["spec"]["resourceClaims"] = [{**ENTRY, "resourceClaimName": claim}]
        driver.see(raw)
    driver.accepted()
    return driver


def test_no_member_of_a_gang_is_bound_before_the_devices_of_all_are_ready() -> None:
    driver = a_gang()
    for number, claim in enumerate(("gpu", "gpu1")):
        answer(driver, driver.allocated(f"uid-w{number}", f"n{number + 1}", devices=choice(claim)))
    assert bound(driver.fact(allocated_claim("gpu1", "uid-w1", condition="ready"))) == []
    assert bound(driver.fact(allocated_claim("gpu1", "uid-w1"))) == [], "it is not ready any more"
    assert bound(driver.fact(allocated_claim("gpu", "uid-w0", condition="ready"))) == []
    assert bound(driver.fact(allocated_claim("gpu1", "uid-w1", condition="ready"))) == ["uid-w0", "uid-w1"]


def fails(driver: Driver) -> Outcome:
    return driver.fact(allocated_claim("gpu", "uid-w0", condition="broken"))


def is_deleted(driver: Driver) -> Outcome:
    return driver.gone("w0")


def is_late(driver: Driver) -> Outcome:
    return driver.wait(WAIT_S)


@pytest.mark.parametrize("lose", [fails, is_deleted, is_late])
@pytest.mark.parametrize("has_plain_member", [False, True])
def test_a_gang_begins_again_if_a_member_loses_its_node_before_all_are_bound(
    lose: Any, *, has_plain_member: bool
) -> None:
    driver = a_gang(has_plain_member=has_plain_member)
    out = answer(driver, driver.allocated("uid-w0", "n1", devices=choice()))
    chosen_devices = () if has_plain_member else (chosen(ClaimRef("dev", "gpu1", "uid-gpu1"), "gpu-1", "n2"),)
    out.add(answer(driver, driver.allocated("uid-w1", "n2", devices=chosen_devices)))
    out.add(driver.fact(allocated_claim("gpu", "uid-w0")))
    assert bound(out) == []
    out = lose(driver)
    out.add(driver.wait(0))
    assert bound(out) == []
    expected = [("gpu", "uid-w0", False)] + ([] if has_plain_member else [("gpu1", "uid-w1", False)])
    assert undone(out) == expected
    kinds = [type(item) for item in out.requests if isinstance(item, ApplicationRemoved | ApplicationSubmitted)]
    assert kinds == [ApplicationRemoved, ApplicationSubmitted]
    [again] = submitted(out)
    assert again != APP
    asked = requested_keys(driver.accepted(AppId(again)))
    is_usual = lose is is_deleted and has_plain_member  # a gang without devices reserves first
    assert asked == ([] if is_usual else ["uid-w1"] if lose is is_deleted else ["uid-w0", "uid-w1"])
    if lose is not is_deleted:
        assert driver.ledger.tasks[driver.ledger.applications[AppId(again)].originator.ref.uid].avoid == ("n1",)
    assert driver.ledger.storage.waiting == {}


def test_a_gang_that_another_client_began_to_bind_goes_on_one_by_one() -> None:
    driver = a_gang(has_plain_member=True)
    answer(driver, driver.allocated("uid-w0", "n1", devices=(chosen(),)))
    raw = a_gang_pod("w1")
    raw["spec"]["nodeName"] = "n2"
    driver.see(raw)
    assert bound(driver.wait(0)) == ["uid-w0"]


def test_a_gang_that_runs_binds_its_further_members_by_themselves() -> None:
    driver = a_gang(has_plain_member=True)
    answer(driver, driver.allocated("uid-w0", "n1", devices=(chosen(),)))
    assert bound(driver.allocated("uid-w1", "n2")) == ["uid-w0", "uid-w1"]
    driver.see(a_gang_pod("w2"))
    assert bound(driver.allocated("uid-w2", "n2")) == ["uid-w2"]


def test_a_member_with_the_first_devices_of_a_running_gang_is_bound_by_itself() -> None:
    driver = a_driver()
    for name in ("w0", "w1"):
        raw = a_gang_pod(name)
        raw["metadata"]["annotations"]["yunikorn.apache.org/schedulingPolicyParameters"] = "gangPlacement=Direct"
        driver.see(raw)
    driver.accepted()
    for name in ("w0", "w1"):
        assert bound(driver.allocated(f"uid-{name}")) == [f"uid-{name}"]
    driver.updated(keys.APP_RUNNING)
    late = a_gang_pod("w2")
    late["spec"]["resourceClaims"] = [ENTRY]
    driver.see(late)
    assert bound(answer(driver, driver.allocated("uid-w2", devices=(chosen(),)))) == ["uid-w2"]


@pytest.mark.parametrize("lost", [1, 2])
def test_after_a_restart_a_gang_waits_again_for_all_its_devices(lost: int) -> None:
    driver = a_gang()
    for number, claim in enumerate(("gpu", "gpu1")):
        driver.fact(allocated_claim(claim, f"uid-w{number}"))
    for _ in range(lost):
        restarted(driver)
    [app] = driver.ledger.applications
    for number in range(2):
        assert bound(answer(driver, driver.allocated(f"uid-w{number}", f"n{number + 1}", app))) == []
    assert bound(driver.fact(allocated_claim("gpu", "uid-w0", condition="ready"))) == []
    assert bound(driver.fact(allocated_claim("gpu1", "uid-w1", condition="ready"))) == ["uid-w0", "uid-w1"]
