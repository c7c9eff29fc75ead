"""The key that signs placeholders: rotated, deleted and read again, while a gang that waits keeps its placeholders."""

from __future__ import annotations

import base64

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.muster import NAMESPACE
from devcluster.nodes import FakeNode
from muster_operator.model import names as words
from muster_operator.model.signing import CURRENT, PREVIOUS, SECRET, SigningKeys, Validity, key_id
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scene


async def stored(scene: Scene) -> dict[str, str]:
    """The entries of the Secret; empty while it is not there."""
    try:
        found: dict[str, str] = (await scene.api.get("secrets", SECRET, NAMESPACE)).get("data") or {}
    except ApiError as error:
        if error.status != 404:
            raise
        return {}
    return found


async def restart(scene: Scene) -> None:
    """End the operator and start it again; it is ready once it has recovered."""
    await scene.muster.operator.stop()
    await scene.muster.start()


async def test_a_waiting_gang_keeps_its_placeholders_over_a_rotation_a_deleted_secret_and_restarts(
    open_scene: OpenScene,
) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="4")])
    await scene.create([a_pod("single", cpu="1500m")])
    await scene.all_bound(1)
    await scene.create(a_gang("train", [Group("workers", 3, cpu="1200m")], placement="Reserve"))

    async def reserves() -> list[Json]:
        found = await scene.pods(placeholders=True)
        return found if len(found) == 3 and sum(map(is_bound, found)) == 2 else []

    before = await scene.eventually("the gang reserves what fits", reserves)
    uids = {pod["metadata"]["uid"] for pod in before}
    first = await stored(scene)

    async def rotated() -> bool:
        now = await stored(scene)
        return now.get(PREVIOUS) == first[CURRENT] and now.get(CURRENT) not in {None, first[CURRENT]}

    move = {"data": {CURRENT: None, PREVIOUS: first[CURRENT]}}
    await scene.api.patch("secrets", SECRET, move, NAMESPACE)
    await scene.eventually("a new key is stored", rotated)
    await restart(scene)
    assert {pod["metadata"]["uid"] for pod in await scene.eventually("its own again", reserves)} == uids

    second = await stored(scene)
    await scene.api.delete("secrets", SECRET, NAMESPACE)

    async def is_back() -> bool:
        return await stored(scene) == second

    await scene.eventually("the Secret is there again, with the same keys", is_back)
    await restart(scene)
    assert {pod["metadata"]["uid"] for pod in await scene.eventually("its own again", reserves)} == uids

    await scene.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scene.all_bound(4, 90)
    keys = SigningKeys(NAMESPACE, [base64.b64decode(second[name]) for name in (CURRENT, PREVIOUS)])
    for pod in await scene.bound():
        metadata = pod["metadata"]
        parts = ("binding", metadata["namespace"], metadata["name"], metadata["uid"], pod["spec"]["nodeName"])
        signature = metadata["annotations"][words.ANNOTATION_BINDING_SIGNATURE]
        assert keys.verify(signature, parts) is Validity.VALID, metadata["name"]
        old = metadata["name"] == "single"
        assert signature.split(":")[1] == key_id(base64.b64decode(second[PREVIOUS if old else CURRENT]))


async def test_placeholders_of_a_lost_key_are_counted_reported_and_not_deleted(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="4")])
    await scene.create([a_pod("single", cpu="1500m")])
    await scene.all_bound(1)
    await scene.create(a_gang("train", [Group("workers", 3, cpu="1200m")], placement="Reserve"))

    async def reserves() -> list[Json]:
        found = await scene.pods(placeholders=True)
        return found if len(found) == 3 and sum(map(is_bound, found)) == 2 else []

    before = await scene.eventually("the gang reserves what fits", reserves)
    await scene.muster.operator.stop()
    await scene.api.delete("secrets", SECRET, NAMESPACE)
    await scene.muster.start()
    names = {pod["metadata"]["name"] for pod in before}

    async def reported() -> bool:
        told = await scene.events("TaskRejected")
        return names <= {event["involvedObject"]["name"] for event in told if "signed with a key" in event["message"]}

    await scene.eventually("events on all of them", reported)
    there = {pod["metadata"]["uid"] for pod in await scene.pods(placeholders=True)}
    assert {pod["metadata"]["uid"] for pod in before} <= there
    for name in names:
        await scene.api.delete("pods", name, scene.namespace, grace_s=0)
    await scene.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scene.all_bound(4, 120)
