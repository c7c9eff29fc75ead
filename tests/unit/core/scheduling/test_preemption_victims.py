"""The order of preemption victims: complete gangs before partial ones, and pods that require a node."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop
from typing import Any

import pytest

from muster_core.model.config import QueueConfig, QueuePolicies
from muster_core.model.constraints import TERMINATING, TERMINATING_PREEMPTED, Constraints
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, NodeAdded, TimerFired
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.resources import Limit
from muster_core.model.specs import (
    NO_PROPERTIES,
    AllocationSpec,
    AskSpec,
    GangPlacement,
    HostPort,
    NodeSpec,
    PodProperties,
)
from muster_core.preemption import planning
from muster_core.preemption.candidates import CandidatePool, Eligible
from tests.unit.builders import (
    PARTITION,
    SECOND,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.preemption_scenario import (
    DISABLED,
    FENCE,
    a_daemon,
    confirm,
    cores,
    first_pod,
    never,
    offset,
    opted_out,
    pods,
    run,
    run_until_idle,
    submit,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, releases, waits

_SSD = Constraints(node_selector=(("disk", "ssd"),))


def two(nodes: int = 1, vcore: int = 4000, guaranteed: int = 4000) -> Scenario:
    """root.a with a guarantee, root.b with none."""
    queues = a_configuration(a_queue("a", guaranteed=guaranteed), a_queue("b"))
    return Scenario(queues, nodes=nodes, vcore=vcore)


@pytest.mark.parametrize(
    "kept, taken",
    [
        (opted_out(an_ask("kept")), first_pod(an_ask("taken", priority=9))),
        (first_pod(an_ask("kept")), an_ask("taken", priority=9)),
        (an_ask("kept", priority=1), an_ask("taken", vcore=2000)),
        (an_ask("kept", vcore=2000), an_ask("taken", vcore=1000)),
    ],
)
def test_victims_are_ordered_by_opt_out_originator_priority_and_size(kept: AskSpec, taken: AskSpec) -> None:
    scenario = two(vcore=(kept.resources["vcore"] + taken.resources["vcore"]))
    run(scenario, "root.b", taken, kept)
    run(scenario, "root.a", an_ask("x", priority=10))
    assert run_until_idle(scenario) == ["taken"]


def test_the_youngest_of_equal_victims_is_preempted() -> None:
    scenario = two(vcore=2000)
    run(scenario, "root.b", an_ask("old"))
    scenario.wait(1)
    run(scenario, "root.b", an_ask("young"))
    run(scenario, "root.a", an_ask("x"))
    assert run_until_idle(scenario) == ["young"]


def recovered(*specs: AllocationSpec, nodes: int = 2) -> Scenario:
    """root.b has these pods on nodes with 1 core each, as after a restart of the core."""
    scenario = two(nodes=nodes, vcore=1000)
    submit(scenario, "b", "root.b")
    scenario.send(*map(AllocationReported, specs))
    return scenario


def test_after_a_restart_the_terminating_victims_of_the_first_preemption_are_selected_again() -> None:
    """The terminating pod is on the second node, opted out, older, and has a higher priority."""
    leaving = replace(an_allocation("leaving", "n1", app="b"), tags={TERMINATING: TERMINATING_PREEMPTED})
    leaving = replace(leaving, allow_preempt_self=False, originator=True, priority=5)
    scenario = recovered(leaving, an_allocation("other", "n0", app="b", allocated_s=9))
    run(scenario, "root.a", an_ask("x", priority=10))
    assert run_until_idle(scenario) == ["leaving"]


def test_after_a_restart_earlier_victims_are_selected_among_any_number_of_younger_pods() -> None:
    leaving = replace(an_allocation("leaving", "n0", app="b"), tags={TERMINATING: TERMINATING_PREEMPTED})
    younger = [an_allocation(f"young{index}", f"n{index}", app="b", allocated_s=9) for index in range(1, 500)]
    scenario = recovered(leaving, *younger, nodes=500)
    run(scenario, "root.a", an_ask("x", priority=10))
    assert run_until_idle(scenario) == ["leaving"]


def test_a_pod_that_does_not_terminate_in_time_is_not_selected_again() -> None:
    leaving = replace(an_allocation("leaving", "n1", app="b"), tags={TERMINATING: TERMINATING_PREEMPTED})
    scenario = recovered(leaving, an_allocation("other", "n0", app="b"))
    run(scenario, "root.a", an_ask("x", priority=10))
    assert victims(scenario.wait(60)) == {"leaving"}
    assert victims(scenario.wait(600)) == {"other"}


def test_pods_that_a_user_deletes_do_not_delay_the_preemption_of_others() -> None:
    """They may take long to terminate. Preemption does not shorten that."""
    deleted = replace(an_allocation("deleted", "n1", app="b"), tags={TERMINATING: "true"}, priority=5)
    scenario = recovered(deleted, an_allocation("other", "n0", app="b"))
    run(scenario, "root.a", an_ask("x", priority=10))
    assert run_until_idle(scenario) == ["other"]


def test_after_one_release_timeout_no_earlier_victim_is_preferred_any_more() -> None:
    """With many pods that terminate slowly, each preemption after a restart would otherwise wait for each of them."""
    slow = [replace(an_allocation(f"slow{index}", f"n{index}", app="b"), priority=5) for index in range(3)]
    slow = [replace(one, tags={TERMINATING: TERMINATING_PREEMPTED}) for one in slow]
    scenario = recovered(*slow, an_allocation("other", "n3", app="b"), nodes=4)
    run(scenario, "root.a", an_ask("x", priority=10))
    first = victims(scenario.wait(60))
    assert len(first) == 1
    assert first < {"slow0", "slow1", "slow2"}
    assert victims(scenario.wait(130)) == {"other"}


def test_pods_that_another_scheduler_preempts_while_the_core_runs_are_not_preferred() -> None:
    """A user can let kube-scheduler preempt pods of their own that take long to terminate."""
    scenario = recovered(an_allocation("slow", "n1", app="b"), an_allocation("other", "n0", app="b"))
    preempted = replace(an_allocation("slow", "n1", app="b"), tags={TERMINATING: TERMINATING_PREEMPTED}, priority=5)
    scenario.report(preempted)
    run(scenario, "root.a", an_ask("x", priority=10))
    assert run_until_idle(scenario) == ["other"]


def test_a_daemonset_pod_preempts_the_preempted_pod_of_its_node_first() -> None:
    leaving = replace(
        an_allocation("leaving", "n0", app="b", vcore=500), tags={TERMINATING: TERMINATING_PREEMPTED}, priority=5
    )
    scenario = recovered(leaving, an_allocation("other", "n0", app="b", vcore=500), nodes=1)
    run(scenario, "root.a", a_daemon("d", "n0", vcore=500, priority=10))
    assert run_until_idle(scenario) == ["leaving"]


def test_an_opted_out_originator_is_preempted_as_a_last_resort() -> None:
    scenario = two(vcore=1000)
    run(scenario, "root.b", opted_out(first_pod(an_ask("only"))))
    run(scenario, "root.a", an_ask("x"))
    assert run_until_idle(scenario) == ["only"]


def test_a_victim_smaller_than_the_request_goes_if_free_resources_cover_the_rest() -> None:
    scenario = two()
    run(scenario, "root.b", *pods("b", 3))
    run(scenario, "root.a", an_ask("x", vcore=2000))
    assert run_until_idle(scenario) == ["b2"]
    assert cores(scenario, "root.a") == [2]


def test_no_more_victims_than_needed_are_preempted() -> None:
    scenario = two(vcore=5000)
    run(scenario, "root.b", an_ask("wide", vcore=3000), *pods("b", 2))
    run(scenario, "root.a", an_ask("x", vcore=3000))
    assert run_until_idle(scenario) == ["wide"], "with it the small ones, that come first, need not go"


def test_the_node_with_the_least_valuable_victims_is_selected() -> None:
    scenario = two()
    scenario.send(NodeAdded(a_node("n9", 4000, labels={"disk": "ssd"})))
    low = (an_ask(f"low{index}", priority=1, constraints=_SSD) for index in range(4))
    run(scenario, "root.b", *low, *pods("high", 4, priority=5))
    run(scenario, "root.a", an_ask("x", vcore=2000, priority=9))
    assert all(key.startswith("low") for key in run_until_idle(scenario))
    assert cores(scenario, "root.a") == [2]


def test_no_victims_are_taken_on_a_node_that_fails_the_filters() -> None:
    scenario = two()
    scenario.add_node("n1")
    run(scenario, "root.b", *pods("b", 8))
    run(scenario, "root.a", an_ask("x", constraints=_SSD))
    assert run_until_idle(scenario) == []
    assert list(scenario.app("a").asks[an_ask("x").key].attempts or {}) == ["Preemption does not help"]


def test_victims_are_taken_only_on_the_node_that_passes_the_filters() -> None:
    scenario = two()
    scenario.send(NodeAdded(a_node("ssd", 4000, labels={"disk": "ssd"})))
    run(scenario, "root.b", *pods("b", 8))
    run(scenario, "root.a", an_ask("x", constraints=_SSD))
    [key] = run_until_idle(scenario)
    assert scenario.app("a").allocations[next(iter(scenario.app("a").allocations))].node == "ssd"
    assert key.startswith("b")


def a_gang(scenario: Scenario, name: str, members: int, queue: str = "root.b") -> None:
    """A gang with all its placeholders allocated."""
    scenario.gang(an_application(name, queue=queue, gang=members), members)


def test_a_pod_outside_gangs_is_preempted_before_a_younger_member() -> None:
    scenario = two()
    run(scenario, "root.b", an_ask("alone"))
    scenario.wait(1)
    a_gang(scenario, "gang", 3)
    run(scenario, "root.a", an_ask("x"))
    assert run_until_idle(scenario) == ["alone"]


def test_a_second_victim_comes_from_the_gang_that_lost_the_first() -> None:
    scenario = two(vcore=6000)
    a_gang(scenario, "one", 3)
    a_gang(scenario, "two", 3)
    run(scenario, "root.a", an_ask("x"))
    [first] = run_until_idle(scenario)
    run(scenario, "root.a", an_ask("y"))
    [second] = run_until_idle(scenario)
    assert first[:3] == second[:3]


def test_several_victims_come_from_the_smallest_gang() -> None:
    scenario = two(vcore=6000)
    a_gang(scenario, "large", 4)
    a_gang(scenario, "small", 2)
    run(scenario, "root.a", an_ask("x", vcore=2000))
    assert set(run_until_idle(scenario)) == {"small-p0", "small-p1"}


def test_a_member_beyond_the_gang_minimum_is_preempted_like_a_single_pod() -> None:
    scenario = two(vcore=5000)
    a_gang(scenario, "gang", 3)
    scenario.ask(an_ask("fourth", app="gang", group="workers"), an_ask("fifth", app="gang"))
    for key in [key for key, _ in releases(scenario.wait(0)).items()]:
        scenario.release(key, app="gang")
    run(scenario, "root.a", an_ask("x"))
    assert set(run_until_idle(scenario)) <= {"fourth", "fifth"}


def test_a_gang_preempts_for_all_missing_members_together() -> None:
    scenario = two(nodes=2)
    run(scenario, "root.b", *pods("b", 8))
    a_gang(scenario, "gang", 3, queue="root.a")
    effects = scenario.wait(31)
    assert len(victims(effects)) == 3
    assert cores(scenario, "root.a") == [0]
    confirm(scenario, effects)
    assert cores(scenario, "root.a", "root.b") == [3, 5]


def test_a_gang_that_cannot_be_completed_preempts_nothing() -> None:
    scenario = two(guaranteed=2000)
    run(scenario, "root.b", *pods("b", 4))
    a_gang(scenario, "gang", 3, queue="root.a")
    assert run_until_idle(scenario) == []


def test_a_preempted_placeholder_of_a_gang_that_reserves_is_missing_again() -> None:
    scenario = two(vcore=3000)
    scenario.add_full_node()
    a_gang(scenario, "gang", 4)
    assert scenario.app("gang").gang.reserved["vcore"] == 3000
    run(scenario, "root.a", an_ask("x"))
    effects = scenario.wait(35)
    assert len(victims(effects)) == 1
    assert scenario.app("gang").gang.reserved["vcore"] == 2000
    assert placed(confirm(scenario, effects)) == {"x": "n0"}
    assert scenario.app("gang").state == "Accepted"


def test_a_placeholder_being_replaced_is_no_victim_candidate() -> None:
    scenario = two(vcore=1000)
    a_gang(scenario, "gang", 1)
    scenario.ask(an_ask("real", app="gang", group="workers"))
    run(scenario, "root.a", an_ask("x"))
    assert victims(scenario.wait(60)) == set()


def for_daemon_set(other: QueueConfig, own: QueuePolicies, *running: AskSpec) -> list[str]:
    """The victims of a DaemonSet pod in root.own on the only node, which these pods of root.<other> fill."""
    scenario = Scenario(a_configuration(other, a_queue("own", policies=own)), nodes=1, vcore=len(running) * 1000)
    run(scenario, f"root.{other.name}", *running)
    run(scenario, "root.own", a_daemon("agent", "n0"))
    return run_until_idle(scenario, 600)


@pytest.mark.parametrize(
    "other, own, running",
    [
        (a_queue("safe", policies=DISABLED), QueuePolicies(), pods("v", 4)),
        (a_queue("outside"), FENCE, pods("v", 4)),
        (a_queue("guaranteed", guaranteed=4000), QueuePolicies(), pods("v", 4)),
        (a_queue("other"), QueuePolicies(), list(map(opted_out, pods("v", 4)))),
        (a_queue("ahead", policies=offset(1)), QueuePolicies(), pods("v", 4)),
    ],
    ids=["disabled", "fence", "guarantee", "opted out", "priority offset"],
)
def test_only_a_daemon_set_queue_with_the_property_preempts_protected_pods(
    other: QueueConfig, own: QueuePolicies, running: list[AskSpec]
) -> None:
    """The finding of the forged DaemonSet: nothing protected the pods of other tenants on the node."""
    assert for_daemon_set(other, own, *running) == []
    assert len(for_daemon_set(other, replace(own, daemonsets_preempt_all=True), *running)) == 1
    assert len(for_daemon_set(a_queue("other"), QueuePolicies(), *pods("v", 4))) == 1


def test_a_daemon_set_pod_takes_what_a_queue_has_above_its_guarantee_only() -> None:
    scenario = Scenario(a_configuration(a_queue("other", guaranteed=3000), a_queue("own")), nodes=1, vcore=4000)
    run(scenario, "root.other", *pods("v", 4))
    run(scenario, "root.own", a_daemon("agent", "n0"), a_daemon("second", "n0"))
    assert run_until_idle(scenario, 600) == ["v3"]


def test_a_daemon_set_pod_preempts_immediately_and_without_a_guarantee() -> None:
    scenario = two(nodes=2)
    run(scenario, "root.a", *pods("a", 4))
    run(scenario, "root.b", *pods("b", 4))
    effects = run(scenario, "root.b", an_ask("more"))
    submit(scenario, "daemons", "root.b")
    effects = scenario.ask(replace(a_daemon("d", "n0"), application=an_application("daemons").id))
    effects += scenario.wait(1)
    [gone] = victims(effects)
    where = {
        allocation.spec.key: allocation.node for app in "ab" for allocation in scenario.app(app).allocations.values()
    }
    assert where[an_ask(gone).key] == "n0"
    assert placed(confirm(scenario, effects)) == {"d": "n0"}


def test_daemon_set_pods_with_the_property_preempt_regular_then_opted_out_then_originator_pods() -> None:
    unlimited = a_queue("b", policies=QueuePolicies(daemonsets_preempt_all=True))
    scenario = Scenario(a_configuration(a_queue("a", guaranteed=4000), unlimited), nodes=1, vcore=3000)
    run(scenario, "root.b", first_pod(an_ask("first")), opted_out(an_ask("kept")), an_ask("regular", priority=3))
    submit(scenario, "daemons", "root.b")
    gone = []
    for index in range(3):
        scenario.ask(replace(a_daemon(f"d{index}", "n0", priority=5), application=an_application("daemons").id))
        gone += run_until_idle(scenario, 20)
    assert gone == ["regular", "kept", "first"]


def test_a_daemon_set_pod_without_possible_victims_is_reported_once() -> None:
    scenario = two()
    run(scenario, "root.b", *pods("b", 4, priority=7))
    submit(scenario, "daemons", "root.a")
    scenario.ask(replace(a_daemon("d", "n0"), application=an_application("daemons").id))
    effects = [notice for notice in notices(scenario.wait(100)) if "required node" in notice]
    assert effects == ["No fit on required node, preemption does not help"]


def test_daemon_set_pods_are_never_victims_and_respect_their_opt_out() -> None:
    scenario = two()
    run(scenario, "root.b", *(a_daemon(f"b{index}", "n0") for index in range(4)))
    run(scenario, "root.a", an_ask("x", priority=9))
    submit(scenario, "daemons", "root.a")
    scenario.ask(replace(a_daemon("d", "n0", priority=9), application=an_application("daemons").id))
    assert run_until_idle(scenario) == []
    other = two()
    run(other, "root.b", *pods("b", 4))
    submit(other, "daemons", "root.a")
    other.ask(replace(never(a_daemon("d", "n0")), application=an_application("daemons").id))
    assert run_until_idle(other) == []


def test_a_daemon_set_pod_displaces_reservations_on_its_node() -> None:
    scenario = two(guaranteed=0)
    run(scenario, "root.b", *pods("b", 4))
    run(scenario, "root.a", an_ask("wide", vcore=2000))
    scenario.wait(3)
    assert ("a", "wide") in scenario.partition.reservations.by_ask
    submit(scenario, "daemons", "root.b")
    effects = scenario.ask(replace(a_daemon("d", "n0"), application=an_application("daemons").id)) + scenario.wait(1)
    assert ("a", "wide") not in scenario.partition.reservations.by_ask
    assert waits(effects)["d"][0] == "RESERVED"


def test_an_offset_is_part_of_a_victims_priority() -> None:
    tree = a_queue("p", a_queue("a", guaranteed=2000), a_queue("b", policies=offset(5)), vcore=2000)
    scenario = Scenario(a_configuration(tree), nodes=1)
    run(scenario, "root.p.b", *pods("b", 2))
    run(scenario, "root.p.a", an_ask("equal", priority=4))
    assert run_until_idle(scenario) == []


# -- Preemption chooses among all pods that could help, with bounded work per event.


def gpu_pod(key: str) -> AskSpec:
    return replace(an_ask(key), resources=resources(vcore=1000, gpu=1))


def crowded(count: int, *, priority: int = 0) -> Scenario:
    """Each of `count` nodes of 1 core is full with a pod of root.b. A pod of root.a, whose queue has a guarantee, may
    preempt those of priority 0.
    """
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=4000), a_queue("b")), nodes=count, vcore=1000)
    run(scenario, "root.b", *(replace(pod, priority=priority) for pod in pods("b", count)))
    return scenario


def attempts(scenario: Scenario) -> dict[str, int]:
    ask = scenario.app("a").asks[AllocationKey("x")]
    return {message: times for message, (times, _) in (ask.attempts or {}).items()}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of allocations that were read on each node that a search visited."""
    counts: list[int] = []
    on_node = CandidatePool.eligible_on

    def eligible_on(self: CandidatePool, node: NodeId) -> Iterator[Eligible]:
        counts.append(len(self._partition.placed.get(node, ())))
        return on_node(self, node)

    monkeypatch.setattr(CandidatePool, "eligible_on", eligible_on)
    return counts


