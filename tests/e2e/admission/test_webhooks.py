"""The webhook on a real API server: fields that it sets, rejections, and operation without it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.api import Api, Json
from devcluster.certificates import Authority
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError
from devcluster.muster import CONFIGURATION, NAMESPACE
from devcluster.nodes import FakeNode
from devcluster.resources import BY_KIND
from muster_operator.model.names import INTERNAL_PREFIX
from tests.e2e.admission.scenario import MUTATING, NAME, USER_INFO, VALIDATING, admitted, registered, webhook
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, a_pod
from tests.e2e.scenario import Scenario

FORGED = json.dumps({"user": "root", "groups": ["system:masters"]})
MANIFEST = Path(__file__).parents[3] / "deploy" / "webhooks.yaml"
#: Labels that must not bypass a check.
CLOAKS = {"app": "yunikorn", "applicationId": "a", "admission.muster/ignore": "true", "control-plane": "true"}
TEMPLATED = {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}
OLD = {"deployments": "Deployment", "cronjobs": "CronJob"}
SCHEDULERS = ("muster", "default-scheduler")
TEMPLATED |= {"daemonsets": "DaemonSet", "jobs": "Job", "cronjobs": "CronJob"}
TEMPLATED |= {"replicationcontrollers": "ReplicationController"}


@pytest_asyncio.fixture(loop_scope="session")
async def ann(cluster: Cluster) -> AsyncIterator[Api]:
    """A user with all permissions except impersonation of other users."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    await cluster.admin.apply(binding)
    async with acting(cluster, "analysts") as api:
        yield api
    await cluster.admin.delete("clusterrolebindings", "ann")


@asynccontextmanager
async def acting(cluster: Cluster, group: str) -> AsyncIterator[Api]:
    """Requests as `ann` with this group."""
    async with Api(cluster.admin.access) as api:
        api._session.headers.update({"Impersonate-User": "ann", "Impersonate-Group": group})
        yield api


def workload(
    kind: str, name: str, annotations: Mapping[str, str], *, scheduler: str = "muster", replicas: int = 0
) -> Json:
    """An object of the kind whose pods have these annotations, with every label that might bypass a check."""
    pod = a_pod(name, labels={**CLOAKS, "of": name}, scheduler=scheduler)
    template: Json = {"metadata": {**pod["metadata"], "annotations": dict(annotations)}, "spec": pod["spec"]}
    del template["metadata"]["name"]
    spec: Json = {"template": template}
    if kind in {"Job", "CronJob"}:
        spec["suspend"] = True
    else:
        template["spec"]["restartPolicy"] = "Always"
        spec["selector"] = {"of": name} if kind == "ReplicationController" else {"matchLabels": {"of": name}}
    if kind not in {"Job", "CronJob", "DaemonSet"}:
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec["serviceName"] = name
    if kind == "CronJob":
        spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template}}}
    version = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": dict(CLOAKS)}, "spec": spec}


def forgery(kind: str, annotation: str | None) -> Json:
    """A merge patch of the template's user."""
    template = {"template": {"metadata": {"annotations": {USER_INFO: annotation}}}}
    return {"spec": {"jobTemplate": {"spec": template}} if kind == "CronJob" else template}


async def rejection(attempt: object) -> str:
    """Return the error message of a request that the API server must reject."""
    with pytest.raises(ApiError) as refused:
        await attempt  # type: ignore[misc]  # a coroutine of any result
    assert refused.value.status in {403, 500, 503}, refused.value
    return str(refused.value)


async def test_the_webhook_sets_pod_fields_and_rejects_forgery_while_certificates_rotate(
    open_scenario: OpenScenario, ann: Api
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], env=webhook(), started=False)
    old = [workload(kind, f"old-{name}", {}, scheduler=name) for kind in OLD.values() for name in SCHEDULERS]
    await scenario.create(old)
    await scenario.muster.start()
    await registered(scenario)
    async with a_stream_of_pods(scenario):
        first = await bundle(scenario)
        broken = {"cacert1.pem": base64.b64encode(b"garbage").decode(), "cakey2.pem": None}
        await scenario.api.patch("secrets", NAME, {"data": broken}, NAMESPACE)
        await pods_are_changed(scenario, ann)
        await no_user_is_forged(scenario.namespace, ann)
        await no_internal_annotation_is_written(scenario.namespace, ann)
        await pods_get_the_user_of_their_workload(scenario, ann)
        await an_unmanaged_namespace_is_unchanged(scenario, ann)
        await workloads_get_users_with_the_next_change(scenario.namespace, ann)
        await scenario.eventually("a new certificate is served", lambda: is_served_again(scenario), 40)
        assert await bundle(scenario) != first
    await changed_registrations_are_repaired(scenario)


