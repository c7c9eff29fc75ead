"""Full nodes: a real pod fits only after its placeholder is deleted, and the kubelet checks the fit itself."""

import asyncio
import statistics
import time

import pytest

from devcluster.api import Json
from tests.e2e.manifests import Group, a_gang, a_member
from tests.kind.conftest import MEASUREMENTS
from tests.kind.namespace import Namespace
from tests.kind.release import Release

REPLACEMENTS, MEMBERS_A_NODE = 200, 10


def a_job(name: str, group: Group) -> Json:
    """A Job whose pods are the gang. A failed pod is kept and counted."""
    pod = a_member(name, group.name, name, [group], "gangSchedulingStyle=Hard gangPlacement=Reserve")
    metadata = {"labels": pod["metadata"]["labels"], "annotations": pod["metadata"]["annotations"]}
    template = {"metadata": metadata, "spec": pod["spec"]}
    spec = {"parallelism": group.members, "completions": group.members, "backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def full_cluster_gang(namespace: Namespace, app: str, **more: object) -> tuple[list[Json], int]:
    """Return a gang that fills all nodes with at least two members each, and the millicores of a member."""
    free = await namespace.free_cpu()
    each = min(free.values()) // 2
    members = sum(cpu // each for cpu in free.values())
    group = Group("workers", members, cpu=f"{each}m")
    return a_gang(app, [group], style="Hard", timeout_s=120, **more), each  # type: ignore[arg-type]  # the rest of a_gang's


async def test_members_replace_placeholders_on_full_nodes_without_rejection(namespace: Namespace) -> None:
    gang, each = await full_cluster_gang(namespace, "full", placement="Reserve")
    await namespace.create(gang)
    await namespace.running(len(gang))
    free = await namespace.kind.free_cpu()
    assert all(0 <= cpu < each for cpu in free.values()), f"the nodes are not full: {free}"
    assert len(namespace.placeholders) == len(gang)
    assert namespace.rejected == set()


@pytest.mark.timeout(900)
async def test_two_hundred_replacements_of_jobs_on_full_nodes_fail_no_pod(namespace: Namespace) -> None:
    """Each member starts on a full node, after the container of its placeholder has terminated."""
    replacements, rounds_s = 0, []

    async def have_terminated() -> bool:
        return namespace.placeholders == namespace.terminated

    while replacements < REPLACEMENTS:
        free = await namespace.free_cpu()
        each = min(free.values()) // MEMBERS_A_NODE
        count = sum(cpu // each for cpu in free.values())
        job = a_job(f"round-{replacements}", Group("workers", count, cpu=f"{each}m"))
        began = time.monotonic()
        await namespace.api.create(job, namespace.name)
        await namespace.running(count)
        rounds_s.append(time.monotonic() - began)
        found = await namespace.api.get("jobs", job["metadata"]["name"], namespace.name)
        assert found["status"].get("failed", 0) == 0, await namespace.report()
        replacements += count
        await namespace.empty()
    assert namespace.rejected == set()
    await namespace.eventually("the watch has shown that the container of each placeholder terminated", have_terminated)
    MEASUREMENTS.append(
        f"{replacements} replacements on full nodes: "
        f"rounds of {replacements // len(rounds_s)} members from creation to running,"
        f" median {statistics.median(rounds_s):.1f} s, longest {max(rounds_s):.1f} s"
    )


async def test_two_gangs_that_both_fill_the_nodes_run_one_after_the_other(namespace: Namespace) -> None:
    gang, _ = await full_cluster_gang(namespace, "first")
    second, _ = await full_cluster_gang(namespace, "second")
    await namespace.create(gang)
    await namespace.running(len(gang))
    await namespace.create(second)
    await namespace.eventually("the second gang waits", lambda: waits(namespace, "second"))
    await asyncio.gather(*[namespace.api.delete("pods", pod["metadata"]["name"], namespace.name) for pod in gang])
    found = await namespace.running(len(second))
    assert {pod["metadata"]["labels"]["applicationId"] for pod in found} == {"second"}
    assert namespace.rejected == set()


async def test_a_second_replica_on_full_nodes_preempts_no_more_pods_than_needed(
    namespace: Namespace, release: Release
) -> None:
    """kube-scheduler preempts for the replica; waiting members must not get the freed resources."""
    gang, _ = await full_cluster_gang(namespace, "runs")
    waiting, _ = await full_cluster_gang(namespace, "waits")
    await namespace.create(gang)
    await namespace.running(len(gang))
    await namespace.create(waiting)
    await namespace.eventually("another gang waits", lambda: waits(namespace, "waits"))
    try:
        await release.upgrade("replicas=2")
        await release.ready(2)
        lost = len(gang) - len(
            [pod for pod in await namespace.bound() if pod["metadata"]["labels"]["applicationId"] == "runs"]
        )
        assert lost <= 2, await namespace.report()
    finally:
        await release.upgrade("replicas=1")
        await release.ready(1)


async def waits(namespace: Namespace, app: str) -> bool:
    """Whether its members exist and none has a node."""
    found = [pod for pod in await namespace.pods() if pod["metadata"]["labels"]["applicationId"] == app]
    return bool(found) and not any(pod["spec"].get("nodeName") for pod in found)
