"""A Direct gang after a restart, and one whose members were bound by another scheduler."""

from dataclasses import replace

from muster_core.model.events import Event, ManagerRegistered, NodeAdded, RecoveryBarrierPassed
from muster_core.model.ids import NodeId, TaskGroup, Termination
from muster_core.model.specs import GangStyle, Topology
from tests.unit.builders import RM, a_configuration, a_node, a_queue, an_allocation, an_application, an_ask, resources
from tests.unit.core.scheduling.direct import KEY, a_gang, answers, bound, held, member, members, with_members
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks, releases, states, waits

CONFIGURATION = a_configuration(a_queue("a"), a_queue("b"))
WORKERS = TaskGroup("workers")


def awaits_barrier() -> Scenario:
    """A resource manager registers again and has not reported anything yet; the time is 1,000 s."""
    return Scenario(CONFIGURATION, ManagerRegistered(RM, CONFIGURATION, awaits_barrier=True))


def passed(scenario: Scenario, *events: Event) -> list[str]:
    """Complete the recovery, and return the states of the application from then on."""
    scenario.send(*events)
    return states(scenario.send(RecoveryBarrierPassed(RM)))


def test_a_restart_reserves_placeholders_for_unbound_members_again() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, forced=True))
    effects = scenario.add_node("n0", bound("r0", "n0", allocated_s=990).spec, bound("r1", "n0", allocated_s=991).spec)
    assert states(effects) == ["Running"]
    assert held(scenario) == 0
    assert passed(scenario) == []
    assert held(scenario) == 2
    assert placed(scenario.ask(member("r2"), member("r3"), member("r4"))).keys() == {"r2", "r3"}


def test_a_restart_reserves_an_unbound_gang_before_later_ones() -> None:
    scenario = awaits_barrier()
    scenario.send(*with_members(a_gang(3)), *with_members(a_gang(3, "late")))
    scenario.add_node("n0")
    assert passed(scenario) == ["Running"]
    assert (held(scenario), held(scenario, "late")) == (2, 0)


def test_a_packed_gang_is_reserved_again_in_the_domain_of_its_members() -> None:
    scenario = awaits_barrier()
    spec = replace(a_gang(4, forced=True).spec, topology=Topology(("zone",), required=True))
    scenario.submit(spec)
    for zone, existing in (("a", ()), ("b", (bound("r0", "n-b").spec,))):
        scenario.send(NodeAdded(a_node(f"n-{zone}", labels={"zone": zone}), draining=False, existing=existing))
    passed(scenario)
    assert {one.node for one in scenario.app().allocations.values()} == {"n-b"}
    assert held(scenario) == 3


def test_a_recovered_gang_is_reserved_again_before_others_are_placed() -> None:
    scenario = awaits_barrier()
    scenario.submit(an_application("busy", queue="root.b", created_s=1))
    scenario.send(a_gang(4, forced=True))
    scenario.add_node("n0", bound("r0", "n0", allocated_s=990).spec)
    scenario.ask(*(an_ask(f"b{index}", app="busy", priority=9) for index in range(4)))
    effects = scenario.send(RecoveryBarrierPassed(RM))
    assert placed(effects) == {}, "root.b has nothing yet, and would come first"
    assert held(scenario) == 3


def test_a_gang_with_all_members_bound_reserves_nothing() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(2, forced=True))
    scenario.add_node("n0", *(bound(f"r{index}", "n0").spec for index in range(3)))
    passed(scenario)
    assert held(scenario) == 0
    assert not scenario.app().is_reserving
    assert scenario.app().gang.groups[WORKERS].replaced == 2
    assert placed(scenario.ask(member("r9"))) == {"r9": "n0"}


def test_recovered_placeholders_expire_with_the_timer_of_the_first_bound_member() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, timeout_s=60, forced=True))
    scenario.add_node("n0", bound("r1", "n0", allocated_s=980).spec, bound("r0", "n0", allocated_s=970).spec)
    passed(scenario)
    scenario.wait(29)
    assert held(scenario) == 2
    assert states(scenario.wait(2)) == []
    assert held(scenario) == 0


def test_a_gang_whose_timer_expired_before_the_restart_reserves_nothing() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, timeout_s=60, style=GangStyle.HARD, forced=True))
    scenario.add_node("n0", bound("r0", "n0", allocated_s=100).spec)
    scenario.ask(member("r1"))
    scenario.wait(1)
    assert passed(scenario) == [], "the style is for gangs that never ran"
    assert held(scenario) == 0
    assert scenario.app().allocations.keys() == {"r0-0", "r1-0"}


