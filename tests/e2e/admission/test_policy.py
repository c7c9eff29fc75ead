"""deploy/admission-policy.yaml on a real API server: what it rejects and admits without a webhook."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.api import Api, Json
from devcluster.cluster import Cluster, documents
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.muster import ACCOUNT, NAMESPACE
from devcluster.resources import BY_KIND
from devcluster.waiting import until
from muster_operator.model.names import ANNOTATION_BINDING_SIGNATURE, INTERNAL_PREFIX
from muster_operator.webhook.context import KINDS, Submitter
from muster_operator.webhook.decisions import of_submitter
from tests.e2e.manifests import PLACEHOLDER, PREFIX, a_pod

POLICY = Path(__file__).parents[3] / "deploy" / "admission-policy.yaml"
USER_INFO = f"{PREFIX}user.info"
DEV = "policed"
BOSS, OTHER = json.dumps({"user": "boss"}), json.dumps({"user": "other"})
ME = {USER_INFO: json.dumps({"user": f"system:serviceaccount:{DEV}:dev"})}
#: The data of a stored ControllerRevision cannot change.
STORED = [kind for kind in KINDS if kind != "ControllerRevision"]
DRY_RUN = {"dryRun": "All"}
"""Run admission and store nothing."""


def a_thing(kind: str, annotations: Json, name: str = "x", scheduler: str = "muster") -> Json:
    """The object of a kind whose pods have these annotations."""
    labels = {"app": "yunikorn", "of": f"{kind}-{name}"}
    pod = a_pod("p", scheduler=scheduler)
    restarts = "Never" if kind in {"Job", "CronJob"} else "Always"
    template: Json = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {**pod["spec"], "restartPolicy": restarts},
    }
    specs: dict[str, Json] = {
        "ReplicationController": {"replicas": 0, "selector": labels, "template": template},
        "Job": {"suspend": True, "template": template},
        "CronJob": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template}}},
    }
    if kind in {"ControllerRevision", "PodTemplate"}:
        body = (
            {"template": template}
            if kind == "PodTemplate"
            else {"revision": 1, "data": {"spec": {"template": template}}}
        )
        return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": name}, **body}
    sized = {} if kind == "DaemonSet" else {"replicas": 0}
    spec = specs.get(kind, {**sized, "selector": {"matchLabels": labels}, "template": template})
    if kind == "StatefulSet":
        spec["serviceName"] = "none"
    head = {"apiVersion": KINDS[kind].api_version, "kind": kind}
    if kind == "Pod":
        return {**head, **template, "metadata": {**template["metadata"], "name": name}}
    return {**head, "metadata": {"name": name, "labels": labels}, "spec": spec}


def change(kind: str, annotations: Json) -> Json:
    """A merge patch of the pods' annotations."""
    patch: Json = {"metadata": {"annotations": annotations}}
    for step in reversed(KINDS[kind].template):
        patch = {step: patch}
    return patch


@dataclass(frozen=True)
class Accounts:
    """`dev` can edit objects in a namespace; `controller` has an account in kube-system; `muster` is the operator."""

    dev: Api
    controller: Api
    muster: Api


