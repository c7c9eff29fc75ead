"""Core or operator is killed in any phase of a gang: the result is the same, and nothing is done twice."""

from collections.abc import Callable

import pytest

from muster_operator.model.commands import BindPod, DeletePod, FailPod, MarkResumed
from muster_operator.model.ids import AppId
from tests.unit.operator.controller.objects import Raw, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Simulation
from tests.unit.operator.controller.test_state_comparison import compared

APP = AppId("dev/gang")
MEMBERS = 3

Phase = Callable[[Simulation], None]
Kill = Callable[[Simulation], None]


def a_member(number: int, style: str = "Soft") -> Raw:
    annotations = gang_annotations(a_group("g", MEMBERS), parameters=f"gangSchedulingStyle={style}", member_of="g")
    return a_pod(f"w{number}", app=APP, annotations=annotations)


def began(style: str = "Soft", real: int = MEMBERS) -> Simulation:
    simulation = Simulation()
    for name in ("n0", "n1"):
        simulation.kubernetes.add_node(a_node(name))
    simulation.start()
    simulation.kubernetes.add(*(a_member(number, style) for number in range(real)))
    return simulation


def reach(simulation: Simulation, is_there: Callable[[], bool]) -> None:
    """Step until the condition is true. Events of Kubernetes come first, commands of the operator last."""
    for _ in range(1000):
        if is_there():
            return
        assert simulation.step(), "it came to rest before"
    raise AssertionError("never there")


def bound(simulation: Simulation, *, placeholders: bool) -> int:
    ours = [raw["metadata"]["uid"] for raw in simulation.kubernetes.placeholders()]
    pods = simulation.kubernetes.pods.items()
    return sum(bool(raw["spec"].get("nodeName")) for uid, raw in pods if (uid in ours) is placeholders)


def creating(simulation: Simulation) -> None:
    reach(simulation, lambda: len(simulation.kubernetes.placeholders()) == 1)


def reserving(simulation: Simulation) -> None:
    reach(simulation, lambda: bound(simulation, placeholders=True) == 1)


def reserved(simulation: Simulation) -> None:
    """All members are reserved, and none has been requested."""
    reach(simulation, lambda: bound(simulation, placeholders=True) == MEMBERS)
    assert not any(key == "uid-w0" for app in simulation.core.apps.values() for key in app.asks)


def swapping_with_the_delete_on_its_way(simulation: Simulation) -> None:
    reach(simulation, lambda: any(isinstance(command, DeletePod) for command in simulation.commands))
    assert len(simulation.kubernetes.placeholders()) == MEMBERS


def replacing_after_placeholder_deletion(simulation: Simulation) -> None:
    reach(simulation, lambda: len(simulation.kubernetes.placeholders()) < MEMBERS)
    assert bound(simulation, placeholders=False) == 0


def swapping_with_the_bind_on_its_way(simulation: Simulation) -> None:
    reach(simulation, lambda: any(isinstance(one, BindPod) and not one.placeholder for one in simulation.commands))


def running(simulation: Simulation) -> None:
    reach(simulation, lambda: bound(simulation, placeholders=False) == 1)


PHASES: list[Phase] = [
    creating,
    reserving,
    reserved,
    swapping_with_the_delete_on_its_way,
    replacing_after_placeholder_deletion,
    swapping_with_the_bind_on_its_way,
    running,
]


def operator_and_its_writes(simulation: Simulation) -> None:
    simulation.kill_operator(lose_commands=True)


def operator(simulation: Simulation) -> None:
    """What it had sent is still carried out."""
    simulation.kill_operator(lose_commands=False)


def core(simulation: Simulation) -> None:
    simulation.kill_core()


def both(simulation: Simulation) -> None:
    simulation.kill_core()
    simulation.kill_operator(lose_commands=True)


KILLS: list[Kill] = [operator_and_its_writes, operator, core, both]
every_kill = pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.__name__)


