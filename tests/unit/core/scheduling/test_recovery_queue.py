"""The recovery queue counts what a recovery brings and gives nothing new; a reload moves applications out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.config import QueueConfig
from muster_core.model.effects import SchedulingStateChanged
from muster_core.model.events import AllocationReported, ApplicationAdded, ConfigurationReplaced
from muster_core.model.ids import RECOVERY, QueuePath, Termination
from muster_core.state.queues import Queue
from tests.unit.builders import RM, a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scene import Scene, placed, releases


def recovered(*bound: str, gang: int = 0) -> Scene:
    """An application of queue root.gone that had these pods, and is back."""
    scene = Scene(a_configuration(a_queue("a")), nodes=2)
    spec = replace(an_application(queue="root.gone", forced=True, gang=gang), tags={})
    scene.tell(ApplicationAdded(spec))
    scene.tell(*(AllocationReported(an_allocation(key, "n0")) for key in bound))
    return scene


def reasons(effects: list[object]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, SchedulingStateChanged)]


def queue(scene: Scene, path: str) -> Queue:
    return scene.partition.queues.by_path[QueuePath(path)]


def test_what_a_recovery_brings_is_counted_in_the_recovery_queue() -> None:
    scene = recovered("r0", "r1")
    assert scene.app().queue.path == RECOVERY
    assert scene.app().queue.allocated["vcore"] == 2000


def test_new_requests_wait_in_the_recovery_queue_with_the_queue_as_reason() -> None:
    scene = recovered("r0")
    said = scene.ask(*(an_ask(f"new{number}") for number in range(6)))
    assert placed(said) == {}
    assert set(reasons([*said])) == {"queue root.gone does not exist"}
    assert placed(scene.wait(3600)) == {}


def test_a_real_pod_still_takes_the_place_of_a_recovered_placeholder() -> None:
    scene = recovered(gang=1)
    scene.tell(AllocationReported(an_allocation("p0", "n0", group="workers", placeholder=True)))
    assert releases(scene.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    assert placed(scene.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}


@pytest.mark.parametrize("asked", [0, 2])
def test_an_application_moves_to_its_queue_when_a_reload_brings_it(asked: int) -> None:
    scene = recovered("r0")
    scene.ask(*(an_ask(f"new{number}", priority=number) for number in range(asked)))
    said = scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("gone"))))
    assert scene.app().queue is queue(scene, "root.gone")
    assert RECOVERY not in scene.partition.queues.by_path
    assert len(placed(said)) == asked
    assert queue(scene, "root.gone").allocated["vcore"] == 1000 * (1 + asked)
    assert queue(scene, "root").allocated["vcore"] == 1000 * (1 + asked)


def test_an_application_that_holds_nothing_moves_without_an_account_of_its_user() -> None:
    scene = recovered()
    scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("gone"))))
    assert scene.app().queue is queue(scene, "root.gone")
    assert scene.partition.users.users == {}


def test_the_maximum_of_the_queue_counts_for_what_moved_there() -> None:
    scene = recovered("r0", "r1")
    scene.ask(an_ask("new"))
    small: QueueConfig = a_queue("gone", vcore=1000)
    said = scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a"), small)))
    assert (placed(said), queue(scene, "root.gone").allocated["vcore"]) == ({}, 2000)
    scene.release("r0", why=Termination.STOPPED_BY_RM)
    assert placed(scene.release("r1", why=Termination.STOPPED_BY_RM)) == {"new": "n0"}


def test_a_reload_that_does_not_bring_the_queue_changes_nothing() -> None:
    scene = recovered("r0")
    scene.tell(ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("b"))))
    assert scene.app().queue.path == RECOVERY
