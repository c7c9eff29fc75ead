"""The development cluster: it works, rejects unauthenticated requests, and leaves nothing behind."""

from pathlib import Path

import psutil
import pytest

from devcluster.api import Access, Api, Json, bind
from devcluster.audit import bindings_per_pod
from devcluster.cluster import Cluster, running
from devcluster.connection import load
from devcluster.errors import ApiError
from devcluster.flavour import Flavour
from devcluster.muster import NAMESPACE, installed
from devcluster.nodes import FakeNode
from devcluster.waiting import until


def a_pod(name: str) -> Json:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10.2", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "by-hand", "restartPolicy": "Never", "containers": [container]},
    }


def a_job(name: str, pods: int) -> Json:
    template = {"metadata": {"annotations": {"devcluster.muster/run-for": "0s"}}, "spec": a_pod(name)["spec"]}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def has_account(cluster: Cluster, namespace: str) -> None:
    """Wait for the default service account, without which no pod is admitted."""
    await until(
        "the default service account",
        lambda: cluster.admin.get("serviceaccounts", "default", namespace),
        30,
        tolerate=(ApiError,),
    )


async def test_a_manually_bound_pod_runs_and_the_audit_log_records_the_user(local: Cluster) -> None:
    mark = local.audit.mark()
    await local.admin.create(a_pod("by-hand"))
    await bind(local.admin, "by-hand", "node-0", "default")

    async def runs() -> bool:
        return bool((await local.admin.get("pods", "by-hand", "default"))["status"].get("phase") == "Running")

    await until("the pod runs", runs, 30)
    [binding] = [write for write in local.audit.since(mark) if write.subresource == "binding"]
    assert (binding.user, binding.name, binding.node) == ("devcluster-admin", "by-hand", "node-0")
    assert bindings_per_pod(local.audit.since(mark)) == {("default", "by-hand", ""): 1}


async def test_a_job_creates_pods_and_completes_with_them(local: Cluster) -> None:
    await local.admin.create(a_job("three", 3))

    async def pods() -> list[Json]:
        found = await local.admin.find("pods", "default", labelSelector="job-name=three")
        return found if len(found) == 3 else []

    for pod in await until("three pods", pods, 30):
        await bind(local.admin, pod["metadata"]["name"], "node-1", "default")

    async def completed() -> bool:
        return bool((await local.admin.get("jobs", "three", "default"))["status"].get("succeeded") == 3)

    await until("the Job completes", completed, 30)


async def test_anonymous_and_unprivileged_accounts_are_rejected(local: Cluster) -> None:
    async with Api(Access(local.server, local.admin.access.tls)) as anonymous:
        with pytest.raises(ApiError) as refused:
            await anonymous.find("pods", "default")
    assert refused.value.status in {401, 403}
    async with Api(await load(await local.kubeconfig_for("default", "default"))) as account:
        with pytest.raises(ApiError) as forbidden:
            await account.find("pods", "default")
    assert forbidden.value.status == 403
    assert "system:serviceaccount:default:default" in forbidden.value.message


async def test_processes_and_files_are_removed_after_the_block_even_if_it_fails() -> None:
    processes: list[psutil.Process] = []
    folders: list[Path] = []

    async def fail_inside() -> None:
        async with running([FakeNode("node-0")], which=Flavour.LOCAL) as cluster:
            processes.extend(psutil.Process(process.pid) for process in cluster.processes())
            folders.append(cluster.folder)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    assert len(processes) == 4
    assert not any(process.is_running() for process in processes)
    assert not [folder for folder in folders if folder.exists()]


async def test_muster_is_installed_again_while_its_old_namespace_terminates() -> None:
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}}
    async with running(which=Flavour.LOCAL) as cluster:
        for _ in range(2):
            async with installed(cluster):
                await cluster.admin.create(configuration, NAMESPACE)
