"""How long a Direct gang waits, its quota reservation meanwhile, and takeovers of its reservations."""

from dataclasses import replace

import pytest

from muster_core.model.config import Configuration, QueuePolicies, Timing
from muster_core.model.effects import PlacementsProposed, SchedulingStateChanged, VictimsProposed
from muster_core.model.events import AskAdded, CallbacksDeclared, NodeAction, NodeAdded, PlacementsEvaluated
from muster_core.model.ids import NodeId, TaskGroup, Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import GangStyle
from tests.unit.builders import RM, SECOND, a_configuration, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.direct import KEY, a_gang, answers, bound, held, member, members, with_members
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, releases, states, waits

SOON = QueuePolicies(preemption_delay_ns=SECOND)


def guarded(*, quota: bool = False, most: int | None = None) -> Configuration:
    """Leaf b has a guarantee of 2 cores; leaf a preempts pods over its maximum after 5 s."""
    policies = replace(SOON, quota_preemption_delay_ns=5 * SECOND)
    made = a_configuration(a_queue("a", policies=policies, vcore=most), a_queue("b", guaranteed=2000, policies=SOON))
    [partition] = made.partitions
    return replace(made, partitions=(replace(partition, preemption=True, quota_preemption=quota),))


def test_a_soft_gang_is_scheduled_without_reservation_after_the_wait_timeout() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(5, wait_s=60), nodes=1)
    assert placed(scenario.ask(*members(5))) == {}
    effects = scenario.wait(61)
    assert states(effects) == ["Resuming", "Accepted", "Running"]
    assert len(placed(effects)) == 4
    assert answers(effects)[0].released_asks == ()


def test_a_hard_gang_fails_after_the_wait_timeout_and_releases_its_members() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), a_gang(5, wait_s=60, style=GangStyle.HARD), nodes=1)
    scenario.ask(member("r0"))
    effects = scenario.wait(61)
    assert states(effects) == ["Failing", "Failed"]
    [answer] = answers(effects)
    assert [(one.key, one.termination) for one in answer.released_asks] == [("r0", Termination.TIMEOUT)]


def test_the_style_has_no_effect_after_the_placeholders_are_reserved() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(a_gang(3, wait_s=30, timeout_s=60, style=GangStyle.HARD))
    scenario.ask(member("r0"))
    assert states(scenario.wait(100)) == []
    assert scenario.app().state == "Running"


def test_the_placeholder_timer_starts_with_the_reservation() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), *with_members(a_gang(3, timeout_s=60)), nodes=1, vcore=1000)
    assert scenario.wait(100) == []
    scenario.add_node("n1")
    scenario.wait(59)
    assert held(scenario) == 2
    scenario.wait(2)
    assert held(scenario) == 0


def test_a_gang_that_fits_no_nodes_reserves_no_quota_until_it_starves() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=6000), timing=timing), *with_members(a_gang(5)), nodes=1)
    assert scenario.app().gang.quota_reservation == NOTHING
    scenario.wait(61)
    assert scenario.app().gang.quota_reservation == resources(vcore=5000, pods=5)
    scenario.add_node("n1")
    assert held(scenario) == 4
    assert scenario.app().gang.quota_reservation == NOTHING


def test_a_gang_larger_than_the_empty_cluster_is_reported_once() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    [effects] = notices(scenario.send(*with_members(a_gang(5))))
    assert effects.startswith("the gang would not fit even in an empty cluster: 1 of 5 members of task group workers")
    assert notices(scenario.ask(*members(5)[1:])) == []


def test_present_and_absent_members_of_a_group_are_counted_together() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=1000)
    [effects] = notices(scenario.send(a_gang(2), AskAdded(member("smaller", vcore=900))))
    assert ": 1 of 2 members of task group workers would not fit" in effects