def test_a_pod_for_a_rare_resource_preempts_among_any_number_of_younger_pods(read: list[int]) -> None:
    a = a_queue("a")
    a = replace(a, guaranteed=resources(vcore=8000, gpu=8))
    scenario = Scenario(with_preemption(a, a_queue("b")), nodes=6, vcore=100_000)
    node = NodeSpec(PARTITION, NodeId("gpus"), resources(vcore=8000, pods=100, gpu=8))
    scenario.send(NodeAdded(node))
    run(scenario, "root.b", *(gpu_pod(f"g{index}") for index in range(8)))
    scenario.now_ns += 10 * SECOND
    run(scenario, "root.b", *pods("young", 600))
    run(scenario, "root.a", gpu_pod("x"))
    assert run_until_idle(scenario) == ["g7"]
    assert sum(read) <= 3 * 8, "only pods on the node with the resource matter"


def test_the_pod_of_the_lowest_priority_on_any_node_is_preempted() -> None:
    scenario = crowded(60, priority=5)
    scenario.add_node("z", vcore=1000)
    run(scenario, "root.b", an_ask("low", priority=1))
    run(scenario, "root.a", an_ask("x", priority=9))
    assert run_until_idle(scenario) == ["low"]


def test_a_search_that_is_cut_short_continues_until_it_finds_a_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "ALLOCATIONS_PER_PREEMPTION", 10)
    scenario = crowded(60, priority=5)
    scenario.add_node("z", vcore=1000)
    run(scenario, "root.b", an_ask("low"))
    run(scenario, "root.a", an_ask("x"))
    gone: set[str] = set()
    for _ in range(60):
        gone |= victims(scenario.wait(1))
        assert not attempts(scenario), "no result is reported before all nodes are examined"
    assert gone == {"low"}


