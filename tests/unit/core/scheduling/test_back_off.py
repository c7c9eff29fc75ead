"""An application of which much finds no node sleeps for a while (application.unschedasks.backoff)."""

from __future__ import annotations

from muster_core.model.config import QueuePolicies
from muster_core.model.events import ApplicationAdded
from tests.unit.builders import SECOND, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, placed


def sleepy(vcore: int | None = None) -> Scene:
    """After two asks without a node an application sleeps for 30 s; the one node has 1 core."""
    policies = QueuePolicies(backoff_after=2, backoff_delay_ns=30 * SECOND)
    scene = Scene(a_configuration(a_queue("a", vcore=vcore, policies=policies)), nodes=1, vcore=1000)
    scene.tell(ApplicationAdded(an_application("x")))
    return scene


def test_it_is_not_tried_until_its_time_is_over() -> None:
    scene = sleepy()
    scene.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    assert scene.app("x").backoff_until_ns == scene.now_ns + 30 * SECOND
    assert placed(scene.add_node("n1")) == {}
    assert placed(scene.ask(an_ask("late", app="x"))) == {}
    assert placed(scene.wait(29)) == {}
    assert placed(scene.wait(2)).keys() == {"x1", "x2", "late"}
    assert scene.app("x").backoff_until_ns == 0


def test_fewer_than_that_keep_it_awake() -> None:
    scene = sleepy()
    scene.ask(*(an_ask(f"x{index}", app="x") for index in range(2)))
    assert scene.app("x").backoff_until_ns == 0
    assert placed(scene.add_node("n1")).keys() == {"x1"}


def test_a_quota_sends_nobody_to_sleep() -> None:
    scene = sleepy(vcore=500)
    scene.ask(*(an_ask(f"x{index}", app="x", vcore=400) for index in range(4)))
    assert scene.app("x").backoff_until_ns == 0
    assert placed(scene.release("x0", "x")).keys() == {"x1"}


def test_others_of_the_leaf_go_on() -> None:
    scene = sleepy()
    scene.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    scene.tell(ApplicationAdded(an_application("y")))
    scene.ask(an_ask("y0", app="y"))
    assert placed(scene.add_node("n1", vcore=1000)).keys() == {"y0"}


def test_it_sleeps_again_if_nothing_came_of_it() -> None:
    scene = sleepy()
    scene.ask(*(an_ask(f"x{index}", app="x") for index in range(3)))
    scene.wait(31)
    assert scene.app("x").backoff_until_ns > scene.now_ns
