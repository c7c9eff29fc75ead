"""The placeholder timer: when it starts, when it pauses, and that nothing starts it again."""

from dataclasses import replace

import pytest

from muster_core.model.config import Timing
from muster_core.model.events import NodeAction
from muster_core.model.specs import GangPlacement, GangStyle
from tests.unit.builders import SECOND, a_configuration, a_limit, a_queue, an_application, an_ask
from tests.unit.core.scheduling.direct import a_gang
from tests.unit.core.scheduling.preemption_scenario import confirm, pods, run, victims, with_preemption
from tests.unit.core.scheduling.scenario import Scenario, notices, placed, states, waits


def test_a_placeholder_timeout_is_reduced_to_the_configured_maximum() -> None:
    timing = Timing(max_placeholder_timeout_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a"), timing=timing), nodes=1)
    scenario.add_full_node()
    scenario.gang(an_application(gang=5, timeout_s=30 * 86400), 5)
    assert scenario.app().gang.reserved["vcore"] == 4000
    assert states(scenario.wait(59)) == []
    assert states(scenario.wait(2)) == ["Resuming"]


def test_a_user_cannot_hold_a_partial_reservation_for_longer_than_a_day_by_default() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.add_full_node()
    scenario.gang(an_application(gang=5, timeout_s=30 * 86400), 5)
    assert states(scenario.wait(24 * 3600 + 1)) == ["Resuming"]


def contested() -> Scenario:
    """A gang of 4 in leaf b holds the 2 cores of a node, and leaf a has a right to them."""
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1, vcore=2000)
    scenario.add_full_node()
    scenario.gang(an_application("gang", queue="root.b", gang=4, timeout_s=100), 4)
    assert scenario.app("gang").gang.reserved["vcore"] == 2000
    return scenario


def preempt(scenario: Scenario) -> None:
    """Leaf a takes both cores with two pods."""
    run(scenario, "root.a", *pods("x", 2))
    effects = scenario.wait(31)
    assert len(victims(effects)) == 2
    assert len(placed(confirm(scenario, effects))) == 2


def test_the_timer_pauses_while_all_placeholders_are_preempted() -> None:
    scenario = contested()
    scenario.wait(29)
    preempt(scenario)  # after 60 s
    gone = [ask.spec.key for ask in scenario.app("gang").asks.values()]
    assert len(gone) == 2
    assert states(scenario.wait(1000), "gang") == []
    for key in ("x0", "x1"):
        scenario.release(key, app="a")
    assert scenario.app("gang").gang.reserved["vcore"] == 2000
    assert states(scenario.wait(39), "gang") == []
    assert states(scenario.wait(2), "gang") == ["Resuming"]


def test_the_wait_timeout_does_not_end_a_gang_emptied_by_preemption() -> None:
    scenario = Scenario(with_preemption(a_queue("a", guaranteed=2000), a_queue("b")), nodes=1, vcore=2000)
    scenario.add_full_node()
    spec = an_application("gang", queue="root.b", gang=4, timeout_s=100)
    scenario.gang(replace(spec, wait_timeout_ns=90 * SECOND), 4)
    preempt(scenario)
    assert not scenario.app("gang").gang.allocated
    assert states(scenario.wait(1000), "gang") == []
    for key in ("x0", "x1"):
        scenario.release(key, app="a")
    assert scenario.app("gang").gang.reserved["vcore"] == 2000


def test_a_preempted_gang_whose_missing_members_are_not_requested_again_ends_with_its_timer() -> None:
    scenario = contested()
    scenario.wait(29)
    preempt(scenario)  # after 60 s
    for key in [ask.spec.key for ask in scenario.app("gang").asks.values()]:
        scenario.release_ask(key, "gang")
    assert states(scenario.wait(39), "gang") == []
    assert states(scenario.wait(2), "gang") == ["Resuming", "Accepted"]


@pytest.mark.parametrize("released_s", [1, 200])
def test_the_wait_timeout_does_not_end_a_gang_emptied_by_a_take_over(released_s: int) -> None:
    scenario = Scenario(a_configuration(a_queue("a"), a_queue("b")), nodes=1)
    scenario.add_full_node()
    later = an_application("later", queue="root.b", gang=8, created_s=999)
    scenario.gang(replace(later, wait_timeout_ns=90 * SECOND), 8)
    effects = scenario.gang(an_application("first", gang=4, created_s=998), 4)
    assert len(victims(effects)) == 4
    confirm(scenario, effects)
    assert scenario.app("first").state == "Running"
    assert not scenario.app("later").gang.allocated
    scenario.wait(released_s)
    assert scenario.app("later").state == "Accepted"
    assert scenario.app("later").is_reserving
    for one in list(scenario.app("first").allocations.values()):
        scenario.release(one.spec.key, app="first")
    assert scenario.app("later").gang.reserved["vcore"] == 4000


