"""The higher priority is scheduled first: pods, applications, queues with an offset."""

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.cluster import Cluster
from devcluster.nodes import FakeNode
from tests.e2e.configuration import a_queue, queue_file, queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.priority_classes import create_class
from tests.e2e.scenario import Scenario

NODE_FOR_ONE = [FakeNode("node-0", cpu="1")]
CLASSES = {"low": -10, "high": 1000}


@pytest_asyncio.fixture(loop_scope="session")
async def classes(cluster: Cluster) -> AsyncIterator[None]:
    for name, value in CLASSES.items():
        await create_class(cluster.admin, name, value)
    yield
    for name in CLASSES:
        await cluster.admin.delete("priorityclasses", name)


async def wait_behind(scenario: Scenario, queue: str, *pods: tuple[str, str, str]) -> None:
    """Create a pod that fills the node, then these pods (name, queue, priority class) in order, which wait."""
    await scenario.create([a_pod("holder", labels={"applicationId": "holder", "queue": queue})])
    await scenario.all_bound(1)
    for name, its_queue, priority in pods:
        pod = a_pod(name, labels={"applicationId": f"app-{name}", "queue": its_queue})
        await scenario.create(
            [{**pod, "spec": {**pod["spec"], **({"priorityClassName": priority} if priority else {})}}]
        )

    async def all_wait() -> bool:
        return bool((await scenario.muster.dump())["ledgers"]["asks"] == len(pods))

    await scenario.eventually("all are asked for", all_wait)


async def are_bound_in_order(scenario: Scenario, *names: str) -> None:
    """Delete the running pod repeatedly, and check that the next pod in this order is bound."""
    running = "holder"
    for name in names:
        await scenario.api.delete("pods", running, scenario.namespace)
        [pod] = await scenario.all_bound(1)
        assert pod["metadata"]["name"] == name
        running = name


async def test_applications_of_a_leaf_are_ordered_by_priority_and_then_by_age(
    open_scenario: OpenScenario, classes: None
) -> None:
    scenario = await open_scenario(NODE_FOR_ONE, queues())
    leaf = "root.leaf"
    waiting = [("last", leaf, "low"), ("older", leaf, ""), ("younger", leaf, ""), ("first", leaf, "high")]
    await wait_behind(scenario, leaf, *waiting)
    await are_bound_in_order(scenario, "first", "older", "younger", "last")


async def test_a_queue_with_a_priority_offset_is_scheduled_first(open_scenario: OpenScenario, classes: None) -> None:
    ahead = a_queue("ahead", properties={"priority.offset": "2000"})
    scenario = await open_scenario(NODE_FOR_ONE, queue_file(a_queue("plain"), ahead))
    await wait_behind(scenario, "root.plain", ("important", "root.plain", "high"), ("ours", "root.ahead", "low"))
    await are_bound_in_order(scenario, "ours", "important")


async def test_priorities_of_a_fenced_queue_apply_only_inside_it(open_scenario: OpenScenario, classes: None) -> None:
    fenced = a_queue("fenced", properties={"priority.policy": "fence", "priority.offset": "-1"})
    scenario = await open_scenario(NODE_FOR_ONE, queue_file(a_queue("plain"), fenced))
    await wait_behind(
        scenario,
        "root.plain",
        ("low", "root.fenced", "low"),
        ("high", "root.fenced", "high"),
        ("other", "root.plain", ""),
    )
    await are_bound_in_order(scenario, "other", "high", "low")
