"""`helm upgrade` and `helm rollback` with gangs: what runs is not touched, what waits keeps its places and runs."""

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


async def test_gangs_live_through_an_upgrade_and_a_rollback(room: Room, release: Release) -> None:
    await room.create(a_gang("runs", [Group("workers", 2, cpu="100m")], style="Hard"))
    running = {pod["metadata"]["uid"] for pod in await room.running(2)}
    before = images(await release.ready())
    each = 50 * (min((await room.kind.free_cpu()).values()) // 100)
    places = sum(left // each for left in (await room.kind.free_cpu()).values())
    await room.create([a_pod("blocker", cpu=f"{each}m")])
    await room.running(3)
    surge = 1  # the next pod of Muster stands beside the old one for a while, and wants room
    members = places - surge
    await room.create(a_gang("waits", [Group("workers", members, cpu=f"{each}m")], style="Hard", timeout_s=600))
    held = {pod["metadata"]["name"] for pod in await room.reserved(members - 1)}

    await release.upgrade(f"image.tag={NEXT}")
    after = images(await release.ready())
    assert before != after == {f"{room.kind.image.rpartition(':')[0]}:{NEXT}"}
    assert {pod["metadata"]["name"] for pod in await room.bound(placeholders=True)} == held

    await room.api.delete("pods", "blocker", room.namespace, grace_s=0)
    found = await room.running(2 + members)
    assert running <= {pod["metadata"]["uid"] for pod in found}
    assert sum(map(restarts, found)) == 0

    await release.rollback()
    assert images(await release.ready()) == before
    assert {pod["metadata"]["uid"] for pod in await room.running(2 + members)} == {
        pod["metadata"]["uid"] for pod in found
    }