async def rejection(client: Api, kind: str, annotations: Json, *, stored: str = "", scheduler: str = "muster") -> str:
    """Return the error message for a creation, or for the change of a stored object; empty if allowed."""
    path = BY_KIND[kind].path(DEV, stored or None)
    try:
        if stored:
            await client.request("PATCH", path, change(kind, annotations), DRY_RUN, "application/merge-patch+json")
        else:
            await client.request("POST", path, a_thing(kind, annotations, scheduler=scheduler), DRY_RUN)
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'muster-admission'" not in error.message:
            raise
        return error.message
    return ""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def accounts(home: Cluster) -> AsyncIterator[Accounts]:
    """The namespace, an object of each kind with and without a user, the accounts, and the enabled policy."""
    if home.plane is None:
        pytest.skip("the policy applies to the cluster, so only on the local control plane")
    admin = home.admin
    async with AsyncExitStack() as stack:
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEV}})
        stack.push_async_callback(admin.delete, "namespaces", DEV)
        stack.push_async_callback(admin.delete_all, "pods", DEV)  # immediately: the next Muster would schedule them
        apis = []
        for account, namespace in (("dev", DEV), ("tester", "kube-system"), (ACCOUNT, NAMESPACE)):
            if account != ACCOUNT:
                await _editor(home, stack, account, namespace)
            apis.append(await stack.enter_async_context(Api(await load(await home.kubeconfig_for(account, namespace)))))
        await until(
            "the default account", lambda: admin.get("serviceaccounts", "default", DEV), 30, tolerate=(ApiError,)
        )
        for kind in STORED:
            await admin.create(a_thing(kind, {USER_INFO: BOSS}, "owned"), DEV)
            await admin.create(a_thing(kind, {}, "free"), DEV)
            await admin.create(a_thing(kind, {PLACEHOLDER: "true"}, "marked"), DEV)
        for document in documents(POLICY):
            await admin.create(document)
            stack.push_async_callback(admin.delete, BY_KIND[document["kind"]].plural, document["metadata"]["name"])
        await until("the policy is in force", lambda: rejection(apis[0], "Pod", {USER_INFO: BOSS}), 30, every_s=0.1)
        yield Accounts(*apis)


async def _editor(home: Cluster, stack: AsyncExitStack, account: str, namespace: str) -> None:
    """A service account with the role `edit` in the namespace of the test."""
    await home.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}, namespace)
    stack.push_async_callback(home.admin.delete, "serviceaccounts", account, namespace)
    binding: Json = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    await home.admin.create(binding, DEV)
    rules = [
        {"apiGroups": ["apps", ""], "resources": ["controllerrevisions", "podtemplates"], "verbs": ["create", "patch"]}
    ]
    head = {"apiVersion": binding["apiVersion"], "metadata": {"name": f"{account}-templates"}}
    await home.admin.create({**head, "kind": "Role", "rules": rules}, DEV)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"{account}-templates"}
    await home.admin.create({**binding, **head, "roleRef": role}, DEV)


async def test_the_policy_alone_rejects_forged_users_and_internal_annotations(
    accounts: Accounts, home: Cluster
) -> None:
    with pytest.raises(ApiError, match="cannot change"):
        await home.admin.patch("pods", "owned", change("Pod", {USER_INFO: OTHER}), DEV, subresource="status")
    for kind in STORED:
        assert "may name only you" in await rejection(accounts.dev, kind, {USER_INFO: BOSS}), kind
        rule = "cannot change" if kind == "Pod" else "may name only you"
        assert rule in await rejection(accounts.dev, kind, {USER_INFO: BOSS}, stored="free"), kind
        for now in (OTHER, None, ""):
            assert "cannot change" in await rejection(accounts.dev, kind, {USER_INFO: now}, stored="owned"), kind
        for client in (accounts.dev, accounts.controller):
            assert "by Muster only" in await rejection(client, kind, {PLACEHOLDER: "true"}), kind
            assert "by Muster only" in await rejection(client, kind, {PLACEHOLDER: "true"}, stored="free"), kind
            for key in (ANNOTATION_BINDING_SIGNATURE, f"{INTERNAL_PREFIX}anything-new"):
                assert "by Muster only" in await rejection(client, kind, {key: ""}), kind
                assert "by Muster only" in await rejection(client, kind, {key: ""}, stored="free"), kind


async def test_a_controller_revision_cannot_name_another_user(accounts: Accounts) -> None:
    """A StatefulSet with a partitioned update creates pods from it, and its controller is trusted."""
    kind = "ControllerRevision"
    assert "may name only you" in await rejection(accounts.dev, kind, {USER_INFO: BOSS})
    assert "by Muster only" in await rejection(accounts.dev, kind, {PLACEHOLDER: "true"})
    assert await rejection(accounts.dev, kind, ME) == ""
    assert await rejection(accounts.controller, kind, {USER_INFO: BOSS}) == ""


