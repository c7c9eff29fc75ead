"""Attacks by forgery: objects of a namespace user give no permissions for other namespaces, queues or the scheduler."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from devcluster.api import Json
from devcluster.cluster import documents
from devcluster.errors import ApiError
from devcluster.muster import LEASE, MANIFESTS, NAMESPACE
from devcluster.resources import BY_KIND
from muster_operator.model import limits
from muster_operator.model.names import ANNOTATION_BINDING_SIGNATURE
from tests.attacks.attack import Attack, annotated, sized, task_groups
from tests.attacks.conftest import OpenAttack
from tests.e2e.conditions import condition
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.manifests import PLACEHOLDER, a_daemon_set, a_pod, is_bound
from tests.e2e.rest import get_json

INTERNAL = "internal.yunikorn.apache.org/"
SOON = {"preemption.delay": "1s"}
NO_MAXIMUM = queue_file(
    a_queue("attacker", submitacl="*"),
    a_queue("tenant", guaranteed={"vcore": "2", "memory": "1Gi"}, submitacl="*", properties=SOON),
)


async def stays(attack: Attack, names: set[str], what: str) -> None:
    """Check that these pods of the attacker get no node while two gangs of another tenant are scheduled."""
    for name in ("first", "second"):
        await attack.victim_gets_its_gang(writes=60, name=name)
    running = {pod["metadata"]["name"] for pod in await attack.attackers_pods() if is_bound(pod)}
    assert not names & running, what


async def test_a_user_set_node_name_does_not_bypass_queue_access(open_attack: OpenAttack) -> None:
    """`spec.nodeName` on one pod does not let the later pods of its application past a queue's maximum or its ACL."""
    attack = await open_attack()
    for queue, where in (("root.private", "private"), ("root.nowhere", "nowhere")):
        first = a_pod(f"{where}-placed", cpu="1m", labels={"applicationId": where, "queue": queue})
        first["spec"]["nodeName"] = "does-not-exist"
        await attack.user.create([first])
        later = [a_pod(f"{where}-{n}", cpu="1", labels={"applicationId": where, "queue": queue}) for n in range(6)]
        await attack.user.create(later)
    names = {f"{where}-{n}" for where in ("private", "nowhere") for n in range(6)}
    await stays(attack, names, "pods run in a queue that does not admit them")


