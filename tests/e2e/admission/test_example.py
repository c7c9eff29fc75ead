"""The admission example runs as written and shows what its README describes."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError
from devcluster.muster import NAMESPACE
from devcluster.nodes import FakeNode
from tests.e2e.admission.scenario import USER_INFO, registered, webhook
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod, is_bound
from tests.e2e.scenario import Scenario

EXAMPLE = Path(__file__).parents[3] / "examples" / "04-admission"
SERVED, APART = "example-served", "example-apart"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def namespaces(cluster: Cluster) -> AsyncIterator[None]:
    """Delete the namespaces of the example afterwards."""
    yield
    for name in (SERVED, APART):
        await cluster.admin.delete("namespaces", name)


async def apply(scenario: Scenario, file: str) -> None:
    """Create the objects of the file."""
    for manifest in documents(EXAMPLE / file):
        await scenario.api.apply(manifest)


async def found(scenario: Scenario) -> list[Json]:
    """The pods of both namespaces."""
    return [pod for name in (APART, SERVED) for pod in await scenario.api.find("pods", name)]


def row(pod: Json) -> list[str]:
    """A pod as a row of the table in the README."""
    meta = pod["metadata"]
    written = meta["labels"].get("applicationId", "<none>"), meta.get("annotations", {}).get(USER_INFO, "<none>")
    return [meta["namespace"], pod["spec"]["schedulerName"], *written]


async def test_the_webhook_adopts_plain_pods_and_rejects_forged_ones_in_managed_namespaces(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], env=webhook())
    readme = (EXAMPLE / "README.md").read_text()
    await registered(scenario)
    await apply(scenario, "namespaces.yaml")
    for name in (APART, SERVED):
        await scenario.eventually(
            "accounts for the pods", partial(scenario.api.get, "serviceaccounts", "default", name)
        )

    async def one_is_managed() -> bool:
        return await _is_managed(scenario, SERVED) and not await _is_managed(scenario, APART)

    await scenario.eventually("one namespace is managed, and the other one is not", one_is_managed)
    await apply(scenario, "workloads.yaml")

    async def all_exist() -> list[Json]:
        pods = await found(scenario)
        return pods if len(pods) == 3 and sum(map(is_bound, pods)) == 2 else []

    pods = await scenario.eventually("three pods exist and two of them run", all_exist)
    documented = [line.split() for line in readme.splitlines()]
    assert [row(pod) for pod in pods if row(pod) not in documented] == []
    assert not any(is_bound(pod) for pod in pods if pod["metadata"]["namespace"] == APART)

    with pytest.raises(ApiError) as refused:
        await apply(scenario, "forged.yaml")
    assert refused.value.message in readme
    metadata = {"name": "muster-configs", "namespace": NAMESPACE}
    trusted = {"admissionController.accessControl.externalUsers": "^devcluster-admin$"}
    await scenario.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": trusted})
    await scenario.eventually("the trusted may write it", lambda: _is_applied(scenario, "forged.yaml"))
    await _clear(scenario)


async def _is_managed(scenario: Scenario, namespace: str) -> bool:
    """Whether the webhook changes a pod of another scheduler in time."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    created = await scenario.api.request("POST", path, a_pod("probe", scheduler="default-scheduler"))
    return bool(created["spec"]["schedulerName"] != "default-scheduler")


async def _is_applied(scenario: Scenario, file: str) -> bool:
    await apply(scenario, file)
    return True


async def _clear(scenario: Scenario) -> None:
    """Delete the pods directly, because the namespace controller takes seconds."""
    for name in (SERVED, APART):
        await scenario.api.delete_all("deployments", name)

    async def is_empty() -> bool:
        pods = await found(scenario)
        for pod in pods:
            await scenario.api.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s=0)
        return not pods

    await scenario.eventually("no pod of the example is left", is_empty)
