"""A draining node accepts only pods created for it, and a cordoned one also pods that tolerate it (ADR 0018)."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.events import ApplicationAdded, NodeAction, NodeUpdated
from muster_core.model.ids import Termination
from muster_core.model.specs import AskSpec, GangPlacement
from tests.unit.builders import a_configuration, a_node, a_queue, an_application, an_ask, made_for
from tests.unit.core.scheduling.preemption_scenario import (
    a_daemon,
    confirm,
    pods,
    run,
    submit,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, releases, states

TOLERANT = Constraints(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),))


def agent(node: str = "n0", vcore: int = 1000) -> AskSpec:
    return replace(a_daemon("agent", node, vcore=vcore), constraints=made_for(node))


def cordoned(vcore: int = 4000) -> Scenario:
    """n0 is cordoned, n1 is open."""
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=2, vcore=vcore)
    scenario.node("n0", NodeAction.DRAIN)
    return scenario


def test_a_daemon_set_pod_is_placed_on_its_cordoned_node() -> None:
    scenario = cordoned()
    effects = run(scenario, "root.a", agent(), an_ask("r0"))
    assert placed(effects) == {"agent": "n0", "r0": "n1"}


def test_a_daemon_set_pod_without_the_toleration_waits_for_the_uncordon() -> None:
    scenario = cordoned()
    assert placed(run(scenario, "root.a", a_daemon("agent", "n0"))) == {}
    assert placed(scenario.node("n0", NodeAction.OPEN)) == {"agent": "n0"}


def test_a_daemon_set_pod_waits_for_its_node_to_be_added() -> None:
    scenario = cordoned()
    assert placed(run(scenario, "root.a", agent("n7"))) == {}
    assert placed(scenario.add_node("n7", draining=True)) == {"agent": "n7"}


def test_a_daemon_set_pod_preempts_on_a_full_cordoned_node() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1, vcore=2000)
    run(scenario, "root.b", *pods("r", 2))
    scenario.node("n0", NodeAction.DRAIN)
    submit(scenario, "agents", "root.a")
    effects = scenario.ask(replace(agent(), application=scenario.app("agents").id))
    effects += scenario.wait(60)
    assert list(releases(effects).values()) == [Termination.PREEMPTED_BY_SCHEDULER]
    assert placed(confirm(scenario, effects)) == {"agent": "n0"}


def test_a_tolerant_pod_is_placed_when_the_drain_is_reported_as_a_cordon() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1)
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(run(scenario, "root.a", an_ask("r0", constraints=TOLERANT), an_ask("r1"))) == {}
    assert placed(scenario.send(NodeUpdated(replace(a_node("n0"), cordoned=True)))) == {"r0": "n0"}


def test_a_member_that_tolerates_the_cordon_takes_over_from_its_placeholder_on_a_cordoned_node() -> None:
    """On the same node, though nothing else is let in there."""
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=1)
    scenario.gang(ApplicationAdded(an_application(gang=2)), 2, constraints=TOLERANT)
    scenario.send(NodeUpdated(replace(a_node("n0"), cordoned=True)))
    scenario.node("n0", NodeAction.DRAIN)
    effects = scenario.ask(an_ask("r0", group="workers", constraints=TOLERANT))
    effects += scenario.ask(an_ask("r1", group="workers"))
    assert releases(effects) == {"app-p0": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("app-p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}


def test_a_gang_that_tolerates_the_cordon_takes_over_reservations_and_uses_the_cordoned_node_too() -> None:
    """With the reservation on the cordoned node the gang is complete."""
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    scenario.add_node("n1", vcore=1000, draining=True)
    scenario.send(NodeUpdated(replace(a_node("n1", 1000), cordoned=True)))
    scenario.add_full_node(vcore=10_000)
    scenario.gang(ApplicationAdded(an_application("later", queue="root.b", gang=5, created_s=20)), 3)
    first = an_application("first", queue="root.a", gang=5, created_s=10, placement=GangPlacement.AUTO)
    effects = scenario.gang(ApplicationAdded(first), 5, constraints=TOLERANT)
    assert len(victims(effects)) == 3
    assert states(confirm(scenario, effects), "first") == ["Running"]


def full_and_cordoned(*tolerant: AskSpec) -> Scenario:
    """n0 is cordoned and full of root.b's pods. The requests of root.a, below its guarantee, tolerate the cordon."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1)
    run(scenario, "root.b", *pods("b", 4))
    scenario.node("n0", NodeAction.DRAIN)
    scenario.send(NodeUpdated(replace(a_node("n0"), cordoned=True)))
    assert placed(run(scenario, "root.a", *tolerant)) == {}
    return scenario


def test_a_pod_that_tolerates_the_cordon_neither_preempts_on_the_cordoned_node_nor_reserves_it() -> None:
    """It takes what is free there (ADR 0018)."""
    scenario = full_and_cordoned(an_ask("r0", constraints=TOLERANT))
    assert victims(scenario.wait(120)) == set()
    assert not scenario.partition.reservations
    assert placed(scenario.release("b0", app="b")) == {"r0": "n0"}


def test_the_same_pod_preempts_once_the_cordon_is_lifted() -> None:
    scenario = full_and_cordoned(an_ask("r0", constraints=TOLERANT))
    scenario.wait(120)
    scenario.node("n0", NodeAction.OPEN)
    assert victims(scenario.wait(31))