async def test_the_daemon_sets_of_a_user_and_forged_owners_evict_no_pod_of_another_tenant(
    open_attack: OpenAttack,
) -> None:
    """A pod that named any DaemonSet as its owner preempted on its node, whatever protected the pods there."""
    attack = await open_attack(nodes=1)
    tenant = [a_pod(f"full-{n}", cpu="950m", labels={"queue": "root.tenant"}) for n in range(4)]
    await attack.scenario.create(tenant)
    await attack.scenario.all_bound(len(tenant) + len(attack.bystanders))
    attack.bystanders = await attack.scenario.bound()
    daemons = await attack.user.api.create(
        a_daemon_set("daemons", cpu="500m", queue="root.attacker"), attack.user.namespace
    )
    forged = a_pod("forged", cpu="500m", labels={"queue": "root.attacker"})
    uid = daemons["metadata"]["uid"]
    forged["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "DaemonSet", "name": "daemons", "uid": uid}]
    field = {"key": "metadata.name", "operator": "In", "values": ["node-0"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    forged["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    await attack.user.create([forged])

    async def are_decided() -> bool:
        pods = await attack.attackers_pods()
        return len(pods) == 2 and all(is_bound(p) or condition(p, "PodScheduled").get("reason") for p in pods)

    await attack.scenario.eventually("the pods of the attacker are bound or wait", are_decided)
    assert not [pod for pod in await attack.attackers_pods() if is_bound(pod)]
    await attack.user.api.delete("daemonsets", "daemons", attack.user.namespace)


@asynccontextmanager
async def node_name_policy(attack: Attack) -> AsyncIterator[None]:
    """Enable the policy of the default installation for the duration of the block."""
    admin = attack.scenario.api
    pods = f"/api/v1/namespaces/{attack.scenario.namespace}/pods"
    probe = a_pod("probe")
    probe["spec"]["nodeName"] = "node-0"

    async def is_refused() -> bool:
        try:
            await admin.request("POST", pods, probe, {"dryRun": "All"})
        except ApiError as error:
            return "ValidatingAdmissionPolicy 'muster-node-name'" in error.message
        return False

    async def is_admitted() -> bool:
        return not await is_refused()

    async with AsyncExitStack() as stack:
        stack.push_async_callback(attack.scenario.eventually, "the policy is gone", is_admitted)
        for document in documents(MANIFESTS.with_name("node-name-policy.yaml")):
            await admin.create(document)
            plural, name = BY_KIND[document["kind"]].plural, document["metadata"]["name"]
            stack.push_async_callback(admin.delete, plural, name)
        await attack.scenario.eventually("the policy is in force", is_refused)
        yield


async def test_the_policy_rejects_a_user_set_node_name(open_attack: OpenAttack) -> None:
    """A new pod or a changed waiting pod with a node name is rejected and does not count in a queue."""
    attack = await open_attack()
    waiting = a_pod("waiting", cpu="1m", labels={"queue": "root.private"})
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "waiting"}, "target": {"name": "node-0"}}
    pods = f"/api/v1/namespaces/{attack.user.namespace}/pods"
    async with node_name_policy(attack):
        for scheduler in ("muster", "yunikorn"):
            placed = a_pod("placed", cpu="1", labels={"queue": "root.attacker"}, scheduler=scheduler)
            placed["spec"]["nodeName"] = "node-0"
            for mirror in ({}, {"kubernetes.io/config.mirror": "0"}):
                placed["metadata"]["annotations"] = mirror
                with pytest.raises(ApiError, match=r"remove spec\.nodeName"):
                    await attack.user.create([placed])
        await attack.user.create([waiting])
        for request in (
            attack.user.api.patch("pods", "waiting", {"spec": {"nodeName": "node-0"}}, attack.user.namespace),
            attack.user.api.request("POST", f"{pods}/waiting/binding", binding),
        ):
            with pytest.raises(ApiError):
                await request
        await stays(attack, {"placed", "waiting"}, "a pod of the attacker runs where the user wants it")
    assert {pod["metadata"]["name"] for pod in await attack.attackers_pods()} <= {"waiting"}
    queue = await get_json(attack.scenario, "partition/default/queue/root.attacker")
    assert not any((queue["allocatedResource"] or {}).values()), "resources of the refused pods count"


async def test_a_forged_or_copied_binding_signature_gives_no_queue_access_after_a_restart(
    open_attack: OpenAttack,
) -> None:
    """Neither a signature copied from a pod that Muster bound nor an invented one forces an application in."""
    attack = await open_attack()
    await attack.user.create([a_pod("honest", cpu="1m", labels={"queue": "root.attacker"})])
    await attack.scenario.eventually("a pod of the attacker is bound", lambda: _attacker_runs(attack, 1))
    [honest] = await attack.attackers_pods()
    signature = honest["metadata"]["annotations"][ANNOTATION_BINDING_SIGNATURE]
    for where, written in (("copied", signature), ("invented", signature[:-4] + "AAAA"), ("unknown", "v1:0:AAAA")):
        labels = {"applicationId": where, "queue": "root.private"}
        first = a_pod(f"{where}-placed", cpu="1m", labels=labels)
        first["spec"]["nodeName"] = honest["spec"]["nodeName"]
        first["metadata"]["annotations"] = {ANNOTATION_BINDING_SIGNATURE: written}
        await attack.user.create([first])
    await attack.restart_operator()
    forged = ("copied", "invented", "unknown")
    for where in forged:
        labels = {"applicationId": where, "queue": "root.private"}
        await attack.user.create(a_pod(f"{where}-{n}", cpu="1", labels=labels) for n in range(3))
    await stays(
        attack, {f"{where}-{n}" for where in forged for n in range(3)}, "a signature of another pod was accepted"
    )


async def test_a_pod_with_a_copied_signature_is_not_a_placeholder(open_attack: OpenAttack) -> None:
    """Copies of a real placeholder under other names, owners and requests are ordinary pods, also after a restart."""
    attack = await open_attack()
    labels = {"applicationId": "own", "queue": "root.attacker"}
    driver = annotated(
        a_pod("driver", cpu="100", labels=labels),
        task_groups=task_groups(("g", 2), cpu="1"),
        schedulingPolicyParameters="gangPlacement=Reserve",
    )
    await attack.user.create([driver])

    async def placeholders() -> list[Json]:
        return [pod for pod in await attack.attackers_pods() if PLACEHOLDER in pod["metadata"]["annotations"]]

    real = (await attack.scenario.eventually("a placeholder exists", placeholders))[0]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "driver", "uid": real["metadata"]["ownerReferences"][0]["uid"]}
    for name, cpu in (("same", "1"), ("small", "1m")):
        forged = a_pod(f"forged-{name}", cpu=cpu, labels=labels)
        forged["metadata"] |= {"annotations": real["metadata"]["annotations"], "ownerReferences": [owner]}
        forged["spec"]["containers"][0]["name"] = "pause"
        await attack.user.post(forged, fieldManager="muster-placeholder")
    await attack.victim_gets_its_gang(writes=100)
    await attack.restart_operator()
    await attack.victim_gets_its_gang(writes=100, name="after-recovery")
    there = {pod["metadata"]["name"] for pod in await attack.attackers_pods()}
    assert {"forged-same", "forged-small"} <= there, (
        "Muster deletes what it takes for its placeholders, and no other pod"
    )


async def test_a_user_set_node_name_does_not_bypass_the_queue_maximum(open_attack: OpenAttack) -> None:
    """Pods with a user-set node count in their queue, which schedules no pod beyond its maximum."""
    attack = await open_attack()
    labels = {"applicationId": "pinned", "queue": "root.attacker"}
    pinned = [a_pod(f"pinned-{n}", cpu="2", labels=labels) for n in range(2)]
    for number, pod in enumerate(pinned):
        pod["spec"]["nodeName"] = f"node-{number}"
    await attack.user.create(pinned)
    await attack.user.create(a_pod(f"more-{n}", cpu="1", labels=labels) for n in range(3))
    await stays(attack, {f"more-{n}" for n in range(3)}, "the queue is over its maximum")


async def test_an_application_id_of_another_namespace_does_not_affect_its_pods(open_attack: OpenAttack) -> None:
    """A Hard gang of the same ID fails in the attacker's namespace: pods of the other one neither join nor fail."""
    attack = await open_attack()
    for number, app in enumerate((f"yunikorn-{attack.scenario.namespace}-autogen", "bystander", "late")):
        captor = annotated(
            a_pod(f"captor-{number}", cpu="100", labels={"applicationId": app, "queue": "root.attacker"}),
            task_groups=task_groups(("g", 3), cpu="100"),
            schedulingPolicyParameters="gangSchedulingStyle=Hard placeholderTimeoutInSeconds=2 gangPlacement=Reserve",
        )
        await attack.user.create([captor])
    victims = [
        a_pod("joins-late", cpu="100m", labels={"applicationId": "late", "queue": "root.tenant"}),
        a_pod("joins-by-default", cpu="100m", labels={"queue": "root.tenant"}),
    ]
    await attack.scenario.create(victims)

    async def run() -> bool:
        found = {pod["metadata"]["name"] for pod in await attack.scenario.bound()}
        return {"joins-late", "joins-by-default"} <= found

    await attack.scenario.eventually("pods of the same ID in the other namespace run", run)
    await attack.restart_operator()
    await attack.victim_gets_its_gang(writes=100)
    for pod in await attack.scenario.pods():
        assert pod["status"]["phase"] != "Failed", pod["metadata"]["name"]
    for pod in victims:
        await attack.scenario.api.delete("pods", pod["metadata"]["name"], attack.scenario.namespace, grace_s=0)


async def test_forged_internal_annotations_and_field_managers_have_no_effect(open_attack: OpenAttack) -> None:
    """A pod that looks like a placeholder of another tenant's gang is an ordinary pod and takes over no application."""
    attack = await open_attack()
    owner = (await attack.scenario.pods())[0]["metadata"]
    forged = a_pod("forged", cpu="1m", labels={"applicationId": "bystander", "queue": "root.attacker"})
    forged["metadata"]["annotations"] = {
        PLACEHOLDER: "true",
        f"{INTERNAL}gang-outcome": "resumed",
        "yunikorn.apache.org/task-group-name": "workers",
    }
    forged["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"]}
    ]
    await attack.user.post(forged, fieldManager="muster-placeholder")
    await attack.victim_gets_its_gang(writes=20)
    await attack.restart_operator()
    await attack.victim_gets_its_gang(writes=20, name="after-recovery")


