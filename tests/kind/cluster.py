"""The kind cluster that `make e2e-kind` made or was given: its API, its nodes, and the programs that people use."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from devcluster.api import Api, Json


@dataclass(frozen=True, slots=True)
class Kind:
    """``name`` is kind's; ``image`` is Muster's, which is on every node. KUBECONFIG of this process points at it."""

    name: str
    image: str
    api: Api

    async def free_cpu(self) -> dict[str, int]:
        """Millicores that are left on each node to which pods without tolerations may go."""
        nodes = [node for node in await self.api.find("nodes") if _is_open(node)]
        free = {node["metadata"]["name"]: millicores(node["status"]["allocatable"]["cpu"]) for node in nodes}
        for pod in await self.api.find("pods"):
            if pod["spec"].get("nodeName") in free and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                free[pod["spec"]["nodeName"]] -= requested(pod)
        return free

    async def in_node(self, node: str, *command: str) -> str:
        """What a command prints in the container that is the node; what it asks for is in every node image."""
        return await said("docker", "exec", node, *command)


async def said(*command: object) -> str:
    """What a program prints, errors included. AssertionError with it where it fails."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text = (await process.communicate())[0].decode(errors="replace")
    assert process.returncode == 0, f"{' '.join(map(str, command))}\n{text}"
    return text


def is_ready(thing: Json) -> bool:
    """Whether the condition Ready of a node or a pod is true."""
    conditions = thing["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def millicores(quantity: str) -> int:
    """Of a CPU quantity as the API server writes it."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def requested(pod: Json) -> int:
    """Millicores that a pod of app containers asks for."""
    asks = (container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"])
    return sum(millicores(ask.get("cpu", "0")) for ask in asks)


def _is_open(node: Json) -> bool:
    return is_ready(node) and not node["spec"].get("taints") and not node["spec"].get("unschedulable")
