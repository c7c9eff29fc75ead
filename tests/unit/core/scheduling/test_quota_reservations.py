"""Quota reservations never block each other permanently, and end with their gang."""

from muster_core.model.config import Timing
from muster_core.model.events import ConfigurationReplaced, NodeAction
from tests.unit.builders import RM, SECOND, a_configuration, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import confirm, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, rejection, states

TIMING = Timing(starvation_age_ns=60 * SECOND)


def crowded() -> Scenario:
    """Under a parent with 4 cores, a running application has 3, and gangs of 2 large members wait in two leaves."""
    queues = a_queue("p", a_queue("a"), a_queue("b"), a_queue("c"), vcore=4000)
    scenario = Scenario(a_configuration(queues, timing=TIMING), nodes=4)
    scenario.submit(an_application("busy", queue="root.p.c"), *(an_ask(f"b{index}") for index in range(3)))
    for name in ("a", "b"):
        gang = an_application(name, queue=f"root.p.{name}", gang=2, each=resources(vcore=1500, pods=1))
        assert placed(scenario.gang(gang, 2)) == {}
    return scenario


def test_two_starving_gangs_under_one_parent_do_not_block_each_other() -> None:
    scenario = crowded()
    scenario.wait(61)
    assert scenario.app("a").gang.quota_reservation, "starving gangs pledge before the head room is there"
    freed = [effect for index in range(3) for effect in scenario.release(f"b{index}", "busy")]
    freed += confirm(scenario, scenario.wait(20))  # the first one takes over what the second one has
    first, second = ("a", "b") if scenario.app("a").state == "Running" else ("b", "a")
    assert states(freed, first) == ["Running"]
    again = an_ask(f"{second}-p3", app=second, vcore=1500, group="workers", placeholder=True)
    rest = scenario.ask(again)
    rest += [effect for index in range(2) for effect in scenario.release(f"{first}-p{index}", first)]
    assert states(rest, second) == ["Running"]


def test_a_starving_gang_does_not_take_the_quota_reservation_of_another() -> None:
    queues = a_queue("p", a_queue("a"), a_queue("b"), vcore=4000)
    scenario = Scenario(a_configuration(queues, timing=TIMING), nodes=1, vcore=2000)
    scenario.add_full_node()
    assert len(placed(scenario.gang(an_application("a", queue="root.p.a", gang=4), 4))) == 2
    scenario.gang(an_application("b", queue="root.p.b", gang=2), 2)
    scenario.wait(61)
    grown = scenario.add_node("n1", vcore=2000)
    assert states(grown, "a") == ["Running"]


def test_a_starving_gang_whose_asks_are_released_leaves_no_quota_reservation() -> None:
    scenario = crowded()
    scenario.wait(61)
    for index in range(2):
        scenario.release_ask(f"a-p{index}", "a")
        scenario.release_ask(f"b-p{index}", "b")
    parent = scenario.app("busy").queue.parent
    assert parent is not None
    assert not parent.reserved_quota
    assert not parent.requested_quota
    assert placed(scenario.ask(an_ask("b3", app="busy"))).keys() == {"b3"}


def test_quota_reservations_over_a_lowered_maximum_do_not_block_each_other() -> None:
    def sized(vcore: int) -> ConfigurationReplaced:
        return ConfigurationReplaced(RM, a_configuration(a_queue("p", a_queue("a"), a_queue("b"), vcore=vcore)))

    scenario = Scenario(sized(6000).configuration, nodes=1, vcore=500)
    for name in ("a", "b"):
        scenario.gang(an_application(name, queue=f"root.p.{name}", gang=3), 3)
        assert scenario.app(name).gang.granted
    scenario.send(sized(4000))
    first = scenario.add_node("n1", vcore=8000)
    assert sorted([*states(first, "a"), *states(first, "b")]) == ["Running"]
    done, other = ("a", "b") if states(first, "a") else ("b", "a")
    assert states([e for i in range(3) for e in scenario.release(f"{done}-p{i}", done)], other) == ["Running"]


def test_a_gang_whose_asks_are_released_drops_its_quota_reservation() -> None:
    queues = a_queue("p", a_queue("a"), a_queue("b"), vcore=4000)
    scenario = Scenario(a_configuration(queues), nodes=1, vcore=500)
    scenario.gang(an_application("gang", queue="root.p.a", gang=4), 1)
    assert scenario.app("gang").gang.quota_reservation == resources(vcore=4000, pods=4)
    assert placed(scenario.submit(an_application("other", queue="root.p.b"), an_ask("o", vcore=500))) == {}
    assert placed(scenario.release_ask("gang-p0", "gang")) == {"o": "n0"}


