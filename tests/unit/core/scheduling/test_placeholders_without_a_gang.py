"""Placeholders of an application without a placeholderAsk: no gang waits for them, and real pods replace them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.config import Timing
from muster_core.model.events import AllocationReported, ApplicationAdded
from muster_core.model.ids import Termination
from tests.unit.builders import SECOND, a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED


@pytest.fixture
def scenario() -> Scenario:
    timing = Timing(placeholder_timeout_ns=60 * SECOND, completing_timeout_ns=30 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a"), timing=timing), nodes=1)
    scenario.send(ApplicationAdded(an_application()))
    return scenario


def test_a_placeholder_is_accepted_and_runs_the_application(scenario: Scenario) -> None:
    effects = scenario.ask(an_ask("p0", group="workers", placeholder=True))
    assert refused_asks(effects) == {}
    assert placed(effects) == {"p0": "n0"}
    assert states(effects) == ["Accepted", "Running"]


def test_a_real_pod_of_the_task_group_replaces_the_placeholder(scenario: Scenario) -> None:
    scenario.ask(an_ask("p0", group="workers", placeholder=True))
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": REPLACED}
    assert placed(scenario.release("p0", why=REPLACED)) == {"r0": "n0"}
    [count] = scenario.app().gang.groups.values()
    assert (count.count, count.replaced, count.timed_out) == (1, 1, 0)


def test_real_pods_do_not_wait_for_the_placeholder(scenario: Scenario) -> None:
    effects = scenario.ask(
        replace(an_ask("p0", group="workers", placeholder=True), resources=an_ask("x", vcore=5000).resources),
        an_ask("r0", group="workers"),
    )
    assert placed(effects) == {"r0": "n0"}


def test_every_unused_placeholder_is_released_after_the_timeout(scenario: Scenario) -> None:
    for key in ("p0", "p1"):
        scenario.ask(an_ask(key, group="workers", placeholder=True))
        assert releases(scenario.wait(59)) == {}
        assert releases(scenario.wait(2)) == {key: Termination.TIMEOUT}
        assert states(scenario.release(key, why=Termination.TIMEOUT)) == ["Completing"]
    assert states(scenario.wait(31)) == ["Completed"]


def test_a_recovered_placeholder_is_released_after_the_timeout(scenario: Scenario) -> None:
    scenario.send(AllocationReported(an_allocation("p0", "n0", group="workers", placeholder=True)))
    assert releases(scenario.wait(61)) == {"p0": Termination.TIMEOUT}


def test_a_placeholder_that_starts_while_a_larger_pod_waits_is_released_at_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=1000)), nodes=1)
    scenario.send(ApplicationAdded(an_application()))
    scenario.ask(an_ask("r", vcore=1500, group="workers"))
    assert releases(scenario.ask(an_ask("p", group="workers", placeholder=True))).keys() == {"p"}
