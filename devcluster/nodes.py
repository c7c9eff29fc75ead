"""Fake nodes: their manifests, making many at once, taking them away again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from devcluster.api import Api, Json
from devcluster.kwok import FAKE_ANNOTATION
from devcluster.waiting import until

OURS = ("app.kubernetes.io/managed-by", "muster-devcluster")
"""On everything this tool creates in a cluster that it did not make: what lacks it is never deleted."""

READY_S = 60.0
CONCURRENT = 50
"""Requests in flight; more only queue up in the API server."""


@dataclass(frozen=True, slots=True)
class FakeNode:
    """A node as a scheduler sees it. Sizes are Kubernetes quantities; ``extra`` names other resources."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False

    def manifest(self) -> Json:
        """The Node object, with the status that KWOK keeps."""
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
    """Create the nodes, many at once, and wait until each is Ready and its not-ready taint is gone."""
    wanted = {node.name: node for node in nodes}
    turn = asyncio.Semaphore(CONCURRENT)

    async def create(node: FakeNode) -> None:
        async with turn:
            await api.create(node.manifest())

    await asyncio.gather(*(create(node) for node in wanted.values()))

    async def are_ready() -> bool:
        found = {node["metadata"]["name"]: node for node in await api.find("nodes")}
        return all(name in found and is_ready(found[name]) for name in wanted)

    await until(f"{len(wanted)} nodes are Ready", are_ready, READY_S, every_s=0.1)


async def remove(api: Api, names: Iterable[str]) -> None:
    """Delete the nodes and wait until they are gone."""
    gone = set(names)
    turn = asyncio.Semaphore(CONCURRENT)

    async def delete(name: str) -> None:
        async with turn:
            await api.delete("nodes", name)

    await asyncio.gather(*(delete(name) for name in gone))

    async def none_left() -> bool:
        return gone.isdisjoint({node["metadata"]["name"] for node in await api.find("nodes")})

    await until("the nodes are gone", none_left, READY_S, every_s=0.1)


def is_ready(node: Json) -> bool:
    """Ready by its condition, and open: no taint of the node life cycle left on it."""
    conditions = node["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return ready and "node.kubernetes.io/not-ready" not in taints
