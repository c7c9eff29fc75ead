"""The commands of the chart's hooks, with their permissions: a test gang, and the cleanup of an uninstall."""

import asyncio
import json
import sys

from devcluster.api import Json
from devcluster.muster import LEASE, NAMESPACE
from devcluster.nodes import FakeNode
from muster.clients.kubernetes import connect
from muster_operator.model.names import ANNOTATION_PLACEHOLDER_SIGNATURE, PLACEHOLDER_FIELD_MANAGER
from muster_operator.model.signing import SECRET as SIGNING
from muster_operator.runtime.conflicts import NAMESPACE as NAMES
from muster_operator.runtime.conflicts import PREFIX
from muster_operator.webhook.certificates import SECRET
from muster_operator.webhook.registration import NAME
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PLACEHOLDER, Group, a_gang, a_pod, is_placeholder
from tests.e2e.scenario import Scenario
from tools.manifests import render

IMAGE = "registry.k8s.io/pause:3.10.2"
LIST = ("placeholders", "-A", f"--muster-namespace={NAMESPACE}")
RIGHTS = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


async def hooked(
    scenario: Scenario, account: str, namespace: str, *arguments: str, without: str = ""
) -> tuple[int | None, str]:
    """Run a command with the hook's account. Returns exit code and output. `without`: a resource without permission."""
    granted = [
        one for one in render({}, namespace) if one["kind"] in RIGHTS and one["metadata"]["name"].startswith(account)
    ]
    assert granted
    for one in granted:
        if "rules" in one:
            one["rules"] = [rule for rule in one["rules"] if without not in rule["resources"]]
    for one in granted:
        await scenario.api.apply(one, namespace)
    kubeconfig = await scenario.cluster.kubeconfig_for(account, namespace)
    flags = [f"--kubeconfig={kubeconfig}"]
    if arguments[0] != "placeholders":
        flags.append(f"--namespace={namespace}")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "muster",
        *arguments,
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text = (await process.communicate())[0].decode()
    for one in granted:
        await scenario.cluster.admin.delete(f"{one['kind'].lower()}s", one["metadata"]["name"], _home(one))
    return process.returncode, text


def _home(document: Json) -> str | None:
    found: str | None = document["metadata"].get("namespace")
    return found


async def test_a_smoke_test_runs_a_gang_and_deletes_it(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0")])
    code, text = await hooked(
        scenario, "muster-test", scenario.namespace, "smoke-test", f"--image={IMAGE}", "--seconds=60"
    )
    assert (code, text.splitlines()[-1]) == (0, "passed: the gang ran completely"), text
    await scenario.eventually("its pods are deleted", lambda: _has_no_pod(scenario))


async def test_a_smoke_test_without_free_resources_reports_what_each_member_waits_for(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="20m")])
    code, text = await hooked(
        scenario, "muster-test", scenario.namespace, "smoke-test", f"--image={IMAGE}", "--seconds=4"
    )
    assert code == 1
    assert "the gang did not run within 4 s" in text
    assert "muster-smoke-test-" in text.splitlines()[-2]
    await scenario.eventually("its pods are deleted", lambda: _has_no_pod(scenario))