async def pods_are_changed(scenario: Scenario, ann: Api) -> None:
    space = scenario.namespace

    plain = await admitted(scenario, ann, a_pod("plain", scheduler="default-scheduler"))
    assert plain["spec"]["schedulerName"] == "muster"
    assert plain["metadata"]["labels"]["applicationId"] == plain["metadata"]["labels"][f"{PREFIX}app-id"]
    user = json.loads(plain["metadata"]["annotations"][USER_INFO])
    assert user["user"] == "ann"
    assert "analysts" in user["groups"]
    labels = {f"{PREFIX}app-id": "mine", f"{PREFIX}queue": "root.default"}
    named = (await ann.create(a_pod("named", labels=labels), space))["metadata"]["labels"]
    assert (named["applicationId"], named["queue"]) == ("mine", "root.default")
    placed = a_pod("placed", scheduler="default-scheduler")
    placed["spec"]["nodeName"] = "node-0"
    stored = await admitted(scenario, ann, placed)
    assert stored["spec"]["schedulerName"] == "default-scheduler", "there is nothing to schedule"
    assert json.loads(stored["metadata"]["annotations"][USER_INFO])["user"] == "ann"
    assert stored["metadata"]["annotations"][f"{PREFIX}allow-preemption"] == "true"
    await scenario.all_bound(3)
    system = await ann.create(a_pod("system", scheduler="default-scheduler"), "kube-system")
    assert system["spec"]["schedulerName"] == "default-scheduler"
    await scenario.api.delete("pods", "system", "kube-system", grace_s=0)


async def no_user_is_forged(space: str, ann: Api) -> None:
    forged = a_pod("forged", labels=CLOAKS)
    forged["metadata"]["annotations"][USER_INFO] = FORGED
    assert "user.info" in await rejection(ann.create(forged, space))
    change = {"metadata": {"labels": CLOAKS, "annotations": {USER_INFO: FORGED}}}
    assert "user.info" in await rejection(ann.patch("pods", "plain", change, space))
    assert "user.info" in await rejection(ann.patch("pods", "plain", change, space, subresource="status"))
    binding: Json = {"apiVersion": "v1", "kind": "Binding", "target": {"name": "node-0"}}
    binding["metadata"] = {"name": "plain", "annotations": {USER_INFO: FORGED}}
    for way in ("pods/plain/binding", "bindings"):
        assert "user.info" in await rejection(ann.request("POST", f"/api/v1/namespaces/{space}/{way}", binding))
    await ann.patch("pods", "plain", {"metadata": {"labels": CLOAKS}}, space)
    for plural, kind in TEMPLATED.items():
        assert "user.info" in await rejection(ann.create(workload(kind, f"bad-{plural}", {USER_INFO: FORGED}), space))
        await ann.create(workload(kind, plural, {}), space)
        assert "user.info" in await rejection(ann.patch(plural, plural, forgery(kind, FORGED), space))