def test_a_search_of_several_events_reports_once_that_preemption_does_not_help(
    monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    monkeypatch.setattr(planning, "ALLOCATIONS_PER_PREEMPTION", 10)
    scenario = crowded(60, priority=5)
    run(scenario, "root.a", an_ask("x"))
    scenario.wait(600)
    assert attempts(scenario) == {planning.NO_HELP: 1}
    assert sum(read) == 60, "each node is read once"


def test_a_search_in_many_queues_reads_a_bounded_number_of_pods_per_event(
    monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    monkeypatch.setattr(planning, "ALLOCATIONS_PER_PREEMPTION", 20)
    leaves = [a_queue(f"q{index}") for index in range(50)]
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=4000), *leaves), nodes=50, vcore=4000)
    for index in range(50):
        run(scenario, f"root.q{index}", *(replace(pod, priority=5) for pod in pods(f"p{index}-", 4)))
    run(scenario, "root.a", an_ask("x"))
    most = 0
    while not attempts(scenario):
        before = len(read)
        at_ns, _, timer = heappop(scenario.timers)
        scenario.now_ns = max(scenario.now_ns, at_ns)
        scenario.send(TimerFired(timer.timer))
        most = max(most, sum(read[before:]))
    assert attempts(scenario) == {planning.NO_HELP: 1}
    assert sum(read) == 200
    assert 0 < most <= 2 * (20 + 4), "two attempts per event, each ends with the pods of one node"