async def test_only_muster_changes_or_removes_a_stored_internal_annotation(accounts: Accounts, home: Cluster) -> None:
    for value in (None, "", "false"):
        for client in (accounts.dev, accounts.controller, home.admin):
            assert "by Muster only" in await rejection(client, "Pod", {PLACEHOLDER: value}, stored="marked"), value
        for subresource in ("status", "ephemeralcontainers", "resize"):
            change_of_it = change("Pod", {PLACEHOLDER: value})
            with suppress(ApiError):
                await home.admin.patch("pods", "marked", change_of_it, DEV, subresource=subresource)
            found = await home.admin.get("pods", "marked", DEV)
            assert found["metadata"]["annotations"] == {PLACEHOLDER: "true"}, subresource
    assert await rejection(accounts.dev, "Pod", {"a": "b"}, stored="marked") == ""
    assert await rejection(accounts.dev, "Deployment", {PLACEHOLDER: None}, stored="marked") == ""
    assert "by Muster only" in await rejection(accounts.dev, "Deployment", {PLACEHOLDER: ""}, stored="marked")
    await home.admin.delete("pods", "marked", DEV)


async def test_a_users_own_identity_passes_and_similar_names_are_rejected(accounts: Accounts, home: Cluster) -> None:
    """Policy and webhook can both be enabled: the policy sees the annotations of the webhook."""
    async with Api(home.admin.access) as user_api:
        for user, is_john in (("JohnSmith", False), ("John Smith", True)):
            user_api._session.headers.update({"Impersonate-User": user, "Impersonate-Group": "system:masters"})
            for groups in (None, ("system:masters", "system:authenticated")):
                written = (
                    of_submitter(Submitter("John Smith", groups)) if groups else json.dumps({"user": "John Smith"})
                )
                answer = await rejection(user_api, "Pod", {USER_INFO: written})
                assert ("may name only you" in answer) != is_john, (user, written)
            other_groups = of_submitter(Submitter(user, ("system:masters", "directors")))
            assert "may name only you" in await rejection(user_api, "Pod", {USER_INFO: other_groups})


async def test_a_binding_cannot_set_the_user_or_internal_annotations(accounts: Accounts, home: Cluster) -> None:
    """Kubernetes merges its annotations into those of the pod. A binding without them is allowed."""
    await accounts.controller.create(a_thing("Pod", {USER_INFO: BOSS}, "unbound"), DEV)
    paths = [f"{BY_KIND['Pod'].path(DEV, 'unbound')}/binding", f"/api/v1/namespaces/{DEV}/bindings"]
    binding: Json = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "nowhere"}}
    for written in ({USER_INFO: OTHER}, {USER_INFO: ""}, {PLACEHOLDER: "true"}, {ANNOTATION_BINDING_SIGNATURE: ""}):
        for path in paths:
            binding["metadata"] = {"name": "unbound", "annotations": written}
            with pytest.raises(ApiError, match="may not set these annotations"):
                await home.admin.request("POST", path, binding)
    binding["metadata"] = {"name": "unbound", "annotations": {"a": "b"}}
    await home.admin.request("POST", paths[0], binding)
    found = await home.admin.get("pods", "unbound", DEV)
    assert (found["spec"]["nodeName"], found["metadata"]["annotations"]) == ("nowhere", {USER_INFO: BOSS, "a": "b"})


async def test_the_policy_admits_everything_else(accounts: Accounts, home: Cluster) -> None:
    for kind in STORED:
        template_is_fixed = kind == "Job"
        assert await rejection(accounts.dev, kind, {}) == "", kind
        assert await rejection(accounts.dev, kind, ME) == "", kind
        assert await rejection(accounts.controller, kind, {USER_INFO: BOSS}) == "", kind
        assert await rejection(accounts.dev, kind, {PLACEHOLDER: "true"}, scheduler="other") == "", kind
        if not template_is_fixed:
            assert await rejection(accounts.dev, kind, {"a": "b"}, stored="owned") == "", kind
            assert await rejection(accounts.controller, kind, {USER_INFO: OTHER}, stored="owned") == "", kind
            assert bool(await rejection(accounts.dev, kind, ME, stored="free")) == (kind == "Pod"), kind
    with pytest.raises(ApiError, match="ValidatingAdmissionPolicy 'muster-operator'"):  # not this policy
        await rejection(accounts.muster, "Pod", {PLACEHOLDER: "true"})
    system = a_thing("Pod", {USER_INFO: BOSS, PLACEHOLDER: "true"})
    await home.admin.request("POST", "/api/v1/namespaces/kube-system/pods", system, DRY_RUN)
