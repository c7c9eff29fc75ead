"""The recovery queue counts recovered allocations and accepts nothing new; a reload moves applications out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_core.model.config import QueueConfig
from muster_core.model.effects import SchedulingStateChanged
from muster_core.model.events import AllocationReported, ApplicationAdded, ConfigurationReplaced
from muster_core.model.ids import RECOVERY, QueuePath, Termination
from muster_core.state.queues import Queue
from tests.unit.builders import RM, a_configuration, a_queue, an_allocation, an_application, an_ask
from tests.unit.core.scheduling.scenario import Scenario, placed, releases


def recovered(*bound: str, gang: int = 0) -> Scenario:
    """An application of queue root.gone that had these pods and is recovered."""
    scenario = Scenario(a_configuration(a_queue("a")), nodes=2)
    spec = replace(an_application(queue="root.gone", forced=True, gang=gang), tags={})
    scenario.send(ApplicationAdded(spec))
    scenario.send(*(AllocationReported(an_allocation(key, "n0")) for key in bound))
    return scenario


def reasons(effects: list[object]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, SchedulingStateChanged)]


def queue(scenario: Scenario, path: str) -> Queue:
    return scenario.partition.queues.by_path[QueuePath(path)]


def test_recovered_allocations_are_counted_in_the_recovery_queue() -> None:
    scenario = recovered("r0", "r1")
    assert scenario.app().queue.path == RECOVERY
    assert scenario.app().queue.allocated["vcore"] == 2000


def test_new_requests_wait_in_the_recovery_queue_with_the_queue_as_reason() -> None:
    scenario = recovered("r0")
    effects = scenario.ask(*(an_ask(f"new{number}") for number in range(6)))
    assert placed(effects) == {}
    assert set(reasons([*effects])) == {"queue root.gone does not exist"}
    assert placed(scenario.wait(3600)) == {}


def test_a_real_pod_replaces_a_recovered_placeholder() -> None:
    scenario = recovered(gang=1)
    scenario.send(AllocationReported(an_allocation("p0", "n0", group="workers", placeholder=True)))
    assert releases(scenario.ask(an_ask("r0", group="workers"))) == {"p0": Termination.PLACEHOLDER_REPLACED}
    assert placed(scenario.release("p0", why=Termination.PLACEHOLDER_REPLACED)) == {"r0": "n0"}


@pytest.mark.parametrize("requested", [0, 2])
def test_an_application_moves_to_its_queue_when_a_reload_adds_it(requested: int) -> None:
    scenario = recovered("r0")
    scenario.ask(*(an_ask(f"new{number}", priority=number) for number in range(requested)))
    effects = scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("gone"))))
    assert scenario.app().queue is queue(scenario, "root.gone")
    assert RECOVERY not in scenario.partition.queues.by_path
    assert len(placed(effects)) == requested
    assert queue(scenario, "root.gone").allocated["vcore"] == 1000 * (1 + requested)
    assert queue(scenario, "root").allocated["vcore"] == 1000 * (1 + requested)


def test_moving_an_application_without_allocations_creates_no_user_usage() -> None:
    scenario = recovered()
    scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("gone"))))
    assert scenario.app().queue is queue(scenario, "root.gone")
    assert scenario.partition.users.users == {}


def test_moved_allocations_count_towards_the_maximum_of_the_queue() -> None:
    scenario = recovered("r0", "r1")
    scenario.ask(an_ask("new"))
    small: QueueConfig = a_queue("gone", vcore=1000)
    effects = scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a"), small)))
    assert (placed(effects), queue(scenario, "root.gone").allocated["vcore"]) == ({}, 2000)
    scenario.release("r0", why=Termination.STOPPED_BY_RM)
    assert placed(scenario.release("r1", why=Termination.STOPPED_BY_RM)) == {"new": "n0"}


def test_a_reload_without_the_queue_leaves_the_application_in_recovery() -> None:
    scenario = recovered("r0")
    scenario.send(ConfigurationReplaced(RM, a_configuration(a_queue("a"), a_queue("b"))))
    assert scenario.app().queue.path == RECOVERY
