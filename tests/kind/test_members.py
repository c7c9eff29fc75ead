"""A member that cannot run or fails does not affect the others, and its replacement gets its reservation."""

from tests.e2e.manifests import Group, a_gang
from tests.kind.manifests import running, terminated, waiting_reason
from tests.kind.namespace import Namespace

WORKERS = [Group("workers", 3, cpu="100m")]
LIMIT_64_MIB = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
ALLOCATE_1_GIB = "held = bytearray(2**30); held[::4096] = bytes([1]) * len(held[::4096])"


async def test_a_member_without_its_image_waits_and_another_pod_can_replace_it(namespace: Namespace) -> None:
    gang = a_gang("unpulled", WORKERS, style="Hard", timeout_s=60)
    broken = gang[1]
    broken["spec"]["containers"][0]["image"] = "registry.invalid/no/such:image"
    await namespace.create(gang)
    name = broken["metadata"]["name"]

    async def cannot_be_pulled() -> bool:
        pod = await namespace.api.get("pods", name, namespace.name)
        return waiting_reason(pod) in {"ImagePullBackOff", "ErrImagePull"}

    await namespace.eventually("its image cannot be pulled", cannot_be_pulled)
    await namespace.running(2)
    await namespace.api.delete("pods", name, namespace.name)
    (repaired,) = (pod for pod in a_gang("unpulled", WORKERS) if pod["metadata"]["name"] == name)
    repaired["metadata"]["name"] = "repaired"
    await namespace.create([repaired])
    await namespace.running(3)


async def test_only_the_member_over_its_memory_limit_is_killed_and_its_resources_are_free(namespace: Namespace) -> None:
    gang = a_gang("greedy", WORKERS, style="Hard", timeout_s=60)
    members = [running(pod, namespace.kind.image) for pod in gang]
    running(members[0], namespace.kind.image, ALLOCATE_1_GIB, resources=LIMIT_64_MIB)
    await namespace.create(members)
    name = members[0]["metadata"]["name"]

    async def was_killed() -> bool:
        pod = await namespace.api.get("pods", name, namespace.name)
        return pod["status"].get("phase") == "Failed" and terminated(pod).get("reason") == "OOMKilled"

    await namespace.eventually("the kernel killed it", was_killed)
    await namespace.running(2)
    again = running(a_gang("greedy", WORKERS)[0], namespace.kind.image)
    again["metadata"]["name"] = "modest"
    await namespace.create([again])
    await namespace.running(3)
