"""Kept reservations when their gang ends, or when their pod loses its node again (ADR 0011)."""

from muster_operator.controller.reconciliation import compare
from muster_operator.model.commands import BindPod, CommandFailed
from muster_operator.model.core_messages import InventoryPart
from muster_operator.model.ids import PodUid
from muster_si import keys
from tests.unit.operator.controller.simulation import Simulation
from tests.unit.operator.controller.state_comparison import inventory_of
from tests.unit.operator.controller.test_kubelet_rejections import (
    JOB,
    PLACE,
    SETTINGS,
    a_worker,
    refuse,
    running,
    started,
)


def agrees(simulation: Simulation) -> bool:
    """Whether agent and core hold the same."""
    found = compare(simulation.ledger, inventory_of(simulation.core, InventoryPart.APPLICATIONS), set(), simulation.now)
    return not found.found and not found.inconsistency


def at_bind(simulation: Simulation) -> BindPod:
    """Continue until w0 is to be bound."""
    while True:
        for command in simulation.commands:
            if isinstance(command, BindPod) and command.pod.name == "w0":
                return command
        assert simulation.step()


def fail_bind(simulation: Simulation) -> None:
    """It is refused for good."""
    command = at_bind(simulation)
    simulation.commands.remove(command)
    simulation.results.append(CommandFailed(command, 422, "Invalid", "no"))
    while simulation.results:
        simulation._answer()
    simulation._deliver()


def test_a_reservation_is_removed_with_an_application_that_a_new_session_rejects() -> None:
    simulation = running()
    refuse(simulation)
    simulation.core.reject = "no such queue"
    simulation.kill_core()
    simulation.run()
    assert simulation.ledger.places == {}
    assert agrees(simulation)


def test_a_reservation_is_removed_with_a_gang_that_loses_its_last_member_while_reserving() -> None:
    simulation = started()
    simulation.kubernetes.add(a_worker("w0"))
    while JOB not in simulation.core.apps or simulation.core.apps[JOB].state != "Running":
        assert simulation.step()
    app = simulation.ledger.applications[JOB]
    while not app.core_is_running:
        simulation._obey_application()
    bound = next(task for task in app.placeholders.values() if task.held)
    simulation.kubernetes.change(bound.pod.ref.name, phase="Failed", reason="OutOfpods")
    while not simulation.ledger.places:
        simulation._observe()
    simulation._deliver()
    simulation.kubernetes.delete_by_name("w0")
    simulation.run()
    assert JOB not in simulation.ledger.applications
    assert simulation.ledger.places == {}
    assert agrees(simulation)


def test_a_reservation_starts_a_new_timer_even_if_its_pod_was_allocated_earlier() -> None:
    """The placeholder timer continues from the earliest report; a new core has no running timer yet."""
    simulation = running()
    refuse(simulation)
    assert keys.TAG_ALLOCATED_AT not in simulation.core.apps[JOB].held[PLACE].ask.tags
    simulation.kill_core()
    held = simulation.core.apps[JOB].held
    assert keys.TAG_ALLOCATED_AT in held[PodUid("uid-w1")].ask.tags
    assert keys.TAG_ALLOCATED_AT not in held[PLACE].ask.tags


def test_a_renewed_reservation_is_kept_for_its_full_duration() -> None:
    simulation = started(nodes=3)
    simulation.kubernetes.add(a_worker("w1"), a_worker("w0"))
    fail_bind(simulation)
    simulation.run()
    assert simulation.ledger.places == {}
    simulation.now += SETTINGS.keep_slot_s - 10
    refuse(simulation)
    simulation.wait(20)
    assert PLACE in simulation.ledger.places
    simulation.wait(SETTINGS.keep_slot_s)
    assert simulation.ledger.places == {}


def test_a_pod_whose_binds_fail_reserves_each_node_until_it_is_taken() -> None:
    simulation = started(nodes=3)
    simulation.kubernetes.add(a_worker("w1"), a_worker("w0"))
    at_bind(simulation)
    assert simulation.kubernetes.node_of("w1")
    simulation.kubernetes.change("w1", phase="Failed", reason="OutOfcpu")
    while not simulation.ledger.places:
        simulation._observe()
    simulation._deliver()
    fail_bind(simulation)
    fail_bind(simulation)
    assert len({(place.node, place.known.ask.key) for place in simulation.ledger.places.values()}) == 2
    simulation.run()
    assert simulation.kubernetes.node_of("w0")
    assert agrees(simulation)
