"""A cycle inspects what changed, stops when its time budget is used up, and skips no application."""

from __future__ import annotations

from muster_core.model.config import Timing
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.scheduling.scheduler import CycleResult, cycle, step
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, states, waits


def never() -> bool:
    """The time of the cycle is up before its first scheduling attempt."""
    return False


def passes(scenario: Scenario) -> list[CycleResult]:
    """Run cycles with an expired time budget until no work is left."""
    results: list[CycleResult] = []
    while not results or results[-1].more:
        results.append(cycle(scenario.scheduler_state, scenario.now_ns, never))
        assert len(results) < 100, "a pass that never ends"
    return results


def test_passes_without_time_reach_the_last_application_of_a_leaf() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    for index in range(8):
        app = f"app{index}"
        vcore = 1000 if index in (3, 7) else 9000
        step(scenario.scheduler_state, ApplicationAdded(an_application(app)), scenario.now_ns)
        step(scenario.scheduler_state, AskAdded(an_ask("r0", app=app, vcore=vcore)), scenario.now_ns)
    results = passes(scenario)
    assert [app for app in range(8) if scenario.app(f"app{app}").allocations] == [3, 7]
    assert sum(len(waits(result.effects)) for result in results) == 6


def test_the_reported_quota_includes_allocations_of_the_same_pass() -> None:
    scenario = Scenario(a_configuration(a_queue("a", vcore=2500)), nodes=1)
    scenario.send(ApplicationAdded(an_application()))
    effects = scenario.ask(*(an_ask(f"r{index}", vcore=1000) for index in range(3)))
    assert set(placed(effects)) == {"r0", "r1"}
    state, why = waits(effects)["r2"]
    assert state == "SKIPPED"
    assert "Not enough queue quota: root.a, requested cpu 1, available 500m of 2500m" in why


def test_passes_without_time_proceed_past_gangs_that_wait_for_resources() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scenario.add_full_node()
    for index in range(6):
        step(scenario.scheduler_state, ApplicationAdded(an_application(f"gang{index}", gang=5)), scenario.now_ns)
        for member in range(5):
            ask = an_ask(f"p{member}", app=f"gang{index}", group="workers", placeholder=True)
            step(scenario.scheduler_state, AskAdded(ask), scenario.now_ns)
    step(scenario.scheduler_state, ApplicationAdded(an_application("last")), scenario.now_ns)
    step(scenario.scheduler_state, AskAdded(an_ask("r0", app="last", vcore=500)), scenario.now_ns)
    step(scenario.scheduler_state, NodeAdded(a_node("n1", 500)), scenario.now_ns)
    effects = [effect for result in passes(scenario) for effect in result.effects]
    assert placed(effects) == {"p0": "n0", "p1": "n0", "r0": "n1"}


def test_more_asks_than_one_attempt_places_are_all_placed() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1, vcore=400_000)
    scenario.send(NodeAdded(a_node("big", 900_000, pods=1000)))
    scenario.send(ApplicationAdded(an_application()))
    effects = scenario.ask(*(an_ask(f"r{index}") for index in range(700)))
    assert len(placed(effects)) == 700


def test_more_members_than_one_attempt_replaces_are_all_replaced() -> None:
    scenario = Scenario(a_configuration(a_queue("a")))
    scenario.send(NodeAdded(a_node("big", 900_000, pods=1000)))
    scenario.gang(ApplicationAdded(an_application(gang=600)), 600)
    scenario.ask(*(an_ask(f"r{index}", group="workers") for index in range(600)))
    assert sum(ask.replacement is not None for ask in scenario.app().asks.values()) == 600


def test_an_unschedulable_gang_is_tried_again_when_it_starves() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scenario = Scenario(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=2)
    scenario.send(ApplicationAdded(an_application("busy")))
    scenario.ask(*(an_ask(f"b{index}", app="busy") for index in range(2)))
    scenario.gang(ApplicationAdded(an_application("gang", gang=3)), 3)
    assert not scenario.app("gang").gang.quota_reservation
    scenario.wait(61)
    assert scenario.app("gang").gang.quota_reservation["vcore"] == 1000


def test_early_real_asks_are_placed_when_the_reservation_completes() -> None:
    scenario = Scenario(a_configuration(a_queue("a")), nodes=1)
    scenario.send(ApplicationAdded(an_application(gang=2)))
    effects = scenario.ask(
        an_ask("r0", group="workers"),
        an_ask("extra"),
        *(an_ask(f"p{index}", group="workers", placeholder=True) for index in range(2)),
    )
    assert states(effects) == ["Accepted", "Running"]
    assert "extra" in placed(effects)
    assert scenario.app().asks[an_ask("r0").key].replacement is not None
