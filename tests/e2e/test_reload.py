"""A changed ConfigMap is in force a moment later; one that is wrong changes nothing and says so (contract 3)."""

from collections.abc import Mapping

from devcluster.nodes import FakeNode
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import a_pod
from tests.e2e.scene import Scene

NODES = [FakeNode("node-0", cpu="8")]


async def push(scene: Scene, data: Mapping[str, str]) -> None:
    """Change entries of the ConfigMap."""
    await scene.api.patch("configmaps", "muster-configs", {"data": dict(data)}, scene.muster.setup.namespace)


async def test_a_second_configuration_counts_from_when_it_is_pushed(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, queues(resources={"max": {"vcore": "1"}}))
    labels = {"applicationId": "grows", "queue": "root.leaf"}
    await scene.create([a_pod("first", labels=labels), a_pod("second", labels=labels)])
    await scene.all_bound(1)
    await push(scene, queues(resources={"max": {"vcore": "4"}}))
    await scene.all_bound(2)


async def test_an_unreadable_configuration_leaves_the_old_one_in_force(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, queues(resources={"max": {"vcore": "2"}}))
    await push(scene, {"queues.yaml": "partitions: [{name: default, quues: []}]"})
    labels = {"applicationId": "old", "queue": "root.leaf"}
    await scene.create(a_pod(f"single-{index}", labels=labels) for index in range(3))
    await scene.all_bound(2)

    async def is_told_on_the_config_map() -> bool:
        found = await scene.api.find("events", scene.muster.setup.namespace)
        about = [event for event in found if event["involvedObject"]["name"] == "muster-configs"]
        return any("quues" in event["message"] and "stays in force" in event["message"] for event in about)

    await scene.eventually("a Warning on the ConfigMap names the field", is_told_on_the_config_map, 20)
