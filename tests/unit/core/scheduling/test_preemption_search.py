"""Preemption chooses among all pods that could help, with bounded work per event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop

import pytest

from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded, TimerFired
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.resources import Limit
from muster_core.model.specs import AskSpec, GangPlacement, NodeSpec
from muster_core.preemption import planning
from muster_core.preemption.candidates import CandidatePool, Eligible
from tests.unit.builders import PARTITION, SECOND, a_queue, an_application, an_ask, resources
from tests.unit.core.scheduling.preemption_scenario import pods, run, run_until_idle, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario


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