def at_rest(simulation: Simulation) -> None:
    """Everything is delivered, and every retry has had its time."""
    simulation.run()
    simulation.wait(70)
    simulation.run()


def assert_over(simulation: Simulation) -> None:
    """No pod was bound twice, and the placeholders are deleted with the application."""
    assert all(count == 1 for count in simulation.kubernetes.binds.values())
    for name in [raw["metadata"]["name"] for raw in simulation.kubernetes.pods.values()]:
        if not name.startswith("tg-"):
            simulation.kubernetes.change(name, phase="Succeeded")
    at_rest(simulation)
    for _ in range(3):
        simulation.core.complete()
        at_rest(simulation)
    assert simulation.kubernetes.placeholders() == []
    assert simulation.ledger.applications == {}
    assert simulation.ledger.tasks == {}
    assert simulation.core.apps == {}


@every_kill
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_every_member_of_a_gang_is_bound_exactly_once(phase: Phase, kill: Kill) -> None:
    simulation = began()
    phase(simulation)
    kill(simulation)
    compared(simulation)
    at_rest(simulation)
    compared(simulation)
    assert simulation.differences == []
    assert bound(simulation, placeholders=False) == MEMBERS
    assert simulation.kubernetes.placeholders() == []
    assert_over(simulation)


@every_kill
def test_left_over_placeholders_of_a_completing_gang_are_deleted(kill: Kill) -> None:
    simulation = began(real=2)
    at_rest(simulation)
    assert len(simulation.kubernetes.placeholders()) == 1
    for number in range(2):
        simulation.kubernetes.change(f"w{number}", phase="Succeeded")
    simulation.run()
    simulation.core.complete()
    reach(simulation, lambda: any(isinstance(command, DeletePod) for command in simulation.commands))
    kill(simulation)
    at_rest(simulation)
    assert_over(simulation)


@every_kill
def test_every_unbound_pod_of_a_failed_gang_fails(kill: Kill) -> None:
    """Hard: pods that were not failed before the kill form a gang again, which times out again."""
    simulation = began("Hard")
    reserving(simulation)
    simulation.core.time_out(APP)
    reach(simulation, lambda: any(isinstance(command, FailPod) for command in simulation.commands))
    kill(simulation)
    at_rest(simulation)
    if APP in simulation.core.apps and simulation.core.apps[APP].state == "Accepted":
        simulation.core.time_out(APP)
        at_rest(simulation)
    running_on = [raw for raw in simulation.kubernetes.pods.values() if raw["status"]["phase"] != "Failed"]
    assert all(raw["spec"].get("nodeName") for raw in running_on)
    assert_over(simulation)


@every_kill
def test_a_soft_gang_that_timed_out_stays_resumed_and_its_pods_are_bound(kill: Kill) -> None:
    """Soft: the originator carries the mark, once it is written."""
    simulation = began()
    reserving(simulation)
    simulation.core.time_out(APP)
    reach(simulation, lambda: any(isinstance(command, MarkResumed) for command in simulation.commands))
    kill(simulation)
    at_rest(simulation)
    assert bound(simulation, placeholders=False) == MEMBERS
    assert simulation.kubernetes.placeholders() == []
    assert_over(simulation)


@every_kill
def test_the_replacement_of_a_rejected_member_is_bound_after_its_reservation_is_lost(kill: Kill) -> None:
    """The reservation belongs to the session (ADR 0011): a restart drops it, and the pod is scheduled as usual."""
    simulation = began()
    at_rest(simulation)
    simulation.kubernetes.change("w0", phase="Failed", reason="OutOfcpu")
    simulation.run()
    assert simulation.ledger.places
    kill(simulation)
    simulation.kubernetes.add(a_member(7))
    at_rest(simulation)
    assert simulation.kubernetes.node_of("w7")
    assert simulation.kubernetes.placeholders() == []
    assert_over(simulation)
