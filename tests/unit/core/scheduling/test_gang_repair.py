"""Lost members of complete gangs are replaced before other applications (docs/internals/semantics.md, rule 32)."""

import sys
from dataclasses import replace
from itertools import pairwise
from types import FrameType

import pytest

from muster_core.model.config import Configuration, QueuePolicies
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    Event,
    ManagerRegistered,
    NodeAction,
    RecoveryBarrierPassed,
)
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.specs import AskSpec, GangPlacement
from muster_core.scheduling import repair
from muster_core.scheduling.scheduler import cycle, step
from muster_si import keys
from tests.unit.builders import PARTITION, RM, a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, waits

MODES = [GangPlacement.AUTO, GangPlacement.DIRECT, GangPlacement.RESERVE]
QUEUES = a_configuration(a_queue("a"), a_queue("b"))


def member(key: str, vcore: int = 1000, priority: int = 0) -> AskSpec:
    return an_ask(key, app="train", vcore=vcore, group="workers", priority=priority)


def a_gang(count: int, mode: GangPlacement, name: str = "train", queue: str = "root.a") -> ApplicationAdded:
    return ApplicationAdded(an_application(name, queue=queue, gang=count, placement=mode))


def run_gang(scenario: Scenario, mode: GangPlacement, count: int = 3) -> None:
    """Start a gang of members m0, m1, …, each on a node of its own."""
    scenario.send(a_gang(count, mode))
    if mode is GangPlacement.RESERVE:
        scenario.ask(*(replace(member(f"p{index}"), placeholder=True) for index in range(count)))
    scenario.ask(*(member(f"m{index}") for index in range(count)))
    for index in range(count) if mode is GangPlacement.RESERVE else ():
        scenario.release(f"p{index}", "train", Termination.PLACEHOLDER_REPLACED)
    assert scenario.app("train").gang.members == {"workers": count}


def a_running_gang(mode: GangPlacement, configuration: Configuration = QUEUES, count: int = 3) -> Scenario:
    scenario = Scenario(configuration, nodes=count, vcore=1000)
    run_gang(scenario, mode, count)
    return scenario


def rival(scenario: Scenario, *names: str, queue: str = "root.b", priority: int = 0) -> None:
    """Submit an application with waiting pods, older than any replacement."""
    scenario.submit(an_application("rival", queue=queue), *(an_ask(name, priority=priority) for name in names))


def lose_node(scenario: Scenario, key: str) -> str:
    """Remove the node of a member, and return its name."""
    app = scenario.app("train")
    node = next(one.node for one in app.allocations.values() if one.spec.key == key)
    scenario.node(node, NodeAction.DECOMMISSION)
    return node


def evict(scenario: Scenario, key: str, replacement: str) -> dict[str, str]:
    """End a member and request its replacement before the next cycle."""
    stopped = Termination.STOPPED_BY_RM
    gone = AllocationReleased(PARTITION, ApplicationId("train"), AllocationKey(key), None, stopped)
    return placed(scenario.send(AskAdded(member(replacement)), gone))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("queue", ["root.a", "root.b"])
def test_the_replacement_of_a_lost_node_precedes_an_older_pod(mode: GangPlacement, queue: str) -> None:
    scenario = a_running_gang(mode)
    rival(scenario, "r0", queue=queue)
    node = lose_node(scenario, "m0")
    scenario.ask(member("again"))
    assert placed(scenario.add_node(node, vcore=1000)) == {"again": node}


@pytest.mark.parametrize("mode", MODES)
def test_an_evicted_member_is_replaced_although_its_node_is_reserved_for_another_pod(mode: GangPlacement) -> None:
    scenario = a_running_gang(mode)
    rival(scenario, "r0")
    scenario.wait(10)
    reserved = next(iter(scenario.partition.reservations.by_ask.values())).node
    key = next(one.spec.key for one in scenario.app("train").allocations.values() if one.node == reserved)
    assert evict(scenario, key, "again") == {"again": reserved}
    assert not any(one.node == reserved for one in scenario.partition.reservations.by_ask.values())


def test_several_replacements_precede() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0", "r1")
    first, second = lose_node(scenario, "m0"), lose_node(scenario, "m1")
    scenario.ask(member("again0"), member("again1"))
    assert placed(scenario.add_node(first, vcore=1000)).keys() == {"again0"}
    assert placed(scenario.add_node(second, vcore=2000)).keys() == {"again1", "r0"}


def test_only_the_members_up_to_the_minimum_precede() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0")
    node = lose_node(scenario, "m0")
    scenario.ask(member("again"), member("extra"))
    assert placed(scenario.add_node(node, vcore=2000)).keys() == {"again", "r0"}


