"""Pods that request more than their task group: all members start, or none does."""

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario

MEMBERS = 5
#: Memory for two members with the default of the LimitRange, or for many with the request of the task group.
NODES = [FakeNode(f"node-{number}", memory="3500Mi") for number in range(2)]


async def limit_range(scenario: Scenario, memory: str) -> None:
    """Give every container without a memory request this one."""
    limits = {"type": "Container", "default": {"memory": memory}, "defaultRequest": {"memory": memory}}
    spec = {"limits": [limits]}
    await scenario.create([{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": spec}])


def without_memory(pod: Json) -> Json:
    """Remove the memory request from the pod."""
    del pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
    return pod


@pytest.mark.parametrize("placement", ["Reserve", "Auto", "Direct"])
async def test_members_with_defaults_of_a_limit_range_start_together_or_not_at_all(
    placement: str, open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario(NODES)
    await limit_range(scenario, "1500Mi")
    workers = Group("workers", MEMBERS, cpu="200m", memory="1Mi")
    gang = a_gang("train", [workers], style="Hard", timeout_s=600, placement=placement)
    await scenario.create(without_memory(pod) for pod in gang)
    reason = "SchedulingSkipped" if placement == "Reserve" else "Unschedulable"
    await wait_for_reason(scenario, "train-workers-0", reason, "Insufficient memory")
    assert await scenario.bound() == []
    await scenario.cluster.add_nodes([FakeNode("node-2", memory="3500Mi")])
    await scenario.all_bound(MEMBERS)


async def test_placeholders_have_what_all_members_request_and_an_event_says_what_to_write(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0"), FakeNode("node-1", labels={"disk": "fast"})])
    gang = a_gang("train", [Group("workers", 3, real=2, real_cpu="1500m")], timeout_s=600, placement="Reserve")
    for pod in gang:
        pod["spec"]["nodeSelector"] = {"disk": "fast"}
    await scenario.create(gang)

    async def are_bound() -> bool:
        return [pod["spec"]["nodeName"] for pod in await scenario.bound()] == ["node-1", "node-1"]

    await scenario.eventually("both members are bound to the node that they select", are_bound)
    await wait_for_event(
        scenario,
        "train-workers-0",
        "placeholders of task group workers",
        '"minResource": {"cpu": "1500m"}',
        '"nodeSelector": {"disk": "fast"}',
        kind="Normal",
    )
    [left] = await scenario.pods(placeholders=True)
    assert left["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1500m"
    assert left["spec"]["nodeSelector"] == {"disk": "fast"}


@pytest.mark.parametrize("placement", ["Reserve", "Auto"])
async def test_a_hard_gang_fails_at_the_timeout_if_a_late_member_is_larger_than_its_reservation(
    placement: str, open_scenario: OpenScenario
) -> None:
    """Until then the waiting pod says which resource differs, with both amounts, and what to write."""
    scenario = await open_scenario([FakeNode("node-0", cpu="3")])
    gang = a_gang("train", [Group("workers", 3)], style="Hard", timeout_s=15, placement=placement)
    large = gang.pop()
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    await scenario.create(gang)

    async def two_run() -> bool:
        return len(await scenario.bound()) == 2

    await scenario.eventually("two members run", two_run)
    await scenario.create([large])
    texts = ("requested cpu 2, reserved 1", "raise minResource of task group workers to cpu: 2")
    await wait_for_event(scenario, "train-workers-2", *texts)
    await wait_for_reason(scenario, "train-workers-2", "Unschedulable", *texts, "Insufficient cpu")

    async def has_failed() -> bool:
        pods = await scenario.pods()
        waiting = [pod for pod in pods if pod["metadata"]["name"] == "train-workers-2"]
        return [pod["status"]["phase"] for pod in waiting] == ["Failed"] and not [
            pod for pod in pods if pod["status"]["phase"] == "Running"
        ]

    await scenario.eventually("the gang has failed", has_failed)
    failed = await scenario.api.get("pods", "train-workers-2", scenario.namespace)
    assert "1 of its members cannot use their reservations" in failed["status"]["message"]
