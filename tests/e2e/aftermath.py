"""What must hold after every scenario, whatever it did: nothing left, nothing bound twice, the core's ledgers empty."""

from __future__ import annotations

import asyncio

from devcluster.api import Json
from devcluster.audit import bindings_per_pod
from tests.e2e.scene import Scene

WORKLOADS = ("jobs", "deployments", "statefulsets", "replicasets")


async def check(scene: Scene) -> None:
    """Take the scenario's own pods away, then look at what Muster leaves. Raises AssertionError."""
    await asyncio.gather(*(scene.api.delete_all(plural, scene.namespace) for plural in WORKLOADS))
    for pod in await scene.pods():
        await scene.api.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s=0)
    await scene.eventually("no pod, real or placeholder, is left", lambda: _no_pod(scene))
    twice = {pod: count for pod, count in bindings_per_pod(scene.writes()).items() if count > 1}
    assert not twice, f"bound more than once: {twice}\n{await scene.report()}"
    await scene.eventually("the core's ledgers are empty", lambda: _core_is_empty(scene))


async def _no_pod(scene: Scene) -> bool:
    return not await scene.api.find("pods", scene.namespace)


async def _core_is_empty(scene: Scene) -> bool:
    return not leftovers(await scene.muster.dump())


def leftovers(dump: Json) -> list[str]:
    """What applications, queues and nodes still hold or want, by the core's own dump (contract 4.1 and 10.9)."""
    found = [
        f"application {app.get('applicationID')}: {key}"
        for app in dump["applications"]
        for key in ("allocations", "requests", "usedResource", "pendingResource")
        if _amount(app.get(key))
    ]
    queues = dump["queues"] if isinstance(dump["queues"], list) else [dump["queues"]]
    while queues:
        queue = queues.pop()
        queues += queue.get("children") or []
        found += [
            f"queue {queue.get('queuename')}: {key}"
            for key in ("allocatedResource", "pendingResource")
            if _amount(queue.get(key))
        ]
    nodes = [node for partition in dump["nodes"] for node in partition["nodesInfo"] or []]
    return found + [f"node {node.get('nodeID')}: allocations" for node in nodes if node.get("allocations")]


def _amount(value: object) -> bool:
    """Whether a list has elements or a map of resources a number other than zero."""
    return any(value.values()) if isinstance(value, dict) else bool(value)