def test_a_gang_with_more_members_than_its_minimum_has_no_precedence() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    scenario.add_node("more", vcore=1000)
    scenario.ask(member("extra"))
    rival(scenario, "r0")
    node = lose_node(scenario, "m0")
    scenario.ask(member("again"))
    assert placed(scenario.add_node(node, vcore=1000)).keys() == {"r0"}


def test_a_larger_replacement_has_no_precedence() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0")
    node = lose_node(scenario, "m0")
    scenario.ask(member("again", vcore=1500))
    assert "r0" in placed(scenario.add_node(node, vcore=2000))


@pytest.mark.parametrize("priority, first", [(0, "again"), (1, "r0")])
@pytest.mark.parametrize("queue", ["root.a", "root.b"])
def test_a_higher_priority_precedes_the_replacement(queue: str, priority: int, first: str) -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0", queue=queue, priority=priority)
    node = lose_node(scenario, "m0")
    scenario.ask(member("again"))
    assert placed(scenario.add_node(node, vcore=1000)).keys() == {first}


def test_priorities_are_compared_as_the_common_queue_sees_them() -> None:
    raised = QueuePolicies(priority_offset=5)
    scenario = a_running_gang(GangPlacement.AUTO, a_configuration(a_queue("a"), a_queue("b", policies=raised)))
    rival(scenario, "r0")
    node = lose_node(scenario, "m0")
    scenario.ask(member("again", priority=4))
    assert placed(scenario.add_node(node, vcore=1000)).keys() == {"r0"}


def test_the_setting_limits_the_precedence_to_the_own_queue() -> None:
    configuration = replace(QUEUES, repairs_across_queues=False)
    for queue, first in (("root.a", "again"), ("root.b", "r0")):
        scenario = a_running_gang(GangPlacement.AUTO, configuration)
        rival(scenario, "r0", queue=queue)
        node = lose_node(scenario, "m0")
        scenario.ask(member("again"))
        assert placed(scenario.add_node(node, vcore=1000)).keys() == {first}


def test_the_guaranteed_share_of_another_queue_is_not_taken() -> None:
    scenario = a_running_gang(GangPlacement.AUTO, a_configuration(a_queue("a"), a_queue("b", guaranteed=1000)))
    rival(scenario, "r0", "r1")
    node = lose_node(scenario, "m0")
    scenario.ask(member("again"))
    assert placed(scenario.add_node(node, vcore=2000)).keys() == {"r0", "again"}, "the guarantee first, then the gang"


def test_a_replacement_waits_for_quota_and_precedes_when_it_is_free() -> None:
    parent = a_queue("p", a_queue("a"), a_queue("b"), vcore=3000)
    scenario = Scenario(a_configuration(parent), a_gang(3, GangPlacement.AUTO, queue="root.p.a"), nodes=3, vcore=2000)
    scenario.ask(*(member(f"m{index}") for index in range(3)))
    rival(scenario, "r0", "r1", queue="root.p.b")
    assert placed(scenario.release("m0", "train")).keys() == {"r0"}, "no replacement was there yet"
    assert waits(scenario.ask(member("again")))["again"][0] == "SKIPPED"
    assert placed(scenario.release("r0", "rival")).keys() == {"again"}


def test_a_member_that_has_succeeded_is_not_lost() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0")
    stopped, done = Termination.STOPPED_BY_RM, keys.RELEASE_SUCCEEDED
    gone = AllocationReleased(PARTITION, ApplicationId("train"), AllocationKey("m0"), None, stopped, done)
    assert placed(scenario.send(AskAdded(member("next")), gone)).keys() == {"r0"}


def test_a_preempted_member_is_not_lost() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0")
    app = scenario.app("train")
    first = next(one for one in app.allocations.values() if one.spec.key == "m0")
    app.mark_releasing(first, Termination.PREEMPTED_BY_SCHEDULER, scenario.now_ns)
    scenario.ask(member("again"))
    assert placed(scenario.release("m0", "train", Termination.PREEMPTED_BY_SCHEDULER)).keys() == {"r0"}


def test_a_gang_that_never_was_complete_has_no_precedence() -> None:
    scenario = Scenario(QUEUES, nodes=2, vcore=1000)
    scenario.submit(an_application("train", gang=3, placement=GangPlacement.AUTO, wait_s=5))
    scenario.ask(*(member(f"m{index}") for index in range(3)))
    scenario.wait(6)
    assert scenario.app("train").real_allocations == 2, "Soft: scheduled individually"
    rival(scenario, "r0")
    evict(scenario, "m0", "again")
    assert scenario.app("train").gang.lost == {}


