"""A limit holds one user or group back and nobody else, a count of applications those beyond it."""

from devcluster.nodes import FakeNode
from tests.e2e.conditions import waits_with
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import a_pod, owned
from tests.e2e.scenario import Scene

NODES = [FakeNode("node-0", cpu="8")]
ONE = {"vcore": "1"}


def limited(**limit: object) -> dict[str, str]:
    """A leaf whose one limit this is."""
    return queues(limits=[{"limit": "", "maxresources": ONE, **limit}])


async def submit(scene: Scene, name: str, user: str, *groups: str) -> None:
    labels = {"applicationId": f"of-{user}", "queue": "root.leaf"}
    await scene.create([owned(a_pod(name, labels=labels), user, *groups)])


async def names_bound(scene: Scene) -> set[str]:
    return {pod["metadata"]["name"] for pod in await scene.bound()}


async def test_a_user_at_the_limit_waits_while_another_runs_and_goes_when_there_is_room(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, limited(users=["ann"]))
    await submit(scene, "ann-0", "ann")
    await scene.all_bound(1)
    await submit(scene, "ann-1", "ann")
    await submit(scene, "bob-0", "bob")
    await submit(scene, "bob-1", "bob")
    await waits_with(scene, "ann-1", "SchedulingSkipped", "ann", "root.leaf", "cpu")
    assert await names_bound(scene) == {"ann-0", "bob-0", "bob-1"}
    await scene.api.delete("pods", "ann-0", scene.namespace)
    await scene.all_bound(3)


async def test_a_wildcard_gives_each_user_a_limit_of_its_own(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, limited(users=["*"]))
    for name in ("ann-0", "bob-0", "ann-1"):
        await submit(scene, name, name.split("-")[0])
    await waits_with(scene, "ann-1", "SchedulingSkipped", "ann", "cpu")
    assert await names_bound(scene) == {"ann-0", "bob-0"}


async def test_the_members_of_a_group_share_its_limit(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, limited(groups=["research"]))
    await submit(scene, "ann-0", "ann", "research")
    await scene.all_bound(1)
    await submit(scene, "bob-0", "bob", "research")
    await submit(scene, "eve-0", "eve", "sales")
    await waits_with(scene, "bob-0", "SchedulingSkipped", "research", "cpu")
    assert await names_bound(scene) == {"ann-0", "eve-0"}


async def test_an_application_beyond_the_count_of_its_queue_waits_for_one_to_end(open_scene: OpenScene) -> None:
    """Applications above `maxapplications` wait; they are not rejected."""
    scene = await open_scene(NODES, queues(maxapplications=1))
    first = a_pod("first", labels={"applicationId": "first", "queue": "root.leaf"})
    await scene.create([first])
    await scene.all_bound(1)
    await scene.create([a_pod("second", labels={"applicationId": "second", "queue": "root.leaf"})])
    await waits_with(scene, "second", "SchedulingSkipped", "root.leaf", "1")
    await scene.api.delete("pods", "first", scene.namespace)

    async def second_runs() -> bool:
        return await names_bound(scene) == {"second"}

    await scene.eventually("the second application runs", second_runs)
