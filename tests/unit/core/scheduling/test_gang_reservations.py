"""A gang gets all, some or none of its reservations."""

from dataclasses import replace

from muster_core.model.config import Timing
from muster_core.model.constraints import Constraints
from muster_core.model.effects import AllocationResponse
from muster_core.model.events import ApplicationAdded, NodeAdded, NodeUpdated
from muster_core.model.ids import AllocationKey, TaskGroup, Termination
from muster_core.model.specs import Member
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import confirm, victims
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, rejection, releases, states, waits


def test_a_gang_that_fits_is_placed_in_one_answer_and_runs() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    effects = scenario.gang(an_application(gang=6), 6)
    assert len(placed(effects)) == 6
    assert states(effects) == ["Accepted", "Running"]
    assert len([effect for effect in effects if isinstance(effect, AllocationResponse) and effect.new]) == 1


def test_real_asks_are_ignored_until_all_placeholders_are_allocated() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    early = scenario.submit(
        an_application(gang=3), an_ask("real", group="workers"), an_ask("app-p0", group="workers", placeholder=True)
    )
    assert set(placed(early)) == {"app-p0"}
    rest = scenario.ask(*(an_ask(f"app-p{i}", group="workers", placeholder=True) for i in (1, 2)))
    assert set(placed(rest)) == {"app-p1", "app-p2"}
    assert states(rest) == ["Running"]
    assert scenario.app().asks[AllocationKey("real")].replacement is not None


def test_a_gang_in_a_fair_leaf_is_refused_with_the_property_to_change() -> None:
    scenario = Scenario(a_configuration(a_queue("a", fair=True)), nodes=2)
    reason = rejection(scenario.submit(an_application(gang=2)))
    assert "root.a" in reason
    assert "application.sort.policy" in reason


def test_a_gang_over_the_quota_of_a_parent_is_refused_with_both_amounts() -> None:
    scenario = Scenario(a_configuration(a_queue("p", a_queue("a"), vcore=3000)), nodes=2)
    reason = rejection(scenario.submit(an_application(queue="root.p.a", gang=4)))
    assert "root.p" in reason
    assert "requests cpu 4 in" in reason
    assert "of queue root.p is 3:" in reason


def test_a_gang_is_accepted_in_a_dynamic_queue() -> None:
    scenario = Scenario(a_configuration(), nodes=1)
    assert rejection(scenario.submit(an_application(queue="", gang=4))) == ""
    assert scenario.app().queue.path == "root.ns"


def test_a_gang_reserves_what_fits_in_the_headroom_of_its_queue_and_the_rest_later() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scenario.submit(an_application("busy"), *(an_ask(f"b{i}") for i in range(2)))
    effects = scenario.gang(an_application("gang", gang=3), 3)
    assert placed(effects).keys() == {"gang-p0", "gang-p1"}
    state, reason = waits(effects)["gang-p2"]
    assert state == "SKIPPED"
    assert "root.a" in reason
    freed = scenario.release("b0", "busy")
    assert set(placed(freed)) == {"gang-p2"}


def test_an_application_that_has_not_started_does_not_overtake_a_gang_that_waits_for_quota() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scenario.submit(an_application("busy"), *(an_ask(f"b{i}") for i in range(2)))
    scenario.gang(an_application("gang", gang=2, each=resources(vcore=1500, pods=1)), 2)
    assert scenario.app("gang").gang.reserved["vcore"] == 1500
    late = scenario.submit(an_application("late"), an_ask("l0", vcore=500))
    assert waits(late)["l0"][0] == "SKIPPED"
    running = scenario.ask(an_ask("b2", app="busy", vcore=500))
    assert set(placed(running)) == {"b2"}, "an application that runs may grow"


def test_a_starving_gang_reserves_quota_before_running_applications_grow() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=2)
    scenario.submit(an_application("busy"), *(an_ask(f"b{i}") for i in range(2)))
    scenario.gang(an_application("gang", gang=2, each=resources(vcore=1500, pods=1)), 2)
    scenario.wait(61)
    assert placed(scenario.ask(an_ask("b2", app="busy", vcore=500))) == {}
    assert placed(scenario.release("b0", "busy")).keys() == {"gang-p1"}


def test_reserved_quota_is_not_given_to_other_applications() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scenario.submit(an_application("gang", gang=4), an_ask("gang-p0", group="workers", placeholder=True))
    assert placed(scenario.submit(an_application("other"), an_ask("o"))) == {}
    rest = scenario.ask(*(an_ask(f"gang-p{i}", app="gang", group="workers", placeholder=True) for i in (1, 2, 3)))
    assert states(rest, "gang") == ["Running"]


def test_several_gangs_can_have_partial_reservations() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=5000)
    scenario.add_full_node(vcore=30_000)
    first = scenario.gang(an_application("one", gang=6, each=resources(vcore=3000, pods=1)), 2)
    assert len(placed(first)) == 1
    second = scenario.gang(an_application("two", queue="root.b", gang=3), 3)
    assert len(placed(second)) == 2


