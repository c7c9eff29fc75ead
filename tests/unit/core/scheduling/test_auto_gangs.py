"""An Auto gang: members without a pod have virtual placeholders, or placeholder pods that took their slots."""

from dataclasses import replace

from muster_core.model.events import ApplicationAdded, AskAdded, NodeAction, RecoveryBarrierPassed
from muster_core.model.ids import NodeId, TaskGroup, Termination
from muster_core.model.specs import GangStyle, Member
from tests.unit.builders import RM, a_configuration, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.auto import CONFIGURATION, WORKERS, a_gang, awaits_barrier, pod, pods, slots
from tests.unit.core.scheduling.direct import KEY, answers, bound, held, member, members, with_members
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks, released_asks, releases, states, waits

# -- while the gang reserves ---------------------------------------------------


def test_members_that_exist_need_no_placeholder_pod() -> None:
    scenario = Scenario(CONFIGURATION, nodes=2)
    effects = scenario.send(*with_members(a_gang(5)))
    assert states(effects) == ["Accepted", "Running"]
    assert placed(effects).keys() == {"app-r0"}
    assert slots(scenario) == (0, 4, 0)
    assert len(placed(scenario.ask(*members(5)[1:]))) == 4
    assert slots(scenario) == (0, 0, 0)


def test_a_placeholder_pod_takes_the_slot_of_a_virtual_placeholder() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(5)), nodes=1)
    assert slots(scenario) == (5, 0, 0)
    assert placed(scenario.ask(*pods(3))) == {}
    assert slots(scenario) == (5, 0, 0)
    effects = scenario.add_node("n1")
    assert states(effects) == ["Running"]
    assert placed(effects).keys() == {"app-r0", "app-p0", "app-p1", "app-p2"}
    assert slots(scenario) == (0, 1, 3)


def test_nothing_is_placed_before_all_slots_have_a_node() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5), nodes=1)
    assert placed(scenario.ask(member("r0"), *pods(4))) == {}
    assert len(placed(scenario.add_node("n1"))) == 5


def test_present_members_and_placeholder_pods_report_missing_nodes() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(5)), nodes=1)
    reasons = waits(scenario.ask(*pods(4)))
    assert {key: state for key, (state, _) in reasons.items()} == {f"app-p{index}": "FAILED" for index in range(4)}
    assert "4 of 5 members of task group workers fit" in reasons["app-p0"][1]
    assert waits(scenario.add_node("n1"))[KEY] == ("SCHEDULED", "all members are reserved")


def test_a_group_of_absent_members_has_only_the_reports_of_their_pods() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1)
    gang = a_gang(5)
    driver = Member(TaskGroup("driver"), 1, resources(vcore=1000, pods=1))
    gang = replace(gang, spec=replace(gang.spec, members=(driver, *gang.spec.members)))
    effects = scenario.send(gang, AskAdded(replace(member("driver"), group=driver.group)))
    assert waits(effects)[KEY][0] == "FAILED"
    assert waits(scenario.ask(*pods(5)))[KEY] == ("SCHEDULED", "no longer waiting for a reservation")


def test_a_deleted_placeholder_pod_returns_its_slot() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(5)), nodes=1)
    scenario.ask(*pods(4))
    assert released_asks(scenario.release_ask("app-p0")) == {"app-p0": Termination.STOPPED_BY_RM}
    assert slots(scenario) == (5, 0, 0)
    assert refused_asks(scenario.ask(pod("p9"))) == {}
    assert slots(scenario) == (5, 0, 0)
    effects = scenario.add_node("n1")
    assert sorted(placed(effects)) == ["app-p1", "app-p2", "app-p3", "app-r0", "p9"]


def test_a_pod_without_a_slot_is_returned() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5), nodes=1)
    assert released_asks(scenario.ask(*pods(6))) == {"app-p5": Termination.TIMEOUT}
    assert slots(scenario) == (5, 0, 0)


def test_a_repeated_request_of_a_pod_keeps_one_slot() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5), nodes=1)
    scenario.ask(*pods(5))
    scenario.ask(pods(5)[0], replace(pods(5)[1], priority=3))
    assert slots(scenario) == (5, 0, 0)