def a_lease(name: str, scheduler_names: str) -> Json:
    """A Lease that looks like another Muster's."""
    labels = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "operator"}
    metadata = {"name": name, "labels": labels, "annotations": {f"{INTERNAL}scheduler-names": scheduler_names}}
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 50}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


async def test_forged_leases_and_deployments_stop_no_scheduler(open_attack: OpenAttack) -> None:
    """Neither a renewed Lease in the attacker's namespace nor a Deployment called yunikorn-scheduler is trusted.

    Pods with the labels of a YuniKorn, each with a separate account, cause a bounded number of reviews.
    """
    attack = await open_attack()
    space = attack.user.namespace
    for name in ("muster", "muster-scheduler-muster", "muster-yunikorn"):
        await attack.user.api.create(a_lease(name, "muster,yunikorn"), space)
    labels = {"app": "yunikorn", "component": "yunikorn-scheduler"}
    spec = a_pod("x", scheduler="other")["spec"] | {"restartPolicy": "Always"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "yunikorn-scheduler", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    await attack.user.api.create(deployment, space)
    accounts = [f"yunikorn-{number}" for number in range(sized(50, 5_000))]
    for account in accounts:
        await attack.scenario.api.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}, space
        )
    await attack.user.create(map(_like_a_yunikorn, accounts))

    async def renew() -> None:
        version = ""
        for count in itertools.count(1):

            async def renewed(before: str = version) -> str:
                lease = await attack.scenario.api.get("leases", LEASE, NAMESPACE)
                now = str(lease["metadata"]["resourceVersion"])
                return now if now != before else ""

            version = await attack.scenario.eventually("the operator renewed its own Lease", renewed)
            await attack.user.api.patch("leases", "muster", {"spec": {"leaseTransitions": count}}, space)

    renewing = asyncio.create_task(renew())
    try:
        await attack.restart_operator()
        await attack.victim_gets_its_gang(writes=20)
        assert 0 < await _reviews(attack) <= 4 * limits.YUNIKORN_ACCOUNTS_PER_NAMESPACE
        for name in ("muster", "yunikorn"):
            pod = a_pod(f"by-{name}", cpu="100m", labels={"queue": "root.tenant"}, scheduler=name)
            await attack.scenario.create([pod])
            await attack.scenario.eventually(f"the name {name} is served", partial(_is_bound, attack, f"by-{name}"))
            await attack.scenario.api.delete("pods", f"by-{name}", attack.scenario.namespace, grace_s=0)
    finally:
        renewing.cancel()
        await attack.scenario.api.delete("deployments", "yunikorn-scheduler", space)


