"""The resource usage of an application is counted by instance type and reported when it completes."""

from dataclasses import replace

from muster_core.model.config import Timing
from muster_core.model.effects import ApplicationSummarized, Effect
from muster_core.model.events import ApplicationAdded, NodeAdded
from muster_core.model.ids import Termination
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario


def a_scenario(*types: str) -> Scenario:
    """A node of four cores for each instance type."""
    scenario = Scenario(a_configuration(a_queue("a"), timing=Timing(completing_timeout_ns=SECOND)))
    for number, kind in enumerate(types):
        node = a_node(f"n{number}")
        scenario.send(NodeAdded(replace(node, attributes={"si/instance-type": kind} if kind else {})))
    return scenario


def summary(effects: list[Effect]) -> ApplicationSummarized:
    [found] = [effect for effect in effects if isinstance(effect, ApplicationSummarized)]
    return found


def test_resource_time_is_counted_by_node_type() -> None:
    scenario = a_scenario("large", "")
    submitted = scenario.now_ns
    scenario.send(ApplicationAdded(an_application()))
    scenario.ask(an_ask("r0", vcore=3000), an_ask("r1", vcore=2000))
    scenario.wait(10)
    scenario.release("r0")
    scenario.release("r1")
    found = summary(scenario.wait(2))
    assert {kind: amounts["vcore"] for kind, amounts in found.used.items()} == {"large": 30_000, "UNKNOWN": 20_000}
    assert (found.preempted, found.placeholders) == ({}, {})
    assert found.times_ns == (submitted, submitted, submitted + 11 * SECOND)


def test_placeholder_usage_is_counted_separately() -> None:
    scenario = a_scenario("large")
    scenario.gang(ApplicationAdded(an_application(gang=1)), 1)
    scenario.wait(5)
    scenario.ask(an_ask("r0", group="workers"))
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    scenario.wait(7)
    scenario.release("r0")
    found = summary(scenario.wait(2))
    assert found.placeholders["large"]["vcore"] == 5_000
    assert found.used["large"]["vcore"] == 7_000
    assert found.state == "Completed"


def test_a_rejected_application_used_nothing_and_has_no_summary() -> None:
    scenario = a_scenario("large")
    scenario.send(ApplicationAdded(an_application()))
    effects = scenario.send(ApplicationAdded(an_application()))
    assert not [effect for effect in effects if isinstance(effect, ApplicationSummarized)]
