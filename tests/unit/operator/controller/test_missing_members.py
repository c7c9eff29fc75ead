"""A gang that waits for members that nothing creates is reported to the core, which ends it by its style."""

import pytest

from muster_operator.model.commands import Outcome, SetCondition
from muster_operator.model.core_messages import (
    ApplicationSubmitted,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import PodUid
from muster_si import keys
from tests.unit.operator.controller.driver import APP, Driver, live
from tests.unit.operator.controller.objects import Raw, a_group, a_pod, gang_annotations
from tests.unit.operator.controller.test_runs import ended, every_mode, member

AFTER_S = 60.0


def reports(out: Outcome) -> list[str]:
    """Return what is reported to the core about missing members."""
    specs = [item.spec for item in out.requests if isinstance(item, ApplicationSubmitted)]
    assert all(keys.APP_TAG_RENEWAL in spec.tags for spec in specs if keys.APP_TAG_MEMBERS_MISSING in spec.tags)
    return [spec.tags[keys.APP_TAG_MEMBERS_MISSING] for spec in specs if keys.APP_TAG_MEMBERS_MISSING in spec.tags]


def waiting(*names: str, mode: str = "Direct", count: int = 3) -> Driver:
    driver = live()
    for name in names:
        driver.see(member(name, mode, count=count))
    driver.accepted()
    return driver


@every_mode
def test_members_that_nothing_creates_are_reported_once(mode: str) -> None:
    driver = waiting("w0", "w1", mode=mode)
    assert reports(driver.wait(AFTER_S - 1)) == []
    [why] = reports(driver.wait(1))
    assert why == (
        "waiting for 3 members of task group g: 2 exist, and no other one was created for 60 s. "
        "Create the others, or lower minMember; otherwise the gang ends with its timeout"
    )
    assert reports(driver.wait(1000)) == []


def test_the_time_starts_again_with_each_member() -> None:
    driver = waiting("w0")
    driver.wait(40)
    driver.see(member("w1", count=3))
    assert reports(driver.wait(59)) == []
    assert len(reports(driver.wait(1))) == 1


def test_the_report_is_withdrawn_when_the_members_exist() -> None:
    driver = waiting("w0", "w1")
    driver.wait(AFTER_S)
    driver.see(member("w2", count=3))
    assert reports(driver.wait(1)) == [""]


def test_the_report_stays_while_members_are_replaced() -> None:
    driver = waiting("w0", "w1")
    driver.wait(AFTER_S)
    driver.gone("w1")
    driver.see(member("w2", count=3))
    assert reports(driver.wait(1000)) == []


def test_a_complete_gang_that_loses_a_waiting_member_is_reported() -> None:
    driver = waiting("w0", "w1", "w2")
    assert reports(driver.wait(500)) == []
    driver.gone("w2")
    assert len(reports(driver.wait(AFTER_S))) == 1


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_task_group_without_any_member_is_not_missing(*, has_begun: bool) -> None:
    """A driver creates its executors when it runs."""
    driver = live()
    for name, group in (("driver", "driver"), ("e0", "executors"))[: 1 + has_begun]:
        driver.see(spark(name, group))
    driver.accepted()
    assert len(reports(driver.wait(500))) == has_begun


def spark(name: str, group: str) -> Raw:
    groups = a_group("driver", 1), a_group("executors", 4)
    return a_pod(name, app=APP, annotations=gang_annotations(*groups, parameters="gangPlacement=Auto", member_of=group))


def test_succeeded_members_are_named() -> None:
    driver = live()
    driver.see(ended(member("w0", count=4)))
    driver.see(member("w1", minute=9, count=4))
    driver.accepted()
    [why] = reports(driver.wait(AFTER_S))
    assert "waiting for 4 members of task group g: 1 exists, 1 succeeded, and" in why


def test_a_gang_that_is_reserved_is_not_reported() -> None:
    driver = waiting("w0", "w1")
    driver.updated(keys.APP_RUNNING)
    assert reports(driver.wait(500)) == []


@every_mode
def test_the_condition_of_the_originator_names_the_missing_members_and_the_reason(mode: str) -> None:
    driver = waiting("w0", "w1", mode=mode)
    why = SchedulingStateChanged(APP, PodUid(f"{APP}/g"), SchedulingState.FAILED, "0/1 nodes are available")
    driver.receive(SchedulingStates((why,)))
    driver.wait(AFTER_S - 1)
    out = driver.wait(1)
    messages = [one.message for one in out.commands if isinstance(one, SetCondition) and one.pod.name == "w0"]
    assert "waiting for 3 members of task group g: 2 exist" in messages[-1]
    assert mode == "Reserve" or "0/1 nodes are available" in messages[-1]