async def _reviews(attack: Attack) -> float:
    """Number of SubjectAccessReviews of the operator since its start."""
    requests = await attack.scenario.muster.samples("muster_operator_api_requests_total")
    return sum(count for labels, count in requests.items() if "subjectaccessreviews" in labels)


def _like_a_yunikorn(account: str) -> Json:
    pod = a_pod(account, scheduler="other")
    pod["spec"]["serviceAccountName"] = account
    pod["metadata"]["labels"] = {"app": "yunikorn", "component": "yunikorn-scheduler"}
    return pod


async def _is_bound(attack: Attack, name: str) -> bool:
    return name in {pod["metadata"]["name"] for pod in await attack.scenario.bound()}


async def test_victims_that_do_not_terminate_do_not_block_preemption(open_attack: OpenAttack) -> None:
    """The attacker fills the cluster; one of its pods is kept by a finalizer. Other pods are preempted instead."""
    settings = {"service.preemptionInterval": "500ms", "service.reservationDelay": "200ms"}
    attack = await open_attack({**settings, **NO_MAXIMUM}, nodes=2)
    labels = {"applicationId": "stuck", "queue": "root.attacker"}
    stuck = a_pod("stuck", cpu="3900m", labels=labels)
    stuck["metadata"]["finalizers"] = ["attacker.example/never"]
    attack.finalized.append("stuck")
    await attack.user.create([stuck])
    await attack.scenario.eventually("the pod with the finalizer runs", lambda: _attacker_runs(attack, 1))
    await attack.user.create(a_pod(f"plain-{n}", cpu="900m", labels=labels) for n in range(4))
    await attack.scenario.eventually("the attacker has filled the cluster", lambda: _attacker_runs(attack, 4))
    first = a_pod("guaranteed", cpu="500m", labels={"queue": "root.tenant"})
    await attack.scenario.create([first])
    await attack.scenario.eventually(
        "the pod within the guarantee is bound", lambda: _is_bound(attack, "guaranteed"), 180
    )
    await attack.scenario.api.delete("pods", "guaranteed", attack.scenario.namespace, grace_s=0)


async def _attacker_runs(attack: Attack, count: int) -> bool:
    return sum(is_bound(pod) for pod in await attack.attackers_pods()) >= count
