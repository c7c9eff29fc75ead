"""The number of slots of an Auto gang: a slot is never lost, and never reserved twice."""

from dataclasses import replace

from muster_core.model.config import Timing
from muster_core.model.effects import Effect, SchedulingStateChanged
from muster_core.model.events import AllocationReported, NodeAction, RecoveryBarrierPassed
from muster_core.model.ids import NodeId, Termination
from muster_core.scheduling import gangs
from tests.unit.builders import RM, SECOND, a_configuration, a_queue, an_allocation, an_ask
from tests.unit.core.scheduling.auto import CONFIGURATION, WORKERS, a_gang, awaits_barrier, pod, pods, slots
from tests.unit.core.scheduling.direct import KEY, bound, member, members, with_members
from tests.unit.core.scheduling.preemption_scenario import confirm, run, victims
from tests.unit.core.scheduling.scenario import Scenario, placed, releases

#: Longer than the release timeout of a replacement.
STUCK_S = 121


def over(effects: list[Effect]) -> list[str]:
    """Return the task groups that were reported to have no slots for absent members any more."""
    return [one.key for one in effects if isinstance(one, SchedulingStateChanged) and one.slots_timed_out]


# -- a replacement that was given up -------------------------------------------


def stuck(nodes: int = 2) -> Scenario:
    """A gang of three with a member and two pods on n0. The pod of member r0 is not deleted in time."""
    scenario = Scenario(CONFIGURATION, a_gang(3), nodes=1, vcore=3000)
    scenario.ask(*pods(2), member("running"))
    for index in range(1, nodes):
        scenario.add_node(f"n{index}")
    assert list(releases(scenario.ask(member("r0"))).values()) == [Termination.PLACEHOLDER_REPLACED]
    scenario.wait(STUCK_S)
    return scenario


def test_a_member_that_was_scheduled_individually_keeps_its_slot() -> None:
    scenario = stuck()
    assert len(scenario.app().ids["r0"]) == 1  # type: ignore[index]  # a key
    assert slots(scenario) == (0, 0, 1)
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 0, 1), "the slot of the deleted pod is not reserved for another member"


def test_a_member_that_ran_individually_and_ended_has_used_its_slot() -> None:
    scenario = stuck()
    scenario.release("r0")
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 0, 1)


def test_a_member_that_waits_for_a_stuck_delete_gets_its_slot_when_the_pod_is_gone() -> None:
    scenario = stuck(nodes=1)
    assert "r0" not in scenario.app().ids
    assert placed(scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
    assert slots(scenario) == (0, 0, 1)


def test_the_slot_of_a_stuck_delete_is_kept_if_its_member_is_deleted_before_it_has_a_node() -> None:
    scenario = stuck(nodes=1)
    scenario.release_ask("r0")
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 1, 1)
    assert scenario.app().gang.given_up_replacements == {}


def test_a_changed_request_of_a_member_with_a_stuck_delete_takes_another_slot() -> None:
    scenario = stuck(nodes=1)
    changed = scenario.ask(replace(member("r0"), priority=3))
    assert releases(changed) == {"app-p1": Termination.PLACEHOLDER_REPLACED}
    scenario.release("app-p1", why=Termination.PLACEHOLDER_REPLACED)
    scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 1, 0)


def test_a_member_whose_replacement_lost_its_node_uses_one_slot() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(2), nodes=1)
    scenario.ask(pod("p0"), member("running"))
    scenario.add_node("n1")
    scenario.node("n0", NodeAction.DRAIN)
    scenario.ask(member("r0"))
    nodes = [ask.replacement.node for ask in scenario.app().asks.values() if ask.replacement is not None]
    assert nodes == ["n1"]
    scenario.node("n0", NodeAction.OPEN)
    scenario.node("n1", NodeAction.DECOMMISSION)
    assert placed(scenario.wait(1)) == {}
    assert scenario.app().ids.keys() >= {"r0"}
    scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)
    assert slots(scenario) == (0, 0, 0)


# -- pods that are reported late -----------------------------------------------


