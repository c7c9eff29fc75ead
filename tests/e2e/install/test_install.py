"""Helm installs, upgrades, rolls back and uninstalls the chart where Pod Security `restricted` is enforced, and nothing
is left of it. No container runs here: what the pod of the last hook would do is done in its place, with its rights.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path

import pytest

from devcluster.api import Api, Json
from devcluster.binaries import ensure
from devcluster.cluster import Cluster
from devcluster.connection import load
from devcluster.errors import ApiError
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
from tests.e2e.install.programs import said
from tests.e2e.manifests import a_placeholder, a_pod
from tools.chart import CHART

SCHEDULERS = "app=muster,component=scheduler"
CLEANUP = "app=muster,component=cleanup"


class Release:
    """The chart in the namespace that is enforced, as Helm has it."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self._cluster = cluster
        self._helm = (ensure([HELM])["helm"], "--kubeconfig", kubeconfig, "--namespace", ENFORCED)

    async def helm(self, verb: str, *words: object) -> str:
        return await said(*self._helm, verb, "muster", *words)

    async def pods(self, selector: str = SCHEDULERS) -> list[Json]:
        return await self._cluster.admin.find("pods", ENFORCED, labelSelector=selector)

    async def lets_in(self, count: int) -> None:
        """Wait for so many pods of the last Deployment: none ever gets ready here, so those of before may stay."""

        async def are_let_in() -> bool:
            return len(await self.pods()) >= count

        await until(f"{count} pods are let in", are_let_in, 60)

    async def replicas(self) -> tuple[int, bool]:
        """How many are wanted, and whether a disruption budget is over them."""
        deployment = await self._cluster.admin.get("deployments", "muster", ENFORCED)
        budgets = await self._cluster.admin.request(
            "GET", f"/apis/policy/v1/namespaces/{ENFORCED}/poddisruptionbudgets"
        )
        return deployment["spec"]["replicas"], bool(budgets["items"])


async def what_it_makes_while_it_runs(cluster: Cluster) -> None:
    """Its Lease, its Secrets, its registrations, and, with its account, a signed placeholder of a user's pod."""
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


async def play_the_hook(cluster: Cluster, release: Release, account: str) -> str:
    """Run what its pod would run, and say that it ran; returns what it printed."""

    async def its_pod() -> Json | None:
        pods = await release.pods(CLEANUP)
        return next((pod for pod in pods if pod["spec"]["serviceAccountName"] == account), None)

    pod = await until(f"the pod of {account} is let in", its_pod, 60)
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    kubeconfig = await cluster.kubeconfig_for(pod["spec"]["serviceAccountName"], ENFORCED)
    program, *words = container["command"] + container["args"]
    printed = await said(sys.executable, "-m", program, *words, f"--kubeconfig={kubeconfig}")
    await cluster.admin.patch(
        "pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, ENFORCED, subresource="status"
    )
    return printed


async def test_helm_installs_upgrades_rolls_back_and_uninstalls_and_leaves_nothing(enforced: Cluster) -> None:
    before = await everything(enforced.admin, ENFORCED)
    release = Release(enforced, await enforced.admin_kubeconfig())
    both = "admissionPolicy.enabled=true,yunikornService.enabled=true"
    assert "STATUS: deployed" in await release.helm("install", CHART, "--set", both)
    await release.lets_in(1)
    assert await release.replicas() == (1, False)
    told = await release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", "replicas=2")
    assert "The webhook is disabled" in told
    assert "WARNING" not in told
    await release.lets_in(2)
    assert await release.replicas() == (2, True)
    await release.helm("rollback")
    assert await release.replicas() == (1, False)

    await what_it_makes_while_it_runs(enforced)
    by_hand = f"kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations {name_of(ENFORCED)}"
    no_job = "cleanup.enabled=false,webhook.certificates=certManager"
    told = await release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", no_job)
    assert by_hand in told
    assert "webhook.certificates has no effect without webhook.enabled: true" in told
    upgrading = asyncio.create_task(
        release.helm("upgrade", CHART, "--reset-then-reuse-values", "--set", "cleanup.enabled=true")
    )
    printed = await play_the_hook(enforced, release, "muster-unregister")
    assert [line.partition(":")[0] for line in printed.splitlines()] == ["deleted", "deleted"]
    assert by_hand in await upgrading
    told = await release.helm("upgrade", CHART, "--reset-then-reuse-values")
    assert "WARNING" not in told
    uninstalling = asyncio.create_task(release.helm("uninstall"))
    printed = await play_the_hook(enforced, release, "muster-cleanup")
    assert "deleted: 1 placeholders" in printed
    assert "uninstalled" in await uninstalling
    assert await everything(enforced.admin, ENFORCED) - before == set()
    assert [pod["metadata"]["name"] for pod in await enforced.admin.find("pods", "default")] == ["a-users"]
    await enforced.admin.delete("pods", "a-users", "default", grace_s=0)
