"""Preemption if inter-pod filters reject a node: the conflicting pods are victims, if that makes the node feasible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.constraints import InterPodConstraints
from muster_core.model.events import NodeAdded
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.specs import NO_PROPERTIES, AskSpec, HostPort, PodProperties
from tests.unit.builders import a_configuration, a_queue, an_ask
from tests.unit.core.placement.affinity_clusters import HOST, term
from tests.unit.core.scheduling.preemption_scenario import confirm, pods, run, victims
from tests.unit.core.scheduling.scenario import Scenario, placed
from tests.unit.core.scheduling.test_pod_affinity import in_zone, tags

APART = PodProperties(InterPodConstraints(anti_affinity=(term("db", topology=HOST),)))
UNWANTING = PodProperties(InterPodConstraints(anti_affinity=(term("web", topology=HOST),)))
NEAR = PodProperties(InterPodConstraints(affinity=(term("db", topology=HOST),)))
PORT = PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),))


def web(key: str, facts: PodProperties = NO_PROPERTIES, **more: int) -> AskSpec:
    return replace(an_ask(key, tags=tags("web"), **more), facts=facts)  # type: ignore[arg-type]  # numbers only


def other(key: str, app: str, facts: PodProperties = NO_PROPERTIES, **more: int) -> AskSpec:
    return replace(web(key, facts, **more), tags=tags(app))


def contest(*there: AskSpec) -> Scenario:
    """One node of 4 cores with these pods of a queue without a guarantee, next to a queue with one."""
    queues = a_queue("p", a_queue("a", guaranteed=4000), a_queue("b"))
    scenario = Scenario(a_configuration(queues))
    scenario.send(NodeAdded(in_zone("n0", "a")))
    # The first look at tags, so that all are counted.
    assert len(placed(run(scenario, "root.p.b", *there))) == len(there)
    return scenario


def after(scenario: Scenario, ask: AskSpec) -> tuple[set[str], dict[str, str]]:
    """The victims for the request of the other queue, and its node after they are released."""
    assert placed(run(scenario, "root.p.a", ask)) == {}
    effects = scenario.wait(60)
    return victims(effects), placed(confirm(scenario, effects))


@pytest.mark.parametrize(
    "there, ask",
    [
        (other("b1", "db"), web("x", APART)),
        (other("b1", "db", UNWANTING), web("x")),
        (other("b1", "cache", PORT), web("x", PORT)),
    ],
    ids=["own anti-affinity", "anti-affinity of the one that is there", "a host port"],
)
def test_only_the_conflicting_pod_is_preempted_when_resources_are_free(there: AskSpec, ask: AskSpec) -> None:
    scenario = contest(other("b0", "cache"), there, other("b2", "cache"))
    assert after(scenario, ask) == ({"b1"}, {"x": "n0"})


def test_victims_that_free_resources_are_preempted_with_the_conflicting_pod() -> None:
    scenario = contest(other("b0", "db"), other("b1", "cache"), other("b2", "cache"), other("b3", "cache"))
    gone, place = after(scenario, web("x", APART, vcore=2000))
    assert "b0" in gone
    assert (len(gone), place) == (2, {"x": "n0"})


def test_no_pod_is_preempted_because_of_pod_affinity() -> None:
    scenario = contest(*pods("b", 4))
    assert after(scenario, web("x", NEAR)) == (set(), {})


def test_the_pod_required_by_affinity_stays_and_another_pod_is_preempted() -> None:
    # Of the same size and priority the younger would go first.
    scenario = contest(other("b0", "cache"), other("b1", "cache"), other("b2", "cache"), other("b3", "db"))
    gone, place = after(scenario, web("x", NEAR))
    assert (len(gone), place) == (1, {"x": "n0"})
    assert "b3" not in gone


def test_a_conflicting_pod_of_higher_priority_is_not_preempted() -> None:
    scenario = contest(other("b0", "db", priority=10))
    assert after(scenario, web("x", APART)) == (set(), {})


def test_daemon_set_pods_preempt_conflicting_pods_on_their_node() -> None:
    scenario = contest(other("b0", "cache"), other("b1", "cache", PORT))
    ask = replace(web("x", PORT), required_node=NodeId("n0"))
    assert after(scenario, ask) == ({"b1"}, {"x": "n0"})


def test_two_pods_with_mutual_anti_affinity_do_not_share_freed_resources() -> None:
    scenario = contest(*(other(f"b{index}", "cache") for index in range(4)))
    lonely = PodProperties(InterPodConstraints(anti_affinity=(term("web", topology=HOST),)))
    run(scenario, "root.p.a", web("x", lonely), web("y", lonely))
    effects = scenario.wait(120)
    assert len(victims(effects)) == 1
    assert placed(confirm(scenario, effects)) == {"x": "n0"}
    assert AllocationKey("y") in scenario.app("a").asks
