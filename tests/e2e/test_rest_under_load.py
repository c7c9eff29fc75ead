"""The REST API responds while pods are created and bound, with the documented fields."""

import asyncio
from functools import partial
from typing import Any

import aiohttp

from devcluster.nodes import FakeNode
from tests.e2e import rest
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod, owned
from tests.e2e.scenario import Scenario

PODS = 240
ROUNDS = 5
"""Minimum number of responses of every view until all pods are bound."""

#: Path → fields of the object at this path, or of the first one of a list.
SHAPES: dict[str, set[str]] = {
    "clusters": {"clusterName", "partition", "rmBuildInformation", "startTime"},
    "partitions": {"name", "state", "capacity", "totalNodes", "totalContainers", "nodeSortingPolicy", "applications"},
    "partition/default/placementrules": {"name", "parameters"},
    "partition/default/queues": {"queuename", "status", "children", "allocatedResource", "isLeaf", "isManaged"},
    "partition/default/queue/root.left": {"queuename", "maxResource", "pendingResource", "runningApps", "properties"},
    "partition/default/applications/active": {"applicationID", "queueName", "applicationState", "user", "allocations"},
    "partition/default/queue/root.left/applications": {"applicationID", "usedResource", "requests", "stateLog"},
    "partition/default/nodes": {"nodeID", "capacity", "allocated", "available", "utilized", "schedulable"},
    "partition/default/node/node-0": {"nodeID", "occupied", "allocations", "reservations"},
    "scheduler/node-utilizations": {"clusterId", "partition", "utilizations"},
    "partition/default/usage/users": {"userName", "groups", "queues"},
    "scheduler/healthcheck": {"Healthy", "HealthChecks"},
    "events/batch": {"InstanceUUID", "LowestID", "HighestID", "EventRecords"},
}


def fields(answer: Any) -> set[str]:
    """The fields of an object, or of the first one of a list."""
    first = answer[0] if isinstance(answer, list) else answer
    return set(first)


async def rounds(scenario: Scenario, stop: asyncio.Event) -> int:
    """Request every view repeatedly until stopped. Returns the number of complete rounds."""
    count = 0
    while not stop.is_set():
        for path in SHAPES:
            try:
                await rest.get_json(scenario, path)
            except aiohttp.ClientResponseError as error:
                if error.status != 404:  # no health check has run yet
                    raise
        count += 1
    return count


async def test_every_rest_view_responds_while_pods_are_created(open_scenario: OpenScenario) -> None:
    nodes = [FakeNode(f"node-{index}", cpu="32") for index in range(10)]
    health = {"health.checkInterval": "1s"}
    scenario = await open_scenario(nodes, queue_file(a_queue("left"), a_queue("right")) | health)
    stop = asyncio.Event()
    requesting = asyncio.create_task(rounds(scenario, stop))
    pods = [
        owned(a_pod(f"pod-{index}", labels={"applicationId": f"app-{index % 20}", "queue": f"root.{queue}"}), "ann")
        for index, queue in enumerate(["left", "right"] * (PODS // 2))
    ]
    await asyncio.gather(*(scenario.create(pods[start::8]) for start in range(8)))
    await scenario.all_bound(PODS)
    stop.set()
    assert await requesting >= ROUNDS
    for path, names in SHAPES.items():
        answer = await scenario.eventually(f"{path} answers", partial(rest.get_json, scenario, path))
        assert names <= fields(answer), path
    tree = await rest.get_json(scenario, "partition/default/queues")
    allocated = {child["queuename"]: child["allocatedResource"]["vcore"] for child in tree["children"]}
    assert allocated == {"root.left": PODS // 2 * 1000, "root.right": PODS // 2 * 1000}
    assert len(await rest.get_json(scenario, "partition/default/applications/active")) == 20
