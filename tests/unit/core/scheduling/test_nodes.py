"""Nodes in each state, with foreign pods, in several partitions and resource managers (NodeInfo)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.effects import AllocationResponse, Effect, NodeAccepted, NodeRejected
from muster_core.model.events import (
    AllocationReported,
    ApplicationAdded,
    AskAdded,
    ManagerLeft,
    ManagerRegistered,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import AllocationId, NodeId, RmId, Termination, partition_id
from muster_core.model.states import NodeState
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState
from tests.unit.builders import (
    PARTITION,
    RM,
    a_configuration,
    a_node,
    a_queue,
    an_allocation,
    an_application,
    an_ask,
    resources,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks, released_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED
N0 = NodeId("n0")


def a_scenario(nodes: int = 1, vcore: int = 4000) -> Scenario:
    scenario = Scenario(a_configuration(a_queue("a")), nodes, vcore)
    scenario.send(ApplicationAdded(an_application()))
    return scenario


def refused_nodes(effects: list[Effect]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, NodeRejected)]


@pytest.mark.parametrize(
    "action, from_schedulable, from_draining",
    [
        (NodeAction.DRAIN, NodeState.DRAINING, NodeState.DRAINING),
        (NodeAction.OPEN, None, NodeState.SCHEDULABLE),
        (NodeAction.DECOMMISSION, NodeState.REMOVED, NodeState.REMOVED),
    ],
)
def test_each_action_in_each_state(
    action: NodeAction, from_schedulable: NodeState | None, from_draining: NodeState
) -> None:
    scenario = a_scenario()
    scenario.add_node("open")
    scenario.add_node("closed", draining=True)
    for name, expected in (("open", from_schedulable), ("closed", from_draining)):
        effects = scenario.node(name, action)
        if expected is None:
            assert refused_nodes(effects) == [f"node is not draining, it is {NodeState.SCHEDULABLE}"]
        elif expected is NodeState.REMOVED:
            assert NodeId(name) not in scenario.partition.nodes
            assert refused_nodes(scenario.node(name, action)) == [f"node is not known: cannot apply {action}"]
        else:
            assert scenario.partition.nodes.record(NodeId(name)).state is expected


def test_occupied_resources_are_unavailable_until_an_update_lowers_them() -> None:
    scenario = a_scenario(0)
    scenario.send(NodeAdded(replace(a_node("n0"), occupied=resources(vcore=3500))))
    assert placed(scenario.ask(an_ask("a"))) == {}
    assert placed(scenario.send(NodeUpdated(replace(a_node("n0"), occupied=resources(vcore=500))))) == {"a": "n0"}
    nodes = scenario.partition.nodes
    scenario.send(NodeUpdated(replace(a_node("n0"), occupied=resources(vcore=3800))))
    assert nodes.available(N0)["vcore"] == -800
    assert nodes.allocated(N0)["vcore"] == 1000


def test_a_node_update_adds_existing_allocations() -> None:
    scenario = a_scenario(0)
    scenario.add_node("n0", an_allocation("x", "n0", vcore=1000), draining=True)
    scenario.send(NodeUpdated(a_node("n0"), existing=(an_allocation("y", "n0", vcore=1000),)))
    assert scenario.partition.nodes.allocated(N0)["vcore"] == 2000


@pytest.mark.parametrize("tag, preemptable", [("default", True), ("static", False)])
def test_a_foreign_allocation_keeps_its_reported_preemption_policy(tag: str, *, preemptable: bool) -> None:
    scenario = a_scenario()
    spec = replace(
        an_allocation("dns", "n0", app="", vcore=3500, foreign=True),
        tags={"foreign": tag},
        allow_preempt_self=preemptable,
    )
    scenario.send(AllocationReported(spec))
    assert scenario.partition.foreign[AllocationId("dns-0")].allow_preempt_self is preemptable
    assert placed(scenario.ask(an_ask("a"))) == {}
    assert placed(scenario.release("dns", app="")) == {"a": "n0"}


def test_attributes_are_kept_as_sent_and_replaced_completely() -> None:
    scenario = a_scenario(0)
    scenario.send(NodeAdded(replace(a_node("n0"), attributes={"si/rackname": "r1", "os": "linux"})))
    scenario.send(NodeUpdated(replace(a_node("n0"), attributes={"si/rackname": "r2"})))
    assert scenario.partition.nodes.record(N0).spec.attributes == {"si/rackname": "r2"}


# -- drained meanwhile ------------------------------------------------------------


def replacing(*, elsewhere: bool = False) -> Scenario:
    """Request r waits for the release of placeholder p on n0; it will run there, or on n1."""
    scenario = Scenario(a_configuration(a_queue("a")), 2, 1000)
    scenario.send(ApplicationAdded(an_application(gang=1)))
    scenario.ask(an_ask("p", group="workers", placeholder=True))
    real = an_ask("r", group="workers")
    scenario.ask(replace(real, avoid=frozenset({N0})) if elsewhere else real)
    [ask] = scenario.app().asks.values()
    assert ask.replacement is not None
    assert ask.replacement.same_node is not elsewhere
    return scenario


def test_a_replacement_is_not_confirmed_on_a_node_drained_concurrently() -> None:
    scenario = replacing()
    assert placed(scenario.node("n0", NodeAction.DRAIN)) == {"r": "n1"}  # scheduled as usual
    assert placed(scenario.release("p", why=REPLACED)) == {}


def test_a_replacement_to_another_node_looks_for_a_third_when_that_is_drained() -> None:
    scenario = replacing(elsewhere=True)
    assert placed(scenario.node("n1", NodeAction.DRAIN)) == {}
    assert placed(scenario.add_node("n2", vcore=1000)) == {"r": "n2"}


def test_a_replacement_to_another_node_continues_when_the_placeholder_node_is_drained() -> None:
    scenario = replacing(elsewhere=True)
    scenario.node("n0", NodeAction.DRAIN)
    assert placed(scenario.release("p", why=REPLACED)) == {"r": "n1"}


# -- an ask that meets its application's end ----------------------------------------


def completed() -> Scenario:
    scenario = a_scenario()
    scenario.ask(an_ask("a"))
    scenario.release("a")
    assert states(scenario.wait(30)) == ["Completed"]
    return scenario


def test_an_ask_that_crosses_the_completion_is_released_and_not_rejected() -> None:
    scenario = completed()
    effects = scenario.ask(an_ask("late"))
    assert released_asks(effects) == {"late": Termination.TIMEOUT}
    assert refused_asks(effects) == {}
    scenario.send(ApplicationAdded(an_application()))
    assert placed(scenario.ask(an_ask("late"))) == {"late": "n0"}


def test_an_ask_of_an_unknown_or_long_completed_application_is_rejected() -> None:
    scenario = completed()
    assert refused_asks(scenario.ask(an_ask("x", app="never"))) == {"x": "application never is not known"}
    scenario.wait(61)
    assert refused_asks(scenario.ask(an_ask("late"))) == {"late": "application app is not known"}


# -- several resource managers, several partitions -----------------------------------


def test_two_resource_managers_with_the_same_names_are_isolated() -> None:
    other, theirs = RmId("other"), partition_id(RmId("other"), "default")
    scheduler_state = SchedulerState()
    for rm in (RM, other):
        step(scheduler_state, ManagerRegistered(rm, a_configuration(a_queue("a"))), 1)
    for partition in (PARTITION, theirs):
        for event in (
            NodeAdded(replace(a_node("n0", vcore=1000), partition=partition)),
            ApplicationAdded(replace(an_application(), partition=partition)),
            AskAdded(replace(an_ask("a"), partition=partition)),
        ):
            step(scheduler_state, event, 2)
    effects = cycle(scheduler_state, 3, lambda: True).effects
    answers = [effect for effect in effects if isinstance(effect, AllocationResponse)]
    places = sorted((one.rm, [new.ask.key for new in one.new]) for one in answers)
    assert places == [(other, ["a"]), (RM, ["a"])]
    step(scheduler_state, NodeActionReported(theirs, N0, NodeAction.DECOMMISSION), 4)
    assert N0 in scheduler_state.partitions[PARTITION].nodes
    step(scheduler_state, ManagerLeft(other), 5)
    assert list(scheduler_state.partitions) == [PARTITION]


def test_two_partitions_may_have_nodes_and_applications_of_the_same_name() -> None:
    configuration = a_configuration(a_queue("a"))
    [default] = configuration.partitions
    scenario = Scenario(replace(configuration, partitions=(default, replace(default, name="gpu"))))
    gpu = partition_id(RM, "gpu")
    for partition, vcore in ((PARTITION, 1000), (gpu, 2000)):
        effects = scenario.send(NodeAdded(replace(a_node("n0", vcore=vcore), partition=partition)))
        assert [effect.node for effect in effects if isinstance(effect, NodeAccepted)] == ["n0"]
        scenario.send(ApplicationAdded(replace(an_application(), partition=partition)))
        assert placed(scenario.ask(replace(an_ask("a"), partition=partition))) == {"a": "n0"}
    assert placed(scenario.ask(an_ask("b"), replace(an_ask("b"), partition=gpu))) == {"b": "n0"}
    effects = scenario.send(NodeActionReported(gpu, N0, NodeAction.DECOMMISSION))
    assert set(releases(effects)) == {"a", "b"}
    assert len(scenario.app().allocations) == 1
