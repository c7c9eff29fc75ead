"""A gang whose anti-affinity cannot be satisfied on the existing nodes is reported."""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.constraints import NAMESPACE, InterPodConstraints
from muster_core.model.events import AllocationReported, ApplicationAdded, NodeAdded
from muster_core.model.specs import ApplicationSpec, AskSpec, PodProperties
from tests.unit.builders import a_configuration, a_node, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.placement.affinity_clusters import HOST, term
from tests.unit.core.scheduling.scenario import Scenario, notices, placed

WEB = {NAMESPACE: "red", "kubernetes.io/label/app": "web"}
ALONE = PodProperties(InterPodConstraints(anti_affinity=(term("web", HOST),)))


def a_gang(members: int) -> ApplicationSpec:
    """Each member wants a host without another one."""
    spec = an_application(gang=members)
    [member] = spec.members
    return replace(spec, members=(replace(member, facts=ALONE, tags=tuple(WEB.items())),))


def placeholders(count: int) -> list[AskSpec]:
    asks = (an_ask(f"p{index}", group="workers", tags=WEB, placeholder=True) for index in range(count))
    return [replace(ask, facts=ALONE) for ask in asks]


def a_scenario(nodes: int) -> Scenario:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(*(NodeAdded(a_node(f"n{index}", labels={HOST: f"n{index}"})) for index in range(nodes)))
    return scenario


def test_members_with_host_anti_affinity_never_fit_on_fewer_hosts() -> None:
    scenario = a_scenario(2)
    scenario.send(ApplicationAdded(a_gang(3)))
    [effects] = notices(scenario.ask(*placeholders(3)))
    assert effects == (
        "the gang would not fit even in an empty cluster: 1 of 3 members of task group workers would not fit: "
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. It waits for nodes to be added"
    )


def test_a_host_excluded_by_another_pod_is_not_reported_as_impossible() -> None:
    scenario = a_scenario(3)
    scenario.send(AllocationReported(replace(an_allocation("b", "n0", foreign=True), tags=WEB, facts=ALONE)))
    scenario.send(ApplicationAdded(a_gang(3)))
    answer = scenario.ask(*placeholders(3))
    assert notices(answer) == []
    assert len(placed(answer)) < 3
