"""Helm installs, upgrades, rolls back and uninstalls the chart where Pod Security `restricted` is enforced, and leaves
no object. No container runs here: the test runs the command of the last hook itself, with the hook's permissions.
"""

import asyncio
import base64
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from devcluster.api import Api, Json
from devcluster.binaries import ensure
from devcluster.cluster import Cluster
from devcluster.connection import load
from devcluster.errors import ApiError, ConditionNotMet
from devcluster.programs import HELM
from devcluster.waiting import until
from muster_operator.model.names import ANNOTATION_PLACEHOLDER_SIGNATURE, PLACEHOLDER_FIELD_MANAGER
from muster_operator.model.settings import Settings
from muster_operator.model.signing import CURRENT, KEY_BYTES, SigningKeys, placeholder_texts
from muster_operator.model.signing import SECRET as SIGNING
from muster_operator.webhook.certificates import SECRET
from muster_operator.webhook.registration import name_of
from tests.e2e.install.conftest import ENFORCED
from tests.e2e.install.inventory import everything
from tests.e2e.install.programs import output_of
from tests.e2e.manifests import a_placeholder, a_pod
from tools.chart import CHART

SCHEDULERS = "app=muster,component=scheduler"
CLEANUP = "app=muster,component=cleanup"


class Release:
    """The Helm release of the chart in the enforcing namespace."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self._cluster = cluster
        self._helm = (ensure([HELM])["helm"], "--kubeconfig", kubeconfig, "--namespace", ENFORCED)

    async def helm(self, verb: str, *arguments: object) -> str:
        return await output_of(*self._helm, verb, "muster", *arguments)

    async def pods(self, selector: str = SCHEDULERS) -> list[Json]:
        return await self._cluster.admin.find("pods", ENFORCED, labelSelector=selector)

    async def admits(self, count: int) -> None:
        """Wait for ``count`` pods of the last Deployment. None gets ready here, so pods of earlier ones may remain."""

        async def are_admitted() -> bool:
            return len(await self.pods()) >= count

        await until(f"{count} pods are admitted", are_admitted, 60)

    async def replicas(self) -> tuple[int, bool]:
        """Return the number of replicas, and whether there is a disruption budget for them."""
        deployment = await self._cluster.admin.get("deployments", "muster", ENFORCED)
        budgets = await self._cluster.admin.request(
            "GET", f"/apis/policy/v1/namespaces/{ENFORCED}/poddisruptionbudgets"
        )
        return deployment["spec"]["replicas"], bool(budgets["items"])


async def create_runtime_objects(cluster: Cluster) -> None:
    """Create its Lease, Secrets and registrations and, with its account, a signed placeholder of a user pod."""
    api = cluster.admin
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "muster"}, "spec": {}}
    await api.create(lease, ENFORCED)
    await api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}, ENFORCED)
    key = bytes(KEY_BYTES)
    data = {CURRENT: base64.b64encode(key).decode()}
    await api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SIGNING}, "data": data}, ENFORCED)
    for kind in ("Mutating", "Validating"):
        registered = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
        await api.create(registered | {"metadata": {"name": name_of(ENFORCED)}, "webhooks": []})
    owner = await api.create(a_pod("a-users"))
    placeholder = a_placeholder(Settings().placeholder_image, "tg-left")
    uid = owner["metadata"]["uid"]
    placeholder["metadata"]["ownerReferences"][0] |= {"name": "a-users", "uid": uid}
    texts = placeholder_texts(namespace="default", name="tg-left", owner=uid, app="", group="", ordinal="", requests="")
    signature = SigningKeys(ENFORCED, [key]).sign(texts)
    placeholder["metadata"]["annotations"][ANNOTATION_PLACEHOLDER_SIGNATURE] = signature
    pods, params = "/api/v1/namespaces/default/pods", {"fieldManager": PLACEHOLDER_FIELD_MANAGER}
    with pytest.raises(ApiError, match="are written by Muster only"):
        await api.request("POST", pods, placeholder, params)
    async with Api(await load(await cluster.kubeconfig_for("muster-operator", ENFORCED))) as operator:
        await operator.request("POST", pods, placeholder, params)


async def run_hook(cluster: Cluster, release: Release, account: str) -> str:
    """Run the command of the hook's pod, set the pod to Succeeded, and return the output."""

    async def its_pod() -> Json | None:
        pods = await release.pods(CLEANUP)
        return next((pod for pod in pods if pod["spec"]["serviceAccountName"] == account), None)

    pod = await until(f"the pod of {account} is admitted", its_pod, 60)
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    kubeconfig = await cluster.kubeconfig_for(pod["spec"]["serviceAccountName"], ENFORCED)
    program, *arguments = container["command"] + container["args"]
    printed = await output_of(sys.executable, "-m", program, *arguments, f"--kubeconfig={kubeconfig}")
    await cluster.admin.patch(
        "pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, ENFORCED, subresource="status"
    )
    return printed


async def test_helm_installs_upgrades_rolls_back_and_uninstalls_and_leaves_nothing(enforced: Cluster) -> None:
    before = await everything(enforced.admin, ENFORCED)
    release = Release(enforced, await enforced.admin_kubeconfig())
    both = "admissionPolicy.enabled=true,yunikornService.enabled=true"
    assert "STATUS: deployed" in await release.helm("install", CHART, "--set", both)
    await release.admits(1)
    assert await release.replicas() == (1, False)
    output = await release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", "replicas=2")
    assert "The webhook is disabled" in output
    assert "WARNING" not in output
    await release.admits(2)
    assert await release.replicas() == (2, True)
    await release.helm("rollback")
    assert await release.replicas() == (1, False)

    await create_runtime_objects(enforced)
    by_hand = f"kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations {name_of(ENFORCED)}"
    no_job = "cleanup.enabled=false,webhook.certificates=certManager"
    output = await release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", no_job)
    assert by_hand in output
    assert "webhook.certificates has no effect without webhook.enabled: true" in output
    upgrading = asyncio.create_task(
        release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", "cleanup.enabled=true")
    )
    printed = await run_hook(enforced, release, "muster-unregister")
    assert [line.partition(":")[0] for line in printed.splitlines()[-2:]] == ["deleted", "deleted"]
    assert by_hand in await upgrading
    output = await release.helm("upgrade", CHART, "--reset-then-reuse-values")
    assert "WARNING" not in output
    uninstalling = asyncio.create_task(release.helm("uninstall"))
    printed = await run_hook(enforced, release, "muster-cleanup")
    assert "deleted: 1 placeholders" in printed
    assert "uninstalled" in await uninstalling
    left: list[str] = []

    async def nothing_is_left() -> bool:
        left[:] = sorted(str(each) for each in await everything(enforced.admin, ENFORCED) - before)
        return not left

    with suppress(ConditionNotMet):  # the garbage collector deletes the pod of the hook's Job
        await until("nothing is left", nothing_is_left, 30, every_s=0.5)
    assert left == []
    assert [pod["metadata"]["name"] for pod in await enforced.admin.find("pods", "default")] == ["a-users"]
    await enforced.admin.delete("pods", "a-users", "default", grace_s=0)
