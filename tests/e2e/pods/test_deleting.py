"""A pod is deleted at each step of its bind: its room is free at once, and the next pod of its name gets it."""

from __future__ import annotations

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import a_pod, is_bound
from tests.e2e.scenario import Scene

BINDING = r"/pods/{}/binding"


def whole(name: str) -> Json:
    """A pod as large as its node: the next one fits only if nothing is left of this one."""
    pod = a_pod(name, cpu="4", labels={"applicationId": "one-at-a-time"})
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    return pod


async def is_placed(scene: Scene, name: str) -> None:
    async def has_node() -> bool:
        return is_bound(await scene.api.get("pods", name, scene.namespace))

    await scene.eventually(f"{name} has a node", has_node)


async def delete(scene: Scene, name: str) -> None:
    await scene.api.delete("pods", name, scene.namespace, grace_s=0)

    async def is_gone() -> bool:
        return not [pod for pod in await scene.pods() if pod["metadata"]["name"] == name]

    await scene.eventually(f"{name} is gone", is_gone)


async def test_a_pod_deleted_at_any_step_of_its_bind_leaves_its_room_to_the_next(open_scene: OpenScene) -> None:
    """While it waits, after the decision, after the bind whose answer is lost, and when it runs; of one name."""
    scene = await open_scene([FakeNode("node-0", cpu="4")], gated=True)
    await scene.create([whole("first"), whole("waits")])
    await is_placed(scene, "first")
    await delete(scene, "waits")
    await delete(scene, "first")

    held = scene.gate.hold("POST", BINDING.format("decided"))
    await scene.create([whole("decided")])
    await held.reached(1)
    await delete(scene, "decided")
    await scene.create([whole("decided")])  # the bind that is held names the UID of the one that is gone
    held.open()
    scene.gate.clear()
    await is_placed(scene, "decided")
    await delete(scene, "decided")

    lost = scene.gate.lose_answer("POST", BINDING.format("unanswered"), times=1)
    await scene.create([whole("unanswered")])
    await lost.reached(1)
    await delete(scene, "unanswered")
    await scene.create([whole("unanswered")])
    await is_placed(scene, "unanswered")
    warnings = {event["reason"] for event in await scene.events() if event["type"] == "Warning"}
    assert warnings <= {"FailedScheduling"}, "a pod may wait for the room of the one before it"
