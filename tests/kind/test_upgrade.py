"""`helm upgrade` and `helm rollback` with gangs: running pods stay, waiting gangs keep their reservations and run."""

from __future__ import annotations

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.kind.manifests import restarts
from tests.kind.release import Release
from tests.kind.room import Room

NEXT = "next"
"""A tag of the same image that `make e2e-kind` brings to the nodes too."""


def images(pods: list[Json]) -> set[str]:
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


async def reserving(room: Room, node: str) -> set[str]:
    """A gang of two that both go to that node, where a pod `blocker` is in the place of one; returns who holds."""
    each = (await room.free_cpu())[node] // 2
    there = {"nodeSelector": {"kubernetes.io/hostname": node}}
    gang = a_gang("waits", [Group("workers", 2, cpu=f"{each}m", extra=there)], style="Hard", timeout_s=600)
    for pod in (blocker := a_pod("blocker", cpu=f"{each}m"), *gang):
        pod["spec"] |= there
    await room.create([blocker])
    await room.running(3)
    await room.create(gang)
    return {pod["metadata"]["name"] for pod in await room.reserved(1)}


async def test_gangs_survive_an_upgrade_and_a_rollback(room: Room, release: Release) -> None:
    await room.create(a_gang("runs", [Group("workers", 2, cpu="100m")], style="Hard"))
    running = {pod["metadata"]["uid"] for pod in await room.running(2)}
    (muster,) = old = await release.ready()
    before = images(old)
    # The next pod of Muster stands beside the old one for a while, and finds its room there.
    held = await reserving(room, min((await room.free_cpu()).keys() - {muster["spec"]["nodeName"]}))

    await release.upgrade(f"image.tag={NEXT}")
    after = images(await release.ready())
    assert before != after == {f"{room.kind.image.rpartition(':')[0]}:{NEXT}"}
    assert {pod["metadata"]["name"] for pod in await room.bound(placeholders=True)} == held

    await room.api.delete("pods", "blocker", room.namespace, grace_s=0)
    found = await room.running(4)
    assert running <= {pod["metadata"]["uid"] for pod in found}
    assert sum(map(restarts, found)) == 0

    await release.rollback()
    assert images(await release.ready()) == before
    assert {pod["metadata"]["uid"] for pod in await room.running(4)} == {pod["metadata"]["uid"] for pod in found}
