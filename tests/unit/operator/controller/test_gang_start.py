"""The start of gangs with devices: what opens it, and when it begins again. See also `test_device_conditions`."""

from __future__ import annotations

import pytest

from muster_operator.model.commands import CommandFailed, PostEvent, ReserveClaim
from muster_operator.model.core_messages import ClusterObjectReported
from muster_operator.model.ids import AppId, PodUid
from muster_si import keys
from tests.unit.operator.controller.devices import ENTRY, device_claim_seen
from tests.unit.operator.controller.driver import APP, Driver, done, orders, submitted
from tests.unit.operator.controller.gang import a_member as a_gang_pod
from tests.unit.operator.controller.objects import a_pod
from tests.unit.operator.controller.test_device_claims import a_driver
from tests.unit.operator.controller.test_device_conditions import (
    WAIT_S,
    a_gang,
    allocated_claim,
    answer,
    bound,
    choice,
    undone,
    why_waits,
)


def gets_node(driver: Driver, number: int, app: str = APP) -> list[str]:
    """A member gets its node, and its device is ready. Returns the pods that are bound then."""
    claim = f"gpu{number or ''}"
    out = answer(driver, driver.allocated(f"uid-w{number}", f"n{number + 1}", AppId(app), devices=choice(claim)))
    out.add(driver.fact(allocated_claim(claim, f"uid-w{number}", condition="ready")))
    return bound(out)


@pytest.mark.parametrize("waits_before", [True, False])
def test_a_soft_gang_that_was_given_up_binds_its_members_one_by_one(*, waits_before: bool) -> None:
    driver = a_gang()
    assert not waits_before or gets_node(driver, 0) == []
    out = driver.updated(keys.APP_RESUMING, "waited too long")
    out.add(driver.updated(keys.APP_RUNNING))
    out.add(driver.wait(0))
    assert (bound(out), undone(out)) == ((["uid-w0"] if waits_before else []), [])
    assert waits_before or gets_node(driver, 0) == ["uid-w0"]
    assert gets_node(driver, 1) == ["uid-w1"]


