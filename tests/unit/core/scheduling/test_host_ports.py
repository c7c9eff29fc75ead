"""Pods with the same host port: one per node, in the order in which nodes become free."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.events import ApplicationAdded
from muster_core.model.ids import Termination
from muster_core.model.specs import AskSpec, HostPort, PodProperties
from tests.unit.builders import a_queue, an_application, an_ask
from tests.unit.core.scheduling.preemption_scenario import run, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, placed, releases

WEB = PodProperties(ports=(HostPort("10.0.0.1", "TCP", 80),))


def on_port(ask: AskSpec) -> AskSpec:
    return replace(ask, facts=WEB)


def test_a_pod_whose_port_is_in_use_waits_until_it_is_free() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=2)
    assert placed(run(scenario, "root.a", *(on_port(an_ask(f"r{i}")) for i in range(3)))) == {"r0": "n0", "r1": "n1"}
    assert placed(scenario.release("r1", app="a")) == {"r2": "n1"}


def test_a_member_replaces_its_placeholder_with_the_same_port() -> None:
    scenario = Scenario(with_preemption(a_queue("a"), a_queue("b")), nodes=2)
    scenario.send(ApplicationAdded(an_application(gang=2)))
    placeholders = (an_ask(f"p{i}", group="workers", placeholder=True) for i in range(2))
    assert placed(scenario.ask(*(on_port(ask) for ask in placeholders))) == {"p0": "n0", "p1": "n1"}
    effects = scenario.ask(on_port(an_ask("r0", group="workers")))
    assert releases(effects) == {"p0": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}