async def no_internal_annotation_is_written(space: str, ann: Api) -> None:
    forged = {f"{INTERNAL_PREFIX}binding-signature": ""}
    pod = a_pod("forged")
    pod["metadata"]["annotations"].update(forged)
    assert "by Muster only" in await rejection(ann.create(pod, space))
    change = {"metadata": {"annotations": forged}}
    for subresource in (None, "status"):
        assert "by Muster only" in await rejection(ann.patch("pods", "plain", change, space, subresource=subresource))
    binding: Json = {"apiVersion": "v1", "kind": "Binding", "target": {"name": "node-0"}}
    binding["metadata"] = {"name": "plain", "annotations": forged}
    for way in ("pods/plain/binding", "bindings"):
        message = await rejection(ann.request("POST", f"/api/v1/namespaces/{space}/{way}", binding))
        assert "binding-signature" in message
    for plural, kind in TEMPLATED.items():
        assert "by Muster only" in await rejection(ann.create(workload(kind, f"bad-{plural}", forged), space))
        template: Json = {"template": {"metadata": {"annotations": forged}}}
        spec = {"jobTemplate": {"spec": template}} if kind == "CronJob" else template
        assert "by Muster only" in await rejection(ann.patch(plural, plural, {"spec": spec}, space))
    bound = await ann.get("pods", "plain", space)
    signature = f"{INTERNAL_PREFIX}binding-signature"
    assert signature in bound["metadata"]["annotations"]
    for value in (None, ""):
        edited: Json = {"metadata": {"annotations": {signature: value}}}
        for subresource in (None, "status"):
            message = await rejection(ann.patch("pods", "plain", edited, space, subresource=subresource))
            assert "by Muster only" in message, subresource


async def workloads_get_users_with_the_next_change(space: str, ann: Api) -> None:
    """Workloads that existed before Muster get a user when their pods are replaced anyway."""
    for plural, kind in OLD.items():
        for scheduler in SCHEDULERS:
            name = f"old-{scheduler}"
            same = await ann.patch(plural, name, {"metadata": {"labels": {"only": "this"}}}, space)
            assert USER_INFO not in json.dumps(same["spec"]), name
            template: Json = {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}
            change = {"spec": {"jobTemplate": {"spec": template}} if kind == "CronJob" else template}
            changed = await ann.patch(plural, name, change, space)
            assert '"user":"ann"' in json.dumps(changed["spec"]).replace("\\", ""), name


async def pods_get_the_user_of_their_workload(scenario: Scenario, ann: Api) -> None:
    """The pod gets the user of the workload, not the controller that creates it."""
    await ann.create(workload("Deployment", "owned", {}, replicas=1), scenario.namespace)

    async def created() -> list[Json]:
        return await scenario.api.find("pods", scenario.namespace, labelSelector="of=owned")

    [pod] = await scenario.eventually("the Deployment's pod exists", created)
    assert json.loads(pod["metadata"]["annotations"][USER_INFO])["user"] == "ann"


async def an_unmanaged_namespace_is_unchanged(scenario: Scenario, ann: Api) -> None:
    name = f"{scenario.namespace}-apart"
    annotations = {f"{PREFIX}namespace.enableYuniKorn": "false"}
    await scenario.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}
    )

    async def create(pod: Json) -> Json:
        return await ann.request("POST", f"/api/v1/namespaces/{name}/pods?dryRun=All", pod)

    pod = a_pod("plain", scheduler="default-scheduler")
    created = await scenario.eventually("its pods can be created", lambda: create(pod))
    assert created["spec"]["schedulerName"] == "default-scheduler"
    pod["metadata"]["annotations"] = {USER_INFO: FORGED}
    assert "user.info" in await rejection(create(pod))
    await scenario.api.delete("namespaces", name)


@asynccontextmanager
async def a_stream_of_pods(scenario: Scenario) -> AsyncIterator[None]:
    """Create pods one after the other during the block. Each must be admitted."""
    path = f"/api/v1/namespaces/{scenario.namespace}/pods?dryRun=All"
    stopped = asyncio.Event()

    async def create() -> int:
        number = 0
        while not stopped.is_set():
            await scenario.api.request("POST", path, a_pod(f"pod-{number}"))
            number += 1
        return number

    stream = asyncio.create_task(create())
    try:
        yield
    finally:
        stopped.set()
        assert await stream > 20


async def changed_registrations_are_repaired(scenario: Scenario) -> None:
    hooks = (await scenario.api.get(MUTATING, NAME))["webhooks"]
    await scenario.api.patch(MUTATING, NAME, {"webhooks": hooks[1:]})
    await scenario.api.delete(VALIDATING, NAME)

    async def is_repaired() -> bool:
        found = await scenario.api.get(MUTATING, NAME)
        return found["webhooks"] == hooks and bool(await scenario.api.get(VALIDATING, NAME))

    await scenario.eventually("the registrations are repaired", is_repaired)


async def is_served_again(scenario: Scenario) -> bool:
    """Whether the log reports another certificate after the first one."""
    return scenario.muster.operator.log.read_text().count("serving with a new certificate") > 1