@pytest.mark.parametrize("by", ["Muster", "another client"])
def test_a_bound_pod_outside_of_the_task_groups_does_not_start_the_gang(by: str) -> None:
    """Neither in the first attempt nor after the gang began again."""
    driver = a_gang()
    raw = a_pod("driver", app=APP)
    driver.see(raw)
    if by == "Muster":
        assert bound(driver.allocated("uid-driver", "n1")) == ["uid-driver"]
    driver.see({**raw, "spec": {**raw["spec"], "nodeName": "n1"}})
    assert gets_node(driver, 0) == []
    out = driver.fact(allocated_claim("gpu", "uid-w0", condition="broken"))
    out.add(driver.wait(0))
    [again] = submitted(out)
    answer(driver, out)
    driver.fact(device_claim_seen("gpu"))
    driver.accepted(AppId(again))
    assert gets_node(driver, 0, again) == []
    assert gets_node(driver, 1, again) == ["uid-w0", "uid-w1"]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_member_that_another_client_binds_starts_the_gang(node: str) -> None:
    """Also to the node that the core chose."""
    driver = a_gang()
    answer(driver, driver.allocated("uid-w0", "n1", devices=choice()))
    assert gets_node(driver, 1) == []
    raw = a_gang_pod("w0")
    driver.see({**raw, "spec": {**raw["spec"], "nodeName": node}})
    assert bound(driver.wait(0)) == ["uid-w1"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_gang_begins_again_if_the_node_of_a_member_is_gone(number: int) -> None:
    driver = a_gang()
    assert number == 0 or gets_node(driver, 0) == []
    out = driver.allocated(f"uid-w{number}", "gone")
    out.add(driver.wait(0))
    assert undone(out) == [("gpu", "uid-w0", False)][:number]
    assert submitted(out) != []


@pytest.mark.parametrize("late", [{0}, {1}, {0, 1}, set()])
def test_devices_that_are_late_are_blamed_whichever_member_waits_for_them(late: set[int]) -> None:
    """A gang has one deadline. Ready members lose their nodes, but do not avoid them."""
    driver = a_gang()
    claims = ["gpu", "gpu1"]
    for number in [0, 1] if late else [0]:
        answer(driver, driver.allocated(f"uid-w{number}", f"n{number + 1}", devices=choice(claims[number])))
        condition = "" if number in late else "ready"
        driver.fact(allocated_claim(claims[number], f"uid-w{number}", condition=condition))
    out = driver.wait(WAIT_S)
    out.add(driver.wait(0))
    assert set(undone(out)) == {(claims[number], f"uid-w{number}", False) for number in ([0, 1] if late else [0])}
    assert {number for number in (0, 1) if driver.ledger.tasks[PodUid(f"uid-w{number}")].avoid} == late
    notes = [one.note for one in out.commands if isinstance(one, PostEvent) and one.reason == "PodDevicesBindFailure"]
    named = [claims[number] for number in sorted(late)] or ["other members of the gang"]
    assert [note.rpartition(": ")[2].rpartition("/")[2] for note in notes] == named
    assert set(driver.ledger.devices.failures) == {f"dev/{claims[number]}" for number in late}
    assert len(submitted(out)) == 1


def test_a_gang_whose_writes_are_refused_begins_again_after_pauses_that_double() -> None:
    driver, app = a_gang(), AppId(APP)
    for pause_s in (1, 2, 4):
        [order] = orders(driver.allocated("uid-w0", "n1", app, devices=choice()))
        out = driver.result(CommandFailed(order, 403, "Forbidden", "a policy refuses it"))
        assert why_waits(out.requests).endswith("a policy refuses it")
        out.add(driver.wait(0))
        [app] = map(AppId, submitted(out))
        answer(driver, out)
        driver.accepted(app)
        assert not any(isinstance(one, ClusterObjectReported) for one in driver.wait(pause_s - 0.5).requests)
        assert why_waits(driver.wait(0.5).requests) == ""


@pytest.mark.parametrize("first_is_gone", [True, False])
def test_a_gang_that_begins_again_deallocates_the_claim_that_its_members_share(*, first_is_gone: bool) -> None:
    """Also if the member that allocated it is gone, and in whatever order the commands are carried out."""
    driver = a_driver()
    for number in range(3):
        raw = a_gang_pod(f"w{number}", count=3)
        raw["spec"]["resourceClaims"] = [ENTRY]
        driver.see(raw)
    driver.accepted()
    answer(driver, driver.allocated("uid-w0", "n1", devices=choice()))
    driver.fact(allocated_claim("gpu", "uid-w0"))
    for number in (1, 2):
        answer(driver, driver.allocated(f"uid-w{number}", "n1"))
    driver.fact(allocated_claim("gpu", "uid-w0", "uid-w1", "uid-w2"))
    driver.gone("w0" if first_is_gone else "w1")
    out = driver.wait(0)
    first, last = (one for one in orders(out) if isinstance(one, ReserveClaim))
    assert why_waits(driver.result(done(first)).requests or out.requests) == "its devices are being deallocated"
    assert why_waits(driver.result(done(last)).requests) == ""
    assert undone(out) == [("gpu", uid, False) for uid in ("uid-w1" if first_is_gone else "uid-w0", "uid-w2")]
    assert len(submitted(out)) == 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_member_whose_task_group_changes_still_waits_for_the_others(number: int) -> None:
    driver = a_gang()
    for one, claim in enumerate(("gpu", "gpu1")):
        answer(driver, driver.allocated(f"uid-w{one}", f"n{one + 1}", devices=choice(claim)))
    raw = a_gang_pod("w0", group="other")
    raw["spec"]["resourceClaims"] = [{**ENTRY, "resourceClaimName": "gpu"}]
    assert bound(driver.see(raw)) == []
    facts = [allocated_claim("gpu", "uid-w0", condition="ready"), allocated_claim("gpu1", "uid-w1", condition="ready")]
    assert bound(driver.fact(facts[number])) == []
    assert bound(driver.fact(facts[1 - number])) == ["uid-w0", "uid-w1"][:: 1 - 2 * number]


def test_an_application_that_is_over_takes_back_what_its_members_wait_for() -> None:
    driver = a_gang()
    assert gets_node(driver, 0) == []
    out = driver.updated(keys.APP_COMPLETED)
    assert (undone(out), len(submitted(out))) == ([("gpu", "uid-w0", False)], 1)
    assert driver.ledger.storage.waiting == {}
