"""The API server hesitates, forgets, loses answers or restarts in the middle of a gang."""

from devcluster.nodes import FakeNode
from tests.e2e.conditions import told
from tests.e2e.conftest import OpenScene, with_pods
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scene

LONG_S = 600


async def reserved(scene: Scene, count: int) -> None:
    async def is_so() -> bool:
        return len(await scene.bound(placeholders=True)) == count

    await scene.eventually(f"{count} placeholders are bound", is_so)


async def test_a_gang_goes_on_when_the_api_server_restarts_while_it_reserves(open_scene: OpenScene) -> None:
    """Every watch breaks, and the operator's writes meet a closed port."""
    scene = await open_scene([FakeNode("node-0", cpu="4500m")])
    await scene.occupy("node-0", "2")
    await scene.create(a_gang("patient", [Group("workers", 4)], timeout_s=LONG_S, placement="Reserve"))
    await reserved(scene, 2)
    await scene.cluster.restart_apiserver()
    await scene.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scene.all_bound(4)


async def test_a_gang_goes_on_when_the_api_server_restarts_during_its_swaps(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0")], gated=True)
    held = scene.gate.hold("DELETE", r"/pods/tg-")
    await scene.create(a_gang("patient", [Group("workers", 4)], timeout_s=LONG_S, placement=with_pods()))
    await held.reached(4)
    await scene.cluster.restart_apiserver()
    held.open()
    await scene.all_bound(4)


async def test_deletes_that_no_watch_told_are_found_by_the_list_after_410(open_scene: OpenScene) -> None:
    """After 410 Gone nothing says what vanished: room of a pod, and a placeholder that was told to go."""
    scene = await open_scene([FakeNode("node-0", cpu="4500m")], gated=True)
    await scene.create([a_pod("holds-room", cpu="2")])
    await scene.all_bound(1)
    held = scene.gate.hold("DELETE", r"/pods/tg-")
    await scene.create(a_gang("waits", [Group("workers", 2)], timeout_s=LONG_S, placement=with_pods()))
    await held.reached(2)
    await scene.create([a_pod("wants-room", cpu="2")])
    scene.gate.freeze_watches()
    for placeholder in await scene.pods(placeholders=True):
        await scene.api.delete("pods", placeholder["metadata"]["name"], scene.namespace)
    await scene.api.delete("pods", "holds-room", scene.namespace, grace_s=0)
    scene.gate.expire_watches()

    async def all_have_nodes() -> bool:
        names = {pod["metadata"]["name"] for pod in await scene.bound()}
        return names == {"waits-workers-0", "waits-workers-1", "wants-room"}

    await scene.eventually("the gang and the waiting pod have their places", all_have_nodes)


async def test_a_bind_whose_answer_is_lost_is_settled_by_reading_the_pod(open_scene: OpenScene) -> None:
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


async def test_a_bind_that_is_refused_for_good_is_told_and_tried_on_another_node(open_scene: OpenScene) -> None:
    """The ask keeps its key, the gang its place."""
    scene = await open_scene([FakeNode("node-0"), FakeNode("node-1")], gated=True)
    refusal = scene.gate.fail("POST", r"/pods/single/binding", 422)
    scene.gate.fail("POST", r"/pods/tg-[^/]*/binding", 422)
    await scene.create([a_pod("single"), *a_gang("keeps", [Group("workers", 2)], timeout_s=LONG_S)])
    await scene.all_bound(3)
    assert len(refusal.seen) == 1
    await told(scene, "single", "binding to node node-")
    assert all("binding to node node-" in event["message"] for event in await scene.events("PodBindFailure"))