def test_a_gang_reserves_a_part_next_to_an_incomplete_gang() -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1, vcore=2500)
    scenario.add_full_node()
    scenario.gang(an_application("one", gang=2), 3)
    half = resources(vcore=500, pods=1)
    effects = scenario.gang(an_application("two", queue="root.b", gang=2, each=half), 2)
    assert placed(effects) == {"two-p0": "n0"}
    assert states(scenario.release_ask("one-p2", "one"), "one") == ["Running"]


def test_a_gang_that_lost_all_its_reservations_contends_with_no_gang() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application("one", gang=4), 2)
    assert "one" in scenario.partition.contention.holding
    scenario.node("n0", NodeAction.DECOMMISSION)
    for index in range(2):
        scenario.release_ask(f"one-p{index}", "one")
    assert not scenario.partition.contention.holding


def test_placeholders_larger_than_declared_are_placed_when_the_quota_is_raised() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), an_application("gang", gang=4), nodes=2)
    asks = (an_ask(f"p{i}", app="gang", vcore=1200, group="workers", placeholder=True) for i in range(4))
    assert len(placed(scenario.ask(*asks))) == 3
    raised = scenario.reload(a_configuration(a_queue("a", vcore=6000)))
    assert states(raised, "gang") == ["Running"]


def test_the_warning_is_reported_when_asks_arrive_one_by_one() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(gang=3), nodes=1, vcore=2000)
    effects = [
        notice
        for index in range(3)
        for notice in notices(scenario.ask(an_ask(f"p{index}", group="workers", placeholder=True)))
    ]
    assert len(effects) == 1
    assert "even in an empty cluster" in effects[0]


def test_the_warning_is_repeated_when_a_larger_cluster_is_still_too_small() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), an_application(gang=5), nodes=1, vcore=2000)
    asks = [an_ask(f"p{index}", group="workers", placeholder=True) for index in range(5)]
    assert len(notices(scenario.ask(*asks))) == 1
    assert notices(scenario.wait(60)) == []
    assert len(notices(scenario.add_node("n1", vcore=2000))) == 1
    assert notices(scenario.add_node("n2", vcore=2000)) == []


def test_a_quota_rejection_names_the_field_and_the_fix() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=2000)))
    reason = rejection(scenario.submit(an_application(gang=3)))
    assert "in total, the maximum of queue" in reason
    assert "minMember" in reason


def test_a_gang_that_has_no_request_left_does_not_block_its_leaf() -> None:
    """Its last request was placed when another member had just ended, so it is still incomplete."""
    scenario = Scenario(a_configuration(a_queue("a", vcore=3000)), nodes=1)
    scenario.submit(an_application("busy", queue="root.a"), *(an_ask(f"b{index}") for index in range(3)))
    scenario.gang(an_application("gang", queue="root.a", gang=3), 3)
    scenario.release("b0", "busy")
    scenario.release("b1", "busy")
    assert placed(scenario.release("gang-p0", "gang")).keys() == {"gang-p2"}
    scenario.submit(an_application("behind", queue="root.a"), an_ask("r"))
    assert placed(scenario.release("b2", "busy")).keys() == {"r"}


def test_a_preemption_does_not_withdraw_a_granted_reservation_while_its_victims_are_released() -> None:
    """The victims count towards the parent's maximum, and so do the requests that get their resources."""
    queues = a_queue("p", a_queue("a", guaranteed=2000), a_queue("b"), guaranteed=2000, vcore=5000)
    scenario = Scenario(with_preemption(queues), nodes=1, vcore=2000)
    scenario.add_full_node()
    run(scenario, "root.p.b", *pods("r", 2))
    scenario.gang(an_application("gang", queue="root.p.b", gang=2), 2)
    assert scenario.app("gang").gang.granted
    effects = run(scenario, "root.p.a", *pods("poor", 2)) + scenario.wait(60)
    assert victims(effects) == {"r0", "r1"}
    assert len(placed(scenario.add_node("n1", vcore=1000))) == 1
    assert scenario.app("gang").gang.granted
    assert placed(confirm(scenario, effects)).keys() == {"poor0", "poor1"}
    assert states(scenario.add_node("n2", vcore=1000), "gang") == ["Running"]