@pytest.mark.parametrize(
    "resource, ending",
    [
        ("nvidia.com/gpus", "No node has nvidia.com/gpus; did you mean nvidia.com/gpu?"),
        ("amd.com/gpu", "It waits for nodes to be added"),
        ("nvidia.com/gpu", "It waits for nodes to be added"),
    ],
)
def test_a_mistyped_resource_is_answered_with_the_name_that_nodes_have(resource: str, ending: str) -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=0)
    node = a_node("n0", 4000)
    scenario.send(NodeAdded(replace(node, capacity=node.capacity + resources(**{"nvidia.com/gpu": 1}))))
    each = resources(vcore=1000, pods=1, **{resource: 2})
    asks = (AskAdded(replace(one, resources=each)) for one in members(2))
    [message] = notices(scenario.send(a_gang(2, each=each), *asks))
    assert message.endswith(ending)


def test_a_gang_that_a_new_configuration_makes_impossible_waits_with_the_reason() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), *with_members(a_gang(5)), nodes=1)
    effects = scenario.reload(a_configuration(a_queue("a", vcore=2000)))
    assert states(effects) == []
    assert waits(effects)[KEY] == ("SKIPPED", notices(effects)[0])
    assert "the gang requests cpu 5 in total" in notices(effects)[0]


def test_a_gang_that_may_not_start_yet_reports_for_its_members() -> None:
    scenario = Scenario(a_configuration(a_queue("a", max_applications=1)), nodes=2)
    scenario.submit(an_application("first"), an_ask("f0"))
    assert waits(scenario.send(a_gang(3))).keys() == {KEY}
    assert waits(scenario.ask(*members(3))) == {}
    scenario.release("f0", "first")
    assert held(scenario) == 0
    assert scenario.app().real_allocations == 3


# -- preemption --------------------------------------------------------------------


def test_virtual_placeholders_are_preempted_immediately() -> None:
    scenario = Scenario(guarded(), a_gang(4), nodes=1)
    scenario.ask(member("r0"))
    scenario.submit(an_application("poor", queue="root.b"), an_ask("p0"), an_ask("p1"))
    effects = scenario.wait(20)
    assert placed(effects).keys() == {"p0", "p1"}
    assert releases(effects) == {}
    assert held(scenario) == 1
    assert scenario.partition.preemptions.running == {}


def test_a_member_whose_placeholder_was_preempted_waits_for_resources() -> None:
    scenario = Scenario(guarded(), *with_members(a_gang(4)), nodes=1)
    scenario.submit(an_application("poor", queue="root.b"), an_ask("p0"), an_ask("p1"))
    scenario.wait(20)
    effects = scenario.ask(*members(3)[1:])
    assert placed(effects).keys() == {"app-r1"}
    assert waits(effects)["app-r2"][0] == "FAILED"


def test_a_queue_over_a_lowered_maximum_releases_virtual_placeholders_first() -> None:
    scenario = Scenario(guarded(quota=True), a_gang(4), nodes=1)
    scenario.ask(member("r0"))
    scenario.reload(guarded(quota=True, most=2000))
    effects = scenario.wait(10)
    assert releases(effects) == {}
    assert held(scenario) == 1
    assert scenario.app().real_allocations == 1


def test_a_guaranteed_gang_preempts_for_all_placeholders_and_reports_once() -> None:
    scenario = Scenario(guarded(), nodes=1)
    scenario.submit(an_application("rich"), *(an_ask(f"r{index}") for index in range(4)))
    effects = scenario.send(*with_members(a_gang(2, "poor", queue="root.b")))
    assert [(key, state) for key, (state, _) in waits(effects).items()] == [("poor/workers", "FAILED")]
    gone = scenario.wait(5)
    assert set(releases(gone).values()) == {Termination.PREEMPTED_BY_SCHEDULER}
    reported = [one for one in gone if isinstance(one, SchedulingStateChanged)]
    assert [(one.key, one.state, one.preemption_node) for one in reported] == [("poor/workers", "RESERVED", None)]
    assert held(scenario, "poor") == 0
    why = Termination.PREEMPTED_BY_SCHEDULER
    effects = [effect for key in releases(gone) for effect in scenario.release(key, "rich", why)]
    assert placed(effects).keys() == {"poor-r0"}
    assert held(scenario, "poor") == 1
    spoken = [one for one in effects if isinstance(one, SchedulingStateChanged) and one.application == "poor"]
    assert [(one.key, one.reason) for one in spoken] == [("poor/workers", "all members are reserved")]
    assert scenario.app("poor").gang.groups[TaskGroup("workers")].count == 2
    assert len(placed(scenario.ask(*members(2, "poor")[1:]))) == 1


