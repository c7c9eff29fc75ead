"""Operator and core are killed: running pods continue, waiting gangs keep their reservations, later pods run."""

from __future__ import annotations

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.manifests import restarts
from tests.kind.release import NAMESPACE, Release
from tests.kind.room import Room

# The pattern does not match itself in the command line of the shell that looks for it.
KILL_CORE = (
    "for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline | grep -q '[m]uster-core --listen' "
    "&& kill -9 ${one#/proc/} && echo killed; done; true"
)


async def half_reserved(room: Room) -> list[Json]:
    """A gang that would fill all nodes, if the pod `blocker` was not in one of its places; returns its placeholders."""
    places, each = await room.block()
    await room.create(a_gang("firm", [Group("workers", places, cpu=f"{each}m")], style="Hard", timeout_s=600))
    return await room.reserved(places - 1)


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


async def test_a_reserving_gang_keeps_its_placeholders_when_the_operator_pod_is_deleted(
    room: Room, release: Release
) -> None:
    held = await half_reserved(room)
    (old,) = await release.ready()
    await room.api.delete("pods", old["metadata"]["name"], NAMESPACE, grace_s=0)
    (new,) = await release.ready()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    await room.api.delete("pods", "blocker", room.namespace, grace_s=0)
    await room.running(len(held) + 1)
    assert len(room.placeholders) == len(held) + 1, "no placeholder was made twice"


async def test_running_pods_survive_a_core_kill_and_new_pods_run(room: Room, release: Release) -> None:
    await room.create(a_gang("runs", [Group("workers", 3, cpu="100m")], style="Hard"))
    before = await room.running(3)
    (pod,) = await release.ready()
    assert "killed" in await room.kind.in_node(pod["spec"]["nodeName"], "sh", "-c", KILL_CORE)

    async def is_back() -> bool:
        (found,) = await release.ready()
        return found["metadata"]["uid"] == pod["metadata"]["uid"] and restarts(found) > restarts(pod)

    await room.eventually("the kubelet has started the core again", is_back)
    await room.create(a_gang("later", [Group("workers", 2, cpu="100m")], style="Hard"))
    after = await room.running(5)
    assert uids(before) <= uids(after)
    assert sum(map(restarts, after)) == 0
