"""The work for a gang is bounded by its allocations, not by the number of members that its user requests."""

from __future__ import annotations

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.events import ApplicationAdded
from muster_core.model.specs import GangPlacement
from muster_core.preemption.planning import EXHAUSTED, NO_RIGHT
from tests.unit.builders import SECOND, a_queue, an_application, resources
from tests.unit.core.scheduling.preemption_scenario import pods, run, with_preemption
from tests.unit.core.scheduling.scenario import Scenario

SOON = QueuePolicies(preemption_delay_ns=SECOND)


def full(guaranteed: int = 2000) -> Scenario:
    """Two nodes full of pods of leaf b, and leaf a that may have a guarantee."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=guaranteed, policies=SOON), a_queue("b")), nodes=2)
    run(scenario, "root.b", *pods("v", 8))
    return scenario


def attempts(scenario: Scenario) -> list[str]:
    first = next(iter(scenario.app().asks.values()))
    return list(first.attempts or {})


def submit(scenario: Scenario, members: int, placement: GangPlacement = GangPlacement.DIRECT) -> None:
    each = resources(vcore=1, pods=1)
    scenario.send(ApplicationAdded(an_application(queue="root.a", gang=members, each=each, placement=placement)))


@pytest.mark.parametrize("members", [65, 10_000, 2**31 - 1])
def test_a_direct_gang_too_large_for_preemption_is_not_split_into_members(members: int) -> None:
    scenario = full()
    submit(scenario, members)
    scenario.wait(120)
    assert len(scenario.app().asks) == 1
    assert attempts(scenario) == [EXHAUSTED]


def test_a_direct_gang_that_may_not_preempt_is_not_split_into_members() -> None:
    scenario = full(guaranteed=2)
    submit(scenario, 3)
    scenario.wait(120)
    assert len(scenario.app().asks) == 1
    assert attempts(scenario) == [NO_RIGHT]


def test_a_direct_gang_that_may_preempt_is_split_into_members() -> None:
    scenario = full()
    each = resources(vcore=1000, pods=1)
    spec = an_application(queue="root.a", gang=2, each=each, placement=GangPlacement.DIRECT)
    scenario.send(ApplicationAdded(spec))
    scenario.wait(120)
    assert len(scenario.partition.preemptions.running) == 1
    assert [ask.left for ask in scenario.app().asks.values()] == [1, 1]


def test_a_failed_preemption_of_a_large_gang_is_recorded_on_a_limited_number_of_requests() -> None:
    scenario = full()
    spec = an_application(queue="root.a", gang=500, placement=GangPlacement.RESERVE)
    scenario.gang(ApplicationAdded(spec), 500)
    scenario.wait(120)
    tried = [ask for ask in scenario.app().asks.values() if ask.attempts]
    assert len(tried) == 65
