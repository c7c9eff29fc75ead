"""Backoff of applications with many unschedulable requests (application.unschedasks.backoff)."""

from __future__ import annotations

from muster_core.model.config import QueuePolicies
from muster_core.model.events import ApplicationAdded
from tests.unit.builders import SECOND, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed


def sleepy(vcore: int | None = None) -> Scenario:
    """After two requests without a node an application backs off for 30 s; the only node has 1 core."""
    policies = QueuePolicies(backoff_after=2, backoff_delay_ns=30 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=vcore, policies=policies)), nodes=1, vcore=1000)
    scenario.send(ApplicationAdded(an_application("x")))
    return scenario


def test_an_application_is_not_tried_until_its_backoff_expires() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    assert scenario.app("x").backoff_until_ns == scenario.now_ns + 30 * SECOND
    assert placed(scenario.add_node("n1")) == {}
    assert placed(scenario.ask(an_ask("late", app="x"))) == {}
    assert placed(scenario.wait(29)) == {}
    assert placed(scenario.wait(2)).keys() == {"x1", "x2", "late"}
    assert scenario.app("x").backoff_until_ns == 0


def test_fewer_unschedulable_asks_than_the_threshold_cause_no_backoff() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(2)))
    assert scenario.app("x").backoff_until_ns == 0
    assert placed(scenario.add_node("n1")).keys() == {"x1"}


def test_asks_that_exceed_a_quota_cause_no_backoff() -> None:
    scenario = sleepy(vcore=500)
    scenario.ask(*(an_ask(f"x{index}", app="x", vcore=400) for index in range(4)))
    assert scenario.app("x").backoff_until_ns == 0
    assert placed(scenario.release("x0", "x")).keys() == {"x1"}


def test_backoff_does_not_affect_other_applications_of_the_leaf() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    scenario.send(ApplicationAdded(an_application("y")))
    scenario.ask(an_ask("y0", app="y"))
    assert placed(scenario.add_node("n1", vcore=1000)).keys() == {"y0"}


def test_an_application_backs_off_again_after_an_unsuccessful_attempt() -> None:
    scenario = sleepy()
    scenario.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    scenario.wait(31)
    assert scenario.app("x").backoff_until_ns > scenario.now_ns