async def test_yunikorn_config_maps_set_the_scheduler_name_until_a_restart(
    open_scenario: OpenScenario, ann: Api
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], env=webhook(), started=False)
    api = scenario.api
    entries = (await api.get("configmaps", CONFIGURATION, NAMESPACE))["data"]
    await api.delete("configmaps", CONFIGURATION, NAMESPACE)
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "yunikorn-configs"}, "data": entries}
    await api.create(config_map, NAMESPACE)
    try:
        await scenario.muster.start()
        await registered(scenario)
        assert await scheduler_of_a_new_pod(scenario, ann, "first") == "yunikorn"
        await api.patch("configmaps", "yunikorn-configs", {"data": {"service.schedulerName": "muster"}}, NAMESPACE)
        await scenario.eventually("the change is read", lambda: awaits_restart(scenario))
        assert await scheduler_of_a_new_pod(scenario, ann, "second") == "yunikorn"
        await scenario.muster.operator.stop()
        await scenario.muster.start()
        assert await scheduler_of_a_new_pod(scenario, ann, "third") == "muster"
        await scenario.all_bound(3)
    finally:
        await api.delete("configmaps", "yunikorn-configs", NAMESPACE)
        # Without its settings the end of the scenario would wait for the default completing timeout.
        await api.create({**config_map, "metadata": {"name": CONFIGURATION}}, NAMESPACE)


async def scheduler_of_a_new_pod(scenario: Scenario, ann: Api, name: str) -> str:
    created = await admitted(scenario, ann, a_pod(name, scheduler="default-scheduler"))
    scheduler: str = created["spec"]["schedulerName"]
    return scheduler


async def awaits_restart(scenario: Scenario) -> bool:
    """Whether the operator has reported that the scheduler name takes effect after a restart."""
    events = await scenario.api.find("events", NAMESPACE)
    return any("service.schedulerName = muster takes effect after a restart" in event["message"] for event in events)


async def test_bad_configurations_are_rejected_and_an_outage_blocks_only_muster_pods(
    open_scenario: OpenScenario, ann: Api
) -> None:
    """Then the webhook is killed: pods of Muster are rejected, and all other requests succeed."""
    scenario = await open_scenario([FakeNode("node-0")], env=webhook())
    await registered(scenario)
    await invalid_configurations_are_rejected(scenario)
    space = scenario.namespace
    await ann.create(workload("Deployment", "ours", {}), space)
    await ann.create(a_pod("before"), space)
    await scenario.muster.operator.kill()

    assert "own-pods.admission.muster" in await rejection(ann.create(a_pod("ours"), space))
    assert "own-workloads" in await rejection(ann.create(workload("Job", "ours", {}), space))
    assert "own-workloads" in await rejection(ann.patch("deployments", "ours", forgery("Deployment", FORGED), space))
    assert "own-cronjobs" in await rejection(
        ann.create(workload("CronJob", "bad", {USER_INFO: FORGED}, scheduler="default-scheduler"), space)
    )
    change = {"metadata": {"annotations": {USER_INFO: FORGED}}}
    assert "own-pods" in await rejection(ann.patch("pods", "before", change, space))

    other = await ann.create(a_pod("other", scheduler="default-scheduler"), space)
    assert other["spec"]["schedulerName"] == "default-scheduler"
    await ann.create(workload("Deployment", "other", {}, scheduler="default-scheduler"), space)
    await ann.patch("deployments", "ours", {"spec": {"replicas": 0, "paused": True}}, space)
    await ann.patch("pods", "before", {"metadata": {"labels": {"other": "change"}}}, space)
    async with acting(scenario.cluster, "system:nodes") as kubelet:
        await kubelet.request("POST", f"/api/v1/namespaces/{space}/pods?dryRun=All", a_pod("static"))
    for home in ("kube-system", NAMESPACE):
        await ann.create(a_pod("vital"), home)
        await scenario.api.delete("pods", "vital", home, grace_s=0)
    await scenario.api.patch("configmaps", "muster-configs", {"data": {"queues.yaml": "broken"}}, NAMESPACE)
    await scenario.api.patch("configmaps", "muster-configs", {"data": {"queues.yaml": None}}, NAMESPACE)
    await scenario.api.delete("pods", "other", space, grace_s=0)

    await scenario.muster.start()
    await scenario.eventually("pods of Muster are admitted again", lambda: ann.create(a_pod("ours"), space))
    await scenario.all_bound(2)


