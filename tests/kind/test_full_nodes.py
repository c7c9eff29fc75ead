"""Full nodes: a real pod has room only once its placeholder is gone, and its kubelet counts for itself."""

from __future__ import annotations

import asyncio

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.release import Release
from tests.kind.room import Room


async def filling(room: Room, app: str, **more: object) -> tuple[list[Json], int]:
    """A gang that fills all nodes, two members or more on each, and the millicores of one."""
    free = await room.kind.free_cpu()
    each = min(free.values()) // 2
    members = sum(left // each for left in free.values())
    group = Group("workers", members, cpu=f"{each}m")
    return a_gang(app, [group], style="Hard", timeout_s=120, **more), each  # type: ignore[arg-type]  # the rest of a_gang's


async def test_members_swap_on_full_nodes_without_being_refused(room: Room) -> None:
    gang, each = await filling(room, "full")
    await room.create(gang)
    await room.running(len(gang))
    left = await room.kind.free_cpu()
    assert all(0 <= cpu < each for cpu in left.values()), f"the nodes are full: {left}"
    assert len(room.placeholders) == len(gang)
    assert room.refused == set()


async def test_two_gangs_that_both_fill_the_nodes_run_one_after_the_other(room: Room) -> None:
    gang, _ = await filling(room, "first")
    second, _ = await filling(room, "second")
    await room.create(gang)
    await room.running(len(gang))
    await room.create(second)
    await room.eventually("the second gang waits", lambda: waits(room, "second"))
    await asyncio.gather(*[room.api.delete("pods", pod["metadata"]["name"], room.namespace) for pod in gang])
    found = await room.running(len(second))
    assert {pod["metadata"]["labels"]["applicationId"] for pod in found} == {"second"}
    assert room.refused == set()


async def test_a_second_replica_comes_on_full_nodes_and_costs_no_more_pods_than_its_room(
    room: Room, release: Release
) -> None:
    """kube-scheduler preempts for it; the room must not go to the members that wait for room like it (semantics 7)."""
    gang, _ = await filling(room, "runs")
    waiting, _ = await filling(room, "waits")
    await room.create(gang)
    await room.running(len(gang))
    await room.create(waiting)
    await room.eventually("another gang waits", lambda: waits(room, "waits"))
    try:
        await release.upgrade("replicas=2")
        await release.ready(2)
        lost = len(gang) - len(
            [pod for pod in await room.bound() if pod["metadata"]["labels"]["applicationId"] == "runs"]
        )
        assert lost <= 2, await room.report()
    finally:
        await release.upgrade("replicas=1")
        await release.ready(1)


async def waits(room: Room, app: str) -> bool:
    """Whether its members are there, and none has a node."""
    found = [pod for pod in await room.pods() if pod["metadata"]["labels"]["applicationId"] == app]
    return bool(found) and not any(pod["spec"].get("nodeName") for pod in found)
