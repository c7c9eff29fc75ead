"""An application whose last pod is deleted is completed, even if it never ran, and stays readable."""

import aiohttp
import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.rest import get_json, queue_exists
from tests.e2e.scenario import Scenario

#: Half of it is occupied in every test.
NODE = FakeNode("node-0", cpu="4")


async def states(scenario: Scenario, name: str) -> list[str]:
    """The states that the application went through, as REST shows them."""
    try:
        app = await get_json(scenario, f"partition/default/application/{name}?namespace={scenario.namespace}")
    except aiohttp.ClientResponseError as error:
        if error.status == 404:
            return []
        raise
    return [change["applicationState"] for change in app["stateLog"]]


async def completed(scenario: Scenario) -> set[str]:
    """IDs of the completed applications of the partition."""
    return {app["applicationID"] for app in await get_json(scenario, "partition/default/applications/completed") or []}


def waiting_pod() -> list[Json]:
    """A pod that fits on no node."""
    return [a_pod("job-0", cpu="3", labels={"applicationId": "job"})]


def running_pod() -> list[Json]:
    return [a_pod("job-0", labels={"applicationId": "job"})]


def reserving_gang(placement: str) -> list[Json]:
    """A gang that has some of its reservations."""
    return a_gang("job", [Group("workers", 3, real=2)], timeout_s=600, placement=placement)


@pytest.mark.parametrize("pods", [waiting_pod(), running_pod(), reserving_gang("Reserve"), reserving_gang("Direct")])
async def test_an_application_completes_after_its_last_pod_is_deleted_and_stays_readable(
    open_scenario: OpenScenario, pods: list[Json]
) -> None:
    scenario = await open_scenario([NODE], {"service.completingTimeout": "4s"})
    await scenario.occupy("node-0", "2")
    await scenario.create(pods)

    async def exists() -> bool:
        return bool(await states(scenario, "job"))

    await scenario.eventually("the core has the application", exists)
    for pod in pods:
        await scenario.api.delete("pods", pod["metadata"]["name"], scenario.namespace, grace_s=0)

    path = f"root.{scenario.namespace}"

    async def is_completing() -> bool:
        return (await states(scenario, "job"))[-1:] == ["Completing"]

    await scenario.eventually("it is Completing", is_completing)
    app = await get_json(scenario, f"partition/default/queue/{path}/application/job")
    assert (app["applicationState"], app["allocations"] or [], app["requests"] or []) == ("Completing", [], [])
    [listed] = await get_json(scenario, f"partition/default/queue/{path}/applications")
    assert listed["applicationID"] == "job"

    async def is_completed() -> bool:
        return (await states(scenario, "job"))[-2:] == ["Completing", "Completed"]

    await scenario.eventually("it went through Completing to Completed", is_completed)
    assert "job" in await completed(scenario)
    assert not await queue_exists(scenario, path)

    async def is_empty() -> bool:
        return not await scenario.pods() and not await scenario.pods(placeholders=True)

    await scenario.eventually("no placeholder is left", is_empty)


async def test_the_oldest_member_becomes_the_originator_of_a_reserving_gang(open_scenario: OpenScenario) -> None:
    """The gang continues with placeholders of the new originator, and runs when resources are free."""
    scenario = await open_scenario([NODE])
    await scenario.occupy("node-0", "2")
    first, *others = a_gang("job", [Group("workers", 3)], timeout_s=600, placement="Reserve")
    await scenario.create([first])

    async def owners() -> set[str]:
        found = await scenario.bound(placeholders=True)
        return {pod["metadata"]["ownerReferences"][0]["name"] for pod in found} if found else set()

    async def owned_by(name: str) -> bool:
        return await owners() == {name}

    await scenario.eventually("the first pod owns placeholders", lambda: owned_by("job-workers-0"))
    for pod in others:
        await scenario.create([pod])
    await scenario.api.delete("pods", first["metadata"]["name"], scenario.namespace, grace_s=0)
    await scenario.eventually("the next pod owns placeholders", lambda: owned_by(others[0]["metadata"]["name"]))
    assert "Completing" not in await states(scenario, "job")
    await scenario.create([first])
    [pod_on_node] = [
        pod for pod in await scenario.api.find("pods", scenario.namespace) if "job" not in pod["metadata"]["name"]
    ]
    await scenario.api.delete("pods", pod_on_node["metadata"]["name"], scenario.namespace, grace_s=0)

    async def all_run() -> bool:
        return sum("job" in pod["metadata"]["name"] for pod in await scenario.bound()) == 3

    await scenario.eventually("the gang runs", all_run)