def test_quota_is_freed_by_a_rare_pod_among_any_number_of_younger_pods() -> None:
    """Nodes have room, but the queue of both has no quota left for the resource."""
    shared = a_queue("shared", replace(a_queue("a"), guaranteed=resources(gpu=1)), a_queue("b"))
    shared = replace(shared, max=Limit({"gpu": 2}))
    scenario = Scenario(with_preemption(shared), nodes=6, vcore=100_000)
    node = NodeSpec(PARTITION, NodeId("gpus"), resources(vcore=8000, pods=100, gpu=8))
    scenario.send(NodeAdded(node))
    run(scenario, "root.shared.b", gpu_pod("g0"), gpu_pod("g1"))
    scenario.now_ns += 10 * SECOND
    run(scenario, "root.shared.b", *pods("young", 500))
    run(scenario, "root.shared.a", gpu_pod("x"))
    assert run_until_idle(scenario) == ["g1"]


def test_a_gang_of_whole_nodes_preempts_on_a_node_of_its_own_for_each_member() -> None:
    """The nodes that the first members get must not use up the nodes that are tried for the last ones."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=32_000), a_queue("b")), nodes=16)
    run(scenario, "root.b", *(an_ask(f"v{index}") for index in range(64)))
    gang = an_application("g", gang=8, each=resources(vcore=4000, pods=1), placement=GangPlacement.AUTO)
    members = (AskAdded(an_ask(f"g{index}", app="g", vcore=4000, group="workers")) for index in range(8))
    gone = victims(scenario.send(ApplicationAdded(gang), *members) + scenario.wait(60))
    assert len(gone) == 32


# -- The work for a large gang is bounded, whatever its members are.


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The answer of each attempt that selects victims: the reason why there are none, or nothing."""
    answers: list[str] = []
    plan = planning.plan_for_guarantee

    def plan_for_guarantee(*given: Any) -> planning.VictimPlan | str:
        found = plan(*given)
        answers.append(found if isinstance(found, str) else "")
        return found

    monkeypatch.setattr(planning, "plan_for_guarantee", plan_for_guarantee)
    monkeypatch.setattr(planning, "ALLOCATIONS_PER_PREEMPTION", 100)
    return answers


