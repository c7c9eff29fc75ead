"""Nodes in each state, with room that others take, in partitions and worlds of their own (NodeInfo)."""

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
from muster_core.scheduling.cycle import cycle
from muster_core.scheduling.step import step
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
from tests.unit.core.scheduling.scene import Scene, placed, refused_asks, released_asks, releases, states

REPLACED = Termination.PLACEHOLDER_REPLACED
N0 = NodeId("n0")


def a_scene(nodes: int = 1, vcore: int = 4000) -> Scene:
    scene = Scene(a_configuration(a_queue("a")), nodes, vcore)
    scene.tell(ApplicationAdded(an_application()))
    return scene


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
    scene = a_scene()
    scene.add_node("open")
    scene.add_node("closed", draining=True)
    for name, expected in (("open", from_schedulable), ("closed", from_draining)):
        said = scene.node(name, action)
        if expected is None:
            assert refused_nodes(said) == [f"node is not draining, it is {NodeState.SCHEDULABLE}"]
        elif expected is NodeState.REMOVED:
            assert NodeId(name) not in scene.partition.nodes
            assert refused_nodes(scene.node(name, action)) == [f"node is not known: {action} has no meaning"]
        else:
            assert scene.partition.nodes.record(NodeId(name)).state is expected


def test_occupied_room_is_nobodys_and_comes_back_with_an_update() -> None:
    scene = a_scene(0)
    scene.tell(NodeAdded(replace(a_node("n0"), occupied=resources(vcore=3500))))
    assert placed(scene.ask(an_ask("a"))) == {}
    assert placed(scene.tell(NodeUpdated(replace(a_node("n0"), occupied=resources(vcore=500))))) == {"a": "n0"}
    nodes = scene.partition.nodes
    scene.tell(NodeUpdated(replace(a_node("n0"), occupied=resources(vcore=3800))))
    assert nodes.available(N0)["vcore"] == -800
    assert nodes.allocated(N0)["vcore"] == 1000


def test_an_update_adds_to_what_runs_on_a_node() -> None:
    scene = a_scene(0)
    scene.add_node("n0", an_allocation("x", "n0", vcore=1000), draining=True)
    scene.tell(NodeUpdated(a_node("n0"), existing=(an_allocation("y", "n0", vcore=1000),)))
    assert scene.partition.nodes.allocated(N0)["vcore"] == 2000


@pytest.mark.parametrize("tag, preemptable", [("default", True), ("static", False)])
def test_a_foreign_allocation_keeps_what_was_said_of_it(tag: str, *, preemptable: bool) -> None:
    scene = a_scene()
    spec = replace(
        an_allocation("dns", "n0", app="", vcore=3500, foreign=True),
        tags={"foreign": tag},
        allow_preempt_self=preemptable,
    )
    scene.tell(AllocationReported(spec))
    assert scene.partition.foreign[AllocationId("dns-0")].allow_preempt_self is preemptable
    assert placed(scene.ask(an_ask("a"))) == {}
    assert placed(scene.release("dns", app="")) == {"a": "n0"}


def test_attributes_are_kept_as_sent_and_replaced_whole() -> None:
    scene = a_scene(0)
    scene.tell(NodeAdded(replace(a_node("n0"), attributes={"si/rackname": "r1", "os": "linux"})))
    scene.tell(NodeUpdated(replace(a_node("n0"), attributes={"si/rackname": "r2"})))
    assert scene.partition.nodes.record(N0).spec.attributes == {"si/rackname": "r2"}


# -- drained meanwhile ------------------------------------------------------------


def swapping(*, elsewhere: bool = False) -> Scene:
    """Ask r waits for placeholder p on n0 to go; it is to run there, or on n1."""
    scene = Scene(a_configuration(a_queue("a")), 2, 1000)
    scene.tell(ApplicationAdded(an_application(gang=1)))
    scene.ask(an_ask("p", group="workers", placeholder=True))
    real = an_ask("r", group="workers")
    scene.ask(replace(real, avoid=frozenset({N0})) if elsewhere else real)
    [ask] = scene.app().asks.values()
    assert ask.replacement is not None
    assert ask.replacement.same_node is not elsewhere
    return scene


