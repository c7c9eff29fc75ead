"""A node is stopped and started again: gangs that arrive meanwhile run on other nodes, and later there too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.errors import ApiError
from devcluster.waiting import until
from tests.e2e.manifests import Group, a_gang
from tests.kind.cluster import Kind, is_ready, said
from tests.kind.release import Release
from tests.kind.room import Room


@pytest_asyncio.fixture(loop_scope="session")
async def away(kind: Kind, release: Release) -> AsyncIterator[str]:
    """A worker without Muster's pod, which may be stopped; afterwards it runs."""
    (muster,) = await release.ready()
    node = min((await kind.free_cpu()).keys() - {muster["spec"]["nodeName"]})
    yield node
    await said("docker", "start", node)
    await is_open(kind, node)


async def test_a_gang_avoids_a_stopped_node_and_uses_it_after_its_return(room: Room, away: str) -> None:
    free = await room.free_cpu()
    each = min(free.values()) // 2
    left = sum(cpu // each for node, cpu in free.items() if node != away)
    await said("docker", "stop", "--time", "5", away)
    await room.eventually("the node is lost", lambda: is_lost(room.kind, away))
    await room.create(a_gang("beside", [Group("workers", left, cpu=f"{each}m")], style="Hard", timeout_s=600))
    found = await room.running(left)
    assert away not in {pod["spec"]["nodeName"] for pod in found}

    await room.create(a_gang("later", [Group("workers", 2, cpu=f"{each}m")], style="Hard", timeout_s=600))
    await said("docker", "start", away)
    await is_open(room.kind, away)
    found = await room.running(left + 2)
    assert away in {pod["spec"]["nodeName"] for pod in found}


async def is_lost(kind: Kind, node: str) -> bool:
    """Whether Kubernetes has noticed: nothing goes to a node with that taint."""
    taints = (await kind.api.get("nodes", node))["spec"].get("taints", ())
    return any(taint["key"] == "node.kubernetes.io/unreachable" for taint in taints)


async def is_open(kind: Kind, node: str) -> None:
    """Wait until the node is ready and has no taint."""

    async def check() -> bool:
        found = await kind.api.get("nodes", node)
        return is_ready(found) and not found["spec"].get("taints")

    await until(f"{node} is ready", check, 180, every_s=0.5, tolerate=(ApiError,))