async def test_an_uninstall_deletes_only_the_objects_of_its_installation(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0")])
    (first, *_) = a_gang("left", [Group("workers", 3), Group("others", 2)], timeout_s=600, placement="Reserve")
    await scenario.create([first])
    await scenario.eventually("placeholders are bound", lambda: _has_bound_placeholders(scenario))
    await scenario.muster.stop()
    api = scenario.api
    for kind in ("Mutating", "Validating"):
        registered = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
        await api.create(registered | {"metadata": {"name": NAME}, "webhooks": []})
    await api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}, NAMESPACE)
    others = a_pod("of-another-muster", scheduler="batch")
    others["metadata"] |= {"annotations": {PLACEHOLDER: "true"}}
    made_by = {"fieldManager": PLACEHOLDER_FIELD_MANAGER}
    await api.request("POST", f"/api/v1/namespaces/{scenario.namespace}/pods", others, made_by)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": f"{PREFIX}yunikorn"}}
    await api.delete("leases", f"{PREFIX}yunikorn", NAMES)
    await api.create(lease | {"spec": {"holderIdentity": "another/muster", "leaseDurationSeconds": 45}}, NAMES)
    forged = a_pod("forged")
    forged["metadata"]["annotations"] |= {PLACEHOLDER: "true", ANNOTATION_PLACEHOLDER_SIGNATURE: "forged"}
    await api.request("POST", f"/api/v1/namespaces/{scenario.namespace}/pods", forged, made_by)
    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, "uninstall", "--yes", without="secrets")
    assert (code, "kept, placeholders may be left" in text) == (1, True), text
    assert len([pod for pod in await api.find("pods", scenario.namespace) if is_placeholder(pod)]) > 2, text
    assert f"deleted: mutatingwebhookconfiguration/{NAME}\n" in text, "a failure stopped the rest"
    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, "uninstall", "--yes")
    assert code == 0, text
    assert text.index(" placeholders\n") < text.index(f"secret/{SECRET}") < text.index(f"secret/{SIGNING}")
    assert await api.delete("pods", "forged", scenario.namespace, grace_s=0), "a forged placeholder was deleted"
    assert "kept, held by another/muster" in text
    assert await api.delete("leases", f"{PREFIX}yunikorn", NAMES), "the Lease of another installation was deleted"
    kept = {first["metadata"]["name"], "of-another-muster"}

    async def only_kept_remain() -> bool:
        found = {pod["metadata"]["name"] for pod in await api.find("pods", scenario.namespace)}
        assert kept <= found
        return found == kept

    await scenario.eventually("the placeholders are deleted", only_kept_remain)
    await api.delete("pods", "of-another-muster", scenario.namespace, grace_s=0)
    for plural, name, namespace in (
        ("mutatingwebhookconfigurations", NAME, None),
        ("validatingwebhookconfigurations", NAME, None),
        ("secrets", SECRET, NAMESPACE),
        ("secrets", SIGNING, NAMESPACE),
        ("leases", LEASE, NAMESPACE),
        ("leases", f"{PREFIX}muster", NAMES),
    ):
        assert not await api.delete(plural, name, namespace), f"{name} was still there"
    await api.delete("pods", first["metadata"]["name"], scenario.namespace, grace_s=0)


async def test_forged_placeholders_are_listed_and_deleted_and_signed_ones_are_kept(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0")])
    (first, *_) = a_gang("left", [Group("workers", 3), Group("others", 2)], timeout_s=600, placement="Reserve")
    await scenario.create([first])
    await scenario.eventually("placeholders are bound", lambda: _has_bound_placeholders(scenario))
    await scenario.eventually("the pod has replaced one placeholder of five", lambda: _has_replaced(scenario))
    signed = {pod["metadata"]["name"] for pod in await scenario.bound(placeholders=True)}
    forged = a_pod("forged")
    forged["metadata"]["annotations"] |= {PLACEHOLDER: "true", ANNOTATION_PLACEHOLDER_SIGNATURE: "forged"}
    await scenario.api.create(forged, scenario.namespace)

    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, *LIST, without="secrets")
    assert code == 0, text
    assert "the signatures are not verified" in text
    assert text.endswith("0 placeholders without a valid signature\n")
    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, *LIST)
    *_, row, total = text.splitlines()
    assert (code, total) == (0, "1 placeholders without a valid signature"), text
    assert row.split() == [scenario.namespace, "forged", "Pending", "no"]
    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, *LIST, "-o", "json")
    assert [pod["metadata"]["name"] for pod in json.loads(text)["items"]] == ["forged"]
    elsewhere = ("placeholders", f"--muster-namespace={NAMESPACE}", "-n", "elsewhere")
    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, *elsewhere)
    assert (code, text) == (0, "0 placeholders without a valid signature\n")
    cluster = connect(str(await scenario.cluster.admin_kubeconfig()), "")
    path = f"/api/v1/namespaces/{scenario.namespace}/pods/forged"
    assert not await asyncio.to_thread(cluster.delete, path, "uid-of-an-older-pod")
    cluster.http.close()
    assert await scenario.api.get("pods", "forged", scenario.namespace)
    code, text = await hooked(scenario, "muster-cleanup", NAMESPACE, *LIST, "--delete", "--yes")
    assert (code, text.splitlines()[-2].split()[-1]) == (0, "yes"), text

    async def is_deleted() -> bool:
        remaining = {pod["metadata"]["name"] for pod in await scenario.api.find("pods", scenario.namespace)}
        assert signed <= remaining
        return "forged" not in remaining

    await scenario.eventually("the forged one is deleted", is_deleted)


async def _has_no_pod(scenario: Scenario) -> bool:
    return not await scenario.api.find("pods", scenario.namespace)


async def _has_bound_placeholders(scenario: Scenario) -> bool:
    return len(await scenario.bound(placeholders=True)) >= 4


async def _has_replaced(scenario: Scenario) -> bool:
    return (len(await scenario.bound()), len(await scenario.bound(placeholders=True))) == (1, 4)
