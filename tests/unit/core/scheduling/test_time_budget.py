"""A pass looks at what changed, is divided where its time is up, and forgets nobody."""

from __future__ import annotations

from muster_core.model.config import Timing
from muster_core.model.events import ApplicationAdded, AskAdded, NodeAdded
from muster_core.scheduling.cycle import CycleResult, cycle
from muster_core.scheduling.step import step
from tests.unit.builders import SECOND, a_configuration, a_node, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, placed, states, waits


def never() -> bool:
    """The time of the cycle is up before its first scheduling attempt."""
    return False


def passes(scene: Scene) -> list[CycleResult]:
    """Passes whose time is up at once, until there is no more to do."""
    results: list[CycleResult] = []
    while not results or results[-1].more:
        results.append(cycle(scene.scheduler_state, scene.now_ns, never))
        assert len(results) < 100, "a pass that never ends"
    return results


def test_a_pass_without_time_still_gets_to_the_last_application_of_a_leaf() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=2)
    for index in range(8):
        app = f"app{index}"
        vcore = 1000 if index in (3, 7) else 9000
        step(scene.scheduler_state, ApplicationAdded(an_application(app)), scene.now_ns)
        step(scene.scheduler_state, AskAdded(an_ask("r0", app=app, vcore=vcore)), scene.now_ns)
    results = passes(scene)
    assert [app for app in range(8) if scene.app(f"app{app}").allocations] == [3, 7]
    assert sum(len(waits(result.effects)) for result in results) == 6


def test_what_the_same_pass_gave_to_others_of_an_application_counts_in_what_the_rest_is_told() -> None:
    scene = Scene(a_configuration(a_queue("a", vcore=2500)), nodes=1)
    scene.tell(ApplicationAdded(an_application()))
    effects = scene.ask(*(an_ask(f"r{index}", vcore=1000) for index in range(3)))
    assert set(placed(effects)) == {"r0", "r1"}
    state, why = waits(effects)["r2"]
    assert state == "SKIPPED"
    assert "Queue quota exceeded: root.a, requested cpu 1, available 500m of 2500m" in why


def test_a_pass_without_time_gets_past_gangs_that_wait_for_room() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=2000)
    scene.add_full_node()
    for index in range(6):
        step(scene.scheduler_state, ApplicationAdded(an_application(f"gang{index}", gang=5)), scene.now_ns)
        for member in range(5):
            ask = an_ask(f"p{member}", app=f"gang{index}", group="workers", placeholder=True)
            step(scene.scheduler_state, AskAdded(ask), scene.now_ns)
    step(scene.scheduler_state, ApplicationAdded(an_application("last")), scene.now_ns)
    step(scene.scheduler_state, AskAdded(an_ask("r0", app="last", vcore=500)), scene.now_ns)
    step(scene.scheduler_state, NodeAdded(a_node("n1", 500)), scene.now_ns)
    said = [effect for result in passes(scene) for effect in result.effects]
    assert placed(said) == {"p0": "n0", "p1": "n0", "r0": "n1"}


def test_more_asks_than_a_turn_gives_places_are_all_placed() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1, vcore=400_000)
    scene.tell(NodeAdded(a_node("big", 900_000, pods=1000)))
    scene.tell(ApplicationAdded(an_application()))
    said = scene.ask(*(an_ask(f"r{index}") for index in range(700)))
    assert len(placed(said)) == 700


def test_more_members_than_a_turn_gives_places_are_all_swapped() -> None:
    scene = Scene(a_configuration(a_queue("a")))
    scene.tell(NodeAdded(a_node("big", 900_000, pods=1000)))
    scene.gang(ApplicationAdded(an_application(gang=600)), 600)
    scene.ask(*(an_ask(f"r{index}", group="workers") for index in range(600)))
    assert sum(ask.replacement is not None for ask in scene.app().asks.values()) == 600


def test_a_gang_that_was_refused_is_tried_again_when_it_starves() -> None:
    timing = Timing(starvation_age_ns=60 * SECOND)
    scene = Scene(a_configuration(a_queue("a", vcore=4000), timing=timing), nodes=2)
    scene.tell(ApplicationAdded(an_application("busy")))
    scene.ask(*(an_ask(f"b{index}", app="busy") for index in range(2)))
    scene.gang(ApplicationAdded(an_application("gang", gang=3)), 3)
    assert not scene.app("gang").gang.quota_reservation
    scene.wait(61)
    assert scene.app("gang").gang.quota_reservation["vcore"] == 1000


def test_real_asks_that_came_early_are_placed_in_the_pass_that_completes_the_reservation() -> None:
    scene = Scene(a_configuration(a_queue("a")), nodes=1)
    scene.tell(ApplicationAdded(an_application(gang=2)))
    said = scene.ask(
        an_ask("r0", group="workers"),
        an_ask("extra"),
        *(an_ask(f"p{index}", group="workers", placeholder=True) for index in range(2)),
    )
    assert states(said) == ["Accepted", "Running"]
    assert "extra" in placed(said)
    assert scene.app().asks[an_ask("r0").key].replacement is not None
