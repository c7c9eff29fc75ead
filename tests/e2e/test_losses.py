"""Things go while a gang is under way: its first pod, its namespace, a node, a placeholder."""

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scene import Scene

PLACEHOLDER_DELETE = r"/pods/tg-[^/]*$"


async def reserved(scene: Scene, count: int) -> None:
    async def is_so() -> bool:
        return len(await scene.bound(placeholders=True)) == count

    await scene.eventually(f"{count} placeholders are bound", is_so)


async def test_a_first_pod_that_is_deleted_while_reserving_takes_its_placeholders_with_it(
    open_scene: OpenScene,
) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="2500m")])
    await scene.create(a_gang("gone", [Group("workers", 4, real=1)], timeout_s=600))
    await reserved(scene, 2)
    await scene.api.delete("pods", "gone-workers-0", scene.namespace)

    async def nothing_is_left() -> bool:
        return not await scene.pods(placeholders=True) and not await scene.pods()

    await scene.eventually("nothing of the gang is left", nothing_is_left)


async def test_a_deleted_namespace_takes_the_gang_with_it(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="2500m")])
    await scene.create(a_gang("swept", [Group("workers", 4)], timeout_s=600))
    await reserved(scene, 2)
    await scene.api.delete("namespaces", scene.namespace)

    async def is_gone() -> bool:
        names = {namespace["metadata"]["name"] for namespace in await scene.api.find("namespaces")}
        return scene.namespace not in names

    await scene.eventually("the namespace is gone", is_gone)


async def test_a_member_whose_node_goes_during_its_swap_is_scheduled_elsewhere(open_scene: OpenScene) -> None:
    """Semantics 14, the same-node case."""
    scene = await open_scene([FakeNode(f"node-{index}", cpu="1500m") for index in range(3)], gated=True)
    held = scene.gate.hold("DELETE", PLACEHOLDER_DELETE)
    await scene.create(a_gang("moves", [Group("workers", 2)], timeout_s=600))
    await held.reached(2)
    node = (await scene.bound(placeholders=True))[0]["spec"]["nodeName"]
    await scene.cluster.remove_nodes([node])
    held.open()
    for pod in await scene.all_bound(2):
        assert pod["spec"]["nodeName"] != node


async def test_a_placeholder_deleted_by_hand_during_its_swap_counts_as_released(open_scene: OpenScene) -> None:
    """Semantics 14: one that dies by itself counts as confirmed."""
    scene = await open_scene([FakeNode("node-0")], gated=True)
    held = scene.gate.hold("DELETE", PLACEHOLDER_DELETE)
    await scene.create(a_gang("by-hand", [Group("workers", 3)], timeout_s=600))
    await held.reached(1)
    victim = held.seen[0].rpartition("/")[2]
    await scene.api.delete("pods", victim, scene.namespace)

    async def one_member_runs() -> bool:
        return len(await scene.bound()) >= 1

    await scene.eventually("its real pod is bound without our answer", one_member_runs)
    held.open()
    await scene.all_bound(3)


async def test_a_placeholder_deleted_by_hand_while_reserving_does_not_end_the_gang(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="2500m")])
    await scene.create(a_gang("short", [Group("workers", 4)], timeout_s=600))
    await reserved(scene, 2)
    await scene.api.delete("pods", (await scene.bound(placeholders=True))[0]["metadata"]["name"], scene.namespace)
    await scene.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scene.all_bound(4)


async def test_a_bind_whose_answer_is_lost_is_settled_by_reading_the_pod(open_scene: OpenScene) -> None:
    """Semantics 20."""
    scene = await open_scene([FakeNode("node-0")], gated=True)
    lost = scene.gate.lose_answer("POST", r"/binding", times=3)
    await scene.create(a_gang("lost", [Group("workers", 3)], timeout_s=600))
    await lost.reached(3)
    await scene.all_bound(3)


async def test_a_busy_api_server_is_asked_again(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0")], gated=True)
    for method, path, status in [("POST", r"/pods$", 429), ("POST", r"/binding", 500), ("DELETE", r"/pods/tg-", 503)]:
        scene.gate.fail(method, path, status, times=2, retry_after_s=1 if status == 429 else None)
    await scene.create(a_gang("busy", [Group("workers", 3)], timeout_s=600))
    await scene.all_bound(3)
