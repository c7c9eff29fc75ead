"""Operator and core are killed: running pods continue, waiting gangs keep their reservations, later pods run."""

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang
from tests.kind.manifests import restarts
from tests.kind.namespace import Namespace
from tests.kind.release import NAMESPACE, Release

# The brackets keep the pattern from matching the command line of this shell.
KILL_CORE = (
    "for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline | grep -q '[m]uster-core --listen' "
    "&& kill -9 ${one#/proc/} && echo killed; done; true"
)


async def half_reserved(namespace: Namespace) -> list[Json]:
    """Create a gang for all nodes while the pod `blocker` occupies one slot. Returns the bound placeholders."""
    slots, each = await namespace.block()
    group = Group("workers", slots, cpu=f"{each}m")
    await namespace.create(a_gang("firm", [group], style="Hard", timeout_s=600, placement="Reserve"))
    return await namespace.reserved(slots - 1)


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


async def test_a_reserving_gang_keeps_its_placeholders_when_the_operator_pod_is_deleted(
    namespace: Namespace, release: Release
) -> None:
    placeholders = await half_reserved(namespace)
    (old,) = await release.ready()
    await namespace.api.delete("pods", old["metadata"]["name"], NAMESPACE, grace_s=0)
    (new,) = await release.ready()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    await namespace.api.delete("pods", "blocker", namespace.name, grace_s=0)
    await namespace.running(len(placeholders) + 1)
    assert len(namespace.placeholders) == len(placeholders) + 1, "no placeholder was created twice"


async def test_running_pods_survive_a_core_kill_and_new_pods_run(namespace: Namespace, release: Release) -> None:
    await namespace.create(a_gang("runs", [Group("workers", 3, cpu="100m")], style="Hard"))
    before = await namespace.running(3)
    (pod,) = await release.ready()
    assert "killed" in await namespace.kind.in_node(pod["spec"]["nodeName"], "sh", "-c", KILL_CORE)

    async def is_back() -> bool:
        (found,) = await release.ready()
        return found["metadata"]["uid"] == pod["metadata"]["uid"] and restarts(found) > restarts(pod)

    await namespace.eventually("the kubelet has started the core again", is_back)
    await namespace.create(a_gang("later", [Group("workers", 2, cpu="100m")], style="Hard"))
    after = await namespace.running(5)
    assert uids(before) <= uids(after)
    assert sum(map(restarts, after)) == 0
