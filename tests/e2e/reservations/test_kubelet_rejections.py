"""A kubelet refuses what was bound to its node, as one does that counts otherwise: the gang keeps its places.

The test writes the status as a kubelet does; fake pods here do not start for an hour.
"""

from __future__ import annotations

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import told
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import Group, a_gang, a_pod, with_annotations
from tests.e2e.scenario import Scene

NOT_YET = {"devcluster.muster/start-after": "1h"}


async def refuse(scene: Scene, pod: Json, reason: str) -> str:
    """The pod's kubelet does not start it; returns the node."""
    status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected: the node has less than was thought"}
    await scene.api.patch("pods", pod["metadata"]["name"], {"status": status}, scene.namespace, subresource="status")
    return str(pod["spec"]["nodeName"])


async def names(scene: Scene, *, placeholders: bool = False) -> set[str]:
    return {pod["metadata"]["name"] for pod in await scene.bound(placeholders=placeholders)}


async def test_a_gang_keeps_the_places_that_kubelets_refuse(open_scene: OpenScene) -> None:
    """First a placeholder, while the gang reserves; then a member, whose place another pod would like to have."""
    nodes = [FakeNode("node-0", cpu="2"), FakeNode("node-1", cpu="1")]
    scene = await open_scene(nodes, queues(resources={"max": {"vcore": "3"}}))
    await scene.occupy("node-0", "1")
    group = Group("workers", 3, extra={"annotations": NOT_YET})
    gang = a_gang("firm", [group], timeout_s=600, queue="root.leaf", placement="Reserve")
    await scene.create(with_annotations(pod, NOT_YET) for pod in gang)

    async def two_places() -> list[Json]:
        found = await scene.bound(placeholders=True)
        return found if len(found) == 2 and len(await scene.pods(placeholders=True)) == 3 else []

    first, _ = await scene.eventually("two placeholders are bound", two_places)
    before = {pod["metadata"]["name"] for pod in await scene.pods(placeholders=True)}
    away = await refuse(scene, first, "OutOfcpu")

    async def is_made_again() -> str:
        made = {pod["metadata"]["name"] for pod in await scene.pods(placeholders=True)}
        return next(iter(made - before)) if len(made) == 3 and first["metadata"]["name"] not in made else ""

    replaced_by = await scene.eventually("another placeholder is made in its stead", is_made_again)
    await told(scene, "firm-workers-0", away, "rejected", first["metadata"]["name"], "OutOfcpu")
    await scene.cluster.add_nodes([FakeNode("node-2", cpu="1"), FakeNode("node-3", cpu="1")])
    members = await scene.all_bound(3)
    placed = {write.name: write.node for write in scene.writes(of_operator=True) if write.subresource == "binding"}
    assert placed[replaced_by] not in {away, ""}

    await scene.create([a_pod("rival", labels={"applicationId": "rival", "queue": "root.leaf"})])
    member = members[0]
    node = await refuse(scene, member, "UnexpectedAdmissionError")
    await told(scene, "firm-workers-0", node, member["metadata"]["name"], "is reserved for 120 s")
    assert "rival" not in await names(scene)
    (again,) = a_gang("firm", [group], timeout_s=600, queue="root.leaf", placement="Reserve")[:1]
    again["metadata"]["name"] = "firm-again"
    await scene.create([with_annotations(again, NOT_YET)])

    async def is_whole() -> bool:
        return "firm-again" in await names(scene)

    await scene.eventually("the gang is whole again", is_whole)
    found = await scene.api.get("pods", "firm-again", scene.namespace)
    assert found["spec"]["nodeName"] != node
    assert "rival" not in await names(scene)