def test_a_request_for_several_pods_is_rejected() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5), nodes=1)
    assert "one placeholder, not 2" in refused_asks(scenario.ask(replace(pod("many"), max_allocations=2)))["many"]


def test_a_gang_that_waits_for_quota_holds_nothing() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000)), nodes=2)
    scenario.submit(an_application("other"), an_ask("other-1", vcore=1000))
    scenario.send(a_gang(4))
    effects = scenario.ask(*members(2), *pods(2))
    assert placed(effects) == {}
    assert {state for state, _ in waits(effects).values()} == {"SKIPPED"}
    assert scenario.app().gang.allocated == resources()
    assert len(placed(scenario.release("other-1", "other"))) == 4


def test_the_wait_timeout_of_a_soft_gang_releases_pods_and_schedules_members() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5, wait_s=60), nodes=1)
    scenario.ask(*members(2), *pods(3))
    effects = scenario.wait(61)
    assert set(released_asks(effects)) == {"app-p0", "app-p1", "app-p2"}
    assert states(effects) == ["Resuming", "Accepted", "Running"]
    assert set(placed(effects)) == {"app-r0", "app-r1"}


def test_the_wait_timeout_fails_a_hard_gang() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5, wait_s=60, style=GangStyle.HARD), nodes=1)
    scenario.ask(*members(2), *pods(3))
    effects = scenario.wait(61)
    assert states(effects) == ["Failing", "Failed"]
    assert set(released_asks(effects)) == {"app-p0", "app-p1", "app-p2", "app-r0", "app-r1"}


# -- when the gang is complete -------------------------------------------------


def test_a_pod_gets_the_node_of_a_reserved_slot_at_once() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(8)), nodes=2)
    assert slots(scenario) == (0, 7, 0)
    assert sorted(placed(scenario.ask(*pods(3))).values()) in (["n0", "n0", "n0"], ["n1", "n1", "n1"])
    assert slots(scenario) == (0, 4, 3)
    assert scenario.app().gang.groups[WORKERS].count == 8
    assert scenario.app().gang.groups[WORKERS].replaced == 1


def test_members_take_virtual_placeholders_before_pods() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(5)), nodes=2)
    scenario.ask(*pods(2))
    effects = scenario.ask(*members(4)[1:])
    assert len(placed(effects)) == 2
    assert list(releases(effects).values()) == [Termination.PLACEHOLDER_REPLACED]
    assert slots(scenario) == (0, 0, 1)


def test_a_pod_that_a_member_replaces_is_released_first() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(2)), nodes=1)
    scenario.ask(pod("p0"))
    assert placed(scenario.ask(member("r0"))) == {}
    effects = scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)
    assert placed(effects) == {"r0": "n0"}


def test_the_slot_of_a_deleted_pod_stays_reserved_on_its_node() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(4)), nodes=1)
    scenario.ask(*pods(3))
    scenario.submit(an_application("other", queue="root.b"), an_ask("other-1", vcore=1000))
    assert placed(scenario.release("app-p0")) == {}, "the other application gets nothing"
    assert slots(scenario) == (0, 1, 2)
    assert placed(scenario.ask(member("r0"))) == {"r0": "n0"}


def test_the_slot_of_a_pod_stays_reserved_if_its_member_is_deleted_during_the_replacement() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(3), nodes=1)
    scenario.ask(*pods(2), member("running"))
    scenario.ask(member("r0"))
    scenario.release_ask("r0")
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 1, 1)


def test_a_larger_pod_gets_no_slot_of_a_complete_gang() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(3)), nodes=1)
    assert released_asks(scenario.ask(pod("big", vcore=2000))) == {"big": Termination.TIMEOUT}
    assert slots(scenario) == (0, 2, 0)


def test_a_pod_avoids_nodes() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(8)), nodes=2)
    for node in ("n0", "n1"):
        ask = replace(pod(f"not-{node}"), avoid=frozenset({NodeId(node)}))
        assert placed(scenario.ask(ask))[f"not-{node}"] != node


