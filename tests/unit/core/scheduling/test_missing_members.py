"""A gang that waits for members that nothing creates is reported at once, and ends by its style."""

from dataclasses import replace

import pytest

from muster_core.model.effects import Effect
from muster_core.model.specs import ApplicationSpec, GangPlacement, GangStyle
from tests.unit.builders import a_configuration, a_queue, an_application
from tests.unit.core.scheduling.direct import member
from tests.unit.core.scheduling.scenario import Scenario, notices, states

WHY = "task group workers needs 3 members, 2 exist"
STYLES = [(GangStyle.SOFT, "Resuming"), (GangStyle.HARD, "Failing")]
every_style = pytest.mark.parametrize("style, end", STYLES)


def waiting(spec: ApplicationSpec) -> Scenario:
    """Return a gang that holds nothing, because no node has room for it."""
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.add_full_node("n0", vcore=8000)
    if spec.uses_virtual_placeholders:
        scenario.submit(spec)
    else:
        scenario.gang(spec, 3)
    return scenario


def reported(scenario: Scenario, spec: ApplicationSpec, why: str) -> list[Effect]:
    return scenario.submit(replace(spec, is_renewal=True, members_missing=why))


def a_spec(placement: str, style: GangStyle = GangStyle.SOFT, wait_s: int = 0) -> ApplicationSpec:
    mode = GangPlacement.DIRECT if placement == "Direct" else GangPlacement.RESERVE
    return an_application(gang=3, timeout_s=60, style=style, wait_s=wait_s, placement=mode)


@every_style
@pytest.mark.parametrize("placement", ["Direct", "Reserve"])
def test_it_is_reported_at_once_and_ends_after_the_placeholder_timeout(
    placement: str, style: GangStyle, end: str
) -> None:
    spec = a_spec(placement, style)
    scenario = waiting(spec)
    scenario.wait(1000)
    assert WHY in notices(reported(scenario, spec, WHY))
    assert states(scenario.wait(59)) == []
    effects = scenario.wait(2)
    assert states(effects)[0] == end


def test_the_wait_timeout_replaces_the_placeholder_timeout() -> None:
    spec = a_spec("Direct", wait_s=200)
    scenario = waiting(spec)
    reported(scenario, spec, WHY)
    assert states(scenario.wait(199)) == []
    assert states(scenario.wait(2))[0] == "Resuming"


def test_a_gang_whose_members_appear_waits_for_resources_without_a_timeout() -> None:
    spec = a_spec("Direct")
    scenario = waiting(spec)
    reported(scenario, spec, WHY)
    scenario.wait(59)
    reported(scenario, spec, "")
    assert states(scenario.wait(1000)) == []
    assert scenario.app().is_reserving


def test_an_update_without_a_report_changes_nothing() -> None:
    spec = a_spec("Direct")
    scenario = waiting(spec)
    reported(scenario, spec, WHY)
    scenario.submit(replace(spec, is_renewal=True))
    assert states(scenario.wait(61))[0] == "Resuming"


def test_the_timer_of_the_first_reservation_is_not_shortened() -> None:
    spec = a_spec("Reserve")
    scenario = waiting(spec)
    reported(scenario, spec, WHY)
    scenario.wait(50)
    scenario.add_node("n1", vcore=1000)
    assert len(scenario.app().allocations) == 1
    assert states(scenario.wait(59)) == []
    assert states(scenario.wait(2))[0] == "Resuming"


def test_a_complete_gang_is_not_affected() -> None:
    spec = a_spec("Direct")
    scenario = waiting(spec)
    reported(scenario, spec, WHY)
    scenario.ask(member("m0", app="app"))
    scenario.add_node("n1", vcore=8000)
    assert scenario.app().state == "Running"
    assert "Resuming" not in states(scenario.wait(61))