def test_two_gangs_competing_for_the_same_resources_both_finish() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    scenario.send(ApplicationAdded(an_application("one", gang=4)), ApplicationAdded(an_application("two", gang=4)))
    effects = []
    for index in range(4):
        for app in ("one", "two"):
            effects += scenario.ask(an_ask(f"{app}-p{index}", app=app, group="workers", placeholder=True))
    assert victims(effects) == {"two-p0", "two-p1"}, "the first gang takes over what the second one holds"
    assert states(confirm(scenario, effects), "one") == ["Running"]
    scenario.ask(*(an_ask(f"two-again{index}", app="two", group="workers", placeholder=True) for index in range(2)))
    last = [effect for index in range(4) for effect in scenario.release(f"one-p{index}", "one")]
    assert states(last, "two") == ["Running"]


def test_a_gang_larger_than_the_empty_cluster_is_reported_once_and_reserves_what_fits() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    effects = scenario.gang(an_application(gang=6), 6)
    assert len(placed(effects)) == 4
    assert {state for state, _ in waits(effects).values()} == {"FAILED"}, "an autoscaler may help"
    [notice] = notices(effects)
    assert "2 of 6 members of task group workers" in notice
    assert "Insufficient cpu" in notice
    assert notices(scenario.ask(an_ask("app-p6", group="workers", placeholder=True))) == []
    assert "Running" in states(scenario.add_node("n1"))


def test_a_gang_larger_than_the_empty_cluster_is_the_first_to_lose_its_reservations() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=4000)
    scenario.gang(an_application("huge", gang=6), 6)
    effects = scenario.gang(an_application("fits", queue="root.b", gang=3), 3)
    assert len(releases(effects)) == 3, "although the huge gang is older"
    for key in releases(effects):
        effects += scenario.release(key, "huge", why=Termination.PREEMPTED_BY_SCHEDULER)
    assert "Running" in states(effects, "fits")


def test_a_gang_reserves_within_its_quota_after_the_nodes_grow() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=5000)), nodes=1, vcore=1000)
    scenario.submit(an_application(gang=2, each=resources(vcore=2000, pods=1)))
    asks = (an_ask(f"p{index}", group="workers", placeholder=True, vcore=3000) for index in range(2))
    assert placed(scenario.ask(*asks)) == {}, "with its sidecars it is larger than its queue"
    assert list(placed(scenario.send(NodeUpdated(a_node("n0", 9000)))).values()) == ["n0"]


def test_a_gang_with_a_task_group_that_fits_no_node_reserves_the_others_and_ends_by_its_style() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    small, large = resources(vcore=1000, pods=1), resources(vcore=5000, pods=1)
    members = (Member(TaskGroup("small"), 2, small), Member(TaskGroup("large"), 1, large))
    spec = replace(an_application(gang=1, timeout_s=10), members=members, placeholder_ask=small.times(2) + large)
    scenario.submit(spec)
    effects = scenario.ask(
        an_ask("p0", group="small", placeholder=True), an_ask("p1", group="large", placeholder=True, vcore=5000)
    )
    assert placed(effects) == {"p0": "n0"}
    assert waits(effects)["p1"][0] == "FAILED"
    assert not scenario.app().failures
    effects = scenario.wait(11)
    assert states(effects) == ["Resuming"]
    assert releases(effects) == {"p0": Termination.TIMEOUT}


def test_a_missing_member_is_reported_as_outstanding_with_the_nodes_reasons() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=4000)
    scenario.add_full_node()
    effects = waits(scenario.gang(an_application(gang=5), 5))
    assert [(state, "Insufficient cpu" in reason) for state, reason in effects.values()] == [("FAILED", True)]


def test_gangs_that_share_no_node_do_not_delay_each_other() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")))
    scenario.add_full_node("n-full")
    hdd, ssd = (Constraints(node_selector=(("disk", kind),)) for kind in ("hdd", "ssd"))
    scenario.send(
        NodeAdded(a_node("n0", 2000, labels={"disk": "hdd"})), NodeAdded(a_node("n1", 1000, labels={"disk": "ssd"}))
    )
    assert len(placed(scenario.gang(an_application("huge", gang=5), 5, hdd))) == 2
    effects = scenario.gang(an_application("picky", queue="root.b", gang=2), 2, ssd)
    assert len(placed(effects)) == 1
    grown = scenario.send(NodeAdded(a_node("n2", 1000, labels={"disk": "ssd"})))
    assert states(grown, "picky") == ["Running"]


def test_releasing_a_pending_placeholder_ask_lets_the_gang_run() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.gang(an_application(gang=2), 3)
    assert scenario.app().state == "Accepted", "a placeholder ask is still pending"
    assert states(scenario.release_ask("app-p2")) == ["Running"]
    assert resources(vcore=2000, pods=2) == scenario.app().gang.reserved