def test_a_gang_without_members_has_no_precedence() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0", "r1", "r2")
    stopped = Termination.STOPPED_BY_RM
    gone = (
        AllocationReleased(PARTITION, ApplicationId("train"), AllocationKey(f"m{index}"), None, stopped)
        for index in range(3)
    )
    asked = (AskAdded(member(f"again{index}")) for index in range(3))
    assert "r0" in placed(scenario.send(*asked, *gone)), "these pods are a new run"
    assert scenario.app("train").gang.lost == {}


# -- when replacements are tried -----------------------------------------------------


def test_a_replacement_is_tried_on_resources_that_are_reserved_for_another_pod() -> None:
    scenario = Scenario(QUEUES)
    scenario.add_node("a", vcore=1000)
    scenario.submit(an_application("old", queue="root.b"), an_ask("old"))
    for index in range(3):
        scenario.add_node(f"n{index}", vcore=1000)
    run_gang(scenario, GangPlacement.AUTO)
    rival(scenario, "r0")
    scenario.wait(10)
    assert [one.node for one in scenario.partition.reservations.by_ask.values()] == ["a"]
    lose_node(scenario, "m0")
    assert placed(scenario.ask(member("again"))) == {}
    assert placed(scenario.release("old", "old")) == {"again": "a"}


def test_a_replacement_is_tried_after_others_that_wait_for_the_same_quota_and_come_first() -> None:
    queues = a_queue("a"), a_queue("b"), a_queue("c"), a_queue("d")
    scenario = Scenario(a_configuration(a_queue("p", *queues, vcore=3000)), nodes=3, vcore=2000)
    scenario.send(a_gang(3, GangPlacement.AUTO, queue="root.p.a"))
    scenario.ask(*(member(f"m{index}") for index in range(3)))
    for queue in "bcd":
        scenario.submit(
            an_application(queue, queue=f"root.p.{queue}"), *(an_ask(f"{queue}{index}") for index in range(2))
        )
    [taken] = placed(scenario.release("m0", "train"))
    assert placed(scenario.ask(member("again"))) == {}
    assert placed(scenario.release(taken, taken[0])).keys() == {"again"}


def test_a_replacement_precedes_the_second_application_of_a_leaf() -> None:
    scenario = a_running_gang(GangPlacement.AUTO, a_configuration(a_queue("a")))
    for name, priority in (("high", 1), ("rival", 0)):
        scenario.submit(replace(an_application(name, queue="root.a"), created_ns=1))
        scenario.ask(an_ask(name, app=name, priority=priority))
    node = lose_node(scenario, "m0")
    scenario.ask(member("again"))
    assert placed(scenario.add_node(node, vcore=2000)).keys() == {"high", "again"}


@pytest.mark.parametrize("free, given_up", [(0, 1), (500, 0)])
def test_only_a_node_reservation_that_is_in_the_way_gives_way(free: int, given_up: int) -> None:
    scenario = Scenario(QUEUES, nodes=2, vcore=2500)
    run_gang(scenario, GangPlacement.AUTO, 4)
    for queue in ("root.a", "root.b"):
        scenario.submit(an_application(queue, queue=queue), an_ask(queue, vcore=2500))
    scenario.wait(30)
    scenario.wait(30)
    reservations = scenario.partition.reservations.by_ask
    assert {one.node for one in reservations.values()} == {"n0", "n1"}
    scenario.add_node("free", vcore=free)
    stopped = Termination.STOPPED_BY_RM
    gone = AllocationReleased(PARTITION, ApplicationId("train"), AllocationKey("m0"), None, stopped)
    [node] = placed(scenario.send(AskAdded(member("again", vcore=500)), gone)).values()
    assert {one.node for one in reservations.values()} == {"n0", "n1"} - {node}
    assert len(reservations) == 2 - given_up


# -- what bounds the precedence ------------------------------------------------------


def deleted_in_a_loop(seconds: float, rounds: int) -> list[bool]:
    """Delete a member again and again while a pod of another queue waits. Return which replacements were first."""
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, *(f"r{index}" for index in range(rounds)))
    found = []
    for index in range(rounds):
        scenario.wait(seconds)
        app = scenario.app("train")
        key = next(iter(app.ids))
        first = evict(scenario, key, f"again{index}")
        found.append(f"again{index}" in first)
        if not found[-1]:  # the rival ends, so that the gang is complete again
            [taken] = first
            scenario.release(taken, "rival")
    return found


def test_a_burst_of_losses_gives_precedence_once_per_member() -> None:
    assert deleted_in_a_loop(1, 10) == [True] * 3 + [False] * 7


