"""Nodes in each state, with foreign pods, in several partitions and resource managers (NodeInfo)."""

from dataclasses import replace

import pytest

from muster_core.model.constraints import Constraints, Toleration
from muster_core.model.effects import AllocationResponse, Effect, NodeAccepted, NodeRejected
from muster_core.model.events import (
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
from muster_core.model.specs import AskSpec, GangPlacement
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
    made_for,
    resources,
)
from tests.unit.core.scheduling.preemption_scenario import (
    a_daemon,
    confirm,
    pods,
    run,
    submit,
    victims,
    with_preemption,
)
from tests.unit.core.scheduling.scenario import Scenario, placed, refused_asks, released_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED
N0 = NodeId("n0")


def a_scenario(nodes: int = 1, vcore: int = 4000) -> Scenario:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=nodes, vcore=vcore)
    scenario.submit(an_application())
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
    scenario.report(spec)
    assert scenario.partition.foreign[AllocationId("dns-0")].allow_preempt_self is preemptable
    assert placed(scenario.ask(an_ask("a"))) == {}
    assert placed(scenario.release("dns", app="")) == {"a": "n0"}


def test_attributes_are_kept_as_sent_and_replaced_completely() -> None:
    scenario = a_scenario(0)
    scenario.send(NodeAdded(replace(a_node("n0"), attributes={"si/rackname": "r1", "os": "linux"})))
    scenario.send(NodeUpdated(replace(a_node("n0"), attributes={"si/rackname": "r2"})))
    assert scenario.partition.nodes.record(N0).spec.attributes == {"si/rackname": "r2"}


def replacing(*, elsewhere: bool = False) -> Scenario:
    """Request r waits for the release of placeholder p on n0; it will run there, or on n1."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2, vcore=1000)
    scenario.submit(an_application(gang=1), an_ask("p", group="workers", placeholder=True))
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
    assert placed(scenario.submit(an_application(), an_ask("late"))) == {"late": "n0"}


def test_an_ask_of_an_unknown_or_long_completed_application_is_rejected() -> None:
    scenario = completed()
    assert refused_asks(scenario.ask(an_ask("x", app="never"))) == {"x": "application never is not known"}
    scenario.wait(61)
    assert refused_asks(scenario.ask(an_ask("late"))) == {"late": "application app is not known"}


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
        scenario.submit(replace(an_application(), partition=partition))
        assert placed(scenario.ask(replace(an_ask("a"), partition=partition))) == {"a": "n0"}
    assert placed(scenario.ask(an_ask("b"), replace(an_ask("b"), partition=gpu))) == {"b": "n0"}
    effects = scenario.send(NodeActionReported(gpu, N0, NodeAction.DECOMMISSION))
    assert set(releases(effects)) == {"a", "b"}
    assert len(scenario.app().allocations) == 1


# -- A draining node accepts only pods created for it, and a cordoned one also pods that tolerate it (ADR 0018).

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
    scenario.gang(an_application(gang=2), 2, constraints=TOLERANT)
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
    scenario.gang(an_application("later", queue="root.b", gang=5, created_s=20), 3)
    first = an_application("first", queue="root.a", gang=5, created_s=10, placement=GangPlacement.AUTO)
    effects = scenario.gang(first, 5, constraints=TOLERANT)
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
