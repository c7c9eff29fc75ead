"""The Service of the REST API selects only the pod of the leader, also after stops, kills and lost connections."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from signal import SIGTERM

from devcluster.muster import ACCOUNT, LEASE, NAMESPACE
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.leader_election.conftest import Join
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario
from tools.manifests import render

QUICKLY_S, LONG_S = 12, 120
REPLICAS = ("muster-0", "muster-1")


def in_pod(name: str, duration_s: int) -> dict[str, str]:
    """The environment that the chart sets for the pod, with this lease duration."""
    return {"POD_NAME": name, "MUSTER_LEASE_DURATION": str(duration_s)}


@asynccontextmanager
async def pods_of_the_chart(scenario: Scenario) -> AsyncIterator[dict[str, str]]:
    """Create a pod for each replica with the labels of the chart, without a node. Yields the Service's selector."""
    rendered = render({"replicas": 2})
    (service,) = [one for one in rendered if one["kind"] == "Service" and one["metadata"]["name"] == "muster"]
    (deployment,) = [one for one in rendered if one["kind"] == "Deployment"]
    for name in REPLICAS:
        pod = a_pod(name, scheduler="nobody")
        pod["metadata"]["labels"] = deployment["spec"]["template"]["metadata"]["labels"]
        pod["spec"]["serviceAccountName"] = ACCOUNT
        await scenario.api.create(pod, NAMESPACE)
    try:
        yield service["spec"]["selector"]
    finally:
        for name in REPLICAS:
            await scenario.api.delete("pods", name, NAMESPACE, grace_s=0)


async def wait_until_selected(scenario: Scenario, selector: dict[str, str], name: str) -> None:
    """Wait until the Service selects only this pod."""
    labels = ",".join(f"{key}={value}" for key, value in selector.items())

    async def is_only_one() -> bool:
        found = await scenario.api.find("pods", NAMESPACE, labelSelector=labels)
        return [pod["metadata"]["name"] for pod in found] == [name]

    await scenario.eventually(f"the Service selects {name} alone", is_only_one)


async def test_rest_requests_go_to_the_leader_across_kills_and_termination(
    open_scenario: OpenScenario, join: Join
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], started=False, env=in_pod(REPLICAS[0], LONG_S))
    async with pods_of_the_chart(scenario) as selector:
        await scenario.muster.start()
        await wait_until_selected(scenario, selector, REPLICAS[0])
        second = await join(scenario, REPLICAS[1], **in_pod(REPLICAS[1], LONG_S))
        await wait_until_selected(scenario, selector, REPLICAS[0])
        await scenario.muster.operator.kill()
        await scenario.muster.start()  # its container, in the same pod
        assert await second.role() == "ok, standing by, muster-0 leads"
        await wait_until_selected(scenario, selector, REPLICAS[0])
        scenario.muster.operator.signal(SIGTERM)
        await wait_until_selected(scenario, selector, REPLICAS[1])


async def test_rest_requests_do_not_go_to_a_replica_cut_off_from_the_lease(
    open_scenario: OpenScenario, join: Join
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], started=False, gated=True, env=in_pod(REPLICAS[0], QUICKLY_S))
    async with pods_of_the_chart(scenario) as selector:
        await scenario.muster.start()
        await wait_until_selected(scenario, selector, REPLICAS[0])
        await join(scenario, REPLICAS[1], **in_pod(REPLICAS[1], QUICKLY_S))
        for method in ("PUT", "GET"):
            scenario.gate.hold(method, rf"/leases/{LEASE}$")
        await wait_until_selected(scenario, selector, REPLICAS[1])
        assert scenario.muster.operator.is_running()
        scenario.gate.clear()
        assert await scenario.muster.operator.ended(90)
