"""deploy/operator-policy.yaml on a real API server: the requests that a stolen operator token cannot make.

Every other scenario runs the operator under this policy, which shows that it permits what the operator needs.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from devcluster.api import Api, Json
from devcluster.cluster import Cluster
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.muster import ACCOUNT, NAMESPACE, configured, installed
from devcluster.waiting import until
from tests.e2e.devices.devices import API, DRIVER, a_claim
from tests.e2e.manifests import a_placeholder, a_pod

TENANT = "policy-tenant"
MERGE = "application/merge-patch+json"
IMAGE = "registry.k8s.io/pause:3.10.2"
Change = Callable[[Json], None]


def _host_path(pod: Json) -> None:
    pod["spec"]["volumes"] = [{"name": "node", "hostPath": {"path": "/"}}]


def _second_container(pod: Json) -> None:
    pod["spec"]["containers"].append({"name": "more", "image": IMAGE})


def _privileged(pod: Json) -> None:
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}


CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "labels": {"team": "a"}, "annotations": {"team": "a"}},
    "spec": {
        "storageClassName": "none",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
#: The claimRef of each volume.
CLAIMS: dict[str, Json | None] = {
    "policy-free": None,
    "policy-prebound": {"namespace": TENANT, "name": "later"},
    "policy-taken": {"namespace": TENANT, "name": "later", "uid": "1"},
}


def a_consumer(name: str) -> Json:
    """A consumer of a kind that kube-controller-manager does not remove."""
    return {"apiGroup": "example.com", "resource": "jobs", "name": name, "uid": name}


ALLOCATION: Json = {"devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "p", "device": "gpu-0"}]}}
#: The status of each ResourceClaim.
DEVICES: dict[str, Json] = {
    "free": {},
    "reserved": {"allocation": ALLOCATION, "reservedFor": [a_consumer("a")]},
    "shared": {"allocation": ALLOCATION, "reservedFor": [a_consumer("a"), a_consumer("b")]},
}


def a_volume(name: str, claim: Json | None) -> Json:
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "other",
        "hostPath": {"path": "/data"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    if claim:
        spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
    head = {"name": name, "annotations": {"team": "a"}, "finalizers": ["example.com/keep"]}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": head, "spec": spec}


#: Change of a placeholder -> part of the error message.
REJECTED: list[tuple[Change, str]] = [
    (lambda pod: pod["metadata"].pop("annotations"), "the operator creates only placeholders"),
    (lambda pod: pod["metadata"].pop("ownerReferences"), "exactly one owner reference, to a pod"),
    (lambda pod: pod["spec"].update(schedulerName="default-scheduler"), "only pods of the scheduler names muster"),
    (lambda pod: pod["spec"]["containers"][0].update(image="attacker/image"), f'with the image "{IMAGE}"'),
    (_second_container, "a placeholder has one container"),
    (lambda pod: pod["spec"].update(initContainers=[{"name": "first", "image": IMAGE}]), "has one container"),
    (lambda pod: pod["spec"].update(automountServiceAccountToken=True), "no service account token"),
    (_host_path, "no volumes"),
    (lambda pod: pod["spec"].update(hostNetwork=True), "use no host namespaces"),
    (lambda pod: pod["spec"].update(hostPID=True), "use no host namespaces"),
    (_privileged, "use no host namespaces"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def operator(home: Cluster) -> AsyncIterator[Api]:
    """The operator's account under the policy, and a tenant's namespace with a pod of each of two schedulers."""
    if home.plane is None:
        pytest.skip("the policy applies to the cluster, so only on the local control plane")
    admin = home.admin
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(installed(home))
        await stack.enter_async_context(configured(home, {"service.placeholderImage": IMAGE}))
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}})
        stack.push_async_callback(admin.delete, "namespaces", TENANT)
        stack.push_async_callback(admin.delete_all, "pods", TENANT)
        await until(
            "the default account", lambda: admin.get("serviceaccounts", "default", TENANT), 30, tolerate=(ApiError,)
        )
        for name in ("muster", "other"):
            pod = a_pod(name, scheduler=name, labels={"team": "a"})
            pod["metadata"] |= {"annotations": {"team": "a"}, "finalizers": ["example.com/keep"]}
            await admin.create(pod, TENANT)
            stack.push_async_callback(admin.patch, "pods", name, {"metadata": {"finalizers": None}}, TENANT)
        for name, claim in CLAIMS.items():
            await admin.create(a_volume(name, claim))
            stack.push_async_callback(admin.delete, "persistentvolumes", name)
        await admin.create(CLAIM, TENANT)
        for name, status in DEVICES.items():
            await admin.create(a_claim(name), TENANT)
            path = f"/apis/{API}/namespaces/{TENANT}/resourceclaims/{name}/status"
            await admin.request("PATCH", path, {"status": status}, None, MERGE)
        account = await stack.enter_async_context(Api(await load(await home.kubeconfig_for(ACCOUNT, NAMESPACE))))
        yield account


OURS = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": TENANT, "name": "data", "uid": "2"}
BY_CONTROLLER = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
ONLY_FREE = "may only set the claim of a free volume"


async def rejection_of_change(account: Api, path: str, change: Json, api: str = "/api/v1") -> str:
    """Return the error message of the policy for a merge patch, or an empty string. Nothing is stored."""
    try:
        await account.request("PATCH", f"{api}/{path}", change, {"dryRun": "All"}, MERGE)
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'muster-operator'" not in error.message:
            raise
        return error.message
    return ""


@pytest.mark.parametrize(
    "volume, change, text",
    [
        ("free", {"metadata": BY_CONTROLLER, "spec": {"claimRef": OURS}}, ""),
        ("prebound", {"spec": {"claimRef": {"uid": "2"}}}, ""),
        ("prebound", {"spec": {"claimRef": OURS}}, ONLY_FREE),
        ("taken", {"spec": {"claimRef": OURS}}, ONLY_FREE),
        ("taken", {"spec": {"claimRef": {"uid": "2"}}}, ONLY_FREE),
        ("free", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, "may change only claimRef"),
        ("free", {"spec": {"nodeAffinity": None, "mountOptions": ["x"]}}, "may change only claimRef"),
        ("free", {"metadata": {"annotations": {"team": None}}}, "only the annotation pv.kubernetes.io/bound-by"),
        ("free", {"metadata": {"labels": {"a": "b"}}}, "only the annotation pv.kubernetes.io/bound-by"),
        ("free", {"metadata": {"finalizers": None}}, "may not change finalizers or owner references"),
    ],
)
async def test_the_operators_account_can_only_claim_free_volumes(
    volume: str, change: Json, text: str, operator: Api
) -> None:
    """With more it could give the volume of a tenant to another one, or delete it."""
    answer = await rejection_of_change(operator, f"persistentvolumes/policy-{volume}", change)
    assert text in answer
    assert bool(answer) == bool(text)


@pytest.mark.parametrize(
    "change, text",
    [
        ({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}, ""),
        ({"metadata": {"annotations": {"team": None}}}, "only the annotation volume.kubernetes.io/selected-node"),
        ({"metadata": {"labels": {"team": "b"}}}, "only the annotation volume.kubernetes.io/selected-node"),
        ({"metadata": {"finalizers": None}}, "may not change finalizers or owner references"),
        ({"spec": {"volumeName": "policy-free"}}, "may not change the spec of a claim"),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}]}},
            "may not change finalizers or owner references",
        ),
    ],
)
async def test_the_operators_account_can_only_select_the_node_of_a_claim(
    change: Json, text: str, operator: Api
) -> None:
    path = f"namespaces/{TENANT}/persistentvolumeclaims/data"
    answer = await rejection_of_change(operator, path, change)
    assert text in answer
    assert bool(answer) == bool(text)


ONCE = "may allocate a claim that is not allocated, or remove the allocation with the last reservation"


@pytest.mark.parametrize(
    "claim, change, text",
    [
        ("free", {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}, ""),
        ("free", {"metadata": {"finalizers": ["example.com/other"]}}, "may not change finalizers"),
        ("free", {"metadata": {"labels": {"a": "b"}}}, "of labels and annotations"),
        ("free/status", {"status": {"allocation": ALLOCATION, "reservedFor": [a_consumer("a")]}}, ""),
        ("reserved/status", {"status": {"reservedFor": [a_consumer("a"), a_consumer("b")]}}, ""),
        ("reserved/status", {"status": {"allocation": None, "reservedFor": None}}, ""),
        ("shared/status", {"status": {"reservedFor": [a_consumer("a")]}}, ""),
        ("shared/status", {"status": {"allocation": None, "reservedFor": None}}, ONCE),
    ],
)
async def test_the_operators_account_cannot_take_devices_that_are_in_use(
    claim: str, change: Json, text: str, operator: Api
) -> None:
    path = f"namespaces/{TENANT}/resourceclaims/{claim}"
    answer = await rejection_of_change(operator, path, change, f"/apis/{API}")
    assert text in answer
    assert bool(answer) == bool(text)


@pytest.mark.parametrize(
    "change, text",
    [
        ({}, ""),
        ({"annotations": {}}, "only claims for extended resources"),
        ({"ownerReferences": []}, "only claims for extended resources"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]}, "owned by a pod"),
    ],
)
async def test_the_operators_account_creates_only_claims_for_extended_resources(
    change: Json, text: str, operator: Api
) -> None:
    claim = a_claim("made")
    claim["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}],
    } | change
    answer = await rejection(operator, "POST", "resourceclaims", claim, api=f"/apis/{API}")
    assert text in answer
    assert bool(answer) == bool(text)


async def rejection(
    account: Api,
    method: str,
    path: str,
    body: Json | None,
    content_type: str = "application/json",
    api: str = "/api/v1",
) -> str:
    """Return the error message of the policy, or an empty string. Nothing is stored."""
    try:
        await account.request(method, f"{api}/namespaces/{TENANT}/{path}", body, {"dryRun": "All"}, content_type)
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'muster-operator'" not in error.message:
            raise
        return error.message
    return ""


@pytest.mark.parametrize("change, text", REJECTED)
async def test_the_operators_account_can_create_only_placeholders(change: Change, text: str, operator: Api) -> None:
    pod = a_placeholder(IMAGE)
    assert await rejection(operator, "POST", "pods", pod) == ""
    change(pod)
    assert text in await rejection(operator, "POST", "pods", pod)


async def test_the_operators_account_cannot_delete_pods_of_another_scheduler(operator: Api) -> None:
    assert await rejection(operator, "DELETE", "pods/muster", None) == ""
    assert "only pods of the scheduler names muster" in await rejection(operator, "DELETE", "pods/other", None)


@pytest.mark.parametrize(
    "metadata, text",
    [
        ({"annotations": {"internal.yunikorn.apache.org/gang-outcome": "resumed"}}, ""),
        (
            {"annotations": {"yunikorn.apache.org/user.info": "{}"}},
            "may not change labels, or annotations other than its own",
        ),
        ({"labels": {"queue": "root.other"}}, "may not change labels, or annotations other than its own"),
        ({"annotations": {"team": None}}, "may not change labels, or annotations other than its own"),
        ({"labels": {"team": None}}, "may not change labels, or annotations other than its own"),
        ({"finalizers": None}, "may not change finalizers or owner references"),
        ({"finalizers": ["example.com/keep", "example.com/more"]}, "may not change finalizers or owner references"),
    ],
)
async def test_the_pod_status_subresource_cannot_change_protected_metadata(
    metadata: Json, text: str, operator: Api
) -> None:
    merge = "application/merge-patch+json"
    answer = await rejection(operator, "PATCH", "pods/muster/status", {"metadata": metadata}, merge)
    assert text in answer
    assert bool(answer) == bool(text)


async def test_the_operators_account_cannot_write_the_status_of_foreign_pods(operator: Api) -> None:
    change = {"status": {"phase": "Failed"}}
    merge = "application/merge-patch+json"
    assert await rejection(operator, "PATCH", "pods/muster/status", change, merge) == ""
    assert "only pods of the scheduler names" in await rejection(operator, "PATCH", "pods/other/status", change, merge)


async def test_the_operators_account_cannot_create_token_secrets(operator: Api) -> None:
    """A Secret of this type would be filled with a token of the named account."""
    secret = {
        "metadata": {"name": "muster-admission", "annotations": {"kubernetes.io/service-account.name": ACCOUNT}},
        "type": "kubernetes.io/service-account-token",
    }
    with pytest.raises(ApiError, match="only Secrets of type Opaque"):
        await operator.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret, {"dryRun": "All"})
