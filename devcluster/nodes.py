"""Creates and deletes fake nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from devcluster.api import Api, Json
from devcluster.kwok import FAKE_ANNOTATION
from devcluster.waiting import until

OURS = ("app.kubernetes.io/managed-by", "muster-devcluster")
"""Label of all objects that devcluster creates in a foreign cluster. Objects without it are never deleted."""

READY_S = 60.0
CONCURRENT = 50
"""Requests in flight. More would only queue in the API server."""


@dataclass(frozen=True, slots=True)
class FakeNode:
    """The allocatable resources, labels and taints of a node. Values are Kubernetes quantities; ``extra`` has other
    resources."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False

    def manifest(self) -> Json:
        """Return the Node object. KWOK maintains its status."""
        amounts = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, **self.extra}
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", **self.labels, OURS[0]: OURS[1]}
        spec: Json = {"taints": [dict(taint) for taint in self.taints]} if self.taints else {}
        if self.unschedulable:
            spec["unschedulable"] = True
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": dict([FAKE_ANNOTATION])},
            "spec": spec,
            "status": {"allocatable": amounts, "capacity": amounts},
        }


async def add(api: Api, nodes: Iterable[FakeNode]) -> None:
    """Create the nodes concurrently and wait until each is Ready without the not-ready taint."""
    by_name = {node.name: node for node in nodes}
    semaphore = asyncio.Semaphore(CONCURRENT)

    async def create(node: FakeNode) -> None:
        async with semaphore:
            await api.create(node.manifest())

    await asyncio.gather(*(create(node) for node in by_name.values()))

    async def are_ready() -> bool:
        found = {node["metadata"]["name"]: node for node in await api.find("nodes")}
        return all(name in found and is_ready(found[name]) for name in by_name)

    await until(f"{len(by_name)} nodes are Ready", are_ready, READY_S, every_s=0.1)


async def remove(api: Api, names: Iterable[str]) -> None:
    """Delete the nodes and wait until they no longer exist."""
    removed = set(names)
    semaphore = asyncio.Semaphore(CONCURRENT)

    async def delete(name: str) -> None:
        async with semaphore:
            await api.delete("nodes", name)

    await asyncio.gather(*(delete(name) for name in removed))

    async def none_left() -> bool:
        return removed.isdisjoint({node["metadata"]["name"] for node in await api.find("nodes")})

    await until("the nodes are deleted", none_left, READY_S, every_s=0.1)


def is_ready(node: Json) -> bool:
    """Whether the node has the condition Ready and no taint of the node lifecycle controller."""
    conditions = node["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return ready and "node.kubernetes.io/not-ready" not in taints
