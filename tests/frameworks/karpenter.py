"""Karpenter with its KWOK provider: its node pool, the nodes that it creates, and its end.

The nodes are Node objects that our KWOK process keeps Ready.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from devcluster import frameworks, programs
from devcluster.api import Api, Json
from devcluster.cluster import Cluster
from devcluster.frameworks import WAIT_S, ControllerContext, Framework
from devcluster.nodes import FakeNode
from devcluster.waiting import until

CLAIMS, POOLS, CLASSES = "nodeclaims.karpenter.sh", "nodepools.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh"
NAME = "default"

RESERVED_CPU, RESERVED_MI = 100, 10
"""What the KWOK provider subtracts from each instance type: millicores and MiB."""
MEMORY_GI_OF_CPU = 4
SYSTEM = FakeNode("system", cpu="100m")
"""A node that no gang fits on. The cluster starts KWOK with its first own node."""
SIZES = (4,)
"""CPUs of the instance types. Their price is proportional to the CPUs."""


def _instance_type(cpus: int) -> Json:
    requirements = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
    offering = {
        "Price": 0.01 * cpus,
        "Available": True,
        "Requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()],
    }
    return {
        "name": f"c-{cpus}x-amd64-linux",
        "offerings": [offering],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": f"{cpus * 1000 + RESERVED_CPU}m",
            "memory": f"{cpus * MEMORY_GI_OF_CPU * 1024 + RESERVED_MI}Mi",
            "pods": "110",
        },
    }


def _framework(sizes: Sequence[int]) -> Framework:
    def flags(context: ControllerContext) -> list[str]:
        types = context.folder / "instance-types.json"
        types.write_text(json.dumps([_instance_type(cpus) for cpus in sizes]))
        return [
            f"--instance-types-file-path={types}",
            f"--health-probe-port={context.health}",
            f"--metrics-port={context.metrics}",
            "--disable-leader-election=true",
            "--log-level=debug",
        ]

    return Framework(
        program=programs.KARPENTER,
        module="sigs.k8s.io/karpenter",
        account=("karpenter", "karpenter"),
        flags=flags,
        chart="kwok/charts",
        manifests=("kwok/apis/crds",),
        env={"SYSTEM_NAMESPACE": "karpenter"},
    )


@dataclass(slots=True)
class Karpenter:
    """The running Karpenter. `bought`: every NodeClaim since its start by name, also those that are gone.

    `since`, `ready`, `until`: monotonic times at which a NodeClaim was created, was initialized, and was gone.
    """

    api: Api
    bought: dict[str, Json] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)

    async def watch(self) -> None:
        """Record the NodeClaims. Runs until it is cancelled."""
        async for kind, claim in self.api.watch(CLAIMS):
            name, now = claim["metadata"]["name"], time.monotonic()
            self.since.setdefault(name, now)
            if kind == "DELETED":
                self.until[name] = now
                continue
            self.bought[name] = claim
            conditions = claim.get("status", {}).get("conditions", [])
            if any(one["type"] == "Initialized" and one["status"] == "True" for one in conditions):
                self.ready.setdefault(name, now)

    def cpus(self) -> int:
        """The CPUs of all nodes that were bought and have an instance type already."""
        return sum(map(cpus_of, self.bought.values()))

    async def nodes(self) -> list[Json]:
        """The nodes that Karpenter created and is not deleting."""
        found = await self.api.find("nodes", labelSelector="karpenter.sh/nodepool")
        return [node for node in found if "deletionTimestamp" not in node["metadata"]]


def cpus_of(claim: Json) -> int:
    """The CPUs of the instance type of a NodeClaim; 0 if it has none yet."""
    kind: str = claim["metadata"].get("labels", {}).get("node.kubernetes.io/instance-type", "")
    return int(kind.split("-")[1].removesuffix("x")) if kind else 0


@asynccontextmanager
async def running(
    cluster: Cluster,
    namespace: str,
    *,
    sizes: Sequence[int] = SIZES,
    consolidate_after: str = "Never",
    max_cpus: int = 1000,
) -> AsyncIterator[Karpenter]:
    """Run Karpenter with one node pool. At the end the pods of the namespace and Karpenter's nodes are deleted.

    ``max_cpus``: limit for the total CPUs of its nodes.
    """
    async with frameworks.running(cluster, _framework(sizes)):
        api = cluster.admin
        karpenter = Karpenter(api)
        watching = asyncio.create_task(karpenter.watch())
        try:
            await api.apply(
                {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": NAME}}
            )
            await api.apply(_node_pool(consolidate_after, max_cpus))
            yield karpenter
        finally:
            await api.delete(POOLS, NAME)
            await _remove_nodes(api, namespace)
            await api.delete(CLASSES, NAME)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


def _node_pool(consolidate_after: str, max_cpus: int) -> Json:
    template = {
        "spec": {
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NAME},
            "expireAfter": "Never",
        },
    }
    disruption = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": consolidate_after,
        "budgets": [{"nodes": "100%"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": NAME},
        "spec": {"template": template, "disruption": disruption, "limits": {"cpu": str(max_cpus)}},
    }


async def _remove_nodes(api: Api, namespace: str) -> None:
    """Delete the pods and Karpenter's nodes while it runs, because it removes its finalizers."""

    async def are_gone() -> bool:
        await api.delete_all("pods", namespace)
        await api.delete_all(CLAIMS)
        return not await api.find("nodes", labelSelector="karpenter.sh/nodepool") and not await api.find(CLAIMS)

    # Deleting hundreds of pods in one request can exceed its timeout.
    await until("Karpenter's nodes are gone", are_gone, WAIT_S, every_s=0.5, tolerate=(TimeoutError,))
