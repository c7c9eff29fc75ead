"""deploy/resize-policy.yaml on a real API server: in-place resizes that would exceed the maximum of a queue."""

from contextlib import AsyncExitStack

import pytest

from devcluster.api import Api, Json
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError
from devcluster.muster import MANIFESTS, installed
from devcluster.resources import BY_KIND
from devcluster.waiting import until
from tests.e2e.manifests import a_pod

SPACE = "resizes"


async def rejection(api: Api, name: str, **requests: str) -> str:
    """Return the error message of the policy for a resize to these requests, or an empty string."""
    change: Json = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    path = f"/api/v1/namespaces/{SPACE}/pods/{name}/resize"
    try:
        await api.request("PATCH", path, change, {"dryRun": "All"}, "application/strategic-merge-patch+json")
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'muster-resize'" not in error.message:
            raise
        return error.message
    return ""


async def test_a_resize_cannot_increase_the_requests_of_a_muster_pod(home: Cluster) -> None:
    if home.plane is None:
        pytest.skip("the policy applies to the cluster, so only on the local control plane")
    admin = home.admin
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(installed(home))
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        stack.push_async_callback(admin.delete, "namespaces", SPACE)
        stack.push_async_callback(admin.delete_all, "pods", SPACE)
        await until(
            "the default account", lambda: admin.get("serviceaccounts", "default", SPACE), 30, tolerate=(ApiError,)
        )
        for document in documents(MANIFESTS.with_name("resize-policy.yaml")):
            for variable in document["spec"].get("variables", []):
                if variable["name"] == "users":
                    variable["expression"] = "['autoscaler']"
            await admin.create(document)
            stack.push_async_callback(admin.delete, BY_KIND[document["kind"]].plural, document["metadata"]["name"])
        for scheduler in ("muster", "other"):
            pod = a_pod(scheduler, cpu="500m", scheduler=scheduler)
            pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "4", "memory": "1Gi"}
            await admin.create(pod, SPACE)
        await until("the policy is in force", lambda: rejection(admin, "muster", cpu="3"), 30, every_s=0.1)
        for requests in ({"cpu": "501m"}, {"memory": "65Mi"}, {"cpu": "100m", "memory": "1Gi"}):
            assert "may not increase the requests" in await rejection(admin, "muster", **requests)
        for requests in ({"cpu": "0.5"}, {"cpu": "100m"}, {"memory": "65536Ki"}):
            assert await rejection(admin, "muster", **requests) == ""
        assert await rejection(admin, "other", cpu="3") == ""
        async with Api(admin.access, user="autoscaler") as autoscaler:
            autoscaler._session.headers["Impersonate-Group"] = "system:masters"
            assert await rejection(autoscaler, "muster", cpu="3") == ""