def submit_gang(scenario: Scenario, members: int, vcore: int, facts: PodProperties = NO_PROPERTIES) -> None:
    """Submit a Direct gang in root.a with all its members."""
    gang = an_application("g", gang=members, each=resources(vcore=vcore, pods=1), placement=GangPlacement.DIRECT)
    gang = replace(gang, members=(replace(gang.members[0], facts=facts),))
    asks = (an_ask(f"g{index}", app="g", vcore=vcore, group="workers") for index in range(members))
    scenario.send(ApplicationAdded(gang), *(AskAdded(replace(ask, facts=facts)) for ask in asks))


@pytest.mark.parametrize("facts", [NO_PROPERTIES, PodProperties(ports=(HostPort("0.0.0.0", "TCP", 9000),))])  # noqa: S104
def test_the_search_for_a_large_gang_continues_in_the_next_part(facts: PodProperties, parts: list[str]) -> None:
    queues = with_preemption(a_queue("a", guaranteed=280_000), a_queue("b"))
    scenario = Scenario(queues, nodes=70)
    run(scenario, "root.b", *pods("v", 280))
    submit_gang(scenario, 70, 3000, facts)
    while planning.CUT_SHORT not in parts:
        at_ns, _, timer = heappop(scenario.timers)
        scenario.now_ns = max(scenario.now_ns, at_ns)
        scenario.send(TimerFired(timer.timer))
        assert set(parts) <= {planning.CUT_SHORT}
    scenario.release("v0", app="b")  # a pod that ends meanwhile is no victim
    effects = scenario.wait(1)
    assert parts == [*[planning.CUT_SHORT] * (len(parts) - 1), ""]
    assert len(victims(effects)) == 209, "three pods on each node"
    confirm(scenario, effects)
    assert cores(scenario, "root.a", "root.b") == [210, 70]


def test_victims_of_a_large_gang_respect_guarantees() -> None:
    queues = a_queue("a", guaranteed=132_000), a_queue("b"), a_queue("c", guaranteed=131_000)
    scenario = Scenario(with_preemption(*queues), nodes=66)
    run(scenario, "root.b", *pods("b", 132))
    scenario.now_ns += SECOND
    run(scenario, "root.c", *pods("c", 132))
    submit_gang(scenario, 66, 2000)
    gone = victims(scenario.wait(60))
    assert len(gone) == 132
    assert sum(key.startswith("c") for key in gone) <= 1