def test_the_wait_timeout_ends_a_gang_that_never_had_a_reservation() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.gang(replace(an_application(gang=4), wait_timeout_ns=90 * SECOND), 4)
    assert states(scenario.wait(91))[0] == "Resuming"


def test_a_gang_that_becomes_impossible_contends_for_nothing() -> None:
    parent = a_queue("p", a_queue("a", a_queue("x"), vcore=9000), vcore=9000)
    scenario = Scenario(a_configuration(parent), nodes=1, vcore=20_000)
    scenario.submit(an_application(queue="root.p.a.x", gang=5), an_ask("p0", group="workers", placeholder=True))
    scenario.release("p0")
    assert scenario.partition.contention.holding == {}
    scenario.ask(an_ask("p1", group="workers", placeholder=True, vcore=500_000))
    assert scenario.app().gang.quota_reservation
    lower = a_configuration(a_queue("p", a_queue("a", a_queue("x"), vcore=3000), vcore=3000))
    scenario.reload(lower)
    assert scenario.app().gang.impossible
    assert scenario.partition.contention.holding == {}


def test_the_timer_continues_when_the_placeholders_are_deleted() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.add_full_node()
    scenario.gang(an_application(gang=5, timeout_s=100), 5)
    for key in [one.spec.key for one in scenario.app().allocations.values()]:
        scenario.release(key)
    scenario.wait(90)
    scenario.ask(*(an_ask(f"again-{index}", group="workers", placeholder=True) for index in range(4)))
    assert scenario.app().gang.reserved["vcore"] == 4000
    assert states(scenario.wait(11)) == ["Resuming"]


def test_releasing_a_pending_placeholder_ask_does_not_extend_the_timer() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.add_full_node()
    scenario.gang(an_application(gang=5, timeout_s=100), 5)
    scenario.node("n0", NodeAction.DRAIN)
    for key in [one.spec.key for one in scenario.app().allocations.values()]:
        scenario.release(key)
    scenario.wait(90)
    scenario.release_ask("app-p4")
    assert states(scenario.wait(11)) == ["Resuming", "Accepted"]


# -- gangs that can never be reserved --------------------------------------------


LIMITS = {"user": a_limit(users=("*",), vcore=5000), "group": a_limit(groups=("dev",), vcore=5000)}


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("placement", list(GangPlacement))
def test_a_gang_over_a_limit_reserves_nothing_reports_it_and_ends_with_its_timer(
    kind: str, placement: GangPlacement
) -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(LIMITS[kind],))), nodes=5)
    spec = an_application(gang=10, timeout_s=60, placement=placement, groups=("dev",))
    effects = scenario.gang(spec, 10)
    [notice] = set(notices(effects))
    assert f"the limit of {kind}" in notice
    assert {why for _, why in waits(effects).values()} == {notice}
    assert not scenario.app().allocations
    assert states(scenario.wait(59)) == []
    assert states(scenario.wait(2))[:2] == ["Resuming", "Accepted"]


def test_a_hard_gang_over_a_limit_fails_with_its_timer() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(LIMITS["user"],))), nodes=5)
    scenario.gang(an_application(gang=10, timeout_s=60, style=GangStyle.HARD), 10)
    assert states(scenario.wait(61)) == ["Failing", "Failed"]


def test_a_gang_over_a_limit_does_not_block_later_applications() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(a_limit(users=("kim",), vcore=5000),))), nodes=5)
    scenario.gang(an_application("large", gang=10), 10)
    scenario.gang(an_application("small", gang=2, user="lee"), 2)
    assert scenario.app("small").state == "Running"


def test_a_limit_that_is_raised_in_time_lets_the_gang_reserve_and_stops_its_timer() -> None:
    scenario = Scenario(a_configuration(a_queue("a", limits=(LIMITS["user"],))), a_gang(10, timeout_s=60))
    scenario.wait(59)
    raised = a_configuration(a_queue("a", limits=(a_limit(users=("*",), vcore=10_000),)))
    scenario.reload(raised)
    assert states(scenario.wait(3600)) == []
