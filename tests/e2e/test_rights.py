"""The operator's role is enough, as every other scenario shows, and no more: each right is used, others are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster.api import Api
from devcluster.cluster import Cluster
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.muster import ACCOUNT, MANIFESTS, NAMESPACE
from devcluster.nodes import FakeNode
from tests.e2e.admission.asked import NAME, VALIDATING, registered, unregister, webhook
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scene import Scene

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""

UNSEEN: set[Right] = {("", "pods/finalizers", "update")}
"""Never requested: an admission plugin asks whether an owner may be blocked from being deleted."""

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

#: What a stolen token of the operator must not do.
FORBIDDEN = [
    ("GET", "/api/v1/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    ("GET", "/api/v1/namespaces/kube-system/configmaps"),
    ("PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/muster-configs"),
    ("DELETE", "/api/v1/nodes/node-0"),
    ("PATCH", "/api/v1/nodes/node-0"),
    ("DELETE", "/api/v1/namespaces/default"),
    ("DELETE", "/api/v1/namespaces/default/pods"),
    ("PUT", "/api/v1/namespaces/default/pods/any"),
    ("POST", "/api/v1/namespaces/default/pods/any/exec"),
    ("POST", "/api/v1/namespaces/default/pods/any/eviction"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"),
    ("PATCH", "/apis/apps/v1/namespaces/default/deployments/any"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("GET", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
]


def granted(manifests: Path) -> set[Right]:
    """Every right that the roles of the file give."""
    roles = [item for item in yaml.safe_load_all(manifests.read_text()) if item["kind"] in {"Role", "ClusterRole"}]
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def right(method: str, path: str, is_watch: bool) -> Right | None:  # noqa: FBT001  # as the gate counts
    """The right that a request needs; None for discovery, which everybody may do."""
    head, *parts = path.strip("/").split("/")
    group = "" if head == "api" else parts.pop(0) if parts else ""
    parts = parts[1:]  # the version
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    if not parts:
        return None
    resource = "/".join([parts[0], *parts[2:]])
    reading = "get" if len(parts) > 1 else "watch" if is_watch else "list"
    return group, resource, VERBS.get(method, reading)


@pytest.mark.parametrize("method, path", FORBIDDEN)
async def test_other_things_are_forbidden_to_the_operators_account(method: str, path: str, home: Cluster) -> None:
    if home.plane is None:
        pytest.skip("in a cluster that is not ours a refusal that fails would do harm")
    async with Api(await load(await home.kubeconfig_for(ACCOUNT, NAMESPACE))) as operator:
        with pytest.raises(ApiError) as refused:
            await operator.request(method, path, {})
    assert refused.value.status == 403


@pytest_asyncio.fixture(loop_scope="session")
async def unregistered(cluster: Cluster) -> AsyncIterator[None]:
    """Afterwards, when the operator is gone, no webhook is left that others would wait for."""
    yield
    await unregister(cluster)


async def test_every_right_of_the_role_is_used(unregistered: None, open_scene: OpenScene) -> None:
    """A gang, a lost answer, a Soft time-out, pods that wait and a webhook whose certificates are lost: all it asks."""
    scene = await open_scene([FakeNode("node-0", cpu="3500m")], gated=True, env=webhook())
    await registered(scene)
    scene.gate.lose_answer("POST", r"/binding")
    await scene.create(a_gang("fits", [Group("workers", 2)], timeout_s=600))
    await scene.all_bound(2)
    await scene.create(a_gang("late", [Group("workers", 3)], style="Soft", timeout_s=1))
    await scene.all_bound(3)

    await scene.eventually("the pods that wait have their conditions", lambda: _asked(scene, "/status"))
    await scene.api.patch("secrets", NAME, {"data": {"cakey1.pem": None}}, NAMESPACE)
    renewed = ("PUT", f"/apis/admissionregistration.k8s.io/v1/{VALIDATING}/{NAME}", False)

    async def is_renewed() -> bool:
        return scene.gate.requests[renewed] > 0

    await scene.eventually("the new authority is registered", is_renewed)
    used = {found for request in scene.gate.requests if (found := right(*request))}
    assert granted(MANIFESTS) - used == UNSEEN


async def _asked(scene: Scene, ending: str) -> bool:
    return any(path.endswith(ending) for _, path, _ in scene.gate.requests)
