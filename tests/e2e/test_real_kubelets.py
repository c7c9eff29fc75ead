"""Real kubelets and containers: a swap on a node that is full is never refused by its kubelet.

Needs a cluster that has them (``MUSTER_CLUSTER=current`` or ``kind``), with the pause image on its nodes.
"""

from __future__ import annotations

import pytest

from devcluster.api import Json
from devcluster.cluster import Cluster
from tests.e2e.conftest import OpenScene, with_pods
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scene import Scene

#: The pause image runs as root unless told otherwise, and placeholders must not.
AS_NOBODY = {"service.placeholderRunAsUser": "65535"}

pytestmark = pytest.mark.real_kubelets


@pytest.fixture(autouse=True)
def real_kubelets(cluster: Cluster) -> None:
    if cluster.plane is not None:
        pytest.skip("needs real kubelets: run with MUSTER_CLUSTER=current against a cluster that has them")


def millicores(quantity: str) -> int:
    """Of a CPU quantity as the API server writes it."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


def requested(pod: Json) -> int:
    """Millicores that a pod of app containers asks for."""
    asks = (container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"])
    return sum(millicores(ask.get("cpu", "0")) for ask in asks)


async def free_cpu(scene: Scene) -> dict[str, int]:
    """Millicores that are left on each node without taints."""
    nodes = [node for node in await scene.api.find("nodes") if not node["spec"].get("taints")]
    free = {node["metadata"]["name"]: millicores(node["status"]["allocatable"]["cpu"]) for node in nodes}
    for pod in await scene.api.find("pods"):
        if pod["spec"].get("nodeName") in free:
            free[pod["spec"]["nodeName"]] -= requested(pod)
    return free


async def all_running(scene: Scene, count: int) -> list[Json]:
    async def done() -> list[Json]:
        pods = await scene.pods()
        failed = [pod["status"] for pod in pods if pod["status"].get("phase") == "Failed"]
        assert not failed, f"a kubelet refused a pod: {failed}"
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return running if len(running) == count and not await scene.pods(placeholders=True) else []

    return await scene.eventually(f"{count} pods run in real containers", done, 120)


async def test_members_swap_on_full_nodes_without_being_refused(open_scene: OpenScene) -> None:
    """Two members fill each node: there is no room for a real pod before its placeholder is gone."""
    scene = await open_scene(config=AS_NOBODY)
    free = await free_cpu(scene)
    each = min(free.values()) // 2
    members = sum(left // each for left in free.values())
    await scene.create(
        a_gang("full", [Group("workers", members, cpu=f"{each}m")], style="Hard", timeout_s=120, placement=with_pods())
    )
    await all_running(scene, members)
    left = await free_cpu(scene)
    assert all(0 <= cpu < each for cpu in left.values()), f"the nodes are full: {left}"


async def test_a_gang_of_two_groups_runs_in_real_containers(open_scene: OpenScene) -> None:
    scene = await open_scene(config=AS_NOBODY)
    groups = [Group("driver", 1, cpu="50m"), Group("executors", 3, cpu="100m")]
    await scene.create(a_gang("spark", groups))
    await all_running(scene, 4)


async def test_soft_goes_on_without_a_gang_where_the_nodes_cannot_hold_it(open_scene: OpenScene) -> None:
    scene = await open_scene(config=AS_NOBODY)
    groups = [Group("workers", 200, cpu="500m", real=2)]
    await scene.create(a_gang("large", groups, style="Soft", timeout_s=5, placement="Reserve"))
    await all_running(scene, 2)
