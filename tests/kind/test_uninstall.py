"""`helm uninstall` while a gang has reservations: nothing of Muster is left, and the pods of users stay."""

from __future__ import annotations

from tests.e2e.manifests import Group, a_gang, a_pod
from tests.kind.cluster import Kind, said
from tests.kind.release import NAMESPACE, Release
from tests.kind.room import Room

GIVEN = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
"""What Kubernetes puts into every namespace."""
KINDS = "pods,configmaps,secrets,serviceaccounts,services,deployments,jobs,leases,roles,rolebindings,networkpolicies"
ABOVE = (
    "clusterroles,clusterrolebindings,priorityclasses,mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)


async def test_an_uninstall_keeps_only_user_pods(room: Room, kind: Kind, release: Release) -> None:
    assert await named_muster(), "what is looked for is there"
    places, each = await room.block()
    gang = a_gang("left", [Group("workers", places, cpu=f"{each}m", real=2)], style="Hard", timeout_s=600)
    await room.create(gang)
    await room.reserved(places - 1)
    await release.uninstall()
    assert not await release.is_installed()
    assert await room.pods(placeholders=True) == []
    assert {pod["metadata"]["name"] for pod in await room.pods()} == {"blocker"} | {
        pod["metadata"]["name"] for pod in gang
    }
    assert await in_the_namespace() <= GIVEN
    assert await named_muster() == set()

    plain = a_pod("plain", cpu="50m", scheduler="default-scheduler")
    await room.api.create(plain, room.namespace)
    found = await room.running(2)
    assert {pod["metadata"]["name"] for pod in found} == {"blocker", "plain"}


async def in_the_namespace() -> set[str]:
    """Kinds and names of what is left in Muster's namespace."""
    return set((await said("kubectl", "-n", NAMESPACE, "get", KINDS, "-o", "name")).split())


async def named_muster() -> set[str]:
    """The same of what is in no namespace and has Muster's name."""
    return {name for name in (await said("kubectl", "get", ABOVE, "-o", "name")).split() if "muster" in name}
