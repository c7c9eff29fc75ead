"""The priority class of a pod decides the order of its application."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest_asyncio

from devcluster.cluster import Cluster
from devcluster.nodes import FakeNode
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.priority_classes import create_class

NODE_FOR_ONE = [FakeNode("node-0", cpu="1")]
CLASSES = {"low": -10, "high": 1000}


@pytest_asyncio.fixture(loop_scope="session")
async def classes(cluster: Cluster) -> AsyncIterator[None]:
    for name, value in CLASSES.items():
        await create_class(cluster.admin, name, value)
    yield
    for name in CLASSES:
        await cluster.admin.delete("priorityclasses", name)


async def test_applications_of_a_leaf_are_ordered_by_priority_and_then_by_age(
    open_scenario: OpenScenario, classes: None
) -> None:
    scenario = await open_scenario(NODE_FOR_ONE, queues())
    await scenario.create([a_pod("holder", labels={"applicationId": "holder", "queue": "root.leaf"})])
    await scenario.all_bound(1)
    waiting = {"last": "low", "older": "", "younger": "", "first": "high"}
    for name, priority in waiting.items():
        pod = a_pod(name, labels={"applicationId": f"app-{name}", "queue": "root.leaf"})
        if priority:
            pod["spec"]["priorityClassName"] = priority
        await scenario.create([pod])

    async def all_wait() -> bool:
        return bool((await scenario.muster.dump())["ledgers"]["asks"] == len(waiting))

    await scenario.eventually("all are asked for", all_wait)
    for running, following in pairwise(("holder", "first", "older", "younger", "last")):
        await scenario.api.delete("pods", running, scenario.namespace)
        [pod] = await scenario.all_bound(1)
        assert pod["metadata"]["name"] == following
