"""`helm upgrade` and `helm rollback` with gangs: running pods stay, waiting gangs keep their reservations and run."""

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.kind.manifests import restarts
from tests.kind.namespace import Namespace
from tests.kind.release import Release

NEXT = "next"
"""A second tag of the image, which `make e2e-kind` also loads on the nodes."""


def images(pods: list[Json]) -> set[str]:
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


async def reserving(namespace: Namespace, node: str) -> set[str]:
    """Create a gang of two for this node, where the pod `blocker` occupies one slot. Returns the placeholder names."""
    each = (await namespace.free_cpu())[node] // 2
    on_node = {"nodeSelector": {"kubernetes.io/hostname": node}}
    group = Group("workers", 2, cpu=f"{each}m", extra=on_node)
    gang = a_gang("waits", [group], style="Hard", timeout_s=600, placement="Reserve")
    for pod in (blocker := a_pod("blocker", cpu=f"{each}m"), *gang):
        pod["spec"] |= on_node
    await namespace.create([blocker])
    await namespace.running(3)
    await namespace.create(gang)
    return {pod["metadata"]["name"] for pod in await namespace.reserved(1)}


async def test_gangs_survive_an_upgrade_and_a_rollback(namespace: Namespace, release: Release) -> None:
    await namespace.create(a_gang("runs", [Group("workers", 2, cpu="100m")], style="Hard"))
    running = {pod["metadata"]["uid"] for pod in await namespace.running(2)}
    (muster,) = old = await release.ready()
    before = images(old)
    # During the upgrade Muster's new pod runs next to the old one, so leave room on that node.
    placeholder_names = await reserving(
        namespace, min((await namespace.free_cpu()).keys() - {muster["spec"]["nodeName"]})
    )

    await release.upgrade(f"image.tag={NEXT}")
    after = images(await release.ready())
    assert before != after == {f"{namespace.kind.image.rpartition(':')[0]}:{NEXT}"}
    assert {pod["metadata"]["name"] for pod in await namespace.bound(placeholders=True)} == placeholder_names

    await namespace.api.delete("pods", "blocker", namespace.name, grace_s=0)
    found = await namespace.running(4)
    assert running <= {pod["metadata"]["uid"] for pod in found}
    assert sum(map(restarts, found)) == 0

    await release.rollback()
    assert images(await release.ready()) == before
    assert {pod["metadata"]["uid"] for pod in await namespace.running(4)} == {pod["metadata"]["uid"] for pod in found}