def completed_without_n1(members_bound: int = 1) -> Scenario:
    """A gang of four after a restart, complete on n0. A second node with its pods is not known yet."""
    scenario = awaits_barrier()
    scenario.send(a_gang(4, forced=True))
    scenario.add_node("n0", *(bound(f"r{index}", "n0").spec for index in range(members_bound)), vcore=8000)
    scenario.send(RecoveryBarrierPassed(RM))
    assert slots(scenario) == (0, 4 - members_bound, 0)
    return scenario


def late(key: str = "p0", allocated_s: int = 900) -> AllocationReported:
    return AllocationReported(an_allocation(key, "n1", group="workers", placeholder=True, allocated_s=allocated_s))


def test_a_pod_that_is_reported_late_takes_a_slot_of_the_complete_gang() -> None:
    scenario = completed_without_n1()
    scenario.add_node("n1", late().spec)
    assert slots(scenario) == (0, 2, 1)
    assert scenario.app().gang.groups[WORKERS].count == 4


def test_a_pod_that_is_reported_late_and_has_no_slot_is_released() -> None:
    scenario = completed_without_n1(members_bound=1)
    scenario.ask(*members(4)[1:])
    assert slots(scenario) == (0, 0, 0)
    assert releases(scenario.add_node("n1", late().spec)) == {"p0": Termination.TIMEOUT}
    scenario.release("p0", why=Termination.TIMEOUT)
    assert slots(scenario) == (0, 0, 0)


def test_a_pod_that_is_reported_after_the_timeout_is_released() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, forced=True, timeout_s=60))
    scenario.add_node("n0", bound("r0", "n0", allocated_s=900).spec)
    scenario.send(RecoveryBarrierPassed(RM))
    assert slots(scenario) == (0, 0, 0)
    assert releases(scenario.add_node("n1", late(allocated_s=910).spec)) == {"p0": Termination.TIMEOUT}


def test_the_kept_slot_of_a_rejected_member_is_none_of_an_absent_member() -> None:
    """The operator reports it before it releases the member, without the time of a bind."""
    scenario = completed_without_n1()
    scenario.report(an_allocation("r0/place", "n0", group="workers", placeholder=True))
    assert slots(scenario) == (0, 3, 1)


# -- slots that have timed out -------------------------------------------------


def test_the_end_of_unused_slots_is_reported_once() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(4, timeout_s=60), nodes=1)
    scenario.ask(member("r0"), pod("p0"))
    effects = scenario.wait(61)
    assert over(effects) == [KEY]
    assert over(scenario.wait(600)) == []


def test_after_a_restart_slots_that_had_timed_out_are_reported() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, forced=True, timeout_s=60))
    effects = scenario.add_node("n0", bound("r0", "n0", allocated_s=900).spec)
    effects += scenario.send(RecoveryBarrierPassed(RM))
    assert over(effects) == [KEY]


# -- the search for a slot -----------------------------------------------------


def test_a_pod_finds_a_slot_behind_any_number_of_nodes_that_it_avoids() -> None:
    scenario = Scenario(CONFIGURATION, nodes=1, vcore=100_000)
    scenario.add_node("n1", vcore=100_000)
    scenario.send(*with_members(a_gang(180)))
    for node in ("n0", "n1"):
        ask = replace(pod(f"not-{node}"), avoid=frozenset({NodeId(node)}))
        assert node not in placed(scenario.ask(ask)).values()
    assert slots(scenario) == (0, 177, 2)


def test_nodes_without_a_usable_slot_are_not_searched_for_each_pod() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(32)), nodes=8)
    in_order = list(scenario.app().gang.live_virtual_on[WORKERS])
    drained, avoided = in_order[:5], in_order[5]
    for name in drained:
        scenario.node(name, NodeAction.DRAIN)
    assert placed(scenario.ask(replace(pod("p0"), avoid=frozenset({avoided}))))["p0"] not in {*drained, avoided}
    searched = list(scenario.app().gang.live_virtual_on[WORKERS])
    assert searched[0] == avoided, "other pods may use it"
    assert searched[3:] == drained
    assert len(placed(scenario.ask(*pods(11)))) == 11
    assert placed(scenario.ask(pod("one-too-many"))) == {}


