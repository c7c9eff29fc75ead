"""Timers that expire together are handled separately, and none is delayed or lost."""

import pytest

from muster_operator.controller import reporting
from muster_operator.controller.state import Application, Deadline, Phase, TimerKind, next_due, set_timer
from muster_operator.controller.timers import on_timers
from muster_operator.model.commands import SetCondition
from muster_operator.model.core_messages import SchedulingState, SchedulingStateChanged, SchedulingStates
from muster_operator.model.ids import PodUid
from tests.unit.operator.controller.driver import APP, Driver, live, orders, waiting
from tests.unit.operator.controller.gang import a_member

REASON = "0/1 nodes are available."


def lacking(driver: Driver, name: str) -> SchedulingStateChanged:
    """A pod that waits, and why."""
    waiting(driver, name)
    return SchedulingStateChanged(APP, PodUid(f"uid-{name}"), SchedulingState.FAILED, REASON)


def test_due_timers_fire_one_at_a_time_in_order_of_time() -> None:
    driver = live()
    driver.receive(SchedulingStates((lacking(driver, "w0"), lacking(driver, "w1"))))
    ordered = [orders(on_timers(driver.ledger, 2.0)) for _ in range(3)]
    conditions = [[one.pod.name for one in commands if isinstance(one, SetCondition)] for commands in ordered]
    assert conditions == [["w0"], ["w1"], []]


def test_a_failing_timer_does_not_prevent_the_next_one() -> None:
    driver = live()
    driver.receive(SchedulingStates((lacking(driver, "w0"),)))
    driver.ledger.tasks[PodUid("broken")] = 7  # type: ignore[assignment]  # a bug somewhere else
    set_timer(driver.ledger, Deadline(1.0, TimerKind.WAITING, PodUid("broken")))
    with pytest.raises(AttributeError):
        driver.wait(2.0)
    assert len(orders(driver.wait(0.0))) == 1


def test_no_timer_fires_without_a_session() -> None:
    driver = live()
    set_timer(driver.ledger, Deadline(1.0, TimerKind.WAITING, PodUid("any")))
    driver.ledger.phase = Phase.GATHERING
    assert next_due(driver.ledger) is None
    assert not on_timers(driver.ledger, 2.0)
    assert driver.ledger.deadlines


def created_again(driver: Driver, name: str) -> Application:
    """A gang of three with one member, which the core accepts."""
    driver.see(a_member(name, count=3))
    [app] = driver.ledger.applications.values()
    driver.accepted(app.id)
    return app


def test_a_gang_that_is_created_again_often_has_one_chain_of_progress_checks() -> None:
    driver = live()
    for number in range(20):
        created_again(driver, f"w{number}")
        if number < 19:
            driver.gone(f"w{number}")
    driver.wait(2.0)
    assert [timer.kind for _, _, timer, _ in driver.ledger.deadlines].count(TimerKind.GANG) == 1


def test_a_timer_of_a_deleted_application_does_not_fire_for_the_next_one_of_that_name() -> None:
    driver = live()
    created_again(driver, "w0")
    driver.ledger.retired.clear()  # so that the next one has the same ID
    driver.gone("w0")
    driver.ledger.retired.clear()
    driver.now = 1.9
    app = created_again(driver, "w1")
    assert app.id == APP
    driver.wait(0.1)
    assert app.report.check_pause == reporting.FIRST_CHECK_S, "its own first check is due at 3.9"
