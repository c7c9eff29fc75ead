"""A victim has its grace period and two minutes to terminate before another one is selected for the same request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.constraints import DELETION_TIME, GRACE_PERIOD, TERMINATING, TERMINATING_PREEMPTED
from muster_core.model.events import AllocationReported
from muster_core.model.ids import AllocationId
from tests.unit.builders import SECOND, a_configuration, a_queue, an_allocation, an_ask
from tests.unit.core.scheduling.preemption_scenario import PREEMPTED, pods, run, victims
from tests.unit.core.scheduling.scenario import Scenario, placed

HOUR = 3600


def preempting(grace: str) -> tuple[Scenario, str]:
    """A pod of root.a preempts one of two pods of root.b, each on a node of its own. Returns the victim."""
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=1000), a_queue("b")), nodes=2, vcore=1000)
    run(scenario, "root.b", *(replace(pod, tags={GRACE_PERIOD: grace}) for pod in pods("b", 2)))
    run(scenario, "root.a", an_ask("x"))
    [victim] = victims(scenario.wait(31))
    return scenario, victim


def deleted(scenario: Scenario, victim: str, grace: str, in_s: int) -> None:
    """The resource manager reports the deletion of the victim."""
    [old] = [one for one in scenario.app("b").allocations.values() if one.spec.key == victim]
    gone_s = scenario.now_ns // SECOND + in_s
    tags = {GRACE_PERIOD: grace, TERMINATING: TERMINATING_PREEMPTED, DELETION_TIME: str(gone_s)}
    report = replace(an_allocation(victim, old.node, app="b"), id=AllocationId(old.id), tags=tags)
    scenario.send(AllocationReported(report))


@pytest.mark.parametrize(
    "grace, seconds",
    [("0", 0), ("", 30), ("30", 30), ("600", 600), ("3600", HOUR), ("86400", HOUR), (str(2**63), HOUR), ("-1", 30)],
)
def test_no_second_victim_is_selected_before_the_grace_period_and_two_minutes(grace: str, seconds: int) -> None:
    """A grace period counts with at most one hour, so that a user cannot stop preemption with one pod."""
    scenario, victim = preempting(grace)
    assert victims(scenario.wait(seconds + 115)) == set()
    assert len(victims(scenario.wait(60)) - {victim}) == 1


def test_a_pod_that_terminates_at_the_end_of_its_grace_period_is_the_only_victim() -> None:
    scenario, victim = preempting("1800")
    assert victims(scenario.wait(1800)) == set()
    assert placed(scenario.release(victim, app="b", why=PREEMPTED)).keys() == {"x"}


def test_the_node_stays_reserved_until_the_longest_grace_period_is_over() -> None:
    scenario, victim = preempting(str(10 * HOUR))
    scenario.wait(HOUR + 60)
    assert [one.key for one in scenario.partition.reservations.by_ask.values()] == ["x"]
    assert placed(scenario.release(victim, app="b", why=PREEMPTED)).keys() == {"x"}


def test_the_deletion_time_of_the_pod_replaces_its_grace_period() -> None:
    scenario, victim = preempting("30")
    deleted(scenario, victim, "30", 900)
    assert victims(scenario.wait(900 + 115)) == set()
    assert len(victims(scenario.wait(60)) - {victim}) == 1


def test_a_deletion_time_beyond_an_hour_counts_as_an_hour() -> None:
    scenario, victim = preempting("30")
    deleted(scenario, victim, "30", 2**40)
    assert victims(scenario.wait(HOUR + 115)) == set()
    assert len(victims(scenario.wait(60)) - {victim}) == 1
