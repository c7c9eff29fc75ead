"""Event records of node reservations and preemption."""

from __future__ import annotations

from muster_core.model.config import QueuePolicies
from muster_core.model.events import ConfigurationReplaced, NodeAdded
from muster_core.model.records import Change, Detail, EventRecorded, Notice
from tests.unit.builders import RM, SECOND, a_configuration, a_node, a_queue, an_ask
from tests.unit.core.scheduling.preemption_scenario import confirm, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario


def noted(scenario: Scenario, detail: Detail) -> list[EventRecorded]:
    return [one for one in scenario.records if one.detail is detail]


def test_adding_and_removing_a_reservation_is_recorded_on_its_node() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    run(scenario, "root.a", *pods("x", 4))
    run(scenario, "root.a", an_ask("big", vcore=3000))
    scenario.wait(60)
    [came] = noted(scenario, Detail.NODE_RESERVATION)
    assert (came.about, came.subject, came.change, came.reference) == (Notice.NODE, "n0", Change.ADD, "big")
    assert came.resource["vcore"] == 3000
    scenario.send(NodeAdded(a_node("n1")))
    scenario.wait(60)
    [_, went] = noted(scenario, Detail.NODE_RESERVATION)
    assert (went.subject, went.change, went.reference) == ("n0", Change.REMOVE, "big")


def test_a_victim_is_recorded_as_preempted_after_its_release() -> None:
    both = a_queue("p", a_queue("a", guaranteed=5000), a_queue("b", guaranteed=5000), vcore=10_000)
    scenario = Scenario(a_configuration(both), nodes=1, vcore=100_000)
    run(scenario, "root.p.a", *pods("a", 10))
    run(scenario, "root.p.b", *pods("b", 1))
    effects = scenario.wait(60)
    [victim] = victims(effects)
    assert noted(scenario, Detail.ALLOC_PREEMPT) == []
    confirm(scenario, effects)
    [gone] = noted(scenario, Detail.ALLOC_PREEMPT)
    assert (gone.about, gone.subject, gone.change, gone.reference) == (Notice.APPLICATION, "a", Change.REMOVE, victim)


def test_a_lowered_maximum_is_recorded_with_the_preempted_resources() -> None:
    later = QueuePolicies(quota_preemption_delay_ns=60 * SECOND)
    scenario = Scenario(with_preemption(a_queue("a", policies=later), by_quota=True), nodes=1, vcore=100_000)
    run(scenario, "root.a", *pods("x", 6))
    scenario.send(ConfigurationReplaced(RM, with_preemption(a_queue("a", vcore=4000, policies=later), by_quota=True)))
    confirm(scenario, scenario.wait(61))
    summary = noted(scenario, Detail.QUEUE_PREEMPTION)[0]
    assert (summary.about, summary.subject, summary.change) == (Notice.QUEUE, "root.a", Change.SET)
    assert summary.resource["vcore"] == 2000
