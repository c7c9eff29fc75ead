"""Both states are compared: messages in flight are no difference, and lost ones are repaired (ADR 0015)."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.controller.reconciliation import compare
from muster_operator.model.core_messages import Inventory, InventoryPart, TerminationType
from muster_operator.model.ids import AppId, NodeName, PodUid
from tests.unit.operator.controller.core import App, Held
from tests.unit.operator.controller.driver import requested_keys
from tests.unit.operator.controller.objects import a_node, a_pod
from tests.unit.operator.controller.simulation import Simulation
from tests.unit.operator.controller.state_comparison import inventory_of
from tests.unit.operator.controller.test_random_events import Chaos, a_job_pod, run_until_idle

PLAIN = AppId("dev/plain")


@given(st.data())
def test_messages_in_flight_cause_no_difference(data: st.DataObject) -> None:
    chaos = Chaos(data)
    for _ in range(data.draw(st.integers(1, 12))):
        chaos.simulation.ask(list(InventoryPart)[chaos.pick(2)])
        chaos.happen()
    simulation = chaos.simulation
    run_until_idle(simulation, chaos.pick)
    for part in InventoryPart:
        simulation.ask(part)
        simulation.run(chaos.pick)
    assert simulation.differences == []


def at_rest() -> Simulation:
    """A gang of two that runs, a plain pod that runs and one that waits, a pod of another scheduler, two nodes."""
    simulation = Simulation()
    for name in ("n0", "n1"):
        simulation.kubernetes.add_node(a_node(name))
    simulation.kubernetes.add(a_pod("dns", schedulerName="default-scheduler", nodeName="n0"))
    simulation.start()
    for number in range(2):
        simulation.kubernetes.add(a_job_pod("soft", number))
    simulation.kubernetes.add(a_job_pod("plain", 0))
    simulation.run()
    for node in ("n0", "n1"):
        simulation.kubernetes.add_node(a_node(node, unschedulable=True))
    simulation.run()
    simulation.kubernetes.add(a_job_pod("plain", 1))
    simulation.run()
    return simulation


def lose_allocation(simulation: Simulation) -> None:
    del simulation.core.apps[PLAIN].held[PodUid("uid-plain0")]


def lose_release(simulation: Simulation) -> None:
    """The operator's report of a deleted pod is lost."""
    app = simulation.core.apps[PLAIN]
    app.held[PodUid("gone")] = Held(app.held[PodUid("uid-plain0")].ask, NodeName("n0"))


def lose_ask(simulation: Simulation) -> None:
    del simulation.core.apps[PLAIN].asks[PodUid("uid-plain1")]


def lose_release_of_ask(simulation: Simulation) -> None:
    app = simulation.core.apps[PLAIN]
    app.asks[PodUid("gone")] = app.asks[PodUid("uid-plain1")]


def lose_order(simulation: Simulation) -> None:
    """The core's release request for a pod is lost."""
    simulation.core.apps[PLAIN].held[PodUid("uid-plain0")].releasing = TerminationType.PREEMPTED_BY_SCHEDULER


def lose_node_drain(simulation: Simulation) -> None:
    simulation.core.nodes[NodeName("n1")] = True


def lose_end_of_node(simulation: Simulation) -> None:
    simulation.core.nodes[NodeName("n7")] = True


def lose_foreign(simulation: Simulation) -> None:
    simulation.core.foreign.clear()


def lose_end_of_foreign(simulation: Simulation) -> None:
    simulation.core.foreign[PodUid("gone")] = NodeName("n1")


def lose_removal(simulation: Simulation) -> None:
    over = AppId("dev/over")
    simulation.core.apps[over] = App(replace(simulation.core.apps[PLAIN].spec, app=over))


def mistake_node(simulation: Simulation) -> None:
    held = simulation.core.apps[PLAIN].held[PodUid("uid-plain0")]
    held.node = NodeName("n1" if held.node == "n0" else "n0")


