"""MUSTER_FAST_PATH=off: all objects pass kopf's own queues, slower, with the same results."""

from __future__ import annotations

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0"), FakeNode("node-1")]
OFF = {"MUSTER_FAST_PATH": "off"}


async def test_a_gang_completes_its_lifecycle(open_scenario: OpenScenario) -> None:
    scenario: Scenario = await open_scenario(NODES, env=OFF)
    gang = a_gang("gang", [Group("driver", 1), Group("executors", 3)], placement="Reserve")
    await scenario.create([*gang, a_pod("single")])
    await scenario.all_bound(5)


async def test_a_gang_that_times_out_continues_without_placeholders(open_scenario: OpenScenario) -> None:
    scenario: Scenario = await open_scenario(NODES, env=OFF)
    await scenario.occupy("node-0", "6")  # so that 10 of 16 CPUs are free
    large = [Group("workers", 12, real=2)]
    await scenario.create(a_gang("large", large, style="Soft", timeout_s=2, placement="Reserve"))
    await scenario.all_bound(2)


async def test_deleted_pods_free_their_resources_for_waiting_pods(open_scenario: OpenScenario) -> None:
    scenario: Scenario = await open_scenario(NODES, env=OFF)
    pods = [a_pod(f"first-{number}", cpu="5") for number in range(2)]
    await scenario.create(pods)
    first = await scenario.all_bound(2)
    await scenario.create([a_pod(f"second-{number}", cpu="5") for number in range(2)])
    for pod in first:
        await scenario.api.delete("pods", pod["metadata"]["name"], scenario.namespace)
    second = await scenario.all_bound(2)
    assert {pod["metadata"]["name"] for pod in second} == {"second-0", "second-1"}


async def test_after_a_restart_the_operator_continues_with_the_gang(open_scenario: OpenScenario) -> None:
    scenario: Scenario = await open_scenario(NODES, env=OFF)
    await scenario.create(a_gang("gang", [Group("workers", 4)], timeout_s=600, placement="Reserve"))
    await scenario.all_bound(4)
    await scenario.muster.operator.kill()
    await scenario.muster.start()
    await scenario.create([a_pod("late")])
    await scenario.all_bound(5)
