"""Attacks with each value that a user can write into a pod: none gives rights over another tenant.

The rows of the table in docs/operate/user-values.md that have no attack of their own.
"""

from collections.abc import Callable

import pytest

from devcluster.api import Json
from devcluster.errors import ApiError
from tests.attacks.conftest import OpenAttack
from tests.e2e.manifests import PREFIX, a_pod
from tests.e2e.rest import get_json

Change = Callable[[Json], object]
ALL_PODS: Json = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}


def _spec(**fields: object) -> Change:
    return lambda pod: pod["spec"].update(fields)


def _metadata(**fields: object) -> Change:
    return lambda pod: pod["metadata"].update(fields)


#: Values that the API server accepts from a user. The cluster has a PriorityClass `attack`.
VALUES: dict[str, Change] = {
    "priority-class": _spec(priorityClassName="attack"),
    "opt-out": _metadata(annotations={f"{PREFIX}allow-preemption": "false"}),
    "tolerations": _spec(tolerations=[{"operator": "Exists"}]),
    "queue": _metadata(labels={"queue": "root.private"}),
    "gates": _spec(schedulingGates=[{"name": "example.com/wait"}]),
    "claims": _spec(resourceClaims=[{"name": "c", "resourceClaimName": "none"}]),
    "readiness": _spec(readinessGates=[{"conditionType": "example.com/ready"}]),
    "grace": _spec(terminationGracePeriodSeconds=2**40),
}


async def test_no_value_of_a_pod_gives_rights_over_another_tenant(open_attack: OpenAttack) -> None:
    """More pods with each value than the queue of the attacker may run. A gang of the other tenant still runs."""
    attack = await open_attack()
    admin = attack.scenario.api
    await admin.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "attack"},
            "value": 1_000_000,
        }
    )
    try:
        for name, change in VALUES.items():
            pods = [a_pod(f"{name}-{number}", cpu="2", labels={"queue": "root.attacker"}) for number in range(3)]
            for pod in pods:
                change(pod)
            await attack.user.create(pods)
        for name in ("first", "second"):
            await attack.victim_gets_its_gang(writes=8 * 3 * len(VALUES), name=name)
        queue = await get_json(attack.scenario, "partition/default/queue/root.attacker")
        private = await get_json(attack.scenario, "partition/default/queue/root.private")
        assert (queue["allocatedResource"] or {}).get("vcore", 0) <= 4000
        assert not any((private["allocatedResource"] or {}).values())
    finally:
        await admin.request("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/attack")


async def test_a_user_cannot_write_status_overhead_or_requests_of_ephemeral_containers(open_attack: OpenAttack) -> None:
    """The API server rejects them, so that they reach no decision."""
    attack = await open_attack()
    pods = f"/api/v1/namespaces/{attack.user.namespace}/pods"
    gated = a_pod("gated", labels={"queue": "root.attacker"})
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    await attack.user.create([gated])
    overhead = a_pod("overhead")
    overhead["spec"]["overhead"] = {"cpu": "100"}
    with pytest.raises(ApiError, match="overhead"):
        await attack.user.create([overhead])
    merge = "application/merge-patch+json"
    for path, body in (
        ("gated/status", {"status": {"nominatedNodeName": "node-0"}}),
        ("gated/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}),
        ("gated/resize", {"spec": {"containers": []}}),
    ):
        with pytest.raises(ApiError, match="forbidden"):
            await attack.user.api.request("PATCH", f"{pods}/{path}", body, None, merge)


async def test_a_resource_quota_forbids_affinity_to_the_pods_of_other_namespaces(open_attack: OpenAttack) -> None:
    """As in kube-scheduler, a running pod with such anti-affinity keeps the pods of other tenants off its nodes."""
    attack = await open_attack()
    scope = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
    quota: Json = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "affinity"},
        "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}},
    }
    await attack.scenario.api.create(quota, attack.user.namespace)

    async def is_counted() -> bool:
        found = await attack.scenario.api.get("resourcequotas", "affinity", attack.user.namespace)
        return bool(found.get("status", {}).get("hard"))

    await attack.scenario.eventually("the quota is counted", is_counted)
    pod = a_pod("anti", labels={"queue": "root.attacker"})
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ALL_PODS]}}
    with pytest.raises(ApiError, match="exceeded quota"):
        await attack.user.create([pod])
