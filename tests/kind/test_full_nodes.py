"""Full nodes: a real pod fits only once its placeholder is gone, and the kubelet counts by itself."""

from __future__ import annotations

import asyncio
import statistics
import time

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang, a_member
from tests.kind.conftest import NOTES
from tests.kind.release import Release
from tests.kind.room import Room

SWAPS, MEMBERS_A_NODE = 200, 10


def a_job(name: str, group: Group) -> Json:
    """A Job whose pods are the gang; a pod that fails stays and is counted."""
    pod = a_member(name, group.name, name, [group], "gangSchedulingStyle=Hard")
    metadata = {"labels": pod["metadata"]["labels"], "annotations": pod["metadata"]["annotations"]}
    template = {"metadata": metadata, "spec": pod["spec"]}
    spec = {"parallelism": group.members, "completions": group.members, "backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def filling(room: Room, app: str, **more: object) -> tuple[list[Json], int]:
    """A gang that fills all nodes, two members or more on each, and the millicores of one."""
    free = await room.free_cpu()
    each = min(free.values()) // 2
    members = sum(left // each for left in free.values())
    group = Group("workers", members, cpu=f"{each}m")
    return a_gang(app, [group], style="Hard", timeout_s=120, **more), each  # type: ignore[arg-type]  # the rest of a_gang's


async def test_members_replace_placeholders_on_full_nodes_without_rejection(room: Room) -> None:
    gang, each = await filling(room, "full")
    await room.create(gang)
    await room.running(len(gang))
    left = await room.kind.free_cpu()
    assert all(0 <= cpu < each for cpu in left.values()), f"the nodes are full: {left}"
    assert len(room.placeholders) == len(gang)
    assert room.refused == set()


async def test_two_hundred_replacements_of_jobs_on_full_nodes_fail_no_pod(room: Room) -> None:
    """Each member starts on a full node, in the room of a placeholder whose container has ended."""
    swaps, rounds_s = 0, []

    async def have_ended() -> bool:
        return room.placeholders == room.ended

    while swaps < SWAPS:
        free = await room.free_cpu()
        each = min(free.values()) // MEMBERS_A_NODE
        count = sum(left // each for left in free.values())
        job = a_job(f"round-{swaps}", Group("workers", count, cpu=f"{each}m"))
        began = time.monotonic()
        await room.api.create(job, room.namespace)
        await room.running(count)
        rounds_s.append(time.monotonic() - began)
        found = await room.api.get("jobs", job["metadata"]["name"], room.namespace)
        assert found["status"].get("failed", 0) == 0, await room.report()
        swaps += count
        await room.empty()
    assert room.refused == set()
    await room.eventually("the watch has the end of each placeholder's container", have_ended)
    NOTES.append(
        f"{swaps} swaps on full nodes: rounds of {swaps // len(rounds_s)} members from creation to running,"
        f" median {statistics.median(rounds_s):.1f} s, longest {max(rounds_s):.1f} s"
    )


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


async def test_a_second_replica_on_full_nodes_preempts_no_more_pods_than_needed(room: Room, release: Release) -> None:
    """kube-scheduler preempts for it; the room must not go to the members that wait for room like it."""
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