LOSSES = [
    (lose_allocation, ("allocation missing", "uid-plain0")),
    (lose_release, ("allocation left over", "gone")),
    (lose_ask, ("ask missing", "uid-plain1")),
    (lose_release_of_ask, ("ask left over", "gone")),
    (lose_order, ("release order missed", "uid-plain0")),
    (lose_node_drain, ("node closed or open", "n1")),
    (lose_end_of_node, ("node left over", "n7")),
    (lose_foreign, ("foreign missing", "uid-dns")),
    (lose_end_of_foreign, ("foreign left over", "gone")),
    (lose_removal, ("application left over", "dev/over")),
    (mistake_node, ("allocation elsewhere", "uid-plain0")),
]


@pytest.mark.parametrize("lose, expected", LOSSES, ids=[lose.__name__ for lose, _ in LOSSES])
def test_a_lost_message_is_detected_and_repaired(lose: Callable[[Simulation], None], expected: tuple[str, str]) -> None:
    simulation = at_rest()
    complete = contents(simulation)
    lose(simulation)
    compared(simulation)
    assert [(found.what, found.subject) for found in simulation.differences] == [expected]
    if lose is lose_order:
        assert "uid-plain0" not in simulation.kubernetes.pods
    else:
        assert contents(simulation) == complete
    simulation.differences.clear()
    compared(simulation)
    assert simulation.differences == []


def test_a_missing_application_or_node_ends_the_session() -> None:
    simulation = at_rest()
    del simulation.core.apps[PLAIN]
    del simulation.core.nodes[NodeName("n1")]
    applications, nodes = (
        compare(simulation.ledger, inventory_of(simulation.core, part), set(), 0.0) for part in InventoryPart
    )
    assert applications.inconsistency == "the core has no application dev/plain"
    assert nodes.inconsistency == "the core has no node n1"
    assert not applications.out
    assert not nodes.out


def test_a_repeated_difference_is_reported_and_not_repaired_again() -> None:
    """If the core rejects a repair, repeating it does not help."""
    simulation = at_rest()
    lose_ask(simulation)
    inventory = inventory_of(simulation.core, InventoryPart.APPLICATIONS)
    first = compare(simulation.ledger, inventory, set(), 0.0)
    again = compare(simulation.ledger, inventory, set(), 0.0, set(first.found))
    assert requested_keys(first.out) == ["uid-plain1"]
    assert first.found == again.found
    assert not again.out


@pytest.mark.parametrize("recent_names", ["uid-plain0", "dev/plain"])
def test_an_object_changed_during_the_comparison_is_skipped(recent_names: str) -> None:
    simulation = at_rest()
    lose_allocation(simulation)
    inventory = inventory_of(simulation.core, InventoryPart.APPLICATIONS)
    assert compare(simulation.ledger, inventory, {recent_names}, 0.0).found == []


def test_only_applications_in_the_range_of_the_inventory_can_be_missing() -> None:
    simulation = at_rest()
    nothing = Inventory(InventoryPart.APPLICATIONS, beyond="dev/plain", last="dev/q")
    assert compare(simulation.ledger, nothing, set(), 0.0).found == []
    everything = Inventory(InventoryPart.APPLICATIONS, beyond="dev/plai", last="dev/q")
    assert [found.subject for found in compare(simulation.ledger, everything, set(), 0.0).found] == ["dev/plain"]


def contents(simulation: Simulation) -> list[object]:
    """The content of the core's state, independent of the order of events."""
    applications, nodes = (inventory_of(simulation.core, part) for part in InventoryPart)
    return [
        sorted(
            (app.app, sorted(app.asks), sorted((held.key, held.node) for held in app.held))
            for app in applications.applications
        ),
        sorted((node.name, node.schedulable, sorted(node.foreign)) for node in nodes.nodes),
    ]


def compared(simulation: Simulation) -> None:
    for part in InventoryPart:
        simulation.ask(part)
        simulation.run()