async def invalid_configurations_are_rejected(scenario: Scenario) -> None:
    async def change(entries: Json, name: str = "muster-configs") -> Json:
        return await scenario.api.patch("configmaps", name, {"data": entries}, NAMESPACE)

    message = await rejection(
        change({"queues.yaml": "partitions:\n- name: default\n  queues:\n  - name: leaf.with.dots\n"})
    )
    assert "queues.yaml:4" in message, message
    assert "service.placeholderRunAsUser" in await rejection(change({"service.placeholderRunAsUser": "root"}))
    defaults = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "muster-defaults"},
        "data": {"queues.yaml": "partitions: 7"},
    }
    assert "partitions" in await rejection(scenario.api.create(defaults, NAMESPACE))
    # An entry of muster-configs overrides the default, so an invalid default is accepted.
    await change({"queues.yaml": "partitions:\n- name: default\n  queues:\n  - name: root\n"})
    await scenario.api.create(defaults, NAMESPACE)
    assert "partitions" in await rejection(change({"queues.yaml": None}))
    await scenario.api.delete("configmaps", "muster-defaults", NAMESPACE)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"queues.yaml": "?"}}
    await scenario.api.create(other, NAMESPACE)
    await scenario.api.delete("configmaps", "other", NAMESPACE)

    await scenario.muster.core.kill()
    await change({"queues.yaml": "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n"})
    assert "service.placeholderRunAsUser" in await rejection(change({"service.placeholderRunAsUser": "root"}))


async def bundle(scenario: Scenario) -> str:
    """The certificate authorities that the API server trusts for the first webhook."""
    found: str = (await scenario.api.get(MUTATING, NAME))["webhooks"][0]["clientConfig"]["caBundle"]
    return found


async def test_provided_certificates_are_served_and_reloaded(open_scenario: OpenScenario, tmp_path: Path) -> None:
    """In embedded mode: core, operator and webhook in one process."""
    files = {"MUSTER_WEBHOOK_CERT": "tls.crt", "MUSTER_WEBHOOK_KEY": "tls.key", "MUSTER_WEBHOOK_CA": "ca.crt"}
    one, other = a_certificate(tmp_path / "one"), a_certificate(tmp_path / "other")
    write(one, tmp_path)
    env = webhook(**{name: str(tmp_path / file) for name, file in files.items()})
    scenario = await open_scenario([], env=env, embedded=True)
    for document in documents(MANIFEST):  # the API server would take the manifest too
        resource = BY_KIND[document["kind"]]
        document["metadata"]["name"] += "-manifest"
        await scenario.api.request(
            "POST", f"{resource.path(document['metadata'].get('namespace'))}?dryRun=All", document
        )
    await registered(scenario)
    assert base64.b64decode(await bundle(scenario)) == one["ca.crt"]
    with pytest.raises(ApiError):  # no Secret is created
        await scenario.api.get("secrets", NAME, NAMESPACE)
    write(other, tmp_path)

    async def is_replaced() -> bool:
        await scenario.api.request("POST", f"/api/v1/namespaces/{scenario.namespace}/pods?dryRun=All", a_pod("probe"))
        return await is_served_again(scenario)

    await scenario.eventually("the new certificate is served", is_replaced, 40)
    assert base64.b64decode(await bundle(scenario)).startswith(other["ca.crt"])
    bad = {"data": {"queues.yaml": "partitions: 7"}}
    assert "partitions" in await rejection(scenario.api.patch("configmaps", "muster-configs", bad, NAMESPACE))


def a_certificate(folder: Path) -> dict[str, bytes]:
    """A certificate of a new authority, by file name."""
    folder.mkdir()
    authority = Authority(folder)
    leaf = authority.issue("tls", ["127.0.0.1"])
    return {
        "tls.crt": leaf.certificate.read_bytes(),
        "tls.key": leaf.key.read_bytes(),
        "ca.crt": authority.file.read_bytes(),
    }


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files one after the other."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
