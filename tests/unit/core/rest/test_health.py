"""What the checks of health find, and how history is kept."""

from collections.abc import Callable

import aiohttp
import pytest

from muster_core.model.ids import AllocationKey, ApplicationId, NodeId
from muster_core.model.resources import Resources
from muster_core.rest.health import Counts, checks
from muster_core.rest.http import History
from muster_core.rest.schemas import Health
from muster_core.rest.server import RestSettings
from muster_core.state.queues import LazySum
from muster_core.state.reservations import NodeReservation
from muster_core.state.scheduler_state import SchedulerState
from tests.unit.builders import SECOND
from tests.unit.core.conftest import Bench
from tests.unit.core.rest.conftest import Serve, a_scenario
from tests.unit.core.scheduling.scenario import Scenario

FINE = Counts(0, 0)
NAMES = [
    "Scheduling errors",
    "Failed nodes",
    "Negative resources",
    "Negative resources",
    "Consistency of data",
    "Consistency of data",
    "Consistency of data",
    "Reservation check",
    "Orphan allocation on node check",
    "Orphan allocation on app check",
]


def found(scheduler_state: SchedulerState, counts: Counts = FINE) -> Health:
    *waiting, health = checks(scheduler_state, counts)
    assert not any(waiting)
    assert health is not None
    return health


def failed(scheduler_state: SchedulerState, counts: Counts = FINE) -> list[str]:
    return [check.DiagnosisMessage for check in found(scheduler_state, counts).HealthChecks if not check.Succeeded]


def test_a_consistent_state_passes_every_health_check() -> None:
    health = found(a_scenario().scheduler_state)
    assert health.Healthy
    assert [check.Name for check in health.HealthChecks] == NAMES
    assert all(check.Description and check.DiagnosisMessage for check in health.HealthChecks)


def test_failures_since_the_start_are_reported() -> None:
    assert failed(SchedulerState(), Counts(2, 3)) == [
        "2 events or cycles failed since the start; see the log",
        "3 nodes were rejected since the start",
    ]


def lose_an_application(scenario: Scenario) -> None:
    del scenario.partition.applications[ApplicationId("gang")]


def lose_a_node(scenario: Scenario) -> None:
    for name in list(scenario.partition.nodes):
        scenario.partition.nodes.remove(name)


def allocate_too_much(scenario: Scenario) -> None:
    scenario.partition.nodes.take(NodeId("n0"), Resources({"vcore": 9000}))


def release_too_much(scenario: Scenario) -> None:
    scenario.partition.nodes.give_back(NodeId("n0"), Resources({"vcore": 9000}))


def count_a_queue_wrong(scenario: Scenario) -> None:
    scenario.partition.queues.root.waits = LazySum()
    scenario.partition.queues.root.waits.add(Resources({"vcore": -1}), 1)


def count_the_total_wrong(scenario: Scenario) -> None:
    scenario.partition.nodes.capacity_total = Resources({"vcore": 1})


def reserve_without_request(scenario: Scenario) -> None:
    hold = NodeReservation(ApplicationId("gang"), AllocationKey("gone"), NodeId("n0"), Resources({"vcore": 1}), 1)
    scenario.partition.reservations.add(hold)


@pytest.mark.parametrize(
    "damage, problem",
    [
        (reserve_without_request, "node n0 is reserved for gone of gang"),
        (lose_an_application, "no application has"),
        (lose_a_node, "no node has"),
        (allocate_too_much, "the sum of its allocations is"),
        (allocate_too_much, "node n0: capacity is"),
        (release_too_much, "node n0 has vcore=-"),
        (count_a_queue_wrong, "queue root has vcore=-1"),
        (count_the_total_wrong, "the sum of the nodes is"),
    ],
)
def test_each_inconsistency_is_found(damage: Callable[[Scenario], None], problem: str) -> None:
    scenario = a_scenario()
    damage(scenario)
    assert any(problem in message for message in failed(scenario.scheduler_state))


def test_long_health_messages_are_truncated() -> None:
    scenario = a_scenario()
    for index in range(30):
        scenario.add_node(f"many-{index}")
    for index in range(30):
        scenario.partition.nodes.give_back(NodeId(f"many-{index}"), Resources({"vcore": 1}))
    assert all(message.endswith("; and 20 more") for message in failed(scenario.scheduler_state))
    assert len(failed(scenario.scheduler_state)) == 2


async def test_the_last_health_check_is_served(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/scheduler/healthcheck") as answer:  # the server checked at its start
        assert (await answer.json())["Healthy"] is True


async def test_disabled_health_checks_return_not_found(bench: Bench, serve: Serve) -> None:
    await bench.register(**{"health.checkInterval": "0"})
    http = await serve(RestSettings(port=0))
    async with http.get("/ws/v1/scheduler/healthcheck") as answer:
        assert answer.status == 404
        assert (await answer.json())["message"] == "Health check is not available"


def test_history_counts_applications_and_containers_for_a_day() -> None:
    history, scenario = History(), a_scenario()
    for minute in range(1441):
        history.sample(SchedulerState() if minute == 1 else scenario.scheduler_state, minute * 60 * SECOND)
    first, *_, last = history.applications()
    assert (first.timestamp, first.totalApplications) == (60 * SECOND, "0")
    assert last.totalApplications == "1"
    assert len(list(history.containers())) == 1440
    assert list(history.containers())[-1].totalContainers == "3"


async def test_history_begins_with_the_start(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/history/apps") as answer:
        [sample] = await answer.json()
    assert sample["totalApplications"] == "0"
    async with http.get("/ws/v1/history/containers") as answer:
        [sample] = await answer.json()
    assert sample["totalContainers"] == "0"