def test_a_swap_is_not_confirmed_onto_a_node_that_was_drained_meanwhile() -> None:
    scene = swapping()
    assert placed(scene.node("n0", NodeAction.DRAIN)) == {"r": "n1"}  # scheduled as usual
    assert placed(scene.release("p", why=REPLACED)) == {}


def test_a_swap_to_another_node_looks_for_a_third_when_that_is_drained() -> None:
    scene = swapping(elsewhere=True)
    assert placed(scene.node("n1", NodeAction.DRAIN)) == {}
    assert placed(scene.add_node("n2", vcore=1000)) == {"r": "n2"}


def test_a_swap_to_another_node_goes_on_when_the_placeholders_is_drained() -> None:
    scene = swapping(elsewhere=True)
    scene.node("n0", NodeAction.DRAIN)
    assert placed(scene.release("p", why=REPLACED)) == {"r": "n1"}


# -- an ask that meets its application's end ----------------------------------------


def completed() -> Scene:
    scene = a_scene()
    scene.ask(an_ask("a"))
    scene.release("a")
    assert states(scene.wait(30)) == ["Completed"]
    return scene


def test_an_ask_that_crosses_the_completion_is_given_back_and_not_called_wrong() -> None:
    scene = completed()
    said = scene.ask(an_ask("late"))
    assert released_asks(said) == {"late": Termination.TIMEOUT}
    assert refused_asks(said) == {}
    scene.tell(ApplicationAdded(an_application()))
    assert placed(scene.ask(an_ask("late"))) == {"late": "n0"}


def test_an_ask_long_after_the_completion_or_of_an_application_that_never_was_is_refused() -> None:
    scene = completed()
    assert refused_asks(scene.ask(an_ask("x", app="never"))) == {"x": "application never is not known"}
    scene.wait(61)
    assert refused_asks(scene.ask(an_ask("late"))) == {"late": "application app is not known"}


# -- several resource managers, several partitions -----------------------------------


def test_two_resource_managers_use_the_same_names_and_never_meet() -> None:
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
    said = cycle(scheduler_state, 3, lambda: True).effects
    answers = [effect for effect in said if isinstance(effect, AllocationResponse)]
    places = sorted((one.rm, [new.ask.key for new in one.new]) for one in answers)
    assert places == [(other, ["a"]), (RM, ["a"])]
    step(scheduler_state, NodeActionReported(theirs, N0, NodeAction.DECOMMISSION), 4)
    assert N0 in scheduler_state.partitions[PARTITION].nodes
    step(scheduler_state, ManagerLeft(other), 5)
    assert list(scheduler_state.partitions) == [PARTITION]


def test_a_node_and_an_application_of_the_same_name_live_in_two_partitions_of_one_manager() -> None:
    configuration = a_configuration(a_queue("a"))
    [default] = configuration.partitions
    scene = Scene(replace(configuration, partitions=(default, replace(default, name="gpu"))))
    gpu = partition_id(RM, "gpu")
    for partition, vcore in ((PARTITION, 1000), (gpu, 2000)):
        said = scene.tell(NodeAdded(replace(a_node("n0", vcore=vcore), partition=partition)))
        assert [effect.node for effect in said if isinstance(effect, NodeAccepted)] == ["n0"]
        scene.tell(ApplicationAdded(replace(an_application(), partition=partition)))
        assert placed(scene.ask(replace(an_ask("a"), partition=partition))) == {"a": "n0"}
    assert placed(scene.ask(an_ask("b"), replace(an_ask("b"), partition=gpu))) == {"b": "n0"}
    said = scene.tell(NodeActionReported(gpu, N0, NodeAction.DECOMMISSION))
    assert set(releases(said)) == {"a", "b"}
    assert len(scene.app().allocations) == 1
