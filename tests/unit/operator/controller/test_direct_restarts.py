"""A restart in any phase of a gang without placeholder pods, with any placement afterwards."""

from collections.abc import Callable

import pytest

from muster_operator.model.commands import BindPod, EventType
from muster_operator.model.pods import Placement
from muster_operator.model.settings import Settings
from tests.unit.operator.controller.objects import Raw, a_group, a_node, a_pod, gang_annotations
from tests.unit.operator.controller.simulation import Simulation
from tests.unit.operator.controller.test_restarts import (
    APP,
    MEMBERS,
    Kill,
    Phase,
    assert_over,
    at_rest,
    bound,
    every_kill,
    reach,
    running,
)
from tests.unit.operator.controller.test_state_comparison import compared

DIRECT = "gangPlacement=Direct"


def a_member(number: int, parameters: str = DIRECT) -> Raw:
    annotations = gang_annotations(a_group("g", MEMBERS), parameters=parameters, member_of="g")
    return a_pod(f"w{number}", app=APP, annotations=annotations)


def began(*members: Raw, placement: Placement = Placement.RESERVE) -> Simulation:
    simulation = Simulation(settings=Settings(gang_placement=placement))
    for name in ("n0", "n1"):
        simulation.kubernetes.add_node(a_node(name))
    simulation.start()
    simulation.kubernetes.add(*(members or [a_member(number) for number in range(MEMBERS)]))
    return simulation


def requesting(simulation: Simulation) -> None:
    """The core has no free resources yet."""
    simulation.core.is_stingy = True
    simulation.run()
    assert len(simulation.core.apps[APP].asks) == MEMBERS
    simulation.core.is_stingy = False


def reserved_but_unreported(simulation: Simulation) -> None:
    """The core has the reservations, and the operator has not received the message."""
    reach(simulation, lambda: APP in simulation.core.apps and simulation.core.apps[APP].places is not None)
    assert bound(simulation, placeholders=False) == 0


def binding(simulation: Simulation) -> None:
    reach(simulation, lambda: any(isinstance(one, BindPod) for one in simulation.commands))


DIRECT_PHASES: list[Phase] = [requesting, reserved_but_unreported, binding, running]
every_phase = pytest.mark.parametrize("phase", DIRECT_PHASES, ids=lambda phase: phase.__name__)


@every_kill
@every_phase
def test_a_direct_gang_is_bound_completely_and_once_and_creates_no_placeholder(phase: Phase, kill: Kill) -> None:
    simulation = began()
    phase(simulation)
    compared(simulation)
    kill(simulation)
    compared(simulation)
    at_rest(simulation)
    compared(simulation)
    assert simulation.differences == []
    assert bound(simulation, placeholders=False) == MEMBERS
    assert simulation.kubernetes.writes["CreatePlaceholder"] == 0
    assert_over(simulation)


@every_kill
def test_a_later_pod_of_a_gang_whose_members_all_finished_is_scheduled_without_a_gang(kill: Kill) -> None:
    simulation = began()
    at_rest(simulation)
    finish(simulation, *range(MEMBERS))
    simulation.kubernetes.add(a_member(MEMBERS))
    kill(simulation)
    assert simulation.core.apps[APP].spec.placeholder_ask == {}
    at_rest(simulation)
    assert bound(simulation, placeholders=False) == MEMBERS + 1
    assert not [event for event in simulation.kubernetes.events if event.type is EventType.WARNING]
    assert_over(simulation)


@every_kill
def test_a_member_that_finished_before_the_oldest_live_one_was_created_is_not_counted(kill: Kill) -> None:
    simulation = began()
    at_rest(simulation)
    finish(simulation, *range(MEMBERS))
    simulation.core.complete()
    at_rest(simulation)
    again = a_member(MEMBERS)
    again["metadata"]["creationTimestamp"] = "2026-01-01T00:03:00Z"
    simulation.kubernetes.add(again)
    at_rest(simulation)
    kill(simulation)
    at_rest(simulation)
    assert [app.places for app in simulation.core.apps.values()] == [{"g": MEMBERS - 1}]
    assert_over(simulation)


def finish(simulation: Simulation, *numbers: int) -> None:
    for number in numbers:
        simulation.kubernetes.change(f"w{number}", phase="Succeeded")


def other_default(placement: Placement) -> Callable[[Simulation], None]:
    """The operator ends, and begins with another default."""

    def kill(simulation: Simulation) -> None:
        simulation.settings = Settings(gang_placement=placement)
        simulation.kill_operator(lose_commands=True)

    return kill


def test_a_gang_that_has_placeholders_continues_with_them_under_another_default() -> None:
    """What is there is neither lost nor held twice."""
    simulation = began(a_member(0, ""))
    at_rest(simulation)
    assert len(simulation.kubernetes.placeholders()) == MEMBERS - 1
    other_default(Placement.DIRECT)(simulation)
    at_rest(simulation)
    assert simulation.core.apps[APP].places is None
    assert len(simulation.kubernetes.placeholders()) == MEMBERS - 1
    simulation.kubernetes.add(a_member(1, ""), a_member(2, ""))
    at_rest(simulation)
    assert bound(simulation, placeholders=False) == MEMBERS
    assert simulation.kubernetes.writes["CreatePlaceholder"] == MEMBERS
    assert_over(simulation)


@pytest.mark.parametrize("phase", DIRECT_PHASES, ids=lambda phase: phase.__name__)
def test_a_gang_that_began_without_placeholders_is_bound_once_and_completely_under_another_default(
    phase: Phase,
) -> None:
    simulation = began(*(a_member(number, "") for number in range(MEMBERS)), placement=Placement.DIRECT)
    phase(simulation)
    other_default(Placement.RESERVE)(simulation)
    at_rest(simulation)
    assert bound(simulation, placeholders=False) == MEMBERS
    assert simulation.kubernetes.placeholders() == []
    assert_over(simulation)
