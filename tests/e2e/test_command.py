"""The `muster` command against a running scheduler on a real API server: commands and their output."""

import asyncio
import json
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from devcluster.api import Json
from devcluster.binaries import ensure
from devcluster.cluster import Cluster, documents
from devcluster.muster import ACCOUNT, MANIFESTS, NAMESPACE
from devcluster.nodes import FakeNode
from devcluster.programs import KUBECTL
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, Group, a_gang, a_pod, with_annotations
from tests.e2e.scenario import Scenario
from tools import webhooks

ROOT = Path(__file__).parents[2]
LONG_S = 600
LEAF = "root.leaf"


@dataclass(frozen=True, slots=True)
class Command:
    """The `muster` command with the administrator's kubeconfig."""

    scenario: Scenario
    kubeconfig: str

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        server = f"http://127.0.0.1:{self.scenario.muster.rest_port}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "muster", *arguments, "--server", server),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": self.kubeconfig},
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def data(self, *arguments: str, code: int = 0) -> Any:
        """The object, or the items of the list, that `-o json` prints."""
        exit_code, out, err = await self.run(*arguments, "-o", "json")
        assert exit_code == code, out + err
        found = json.loads(out)
        return found["items"] if found.get("kind") == "List" else found

    async def found(self, check: str, code: int) -> list[Json]:
        """The findings of one check of the doctor."""
        return [finding for finding in await self.data("doctor", code=code) if finding["check"] == check]


