"""A write that failed temporarily is ordered again, because nothing else would repeat it."""

from collections.abc import Callable

import pytest

from muster_operator.controller.rejections import AGAIN_S
from muster_operator.model.commands import (
    Command,
    CommandUnanswered,
    FailPod,
    MarkResumed,
    Outcome,
    Result,
    SetCondition,
)
from muster_operator.model.core_messages import SchedulingState, SchedulingStateChanged, SchedulingStates
from muster_operator.model.ids import PodUid
from tests.unit.operator.controller.driver import APP, Driver, done, live, refused, waiting
from tests.unit.operator.controller.objects import a_group, a_pod, gang_annotations

End = Callable[[Command], Result]

PASSING = [
    pytest.param(CommandUnanswered, id="no answer"),
    pytest.param(lambda command: refused(command, 409), id="409"),
    pytest.param(lambda command: refused(command, 503), id="503"),
]
UID = PodUid("uid-w0")


def the(kind: type[Command], outcome: Outcome) -> list[Command]:
    return [command for command in outcome.commands if isinstance(command, kind)]


def a_failure(driver: Driver) -> Command:
    """The application of w0 failed: the order to fail the pod."""
    waiting(driver)
    (command,) = the(FailPod, driver.updated("Failing", "too late"))
    return command


def a_condition(driver: Driver) -> Command:
    """The pod w0 waits: the command that writes its condition."""
    waiting(driver)
    driver.wait(5)
    change = SchedulingStateChanged(APP, UID, SchedulingState.FAILED, "0/1 nodes are available")
    (command,) = the(SetCondition, driver.receive(SchedulingStates((change,))))
    return command


def an_outcome_write(driver: Driver) -> Command:
    """The gang of w0 is given up: the order to remember it."""
    driver.see(a_pod("w0", app=APP, annotations=gang_annotations(a_group("g", 2), member_of="g")))
    driver.accepted()
    (command,) = the(MarkResumed, driver.updated("Resuming", "too late"))
    return command


ORDERS = [
    pytest.param(a_failure, id="fail"),
    pytest.param(a_condition, id="condition"),
    pytest.param(an_outcome_write, id="mark"),
]


@pytest.mark.parametrize("ended", PASSING)
@pytest.mark.parametrize("ordered", ORDERS)
def test_a_write_that_fails_temporarily_is_retried_until_it_succeeds(
    ordered: Callable[[Driver], Command], ended: End
) -> None:
    driver = live()
    command = ordered(driver)
    for _ in range(2):
        driver.result(ended(command))
        assert the(type(command), driver.wait(AGAIN_S - 1)) == []
        assert the(type(command), driver.wait(2)) == [command]
    driver.result(done(command))
    assert the(type(command), driver.wait(20 * AGAIN_S)) == []


@pytest.mark.parametrize("ordered", ORDERS)
def test_a_write_that_fails_permanently_is_not_retried(ordered: Callable[[Driver], Command]) -> None:
    driver = live()
    command = ordered(driver)
    driver.result(refused(command, 403))
    assert the(type(command), driver.wait(20 * AGAIN_S)) == []


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_pod_that_was_deleted_or_bound_is_no_longer_failed(is_gone: bool) -> None:  # noqa: FBT001 - parametrized
    driver = live()
    driver.result(CommandUnanswered(a_failure(driver)))
    if is_gone:
        driver.gone("w0")
    else:
        driver.see(a_pod("w0", app=APP, nodeName="n1"))
    assert the(FailPod, driver.wait(20 * AGAIN_S)) == []
