"""Members of a complete gang that cannot use their reservations say why; style and timeout apply (rule 15)."""

from dataclasses import replace

import pytest

from muster_core.model.constraints import Constraints
from muster_core.model.effects import Effect
from muster_core.model.events import NodeAdded
from muster_core.model.specs import AskSpec, GangPlacement, GangStyle
from tests.unit.builders import a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, releases, states, waits

EXPLAINED = (
    "the pod requests more than its placeholder reserves: it is scheduled without the reservation (requested cpu 2, "
    "reserved 1; raise minResource of task group workers to cpu: 2)"
)
every_placement = pytest.mark.parametrize("placement", GangPlacement)


def complete(placement: GangPlacement, style: GangStyle = GangStyle.SOFT, *, nodes: int = 3) -> Scenario:
    """A gang of three on nodes of one CPU, whose first two members run."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=nodes, vcore=1000)
    spec = an_application(gang=3, style=style, timeout_s=60, placement=placement)
    if placement is GangPlacement.RESERVE:
        scenario.gang(spec, 3)
    else:
        scenario.submit(spec)
    effects = scenario.ask(member("w0"), member("w1"))
    for key in releases(effects):
        effects += scenario.release(key)
    assert placed(effects).keys() >= {"w0", "w1"}
    return scenario


def member(key: str, vcore: int = 1000, constraints: Constraints | None = None) -> AskSpec:
    found = an_ask(key, vcore=vcore, group="workers")
    return found if constraints is None else replace(found, constraints=constraints)


def ended(scenario: Scenario, effects: list[Effect]) -> list[Effect]:
    """Let the released placeholders end."""
    return [*effects, *(effect for key in releases(effects) for effect in scenario.release(key))]


@every_placement
def test_a_larger_member_names_resource_both_amounts_and_what_to_write(placement: GangPlacement) -> None:
    scenario = complete(placement)
    effects = ended(scenario, scenario.ask(member("big", vcore=2000)))
    assert EXPLAINED in notices(effects)
    _, reason = waits(effects)["big"]
    assert reason.startswith(f"{EXPLAINED}: 0/3 nodes are available: ")
    assert scenario.app().gang.groups["workers"].timed_out == 0  # type: ignore[index]  # a task group


@every_placement
def test_a_hard_gang_fails_at_the_timeout_while_a_member_cannot_use_its_reservation(placement: GangPlacement) -> None:
    scenario = complete(placement, GangStyle.HARD)
    ended(scenario, scenario.ask(member("big", vcore=2000)))
    assert states(scenario.wait(58)) == []
    effects = ended(scenario, scenario.wait(4))
    assert {"w0", "w1"} <= releases(effects).keys()
    assert states(effects) == ["Failing", "Failed"]


@every_placement
def test_a_soft_gang_continues_at_the_timeout_and_says_so(placement: GangPlacement) -> None:
    scenario = complete(placement)
    ended(scenario, scenario.ask(member("big", vcore=2000)))
    effects = scenario.wait(61)
    assert states(effects) == []
    [text] = notices(effects)
    assert "while 1 of its members cannot use their reservations: pods are scheduled one by one" in text
    assert placed(scenario.send(NodeAdded(a_node("large", 2000)))) == {"big": "large"}


def test_a_gang_with_enough_members_does_not_fail_because_of_one_more() -> None:
    scenario = complete(GangPlacement.DIRECT, GangStyle.HARD)
    assert placed(scenario.ask(member("w2"))).keys() == {"w2"}
    scenario.ask(member("big", vcore=2000))
    assert states(scenario.wait(61)) == []


def test_a_member_that_was_placed_without_its_reservation_counts() -> None:
    scenario = complete(GangPlacement.DIRECT, GangStyle.HARD)
    scenario.ask(member("big", vcore=2000))
    assert placed(scenario.send(NodeAdded(a_node("large", 2000)))) == {"big": "large"}
    assert scenario.app().gang.without_reservation == {}
    assert states(scenario.wait(61)) == []


@every_placement
def test_a_member_with_another_node_selector_names_it_with_both_values(placement: GangPlacement) -> None:
    scenario = complete(placement, GangStyle.HARD)
    effects = scenario.ask(member("picky", constraints=Constraints(node_selector=(("disk", "fast"),))))
    _, reason = waits(effects)["picky"]
    assert reason.startswith("the pod cannot use its reservation on node n")
    found = (
        "the pod has nodeSelector disk=fast where the task group has none; write it in task group workers): 0/3 nodes"
    )
    assert found in reason
    assert states(ended(scenario, scenario.wait(61))) == ["Failing", "Failed"]