def test_a_search_without_a_slot_is_repeated_only_after_a_change() -> None:
    """All pods that a LimitRange makes too large would otherwise search all nodes."""
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(4)), nodes=2, vcore=2000)
    assert placed(scenario.ask(pod("large", vcore=1500))) == {}
    assert scenario.app().gang.search_without_slot is not None
    assert placed(scenario.ask(pod("larger", vcore=1600))) == {}
    assert placed(scenario.ask(pod("p0"))) != {}

    node = next(iter(scenario.app().gang.live_virtual_on[WORKERS]))
    for name in ("n0", "n1"):
        scenario.node(name, NodeAction.DRAIN)
    assert placed(scenario.ask(pod("drained"))) == {}
    scenario.node(node, NodeAction.OPEN)
    assert placed(scenario.ask(pod("open"))) == {"open": node}

    for name in ("n0", "n1"):
        scenario.node(name, NodeAction.OPEN)
    assert len(placed(scenario.ask(pod("p1")))) == 1
    assert placed(scenario.ask(pod("one-too-many"))) == {}
    scenario.release("p0")
    assert len(placed(scenario.ask(pod("after")))) == 1, "the slot of the pod that ended is kept"


def test_a_search_without_a_slot_is_not_repeated_for_equal_pods() -> None:
    scenario, equal = Scenario(CONFIGURATION, nodes=1), pod("p0")
    scenario.send(*with_members(a_gang(2)))
    epoch = scenario.partition.nodes.facts_epoch
    scenario.app().gang.search_without_slot = (WORKERS, equal.constraints, equal.resources, epoch)
    assert placed(scenario.ask(equal)) == {}, "it would find a slot"
    assert len(placed(scenario.ask(pod("p1", vcore=500)))) == 1


# -- preemption for an incomplete gang -----------------------------------------


def crowded() -> Scenario:
    """Queue b uses the only node, and an Auto gang of three in queue a waits for a scale-up before it preempts."""
    timing = Timing(scale_up_delay_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=3000), a_queue("b"), timing=timing), nodes=1)
    run(scenario, "root.b", *(an_ask(f"b{index}", app="b") for index in range(4)))
    scenario.send(*with_members(a_gang(3)))
    return scenario


def test_members_that_appear_slowly_do_not_restart_the_delay_for_a_scale_up() -> None:
    scenario = crowded()
    assert victims(scenario.wait(25)) == set()
    scenario.ask(pod("p0"))
    assert victims(scenario.wait(25)) == set()
    scenario.release_ask("p0")
    scenario.ask(pod("p1"), pod("p2"))
    assert victims(scenario.wait(25)) == {"b1", "b2", "b3"}


def test_a_pod_takes_the_node_reservation_of_the_slot() -> None:
    scenario = crowded()
    effects = scenario.wait(90)
    assert victims(effects) == {"b1", "b2", "b3"}
    scenario.ask(*pods(2))
    reserved = scenario.partition.reservations.by_ask
    assert {key: hold.node for (_, key), hold in reserved.items() if not key.startswith(KEY)} == {
        "app-p0": "n0",
        "app-p1": "n0",
    }
    assert len(reserved) == 3, "the present member keeps its slot"
    assert all(hold.preempted for hold in reserved.values()), "the victims are released for the gang"
    assert set(placed(confirm(scenario, effects))) == {"app-p0", "app-p1", "app-r0"}


def test_a_returned_slot_keeps_its_request_when_the_others_are_split() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(60), nodes=1)
    scenario.ask(pod("p0"))
    scenario.release_ask("p0")
    app = scenario.app()
    returned = [key for key in app.asks if key != KEY]
    assert len(returned) == 1
    gangs.split_virtual_placeholders(scenario.partition, app)
    assert len(app.asks) == 60
    assert returned[0] in app.asks
    assert slots(scenario) == (60, 0, 0)


def test_a_member_that_is_bound_elsewhere_makes_room_for_the_other_slots() -> None:
    """The queue has room for two of three slots. A member that somebody else has bound takes the third one."""
    scenario = Scenario(a_configuration(a_queue("a", vcore=3300)), a_gang(3), nodes=1)
    scenario.ask(*pods(2))
    scenario.send(bound("extra", "n0", group="of-no-group", allocated_s=1000))
    assert slots(scenario) == (3, 0, 0)
    scenario.report(an_allocation("b0", "n0", vcore=300, group="workers", allocated_s=1000))
    assert slots(scenario) == (0, 0, 2)
