"""Namespaces that come late, go with all they hold, and come again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import PREFIX, Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scene

NODES = [FakeNode("node-0", cpu="3")]
#: All that events say of a gang of which one placeholder has no room: its progress is one event, which was
#: `CreatingPlaceholders` before. `GangScheduling` is about gangs that are larger than the cluster, for which nothing is
#: reserved; this one is not.
TOLD = {"PlaceholderAllocated"}


async def make(scene: Scene, name: str, cpu: str) -> None:
    """A namespace with this quota, in which pods can be made."""
    annotations = {f"{PREFIX}namespace.quota": json.dumps({"cpu": cpu})}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}
    await scene.api.create(manifest)

    async def has_account() -> bool:
        return bool(await scene.api.get("serviceaccounts", "default", name))

    await scene.eventually("the default service account", has_account, 20)


async def take_away(scene: Scene, name: str) -> None:
    await scene.api.delete("namespaces", name)

    async def is_gone() -> bool:
        return name not in {found["metadata"]["name"] for found in await scene.api.find("namespaces")}

    await scene.eventually(f"namespace {name} is gone", is_gone)


@asynccontextmanager
async def namespace(scene: Scene, name: str, cpu: str) -> AsyncIterator[str]:
    """A namespace that is told to go again, after its pods."""
    await make(scene, name, cpu)
    try:
        yield name
    finally:
        await scene.api.delete_all("pods", name)
        await scene.api.delete("namespaces", name)


async def bound(scene: Scene, name: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in await scene.api.find("pods", name) if is_bound(pod)}


async def held_back_at(scene: Scene, name: str, pod: str, words: str) -> None:
    async def is_so() -> bool:
        found = scheduled(await scene.api.get("pods", pod, name))
        return found.get("reason") == "SchedulingSkipped" and words in found["message"]

    await scene.eventually(f"{pod} is held back: {words}", is_so, 20)


def pods(count: int, app: str) -> list[Json]:
    return [a_pod(f"{app}-{index}", labels={"applicationId": app}) for index in range(count)]


async def test_pods_that_are_seen_before_their_namespace_wait_for_its_quota(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, gated=True)
    scene.gate.freeze_watches()
    held = scene.gate.hold("GET", "^/api/v1/namespaces$")
    scene.gate.expire_watches()
    async with namespace(scene, "late", "1"):
        await held.reached()
        for pod in pods(2, "job"):
            await scene.api.create(pod, "late")
        await scene.create([a_pod("behind")])  # told on the same stream, behind those that wait
        await scene.all_bound(1)
        assert await bound(scene, "late") == set()
        held.open()
        await held_back_at(scene, "late", "job-1", "Queue quota exceeded: root.late, requested cpu 1, available 0 of 1")
        assert await bound(scene, "late") == {"job-0"}


async def test_a_namespace_takes_a_waiting_gang_with_it_and_one_of_its_name_begins_anew(
    open_scene: OpenScene,
) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="4")])
    await scene.create([a_pod("occupies")])
    await scene.all_bound(1)
    await make(scene, "again", "4")
    for pod in a_gang("gang", [Group("workers", 4)], timeout_s=600, placement="Reserve"):
        await scene.api.create(pod, "again")

    async def is_reserving() -> bool:
        told = {event["action"] for event in await scene.api.find("events", "again")}
        return told >= TOLD and sum(map(is_bound, await scene.api.find("pods", "again"))) == 3

    await scene.eventually("three of four placeholders are bound, and all is told that there is to tell", is_reserving)
    await take_away(scene, "again")
    writes = scene.writes(of_operator=True)
    made = [write for write in writes if write.what == "create pods"]
    assert len(made) <= 2 * 4, "what the namespace takes away is not made again and again"
    assert not [write for write in writes if write.resource == "events" and not write.succeeded]
    async with namespace(scene, "again", "2"):
        for pod in pods(3, "gang"):
            await scene.api.create(pod, "again")
        await held_back_at(
            scene, "again", "gang-2", "Queue quota exceeded: root.again, requested cpu 1, available 0 of 2"
        )
        assert await bound(scene, "again") == {"gang-0", "gang-1"}