def test_a_direct_gang_that_is_given_up_while_victims_terminate_is_no_longer_reported_as_waiting() -> None:
    scenario = Scenario(guarded(), nodes=1)
    scenario.submit(an_application("rich"), *(an_ask(f"r{index}") for index in range(4)))
    scenario.send(*with_members(a_gang(2, "poor", queue="root.b", wait_s=20)))
    assert waits(scenario.wait(5))["poor/workers"][0] == "RESERVED"
    changes = [one for one in scenario.wait(20) if isinstance(one, SchedulingStateChanged)]
    assert [one.state for one in changes if one.key == "poor/workers"] == ["SCHEDULED"]


def test_a_direct_gang_waits_for_nodes_again_after_its_preemption_was_cancelled() -> None:
    scenario = Scenario(guarded(), nodes=1)
    scenario.submit(an_application("rich"), *(an_ask(f"r{index}") for index in range(4)))
    scenario.send(*with_members(a_gang(2, "poor", queue="root.b")))
    assert waits(scenario.wait(5))["poor/workers"][0] == "RESERVED"
    assert waits(scenario.node("n0", NodeAction.DRAIN))["poor/workers"][0] == "FAILED"


def test_a_gang_that_cannot_preempt_reports_until_no_member_is_missing() -> None:
    scenario = Scenario(guarded(), an_application("rich"), nodes=1)
    daemons = (replace(an_ask(f"r{index}", app="rich"), required_node=NodeId("n0")) for index in range(4))
    scenario.ask(*daemons)
    scenario.send(*with_members(a_gang(2, "poor", queue="root.b")))
    assert releases(scenario.wait(5)) == {}
    requested = [ask for ask in scenario.app("poor").asks.values() if ask.spec.is_virtual]
    assert [ask.left for ask in requested] == [2], "places are asked for alone only if they have victims"
    [state, reason] = waits(scenario.send(bound("w0", "n0", app="poor")))["poor/workers"]
    assert (state, reason.startswith("1 of 2 members")) == ("FAILED", True)
    assert waits(scenario.send(bound("w1", "n0", app="poor")))["poor/workers"][0] == "SCHEDULED"


# -- predicates and preemption -------------------------------------------------------


def test_placement_validation_covers_members_but_not_virtual_placeholders() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), CallbacksDeclared(RM, True, False), nodes=1)
    effects = scenario.send(*with_members(a_gang(3)))
    assert held(scenario) == 3
    [proposed] = [effect for effect in effects if isinstance(effect, PlacementsProposed)]
    assert proposed.places == (("app-r0", "n0"),)
    assert placed(scenario.send(PlacementsEvaluated(RM, proposed.number, ("",)))) == {"app-r0": "n0"}
    assert held(scenario) == 2


def test_victim_validation_excludes_virtual_placeholders() -> None:
    scenario = Scenario(guarded(), CallbacksDeclared(RM, False, True), *with_members(a_gang(4)), nodes=1)
    scenario.submit(an_application("poor", queue="root.b"), an_ask("p0"))
    proposed = [effect for effect in scenario.wait(5) if isinstance(effect, VictimsProposed)]
    assert [(one.key, one.victims) for one in proposed] == [("p0", ())]
