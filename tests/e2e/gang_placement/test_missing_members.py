"""A gang that waits for members that nothing creates says so, and ends by its style, on a busy cluster too."""

import pytest

from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled, wait_for_event
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario

MISSING = "waiting for 3 members of task group w: 2 exist"
#: Members are missing when none has appeared for twelve times as long.
SOON = {"gang.memberWait": "250ms"}


async def a_busy_scenario(open_scenario: OpenScenario, mode: str, style: str) -> Scenario:
    scenario = await open_scenario([FakeNode("node-0", cpu="3")], SOON)
    await scenario.occupy("node-0", "3")
    await scenario.create(a_gang("gang", [Group("w", 3, real=2)], style=style, timeout_s=8, placement=mode))
    await wait_for_event(scenario, "gang-w-0", MISSING)
    return scenario


@pytest.mark.parametrize("mode", ["Auto", "Direct", "Reserve"])
async def test_a_hard_gang_fails_with_the_reason(mode: str, open_scenario: OpenScenario) -> None:
    scenario = await a_busy_scenario(open_scenario, mode, "Hard")

    async def the_condition_names_it() -> bool:
        pod = await scenario.api.get("pods", "gang-w-0", scenario.namespace)
        return MISSING in scheduled(pod).get("message", "")

    await scenario.eventually("the condition of the first pod names the missing members", the_condition_names_it)

    async def has_failed() -> bool:
        pods = await scenario.pods()
        failed = all(pod["status"].get("phase") == "Failed" and MISSING in pod["status"]["message"] for pod in pods)
        return failed and not await scenario.pods(placeholders=True)

    await scenario.eventually("the members have failed, and no placeholder is left", has_failed)


async def test_the_members_of_a_soft_gang_are_scheduled_one_by_one(open_scenario: OpenScenario) -> None:
    scenario = await a_busy_scenario(open_scenario, "Auto", "Soft")
    await wait_for_event(scenario, "gang-w-0", MISSING, "one by one")
    await scenario.api.delete("pods", "occupies-node-0", scenario.namespace, grace_s=0)
    await scenario.all_bound(2)
