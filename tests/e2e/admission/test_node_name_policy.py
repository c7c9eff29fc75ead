"""deploy/node-name-policy.yaml on a real API server: the new pods that may have a node name."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from devcluster.api import Api, Json
from devcluster.cluster import Cluster, documents
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.muster import ACCOUNT, MANIFESTS, NAMESPACE, installed
from devcluster.resources import BY_KIND
from devcluster.waiting import until
from tests.e2e.manifests import a_pod

POLICY = MANIFESTS.with_name("node-name-policy.yaml")
SPACE = "node-names"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(home: Cluster) -> AsyncIterator[Api]:
    """Create a namespace and enable the policy, which allows node names for `restorer`."""
    if home.plane is None:
        pytest.skip("the policy applies to the cluster, so only on the local control plane")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(installed(home))
        await home.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        stack.push_async_callback(home.admin.delete, "namespaces", SPACE)
        await until(
            "the default account", lambda: home.admin.get("serviceaccounts", "default", SPACE), 30, tolerate=(ApiError,)
        )
        for document in documents(POLICY):
            for variable in document["spec"].get("variables", []):
                if variable["name"] == "users":
                    variable["expression"] = "['restorer']"
            await home.admin.create(document)
            plural = BY_KIND[document["kind"]].plural
            stack.push_async_callback(home.admin.delete, plural, document["metadata"]["name"])
        await until("the policy is in force", lambda: rejection(home.admin, placed()), 30, every_s=0.1)
        yield home.admin


def placed(scheduler: str = "muster", annotations: Json | None = None) -> Json:
    """A pod with a node name."""
    pod = a_pod("placed", scheduler=scheduler)
    pod["spec"]["nodeName"] = "node-0"
    pod["metadata"]["annotations"] = annotations or {}
    return pod


async def rejection(account: Api, pod: Json) -> str:
    """Return the error message of the policy, or an empty string. The pod is not stored."""
    try:
        await account.request("POST", f"/api/v1/namespaces/{SPACE}/pods", pod, {"dryRun": "All"})
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'muster-node-name'" not in error.message:
            raise
        return error.message
    return ""


async def test_a_new_muster_pod_with_a_node_name_is_rejected(admin: Api) -> None:
    for scheduler in ("muster", "yunikorn"):
        assert "remove spec.nodeName" in await rejection(admin, placed(scheduler))
    assert await rejection(admin, placed("default-scheduler")) == ""
    assert await rejection(admin, a_pod("waits")) == ""


async def test_listed_users_kubelets_mirror_pods_and_muster_are_exempt(admin: Api, home: Cluster) -> None:
    mirror: Json = {"kubernetes.io/config.mirror": "0"}
    for user, written, is_refused in (("restorer", {}, False), ("ann", {}, True), ("ann", mirror, True)):
        async with Api(home.admin.access) as api:
            api._session.headers.update({"Impersonate-User": user, "Impersonate-Group": "system:masters"})
            assert bool(await rejection(api, placed(annotations=written))) == is_refused, (user, written)
    async with Api(home.admin.access) as kubelet:
        for group in ("system:nodes", "system:masters"):
            kubelet._session.headers.add("Impersonate-Group", group)
        kubelet._session.headers.update({"Impersonate-User": "kubelet"})
        assert await rejection(kubelet, placed(annotations=mirror)) == ""
        assert "remove spec.nodeName" in await rejection(kubelet, placed())
    async with Api(await load(await home.kubeconfig_for(ACCOUNT, NAMESPACE))) as muster:
        with pytest.raises(ApiError, match="ValidatingAdmissionPolicy 'muster-operator'"):
            await rejection(muster, placed())
