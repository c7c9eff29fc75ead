"""The kind cluster that `make e2e-kind` created or was given: its API, its nodes, and the command-line programs."""

import asyncio
from dataclasses import dataclass

from devcluster.api import Api, Json


@dataclass(frozen=True, slots=True)
class Kind:
    """``name``: the name in kind; ``image``: Muster's image, loaded on every node. KUBECONFIG selects the cluster."""

    name: str
    image: str
    api: Api

    async def free_cpu(self) -> dict[str, int]:
        """Return the unrequested millicores of each node that accepts pods without tolerations."""
        nodes = [node for node in await self.api.find("nodes") if _is_open(node)]
        free = {node["metadata"]["name"]: millicores(node["status"]["allocatable"]["cpu"]) for node in nodes}
        for pod in await self.api.find("pods"):
            if pod["spec"].get("nodeName") in free and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                free[pod["spec"]["nodeName"]] -= requested(pod)
        return free

    async def in_node(self, node: str, *command: str) -> str:
        """Return the output of a command in the node's container. The command must exist in every node image."""
        return await output_of("docker", "exec", node, *command)


async def output_of(*command: object) -> str:
    """Return the output of a program, standard error included. A failure raises AssertionError with the output."""
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
    """Convert a CPU quantity as the API server writes it."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def requested(pod: Json) -> int:
    """Return the millicores that the app containers of a pod request."""
    requests = (container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"])
    return sum(millicores(request.get("cpu", "0")) for request in requests)


def _is_open(node: Json) -> bool:
    return is_ready(node) and not node["spec"].get("taints") and not node["spec"].get("unschedulable")