def test_repeated_losses_give_precedence_after_pauses_that_double() -> None:
    first = [index for index, is_first in enumerate(deleted_in_a_loop(60, 70)) if is_first]
    assert len(first) < 8, "of 70 losses in 70 minutes"
    gaps = [later - earlier for earlier, later in pairwise(first)]
    assert gaps == sorted(gaps)


def test_an_hour_without_a_loss_ends_the_pause() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0", "r1", "r2")
    assert evict(scenario, "m0", "again0").keys() == {"again0"}
    scenario.wait(61)
    assert evict(scenario, "m1", "again1").keys() == {"r0"}
    scenario.wait(3601)
    assert evict(scenario, "m2", "again2").keys() == {"again1"}, "the older one of two"


@pytest.mark.parametrize("seconds, first", [(59, "again"), (60, "r0")])
def test_a_replacement_that_arrives_within_a_minute_precedes_until_it_is_placed(seconds: int, first: str) -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0")
    node = lose_node(scenario, "m0")
    scenario.wait(seconds)
    scenario.ask(member("again"))
    scenario.wait(3600)
    assert placed(scenario.add_node(node, vcore=1000)).keys() == {first}


def test_a_late_replacement_does_not_use_the_precedence_of_one_that_was_in_time() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    rival(scenario, "r0")
    first, _ = lose_node(scenario, "m0"), lose_node(scenario, "m1")
    scenario.ask(member("again"))
    scenario.wait(60)
    scenario.ask(member("late"))
    assert placed(scenario.add_node(first, vcore=2000)).keys() == {"again", "r0"}


def searches(gangs: int, rivals: int) -> int:
    """Return how often replacements were searched in a cycle in which gangs wait behind pods of a higher priority."""
    scenario = Scenario(QUEUES, nodes=2, vcore=100_000)
    for index in range(gangs):
        name = f"g{index}"
        scenario.send(a_gang(2, GangPlacement.AUTO, name))
        scenario.ask(*(an_ask(f"{name}-{one}", app=name, group="workers") for one in range(2)))
    events: list[Event] = []
    for index in range(gangs):
        name, stopped = f"g{index}", Termination.STOPPED_BY_RM
        events.append(AskAdded(an_ask(f"{name}-new", app=name, group="workers")))
        events.append(AllocationReleased(PARTITION, ApplicationId(name), AllocationKey(f"{name}-0"), None, stopped))
    for index in range(rivals):
        events.append(ApplicationAdded(an_application(f"r{index}", queue="root.b")))
        events.append(AskAdded(an_ask(f"r{index}", app=f"r{index}", priority=1)))
    for event in events:
        step(scenario.scheduler_state, event, scenario.now_ns)
    found = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code is repair.replacements.__code__

    sys.setprofile(count)
    try:
        new = placed(cycle(scenario.scheduler_state, scenario.now_ns, lambda: True).effects)
    finally:
        sys.setprofile(None)
    assert len(new) == gangs + rivals
    return found


def test_gangs_to_repair_do_not_slow_down_the_attempts_of_others() -> None:
    assert searches(10, rivals=20) == searches(10, rivals=40), "not once per attempt"


# -- restarts ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("queue", ["root.a", "root.b"])
def test_a_restart_of_the_core_keeps_the_precedence(mode: GangPlacement, queue: str) -> None:
    scenario = Scenario(QUEUES, ManagerRegistered(RM, QUEUES, awaits_barrier=True))
    scenario.submit(replace(a_gang(3, mode).spec, forced=True))
    for index in range(2):
        bound = an_allocation(f"m{index}", f"n{index}", app="train", group="workers", allocated_s=990)
        scenario.add_node(f"n{index}", bound, vcore=1000)
    rival(scenario, "r0", "r1", queue=queue)
    scenario.ask(member("again"))
    assert placed(scenario.send(RecoveryBarrierPassed(RM))) == {}
    scenario.add_node("n2", vcore=1000)
    assert scenario.app("train").gang.members == {"workers": 3}
    assert scenario.app("rival").real_allocations == 0
    assert placed(scenario.add_node("n3", vcore=1000)).keys() == {"r0"}


# -- what users see ------------------------------------------------------------------


def test_a_waiting_replacement_says_that_the_gang_is_below_its_minimum() -> None:
    scenario = a_running_gang(GangPlacement.AUTO)
    assert notices(scenario.release("m0", "train")) == [], "the gang may be about to end"
    rival(scenario, "r0")
    effects = scenario.ask(member("again"))
    assert "gang train runs with 2 of 3 members of task group workers" in notices(effects)
    assert waits(effects)["again"] == (
        "FAILED",
        "gang train runs with 2 of 3 members of task group workers: 0/3 nodes are available: 3 Insufficient cpu.",
    )
