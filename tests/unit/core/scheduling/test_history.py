"""Applications that ended, and those that were rejected, are kept for people for a time."""

from dataclasses import replace

from muster_core.model import limits
from muster_core.model.config import Timing
from muster_core.model.effects import ApplicationUpdated
from muster_core.model.events import ApplicationAdded, ApplicationRemoved, ConfigurationReplaced, ManagerRegistered
from muster_core.model.ids import ApplicationId
from muster_core.model.records import Detail
from muster_core.scheduling.step import step
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import HISTORY
from tests.unit.builders import PARTITION, RM, SECOND, a_configuration, a_queue, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, rejection

HOUR = 3600


def a_scene(hours: int = 72) -> Scene:
    return Scene(a_configuration(a_queue("a"), timing=Timing(expiry_ns=hours * HOUR * SECOND)), nodes=1)


def finish(scene: Scene, name: str) -> None:
    """Submit an application, let it run, and complete it after a minute."""
    scene.tell(ApplicationAdded(an_application(name)))
    scene.ask(an_ask(f"{name}-r", app=name))
    scene.release(f"{name}-r", name)
    scene.wait(60)


def kept(scene: Scene) -> dict[str, Application]:
    return {app.id: app for app in scene.partition.history}


def test_a_completed_application_expires_after_its_time() -> None:
    scene = a_scene()
    finish(scene, "one")
    app = kept(scene)["one"]
    assert app.state.value == "Completed"
    assert app.ended_ns == app.state_log[-1][0]
    scene.wait(72 * HOUR - 61)
    assert "one" in kept(scene)
    scene.wait(61)
    assert kept(scene) == {}
    assert app.state.value == "Expired"
    assert scene.noted[-1].detail is Detail.APP_EXPIRED


def test_a_rejected_application_is_kept_with_the_reason() -> None:
    scene = a_scene()
    spec = an_application("bad", gang=1000, each=None, queue="root.a")
    scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a", vcore=1000))))
    reason = rejection(scene.tell(ApplicationAdded(spec)))
    app = kept(scene)["bad"]
    assert reason
    assert (app.state.value, app.rejected_message, app.queue.path) == ("Rejected", reason, "root.a")
    assert app.spec is spec
    scene.wait(73 * HOUR)
    assert app.state.value == "Expired"
    assert kept(scene) == {}


def test_each_expires_at_its_own_time_and_one_clock_is_enough() -> None:
    scene = a_scene(hours=1)
    for name in ("one", "two", "three"):
        finish(scene, name)
        scene.wait(600)
    expiring = [clock for *_, clock in scene.timers if "ended" in clock.timer.kind.value]
    assert len(expiring) == 1
    ended = {name: app.ended_ns for name, app in kept(scene).items()}
    for name, at_ns in ended.items():
        scene.wait((at_ns - scene.now_ns) / SECOND + HOUR - 1)
        assert name in kept(scene)
        scene.wait(2)
        assert name not in kept(scene)


def test_an_id_that_ended_may_come_again() -> None:
    scene = a_scene()
    finish(scene, "one")
    finish(scene, "one")
    assert [app.id for app in scene.partition.history] == ["one", "one"]


def test_one_that_was_removed_is_completed_and_let_go_in_time() -> None:
    """The resource manager hears nothing of it: the ID may be another application's by then."""
    scene = a_scene(hours=1)
    scene.tell(ApplicationAdded(an_application("one")))
    said = scene.tell(ApplicationRemoved(PARTITION, ApplicationId("one")))
    [app] = scene.partition.history
    assert [state.value for _, state in app.state_log][-2:] == ["Completing", "Completed"]
    assert not [item for item in said if isinstance(item, ApplicationUpdated)]
    assert set(kept(scene)) == {"one"}
    scene.wait(2 * HOUR)
    assert app.state.value == "Expired"
    assert kept(scene) == {}


def test_the_newest_thousand_are_kept() -> None:
    scene = a_scene(hours=1)
    specs = [an_application(f"app{i}", queue="root.a") for i in range(HISTORY + 5)]
    scene.tell(*(ApplicationAdded(spec) for spec in specs))
    scene.tell(*(ApplicationRemoved(PARTITION, spec.id) for spec in specs))
    assert len(scene.partition.history) == HISTORY
    assert scene.partition.history[0].id == "app5"
    scene.wait(2 * HOUR)
    assert kept(scene) == {}


def test_a_clock_of_an_earlier_session_lets_nothing_go() -> None:
    scene = a_scene(hours=2)
    finish(scene, "one")
    scene.wait(HOUR)
    scene.tell(ManagerRegistered(RM, scene.scheduler_state.managers[RM].configuration))
    scene.add_node("n9")
    finish(scene, "two")
    scene.wait(HOUR + 60)
    assert set(kept(scene)) == {"two"}


def test_counts_of_queues_that_are_gone_are_added_to_those_above_once_they_are_very_many() -> None:
    scene = a_scene()
    number = limits.ENDED_COUNTS_OF_GONE_QUEUES + 200
    for index in range(number):
        name = f"app{index}"
        spec = replace(an_application(name, queue=""), tags={"namespace": f"ns{index}"})
        step(scene.scheduler_state, ApplicationAdded(spec), scene.now_ns)
        step(scene.scheduler_state, ApplicationRemoved(PARTITION, ApplicationId(name)), scene.now_ns)
    ended = scene.partition.ended
    assert sum(ended.values()) == number
    assert len(ended) < number
    assert max(ended, key=lambda key: ended[key])[0] == "root"
