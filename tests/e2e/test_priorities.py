"""What has the higher priority goes first: pods, applications, queues with an offset."""

from collections.abc import AsyncIterator

import pytest_asyncio

from devcluster.cluster import Cluster
from devcluster.nodes import FakeNode
from tests.e2e.configuration import a_queue, queue_file, queues
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import a_pod
from tests.e2e.priority_classes import make_class
from tests.e2e.scenario import Scene

ROOM_FOR_ONE = [FakeNode("node-0", cpu="1")]
CLASSES = {"low": -10, "high": 1000}


@pytest_asyncio.fixture(loop_scope="session")
async def classes(cluster: Cluster) -> AsyncIterator[None]:
    for name, value in CLASSES.items():
        await make_class(cluster.admin, name, value)
    yield
    for name in CLASSES:
        await cluster.admin.delete("priorityclasses", name)


async def wait_behind(scene: Scene, queue: str, *pods: tuple[str, str, str]) -> None:
    """A pod takes the only place; then these (name, queue, priority class) wait, created in this order."""
    await scene.create([a_pod("holder", labels={"applicationId": "holder", "queue": queue})])
    await scene.all_bound(1)
    for name, its_queue, priority in pods:
        pod = a_pod(name, labels={"applicationId": f"app-{name}", "queue": its_queue})
        await scene.create([{**pod, "spec": {**pod["spec"], **({"priorityClassName": priority} if priority else {})}}])

    async def all_wait() -> bool:
        return bool((await scene.muster.dump())["ledgers"]["asks"] == len(pods))

    await scene.eventually("all are asked for", all_wait)


async def go_in_turn(scene: Scene, *names: str) -> None:
    """One after the other ends, and exactly the next one of these gets the place."""
    running = "holder"
    for name in names:
        await scene.api.delete("pods", running, scene.namespace)
        [pod] = await scene.all_bound(1)
        assert pod["metadata"]["name"] == name
        running = name


async def test_applications_of_a_leaf_go_by_priority_and_equal_ones_by_age(
    open_scene: OpenScene, classes: None
) -> None:
    scene = await open_scene(ROOM_FOR_ONE, queues())
    leaf = "root.leaf"
    waiting = [("last", leaf, "low"), ("older", leaf, ""), ("younger", leaf, ""), ("first", leaf, "high")]
    await wait_behind(scene, leaf, *waiting)
    await go_in_turn(scene, "first", "older", "younger", "last")


async def test_a_queue_with_an_offset_goes_before_the_others(open_scene: OpenScene, classes: None) -> None:
    ahead = a_queue("ahead", properties={"priority.offset": "2000"})
    scene = await open_scene(ROOM_FOR_ONE, queue_file(a_queue("plain"), ahead))
    await wait_behind(scene, "root.plain", ("important", "root.plain", "high"), ("ours", "root.ahead", "low"))
    await go_in_turn(scene, "ours", "important")


async def test_a_fenced_queue_keeps_its_priorities_to_itself(open_scene: OpenScene, classes: None) -> None:
    fenced = a_queue("fenced", properties={"priority.policy": "fence", "priority.offset": "-1"})
    scene = await open_scene(ROOM_FOR_ONE, queue_file(a_queue("plain"), fenced))
    await wait_behind(
        scene, "root.plain", ("low", "root.fenced", "low"), ("high", "root.fenced", "high"), ("other", "root.plain", "")
    )
    await go_in_turn(scene, "other", "high", "low")
