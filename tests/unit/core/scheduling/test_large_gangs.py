"""The work for a gang is bounded by its allocations, not by the number of members that its user requests."""

from __future__ import annotations

import pytest

from muster_core.model.config import QueuePolicies
from muster_core.model.events import ApplicationAdded, AskAdded
from muster_core.model.specs import GangPlacement
from muster_core.preemption.planning import EXHAUSTED, NO_RIGHT
from tests.unit.builders import SECOND, a_queue, an_application, resources
from tests.unit.core.scheduling.direct import member
from tests.unit.core.scheduling.preemption_scenario import pods, run, with_preemption
from tests.unit.core.scheduling.scenario import Scenario

SOON = QueuePolicies(preemption_delay_ns=SECOND)


def full(guaranteed: int = 2000) -> Scenario:
    """Two nodes full of pods of leaf b, and leaf a that may have a guarantee."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=guaranteed, policies=SOON), a_queue("b")), nodes=2)
    run(scenario, "root.b", *pods("v", 8))
    return scenario


def attempts(scenario: Scenario) -> list[str]:
    first = next(ask for ask in scenario.app().asks.values() if ask.spec.is_virtual)
    return list(first.attempts or {})


def submit(scenario: Scenario, members: int, vcore: int = 1) -> None:
    """Submit a gang with its first member."""
    each = resources(vcore=vcore, pods=1)
    spec = an_application(queue="root.a", gang=members, each=each, placement=GangPlacement.DIRECT)
    scenario.send(ApplicationAdded(spec), AskAdded(member("first", vcore=vcore)))


def requested(scenario: Scenario) -> list[int]:
    """Return the number of virtual placeholders of each request."""
    return [ask.left for ask in scenario.app().asks.values() if ask.spec.is_virtual]


@pytest.mark.parametrize("members", [65, 10_000, 2**31 - 1])
def test_a_direct_gang_too_large_for_preemption_is_not_split_into_members(members: int) -> None:
    scenario = full()
    submit(scenario, members)
    scenario.wait(120)
    assert requested(scenario) == [members]
    assert attempts(scenario) == [EXHAUSTED]


def test_a_direct_gang_that_may_not_preempt_is_not_split_into_members() -> None:
    scenario = full(guaranteed=2)
    submit(scenario, 3)
    scenario.wait(120)
    assert requested(scenario) == [3]
    assert attempts(scenario) == [NO_RIGHT]


def test_a_direct_gang_that_may_preempt_is_split_into_members() -> None:
    scenario = full()
    submit(scenario, 2, vcore=1000)
    scenario.wait(120)
    assert len(scenario.partition.preemptions.running) == 1
    assert requested(scenario) == [1, 1]


def test_a_failed_preemption_of_a_large_gang_is_recorded_on_a_limited_number_of_requests() -> None:
    scenario = full()
    spec = an_application(queue="root.a", gang=500, placement=GangPlacement.RESERVE)
    scenario.gang(ApplicationAdded(spec), 500)
    scenario.wait(120)
    tried = [ask for ask in scenario.app().asks.values() if ask.attempts]
    assert len(tried) == 65
