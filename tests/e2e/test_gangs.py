"""Gangs of every shape: placeholders, replacement and release, next to single pods."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from devcluster.audit import Write
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_reason
from tests.e2e.conftest import OpenScenario, placement_of_run
from tests.e2e.manifests import Group, a_gang, a_member, a_pod, with_annotations
from tests.e2e.scenario import Scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-gang" / "gang.yaml"
LONG_S = 600
"""A placeholder timeout that no scenario here reaches."""


def nodes(count: int, cpu: str = "4") -> list[FakeNode]:
    return [FakeNode(f"node-{index}", cpu=cpu) for index in range(count)]


def is_of_placeholder(write: Write) -> bool:
    return write.name.startswith("tg-")


async def phases(scenario: Scenario) -> Counter[str]:
    return Counter(pod["status"].get("phase", "") for pod in await scenario.pods())


async def test_a_gang_binds_all_placeholders_before_a_real_pod(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(nodes(3))
    await scenario.create(a_gang("one", [Group("workers", 6, cpu="2")], timeout_s=LONG_S, placement="Reserve"))
    await scenario.all_bound(6)
    order = [is_of_placeholder(write) for write in await scenario.bindings(12)]
    assert order == [True] * 6 + [False] * 6
    assert len(scenario.writes(of_operator=True)) <= 6 * 6


async def test_real_pods_of_two_groups_run_on_the_nodes_of_their_placeholders(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(nodes(4))
    groups = [Group("leader", 1, cpu="3"), Group("workers", 4, cpu="2")]
    await scenario.create(a_gang("two", groups, timeout_s=LONG_S, placement="Reserve"))
    await scenario.all_bound(5)
    bound_on: dict[bool, Counter[tuple[str, str]]] = {True: Counter(), False: Counter()}
    for write in await scenario.bindings(10):
        group = "leader" if "leader" in write.name else "workers"
        bound_on[is_of_placeholder(write)][group, write.node] += 1
    assert bound_on[True] == bound_on[False]


@pytest.mark.gangs
async def test_the_first_example_runs_unchanged(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(nodes(4, cpu="1"))
    await scenario.create(yaml.safe_load_all(EXAMPLE.read_text()))
    await scenario.all_bound(7)


async def test_a_group_without_members_is_ignored_and_the_other_groups_stay_a_gang(open_scenario: OpenScenario) -> None:
    """As KubeRay writes a worker group with ``minReplicas: 0``: its pods run without a reservation."""
    scenario = await open_scenario(nodes(2, cpu="2"))
    groups = [Group("head", 2, cpu="2"), Group("workers", 0, cpu="500m", real=2)]
    await scenario.create([a_pod("busy", labels={"applicationId": "busy"})])
    await scenario.all_bound(1)
    await scenario.create(a_gang("ray", groups, timeout_s=LONG_S))
    reason = "Unschedulable" if placement_of_run() in {"Direct", "Auto"} else "SchedulingSkipped"
    await wait_for_reason(scenario, "ray-head-1", reason, "gang ray is waiting")
    assert {pod["metadata"]["name"] for pod in await scenario.bound()} == {"busy"}
    await scenario.api.delete("pods", "busy", scenario.namespace)

    async def gang_runs() -> bool:
        return {pod["metadata"]["name"] for pod in await scenario.bound()} == {"ray-head-0", "ray-head-1"}

    await scenario.eventually("the gang runs, and its other pods wait for a node", gang_runs)
    await scenario.cluster.add_nodes([FakeNode("node-2", cpu="2")])
    await scenario.all_bound(4)
    assert [event["message"] for event in await scenario.events("GangScheduling") if event["type"] == "Warning"] == []


async def test_smaller_real_pods_release_the_excess_of_their_placeholders(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(nodes(2))
    await scenario.create(a_gang("small", [Group("workers", 3, cpu="2", real_cpu="500m")], timeout_s=LONG_S))
    await scenario.all_bound(3)
    allocated = (await scenario.muster.dump())["ledgers"]["queues"]["root"]["allocated"]
    assert allocated["vcore"] == 3 * 500


async def test_a_real_pod_larger_than_its_placeholder_is_scheduled_as_usual_and_reported(
    open_scenario: OpenScenario,
) -> None:
    """Only this member is affected; the gang keeps its other reservations. It appears when the others run."""
    scenario = await open_scenario(nodes(3))
    groups = [Group("workers", 3)]
    gang = a_gang("large", groups, timeout_s=LONG_S)
    await scenario.create(gang[:2])

    async def two_run() -> bool:
        return len(await scenario.bound()) == 2

    await scenario.eventually("the first two run", two_run)
    await scenario.create([a_member("large", "workers", "large-workers-2", groups, cpu="3")])
    await scenario.all_bound(3)

    async def is_reported() -> bool:
        about = {
            event["involvedObject"]["name"]
            for event in await scenario.events()
            if "more than its placeholder" in event["message"]
        }
        return about == {"large-workers-2"}

    await scenario.eventually("the event is reported", is_reported)


async def test_unused_placeholders_are_released_when_the_application_finishes(open_scenario: OpenScenario) -> None:
    """An unused placeholder does not keep an application Running."""
    scenario = await open_scenario(nodes(2))
    gang = a_gang("left", [Group("workers", 4, real=2)], timeout_s=LONG_S)
    await scenario.create(with_annotations(pod, {"devcluster.muster/run-for": "1s"}) for pod in gang)

    async def only_finished_pods_exist() -> bool:
        return await phases(scenario) == {"Succeeded": 2} and not await scenario.pods(placeholders=True)

    await scenario.eventually("the unused placeholders are deleted", only_finished_pods_exist)


async def test_single_pods_are_scheduled_without_placeholders(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(nodes(2))
    names = ("muster", "yunikorn")
    await scenario.create(a_pod(f"single-{index}", scheduler=names[index % 2]) for index in range(6))
    await scenario.all_bound(6)
    assert not [write for write in scenario.writes(of_operator=True) if write.what == "create pods"]


async def test_pods_of_another_scheduler_count_on_their_node_and_are_not_changed(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")])
    foreign = a_pod("foreign", cpu="3", scheduler="somebody-else")
    foreign["spec"]["nodeName"] = "node-0"
    await scenario.create([foreign, a_pod("fits", cpu="1"), a_pod("waits", cpu="1")])

    async def a_member_is_bound() -> bool:
        return len(await scenario.bound()) == 2

    await scenario.eventually("one of ours is bound", a_member_is_bound)
    await scenario.api.delete("pods", "foreign", scenario.namespace)
    await scenario.all_bound(2)