def test_the_placeholder_timeout_releases_all_unused_slots() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(4, timeout_s=60), nodes=1)
    scenario.ask(member("r0"), *pods(2))
    effects = scenario.wait(61)
    assert releases(effects) == {"app-p0": Termination.TIMEOUT, "app-p1": Termination.TIMEOUT}
    assert slots(scenario) == (0, 0, 0)
    assert released_asks(scenario.ask(pod("late"))) == {"late": Termination.TIMEOUT}


def test_a_slot_that_is_returned_after_the_placeholder_timeout_ends() -> None:
    """The pod of a slot was being replaced when the timeout expired, and then the member was deleted."""
    scenario = Scenario(CONFIGURATION, a_gang(3, timeout_s=60), nodes=1)
    scenario.ask(*pods(2), member("running"))
    scenario.wait(59)
    scenario.ask(member("r0"))
    scenario.wait(3)
    assert slots(scenario) == (0, 0, 0)
    scenario.release_ask("r0")
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 0, 0)


def test_the_slot_of_a_pod_that_is_evicted_from_a_drained_node_ends() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(3), nodes=1)
    scenario.ask(*pods(2), member("running"))
    scenario.add_node("n1")
    scenario.node("n0", NodeAction.DRAIN)
    scenario.release("app-p0")
    assert slots(scenario) == (0, 0, 1)
    assert placed(scenario.ask(pod("again"))) == {}


def test_a_pod_gets_no_slot_on_a_drained_node() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(4)), nodes=1)
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(scenario.ask(pod("p"))) == {}
    assert slots(scenario) == (0, 3, 0)


def test_slots_on_a_removed_node_end() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(4)), nodes=1)
    scenario.ask(*pods(2))
    scenario.add_node("n1")
    scenario.node("n0", NodeAction.DECOMMISSION)
    assert slots(scenario) == (0, 0, 0)
    assert set(placed(scenario.ask(*members(4))).values()) == {"n1"}


def test_the_application_completes_with_unused_pods() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(3), nodes=1)
    scenario.ask(member("r0"), *pods(2))
    effects = scenario.release("r0")
    assert states(effects) == ["Completing"]
    assert set(releases(effects)) == {"r0", "app-p0", "app-p1"}


# -- after a restart -----------------------------------------------------------


def test_after_a_restart_bound_pods_keep_their_slots_and_the_rest_is_reserved_first() -> None:
    scenario = awaits_barrier()
    scenario.send(ApplicationAdded(an_application("other", queue="root.b", created_s=1)), a_gang(4))
    scenario.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True))
    scenario.ask(*(an_ask(f"other-{index}", app="other") for index in range(3)))
    scenario.ask(member("r0"))
    effects = scenario.send(RecoveryBarrierPassed(RM))
    assert states(effects) == ["Running"]
    assert set(placed(effects)) == {"r0"}
    assert slots(scenario) == (0, 2, 1)


def test_after_a_restart_a_gang_with_a_bound_member_gets_its_remaining_slots_first() -> None:
    scenario = awaits_barrier()
    scenario.send(ApplicationAdded(an_application("other", queue="root.b", created_s=1)), a_gang(4, forced=True))
    scenario.add_node("n0", bound("r0", "n0").spec)
    scenario.ask(*(an_ask(f"other-{index}", app="other") for index in range(3)))
    scenario.ask(pod("p0"))
    effects = scenario.send(RecoveryBarrierPassed(RM))
    assert set(placed(effects)) == {"p0"}
    assert slots(scenario) == (0, 2, 1)


def test_a_lost_pod_of_an_incomplete_gang_is_reserved_again() -> None:
    scenario = awaits_barrier()
    scenario.send(*with_members(a_gang(6)))
    scenario.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True))
    scenario.send(RecoveryBarrierPassed(RM))
    assert slots(scenario) == (5, 0, 1)
    scenario.release("p0")
    assert slots(scenario) == (6, 0, 0)
    assert states(scenario.add_node("n1")) == ["Running"]
    assert slots(scenario) == (0, 5, 0)


def test_a_member_bound_by_others_uses_the_slot_of_a_waiting_pod() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(5), nodes=1)
    scenario.ask(*pods(5))
    scenario.send(bound("r0", "n0"))
    scenario.release_ask("app-p0")
    assert slots(scenario) == (4, 0, 0)
    assert answers(scenario.add_node("n1"))
    assert held(scenario) == 0