async def kubeconfig_of(scenario: Scenario, cluster: Cluster) -> Path:
    """The kubeconfig of the administrator. Its context has the namespace of the scenario."""
    config = yaml.safe_load((await cluster.admin_kubeconfig()).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = scenario.namespace
    path = cluster.folder / f"kubeconfig-{scenario.namespace}"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest_asyncio.fixture(loop_scope="session")
async def muster(open_scenario: OpenScenario, cluster: Cluster) -> Command:
    """Two nodes with four CPUs each, a running gang of three CPUs, and a waiting gang of six."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4"), FakeNode("node-1", cpu="4")], queues())
    await scenario.create(a_gang("runs", [Group("workers", 3)], timeout_s=LONG_S, queue=LEAF))
    await scenario.all_bound(3)
    await scenario.create(a_gang("waits", [Group("workers", 6)], timeout_s=LONG_S, queue=LEAF, placement="Reserve"))
    command = Command(scenario, str(await kubeconfig_of(scenario, cluster)))

    async def is_short() -> bool:
        found = await command.data("explain", "waits")
        return found["bound"] == 5 and [reason["reason"] for reason in found["reasons"]] == ["nodes"]

    await scenario.eventually("the second gang holds a part and lacks nodes for the rest", is_short)
    return command


async def running_and_waiting_applications_are_shown_by_each_command(muster: Command) -> None:
    code, page, _ = await muster.run("status")
    assert code == 0
    assert "schedules" in page
    root = await muster.data("queues")
    assert root["queuename"] == "root"
    assert root["allocatedResource"]["vcore"] == 8000
    apps = {app["applicationID"]: app for app in await muster.data("apps")}
    assert apps["runs"]["applicationState"] == "Running"
    assert len(apps["runs"]["allocations"]) == 3
    assert {node["nodeID"] for node in await muster.data("nodes")} == {"node-0", "node-1"}
    for command in ("queues", "apps", "nodes"):
        assert (await muster.run(command, "-o", "wide"))[0] == 0
    code, page, _ = await muster.run("app", "runs")
    assert code == 0
    assert "runs-workers-0" in page
    version = await muster.data("version")
    assert version["operators"] == [version["client"]] == [version["core"]]


async def a_waiting_gang_is_explained_by_its_name_and_by_its_pod(muster: Command) -> None:
    namespace = muster.scenario.namespace
    found = await muster.data("explain", "waits")
    [reason] = found["reasons"]
    assert (reason["reason"], reason["nodes"]) == ("nodes", {"Insufficient cpu": 2})
    of_pod = await muster.data("explain", f"{namespace}/waits-workers-0")
    assert of_pod["pod"] == f"{namespace}/waits-workers-0"
    assert of_pod["reasons"] == found["reasons"]
    code, page, _ = await muster.run("explain", "waits-workers-0")
    assert code == 0
    assert "Pending: its gang is not complete" in page
    await muster.scenario.create([a_pod("late", labels={"applicationId": "late", "queue": LEAF})])

    async def is_behind() -> bool:
        code, out, _ = await muster.run("explain", "app/late", "-o", "json")
        return code == 0 and [item["applicationID"] for item in json.loads(out)["ahead"]] == ["waits"]

    await muster.scenario.eventually("what comes later is behind it", is_behind)
    code, out, err = await muster.run("explain", "nobody")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1


async def namespaces_are_selected_as_in_kubectl(muster: Command) -> None:
    namespace = muster.scenario.namespace
    code, page, _ = await muster.run("apps", "-A")
    assert code == 0
    assert page.split()[:2] == ["NAMESPACE", "APPLICATION"]
    assert {app["namespace"] for app in await muster.data("apps")} == {namespace}
    assert await muster.data("apps", "-n", "elsewhere") == []
    assert (await muster.data("app", "runs", "-n", namespace))["namespace"] == namespace
    code, out, err = await muster.run("app", "runs", "-n", "elsewhere")
    assert (code, out) == (1, "")
    expected = f"in namespace elsewhere; it exists in namespace {namespace}: use -n {namespace}\n"
    assert err == f"muster: no application runs found {expected}"
    code, out, err = await muster.run("explain", "runs", "--context", "prod")
    assert (code, out) == (2, "")
    assert err.startswith('muster: context "prod" does not exist in ')
    assert len(err.splitlines()) == 1


async def the_settings_of_a_cluster_are_shown(muster: Command) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "muster", "config", "show", "-n", NAMESPACE, "--kubeconfig", muster.kubeconfig),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert [line.split()[2] for line in out.decode().splitlines() if line.startswith("queues.yaml ")] == ["lines"]


async def the_doctor_reports_pods_of_other_schedulers_and_no_problem_in_a_healthy_cluster(
    muster: Command,
) -> None:
    namespace = muster.scenario.namespace
    findings = await muster.data("doctor")
    unverified = [finding for finding in findings if finding["check"] == "user identity"]
    assert [finding["level"] for finding in unverified] == ["warning"], "neither webhook nor policy is enabled"
    assert {finding["level"] for finding in findings if finding not in unverified} == {"ok"}, findings
    assert {finding["check"] for finding in findings} >= {"core", "leader", "webhook", "permissions", "YuniKorn"}
    other = with_annotations(a_pod("other", scheduler="elsewhere"), {f"{PREFIX}task-group-name": "workers"})
    lost = a_pod("lost", labels={"applicationId": "lost", "queue": "root.nowhere"})
    await muster.scenario.create([other, lost])
    [finding] = await muster.found("scheduler name", 1)
    assert f"1 pod ({namespace}/other)" in finding["message"]

    async def is_reported() -> bool:
        return any(
            "application lost (queue root.nowhere)" in it["message"] for it in await muster.found("queues of pods", 1)
        )

    await muster.scenario.eventually("the pod without a queue is reported", is_reported)


async def pods_are_accepted_again(scenario: Scenario) -> None:
    """Wait until the API server calls no webhook that was deleted."""

    async def is_accepted() -> bool:
        path = f"/api/v1/namespaces/{scenario.namespace}/pods"
        return bool(await scenario.api.request("POST", path, a_pod("probe"), {"dryRun": "All"}))

    await scenario.eventually("the API server accepts pods again", is_accepted)


async def the_doctor_reports_a_registration_without_its_service(muster: Command) -> None:
    permissions = await muster.found("permissions", 0)
    registrations = [item for item in documents(ROOT / "deploy/webhooks.yaml") if item["kind"] != "Service"]
    try:
        for registration in registrations:
            await muster.scenario.api.apply(registration)
        findings = await muster.data("doctor", code=1)
    finally:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await muster.scenario.api.delete(kind, "muster-admission")
        await pods_are_accepted_again(muster.scenario)
    found = {item["check"]: item for item in findings}
    assert [item["check"] for item in findings if item["level"] == "problem"] == ["webhook"]
    assert "the API server rejects new pods that name Muster" in found["webhook"]["message"]
    assert "webhookconfigurations muster-admission, or" in found["webhook"]["remedy"]
    assert found["user identity"]["level"] == "warning"
    assert [found["permissions"]] == permissions


async def the_doctor_ignores_the_webhook_of_another_installation(muster: Command) -> None:
    other = muster.scenario.namespace
    manifest = webhooks.manifest(frozenset({other}), other, ACCOUNT)
    try:
        for document in yaml.safe_load_all(manifest):
            await muster.scenario.api.apply(document)
        findings = {item["check"]: item for item in await muster.data("doctor")}
    finally:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await muster.scenario.api.delete(kind, f"muster-admission-{other}")
        await pods_are_accepted_again(muster.scenario)
    assert (findings["webhook"]["level"], findings["webhook"]["message"]) == ("ok", "not registered")
    assert findings["user identity"]["level"] == "warning"


async def the_doctor_accepts_the_policy_instead_of_the_webhook(muster: Command) -> None:
    policy, binding = documents(ROOT / "deploy/admission-policy.yaml")
    try:
        await muster.scenario.api.apply(policy)
        assert [item["level"] for item in await muster.found("user identity", 0)] == ["warning"]
        await muster.scenario.api.apply(binding)
        assert [item["level"] for item in await muster.found("user identity", 0)] == ["ok"]
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            await muster.scenario.api.delete(kind, "muster-admission")


async def test_the_doctor_reports_a_missing_leader_and_missing_permissions(muster: Command, cluster: Cluster) -> None:
    await muster.scenario.muster.stop()
    await cluster.admin.delete("clusterrolebindings", ACCOUNT)
    missing = f"account {NAMESPACE}/{ACCOUNT} may not get pods, list pods"

    async def problems() -> dict[str, Json]:
        found = {item["check"]: item for item in await muster.data("doctor", code=1) if item["level"] == "problem"}
        return found if missing in found.get("permissions", {}).get("message", "") else {}

    try:  # the authorizer of the API server receives the deletion later
        findings = await muster.scenario.eventually("the doctor reports the missing permissions", problems)
    finally:
        for document in documents(MANIFESTS):
            if document["kind"] == "ClusterRoleBinding":
                await cluster.admin.apply(document)
    assert set(findings) == {"core", "leader", "permissions"}
    assert "failed: Connection refused" in findings["core"]["message"]
    assert findings["leader"]["message"] == f"no replica holds the Lease {NAMESPACE}/muster"
    assert (await muster.run("queues"))[0] == 3


async def test_kubectl_completes_muster_commands(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(ensure([KUBECTL])["kubectl"], "__complete", "muster", "nod"),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": sysconfig.get_path("scripts"), "HOME": str(tmp_path)},
    )
    out, _ = await process.communicate()
    assert out.decode().splitlines() == ["nodes\tList nodes with allocations.", ":0"]


async def a_pod_of_a_user_with_the_labels_of_muster_is_not_taken_for_the_core(muster: Command) -> None:
    scenario = muster.scenario
    forged = a_pod("a", labels={"app": "muster", "component": "scheduler"})
    forged["spec"]["containers"][0]["ports"] = [{"name": "rest", "containerPort": 9080}]
    labels = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "operator"}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "muster-scheduler-muster", "labels": labels},
        "spec": {"holderIdentity": "a_a"},
    }
    await scenario.create([forged])
    await scenario.api.create(lease, scenario.namespace)
    token = Path(muster.kubeconfig).with_suffix(".token")
    token.write_text("a-token-of-an-administrator")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "muster", "status", "--token-file", str(token)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": muster.kubeconfig},
    )
    _, err = await process.communicate()
    assert (process.returncode, f"no running pod of Muster in namespace {NAMESPACE}" in err.decode()) == (3, True), err


async def test_the_commands_report_a_running_and_a_waiting_application_and_the_cluster(
    muster: Command, subtests: pytest.Subtests
) -> None:
    """In this order: the last ones add pods that the doctor reports."""
    for check in (
        running_and_waiting_applications_are_shown_by_each_command,
        namespaces_are_selected_as_in_kubectl,
        the_settings_of_a_cluster_are_shown,
        the_doctor_ignores_the_webhook_of_another_installation,
        the_doctor_accepts_the_policy_instead_of_the_webhook,
        the_doctor_reports_a_registration_without_its_service,
        the_doctor_reports_pods_of_other_schedulers_and_no_problem_in_a_healthy_cluster,
        a_waiting_gang_is_explained_by_its_name_and_by_its_pod,
        a_pod_of_a_user_with_the_labels_of_muster_is_not_taken_for_the_core,
    ):
        with subtests.test(check.__name__):
            await check(muster)
