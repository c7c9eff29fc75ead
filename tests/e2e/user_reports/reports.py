"""What the cases of user reports share: gangs for both scheduler names, busy nodes, and the `muster` command.

The cases run on the cluster of `KEEP=1 make demo`: eight nodes of 1 CPU and 4 GiB. A member of 900m needs one of them.
The scheduler name decides the placement: `muster` gives Auto, `yunikorn` gives Reserve.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from devcluster.api import Json
from devcluster.muster import CONFIGURATION, NAMESPACE
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scenario

MEMBER = "900m"
both_schedulers = pytest.mark.parametrize("scheduler", ["muster", "yunikorn"])


def members(app: str, count: int, scheduler: str = "muster", *, parameters: str = "", **group: Any) -> list[Json]:
    """The pods of a gang with one task group `w`. ``group``: further fields of `Group`."""
    gang = [Group("w", count, **{"cpu": MEMBER, **group})]
    pods = a_gang(app, gang)
    for pod in pods:
        pod["spec"]["schedulerName"] = scheduler
        if parameters:
            pod["metadata"]["annotations"]["yunikorn.apache.org/schedulingPolicyParameters"] = parameters
    return pods


def plain(name: str, cpu: str = MEMBER, *, app: str = "", **spec: object) -> Json:
    """A pod that is no member of a gang."""
    pod = a_pod(name, cpu=cpu, labels={"applicationId": app or name})
    pod["spec"].update(spec)
    return pod


def on_node(name: str) -> Mapping[str, str]:
    """The node selector for one node."""
    return {"kubernetes.io/hostname": name}


async def bound(scenario: Scenario, app: str) -> list[Json]:
    """The pods of the application that have a node and have not ended."""
    found = [pod for pod in await scenario.bound() if pod["metadata"]["labels"].get("applicationId") == app]
    return [pod for pod in found if pod["status"].get("phase") not in {"Succeeded", "Failed"}]


async def runs(scenario: Scenario, app: str, count: int) -> None:
    """Wait until this many pods of the application have a node."""

    async def has_nodes() -> bool:
        return len(await bound(scenario, app)) == count

    await scenario.eventually(f"{count} pods of {app} have a node", has_nodes)


async def waits(scenario: Scenario, pods: Iterable[str]) -> dict[str, str]:
    """Wait until these pods report why they have no node; the messages by name."""
    names = set(pods)

    async def report() -> dict[str, str]:
        found = {
            pod["metadata"]["name"]: condition.get("message", "")
            for pod in await scenario.pods()
            if not is_bound(pod)
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "PodScheduled"
        }
        return {name: found[name] for name in names} if names <= found.keys() else {}

    return await scenario.eventually(f"{sorted(names)} report why they wait", report)


async def noted(scenario: Scenario, text: str, *, count: int = 1) -> list[Json]:
    """Wait for events that contain the text, and return them."""

    async def found() -> list[Json]:
        events = [event for event in await scenario.events() if text in event.get("message", "")]
        return events if len(events) >= count else []

    return await scenario.eventually(f"an event contains {text!r}", found)


async def muster(scenario: Scenario, *arguments: str) -> tuple[int, str]:
    """Exit code and output of the `muster` command."""
    kubeconfig = await scenario.cluster.admin_kubeconfig()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "muster", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "MUSTER_SERVER": scenario.muster.rest_url,
            "COLUMNS": "240",
            "NO_COLOR": "1",
        },
    )
    printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()


async def data(scenario: Scenario, *arguments: str) -> Any:
    """The object, or the items of the list, that `-o json` prints."""
    found = json.loads((await muster(scenario, *arguments, "-o", "json"))[1])
    return found["items"] if isinstance(found, dict) and found.get("kind") == "List" else found


@asynccontextmanager
async def queues_file(scenario: Scenario, text: str, queue: str) -> AsyncIterator[None]:
    """Write ``queues.yaml`` into ``muster-configs``, as an administrator does, and wait until it has the queue."""
    found: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIGURATION}}
    await scenario.api.create({**found, "data": {"queues.yaml": text}}, NAMESPACE)
    try:

        async def is_applied() -> bool:
            return (await muster(scenario, "queues", queue))[0] == 0

        await scenario.eventually(f"{queue} exists", is_applied)
        yield
    finally:
        await scenario.api.delete("configmaps", CONFIGURATION, NAMESPACE)
