"""A gang that does not get all reservations in time times out as its style defines."""

from collections.abc import Mapping

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import condition, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

GANG = [Group("workers", 4)]
NODE_FOR_FOUR = [FakeNode("node-0", cpu="4500m")]
ORIGINATOR = "hard-workers-0"
FOREIGN = {"type": "example.com/checked", "status": "True"}


async def crowded(open_scenario: OpenScenario, settings: Mapping[str, str] | None = None) -> Scenario:
    """A node for four pods with two running: a gang of four can reserve only the other half."""
    scenario = await open_scenario(NODE_FOR_FOUR, settings or {})
    await scenario.create(a_pod(f"busy-{index}", labels={"applicationId": "busy"}) for index in range(2))
    await scenario.all_bound(2)
    return scenario


async def test_a_hard_timeout_fails_the_application_before_a_real_pod_runs(open_scenario: OpenScenario) -> None:
    scenario = await crowded(open_scenario)
    await scenario.create(a_gang("hard", GANG, style="Hard", timeout_s=10, placement="Reserve"))
    foreign = {"status": {"conditions": [FOREIGN]}}
    await scenario.api.patch("pods", ORIGINATOR, foreign, scenario.namespace, subresource="status")
    await wait_for_reason(scenario, ORIGINATOR, "SchedulingSkipped", "of 4 placeholders are bound")

    async def failed() -> list[Json]:
        found = [pod for pod in await scenario.pods() if pod["status"]["phase"] == "Failed"]
        return found if len(found) == 4 and not await scenario.pods(placeholders=True) else []

    pods = await scenario.eventually("every pod of the gang has failed", failed)
    assert len(await scenario.bound()) == 2
    for pod in pods:
        status, (why,) = pod["status"], [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert status["reason"] == "ResourceReservationTimeout"
        assert why.items() >= {"status": "False", "reason": status["reason"], "message": status["message"]}.items()
    [originator] = [pod for pod in pods if pod["metadata"]["name"] == ORIGINATOR]
    assert condition(originator, FOREIGN["type"]).items() >= FOREIGN.items(), "of another client"


async def test_the_configured_timeout_applies_to_gangs_without_one(
    open_scenario: OpenScenario,
) -> None:
    scenario = await crowded(open_scenario, {"gang.placeholderTimeout": "3s"})
    await scenario.create(a_gang("default", GANG, placement="Reserve"))
    await scenario.all_bound(4)