def test_a_recovered_gang_that_does_not_fit_waits_until_its_timer_expires() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, timeout_s=60, forced=True))
    scenario.add_node("n0", bound("r0", "n0", allocated_s=990).spec, vcore=3000)
    scenario.send(RecoveryBarrierPassed(RM))
    assert held(scenario) == 0, "three do not fit any more"
    assert placed(scenario.ask(member("r1"))) == {}
    effects = scenario.wait(51)
    assert placed(effects) == {"r1": "n0"}, "then members are scheduled as usual"
    assert waits(effects)[KEY] == ("SCHEDULED", "no longer waiting for a reservation")
    assert scenario.app().state == "Running"


def test_a_recovered_gang_that_does_not_fit_is_reserved_after_a_node_is_added() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, timeout_s=60, forced=True))
    scenario.add_node("n0", bound("r0", "n0", allocated_s=990).spec, vcore=3000)
    [state, reason] = waits(scenario.send(RecoveryBarrierPassed(RM)))[KEY]
    assert (state, "3 of 4 members of task group" in reason) == ("FAILED", True)
    assert states(scenario.add_node("n1")) == []
    assert held(scenario) == 3


def test_a_gang_completes_after_its_last_member_although_the_rest_does_not_fit() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, forced=True))
    scenario.add_node("n0", bound("r0", "n0", allocated_s=990).spec, vcore=3000)
    scenario.send(RecoveryBarrierPassed(RM))
    assert states(scenario.release("r0")) == ["Completing"]
    assert states(scenario.wait(31)) == ["Completed"]


def test_a_bound_pod_without_a_task_group_uses_no_placeholder() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(3, forced=True))
    scenario.add_node("n0", an_allocation("driver", "n0", allocated_s=990))
    assert passed(scenario) == []
    assert scenario.app().state == "Running"
    assert held(scenario) == 3


def test_a_gang_made_impossible_by_a_reload_keeps_its_running_members() -> None:
    scenario = awaits_barrier()
    scenario.send(a_gang(4, forced=True))
    scenario.add_node("n0", bound("r0", "n0").spec, vcore=3000)
    scenario.send(RecoveryBarrierPassed(RM))
    effects = scenario.reload(a_configuration(a_queue("a", vcore=2000), a_queue("b")))
    assert answers(effects) == []
    assert states(effects) == []
    assert placed(scenario.ask(member("r1"))) == {"r1": "n0"}


def test_a_recovered_gang_without_task_groups_continues_without_placeholders() -> None:
    scenario = awaits_barrier()
    scenario.submit(replace(a_gang(4, forced=True).spec, members=()))
    scenario.add_node("n0", bound("r0", "n0").spec)
    scenario.send(RecoveryBarrierPassed(RM))
    assert placed(scenario.ask(member("r1"))) == {"r1": "n0"}


def test_a_recovered_placeholder_pod_replaces_a_virtual_placeholder() -> None:
    scenario = awaits_barrier()
    scenario.send(*with_members(a_gang(3)))
    scenario.add_node("n0", an_allocation("p0", "n0", group="workers", placeholder=True))
    assert passed(scenario) == ["Running"]
    assert held(scenario) == 1
    _, second, third = members(3)
    assert placed(scenario.ask(second)) == {second.key: "n0"}, "virtual placeholders are used before pods"
    assert held(scenario) == 0
    assert releases(scenario.ask(third)) == {"p0": Termination.PLACEHOLDER_REPLACED}


# -- without a restart -------------------------------------------------------------


def test_a_member_bound_by_others_uses_a_reserved_placeholder() -> None:
    scenario = Scenario(CONFIGURATION, *with_members(a_gang(4)), nodes=2, vcore=2000)
    before = scenario.partition.nodes.available(NodeId("n1"))
    scenario.send(bound("r0", "n1"))
    assert held(scenario) == 2
    assert scenario.app().gang.groups[WORKERS].replaced == 2
    assert scenario.partition.nodes.available(NodeId("n1")) == before


def test_a_member_bound_by_others_starts_a_waiting_gang() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(6, wait_s=100), nodes=1)
    effects = scenario.send(bound("r0", "n0"))
    assert states(effects) == ["Running"]
    assert scenario.app().pending == resources(vcore=5000, pods=5)
    assert states(scenario.wait(101)) == [], "it has begun: the clock of waiting is not its own any more"
    scenario.add_node("n1")
    assert held(scenario) == 5


def test_an_allocation_with_a_key_of_the_scheduler_is_rejected() -> None:
    scenario = Scenario(CONFIGURATION, a_gang(3), a_gang(3, "waits"), nodes=1)
    for key, app in ((KEY, "app"), ("waits/workers", "waits")):
        [answer] = answers(scenario.send(bound(key, "n0", app=app)))
        assert answer.rejected_allocations[0].reason == f"{key} is the scheduler's own key"
    assert refused_asks(scenario.ask(member(f"{KEY}/0"))) == {f"{KEY}/0": f"{KEY}/0 is the scheduler's own key"}
