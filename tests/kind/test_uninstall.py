"""`helm uninstall` while a gang has reservations: all objects of Muster are deleted, and user pods remain."""

from tests.e2e.manifests import Group, a_gang, a_pod
from tests.kind.cluster import Kind, output_of
from tests.kind.namespace import Namespace
from tests.kind.release import NAMESPACE, Release

CREATED_BY_KUBERNETES = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
"""The objects that Kubernetes creates in every namespace."""
KINDS = "pods,configmaps,secrets,serviceaccounts,services,deployments,jobs,leases,roles,rolebindings,networkpolicies"
CLUSTER_KINDS = (
    "clusterroles,clusterrolebindings,priorityclasses,mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings"
)


async def test_an_uninstall_keeps_only_user_pods(namespace: Namespace, kind: Kind, release: Release) -> None:
    assert await named_muster(), "there are objects to delete"
    slots, each = await namespace.block()
    group = Group("workers", slots, cpu=f"{each}m", real=2)
    gang = a_gang("left", [group], style="Hard", timeout_s=600, placement="Reserve")
    await namespace.create(gang)
    await namespace.reserved(slots - 1)
    await release.uninstall()
    assert not await release.is_installed()
    assert await namespace.pods(placeholders=True) == []
    assert {pod["metadata"]["name"] for pod in await namespace.pods()} == {"blocker"} | {
        pod["metadata"]["name"] for pod in gang
    }
    assert await in_the_namespace() <= CREATED_BY_KUBERNETES
    assert await named_muster() == set()

    plain = a_pod("plain", cpu="50m", scheduler="default-scheduler")
    await namespace.api.create(plain, namespace.name)
    found = await namespace.running(2)
    assert {pod["metadata"]["name"] for pod in found} == {"blocker", "plain"}


async def in_the_namespace() -> set[str]:
    """Kinds and names of the objects in Muster's namespace."""
    return set((await output_of("kubectl", "-n", NAMESPACE, "get", KINDS, "-o", "name")).split())


async def named_muster() -> set[str]:
    """Kinds and names of the cluster-scoped objects with Muster's name."""
    return {
        name for name in (await output_of("kubectl", "get", CLUSTER_KINDS, "-o", "name")).split() if "muster" in name
    }
