"""A gang that does not get all reservations in time times out as its style defines."""

from collections import Counter
from collections.abc import Mapping

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

GANG = [Group("workers", 4)]
NODE_FOR_TWO = [FakeNode("node-0", cpu="2500m")]
NODE_FOR_FOUR = [FakeNode("node-0", cpu="4500m")]


async def crowded(open_scenario: OpenScenario, settings: Mapping[str, str] | None = None) -> Scenario:
    """A node for four pods with two running: a gang of four can reserve only the other half."""
    scenario = await open_scenario(NODE_FOR_FOUR, settings or {})
    await scenario.create(a_pod(f"busy-{index}", labels={"applicationId": "busy"}) for index in range(2))
    await scenario.all_bound(2)
    return scenario


async def warnings(scenario: Scenario) -> list[str]:
    return [event["message"] for event in await scenario.events() if event["type"] == "Warning"]


async def test_a_soft_timeout_releases_placeholders_and_schedules_pods_one_by_one(open_scenario: OpenScenario) -> None:
    scenario = await crowded(open_scenario)
    await scenario.create(a_gang("soft", GANG, style="Soft", timeout_s=3, placement="Reserve"))
    await scenario.all_bound(4)


async def test_a_hard_timeout_fails_the_application_before_a_real_pod_runs(open_scenario: OpenScenario) -> None:
    scenario = await crowded(open_scenario)
    await scenario.create(a_gang("hard", GANG, style="Hard", timeout_s=3, placement="Reserve"))

    async def has_failed() -> bool:
        phases = Counter(pod["status"]["phase"] for pod in await scenario.pods())
        return phases["Failed"] == 4 and not await scenario.pods(placeholders=True)

    await scenario.eventually("every pod of the gang has failed", has_failed)
    assert len(await scenario.bound()) == 2


async def test_an_unsatisfiable_gang_reports_the_missing_resources_immediately(
    open_scenario: OpenScenario,
) -> None:
    """The member and the resource are reported before the timeout."""
    scenario = await open_scenario(NODE_FOR_TWO)
    await scenario.create(a_gang("huge", [Group("workers", 2, cpu="64")], timeout_s=600))

    async def is_reported() -> bool:
        return any("workers" in message and "cpu" in message for message in await warnings(scenario))

    await scenario.eventually("a Warning names group and resource", is_reported)


async def test_the_configured_timeout_applies_to_gangs_without_one(
    open_scenario: OpenScenario,
) -> None:
    scenario = await crowded(open_scenario, {"gang.placeholderTimeout": "3s"})
    await scenario.create(a_gang("default", GANG, placement="Reserve"))
    await scenario.all_bound(4)
