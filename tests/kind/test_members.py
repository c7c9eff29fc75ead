"""A member that cannot run or fails does not affect the others, and its replacement gets its reservation."""

from __future__ import annotations

from tests.e2e.manifests import Group, a_gang
from tests.kind.manifests import ended, running, waits_for
from tests.kind.room import Room

WORKERS = [Group("workers", 3, cpu="100m")]
LESS_THAN_IT_WANTS = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
WANTS_A_GIB = "held = bytearray(2**30); held[::4096] = bytes([1]) * len(held[::4096])"


async def test_a_member_without_its_image_waits_and_another_pod_can_replace_it(room: Room) -> None:
    gang = a_gang("unpulled", WORKERS, style="Hard", timeout_s=60)
    broken = gang[1]
    broken["spec"]["containers"][0]["image"] = "registry.invalid/no/such:image"
    await room.create(gang)
    name = broken["metadata"]["name"]

    async def cannot_be_pulled() -> bool:
        pod = await room.api.get("pods", name, room.namespace)
        return waits_for(pod) in {"ImagePullBackOff", "ErrImagePull"}

    await room.eventually("its image cannot be pulled", cannot_be_pulled)
    await room.running(2)
    await room.api.delete("pods", name, room.namespace)
    (repaired,) = (pod for pod in a_gang("unpulled", WORKERS) if pod["metadata"]["name"] == name)
    repaired["metadata"]["name"] = "repaired"
    await room.create([repaired])
    await room.running(3)


async def test_only_the_member_over_its_memory_limit_is_killed_and_its_resources_are_free(room: Room) -> None:
    gang = a_gang("greedy", WORKERS, style="Hard", timeout_s=60)
    members = [running(pod, room.kind.image) for pod in gang]
    running(members[0], room.kind.image, WANTS_A_GIB, resources=LESS_THAN_IT_WANTS)
    await room.create(members)
    name = members[0]["metadata"]["name"]

    async def was_killed() -> bool:
        pod = await room.api.get("pods", name, room.namespace)
        return pod["status"].get("phase") == "Failed" and ended(pod).get("reason") == "OOMKilled"

    await room.eventually("the kernel killed it", was_killed)
    await room.running(2)
    again = running(a_gang("greedy", WORKERS)[0], room.kind.image)
    again["metadata"]["name"] = "modest"
    await room.create([again])
    await room.running(3)
