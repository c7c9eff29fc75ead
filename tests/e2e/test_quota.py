"""A pod over its queue's quota waits with the missing amount as reason, and is bound once quota is free."""

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_reason
from tests.e2e.configuration import a_queue, queue_file, queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

NODES = [FakeNode("node-0", cpu="8", extra={"nvidia.com/gpu": "8"})]


async def only_bound(scenario: Scenario, *names: str) -> None:
    """Wait until these pods are bound, and no others."""

    async def are_bound() -> bool:
        return {pod["metadata"]["name"] for pod in await scenario.bound()} == set(names)

    await scenario.eventually(f"only {', '.join(names)} are bound", are_bound)


async def test_the_quota_of_a_parent_limits_the_sum_of_its_leaves(open_scenario: OpenScenario) -> None:
    team = a_queue("team", a_queue("left"), a_queue("right"), maximum={"vcore": "2"})
    scenario = await open_scenario(NODES, queue_file(team))
    for leaf in ("left", "right"):
        labels = {"applicationId": leaf, "queue": f"root.team.{leaf}"}
        await scenario.create([a_pod(f"{leaf}-0", labels=labels)])
    await scenario.all_bound(2)
    labels = {"applicationId": "right", "queue": "root.team.right"}
    await scenario.create([a_pod("third", labels=labels)])
    await wait_for_reason(scenario, "third", "SchedulingSkipped", "root.team", "cpu")


async def test_a_quota_counts_resources_by_any_name(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"nvidia.com/gpu": "2"}}))
    labels = {"applicationId": "train", "queue": "root.leaf"}
    pods = [a_pod(f"gpu-{index}", labels=labels) for index in range(2)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "2"}
        pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "2"
    await scenario.create([*pods, a_pod("no-gpu", labels=labels)])
    await wait_for_reason(scenario, "gpu-1", "SchedulingSkipped", "root.leaf", "nvidia.com/gpu")
    await only_bound(scenario, "gpu-0", "no-gpu")
