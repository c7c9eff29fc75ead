"""A node is stopped and started again: new gangs use other nodes meanwhile, and this node afterwards."""

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.e2e.manifests import Group, a_gang
from tests.kind.cluster import Kind, is_ready, output_of
from tests.kind.namespace import Namespace
from tests.kind.release import Release


@pytest_asyncio.fixture(loop_scope="session")
async def other_node(kind: Kind, release: Release) -> AsyncIterator[str]:
    """A node without Muster's pod, which a test may stop. It is started again after the test."""
    (muster,) = await release.ready()
    node = min((await kind.free_cpu()).keys() - {muster["spec"]["nodeName"]})
    yield node
    await output_of("docker", "start", node)
    await is_open(kind, node)


async def test_a_gang_avoids_a_stopped_node_and_uses_it_after_its_return(namespace: Namespace, other_node: str) -> None:
    free = await namespace.free_cpu()
    each = min(free.values()) // 2
    members = sum(cpu // each for node, cpu in free.items() if node != other_node)
    await output_of("docker", "stop", "--time", "5", other_node)
    await namespace.eventually("the node is lost", lambda: is_lost(namespace.kind, other_node))
    await namespace.create(a_gang("first", [Group("workers", members, cpu=f"{each}m")], style="Hard", timeout_s=600))
    found = await namespace.running(members)
    assert other_node not in {pod["spec"]["nodeName"] for pod in found}

    await namespace.create(a_gang("later", [Group("workers", 2, cpu=f"{each}m")], style="Hard", timeout_s=600))
    await output_of("docker", "start", other_node)
    await is_open(namespace.kind, other_node)
    found = await namespace.running(members + 2)
    assert other_node in {pod["spec"]["nodeName"] for pod in found}


async def is_lost(kind: Kind, node: str) -> bool:
    """Whether Kubernetes has added the taint for an unreachable node."""
    taints = (await kind.api.get("nodes", node))["spec"].get("taints", ())
    return any(taint["key"] == "node.kubernetes.io/unreachable" for taint in taints)


async def is_open(kind: Kind, node: str) -> None:
    """Wait until the node is ready and has no taint."""

    async def check() -> bool:
        found = await kind.api.get("nodes", node)
        return is_ready(found) and not found["spec"].get("taints")

    await until(f"{node} is ready", check, 180, every_s=0.5, tolerate=(ApiError,))
