"""Direct and Auto gangs reserve nothing until the complete gang fits, and report what is missing."""

from collections import Counter

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import reported_on_config_map, scheduled, wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_member, a_pod
from tests.e2e.scenario import Scenario
from tests.e2e.test_reload import push

GANG = [Group("workers", 4)]
NODE_FOR_TWO = FakeNode("node-0", cpu="2500m")
WAITS = "gangWaitTimeoutInSeconds=3"
NODE_REASON = "0/1 nodes are available: 1 Insufficient cpu."

all_or_nothing = pytest.mark.parametrize("placement", ["Direct", "Auto"])


def an_all_or_nothing_gang(placement: str, parameter: str = "") -> list[Json]:
    parameters = f"gangPlacement={placement} {parameter}".strip()
    return [a_member("gang", "workers", f"gang-{index}", GANG, parameters) for index in range(4)]


async def reason(scenario: Scenario, pod: str) -> str:
    return str(scheduled(await scenario.api.get("pods", pod, scenario.namespace)).get("reason", ""))


@all_or_nothing
async def test_a_waiting_gang_reserves_nothing(placement: str, open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([NODE_FOR_TWO])
    await scenario.create(an_all_or_nothing_gang(placement))
    await wait_for_reason(scenario, "gang-0", "Unschedulable", NODE_REASON)
    assert await scenario.bound(placeholders=True) == []
    await scenario.create(a_pod(f"single-{index}", labels={"applicationId": "single"}) for index in range(2))

    async def singles_run() -> bool:
        return {pod["metadata"]["name"] for pod in await scenario.bound()} == {"single-0", "single-1"}

    await scenario.eventually("two single pods are bound", singles_run)


async def test_every_member_of_a_direct_gang_is_unschedulable_with_the_counts(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4500m")])
    await scenario.create([a_pod("busy", cpu="2")])
    await scenario.all_bound(1)
    before = len(scenario.writes(of_operator=True))
    await scenario.create(an_all_or_nothing_gang("Direct"))
    note = "gang gang is waiting for its reservation"
    await wait_for_reason(
        scenario, "gang-0", "Unschedulable", note, "2 of 4 members of task group workers fit", NODE_REASON
    )
    for number in range(1, 4):
        await wait_for_reason(
            scenario, f"gang-{number}", "Unschedulable", note, "not enough suitable nodes", "see pod gang-0"
        )

    async def are_logged() -> Counter[str]:
        writes = [write for write in scenario.writes(of_operator=True)[before:] if write.name.startswith("gang-")]
        found = Counter(write.what for write in writes if write.resource == "pods")
        return found if found.total() >= 4 else Counter()

    found = await scenario.eventually("the writes of four conditions are in the audit log", are_logged)
    assert found == {"patch pods/status": 4}
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="2500m")])
    await scenario.all_bound(5)


@all_or_nothing
async def test_a_hard_gang_fails_after_the_timeout_and_no_member_runs(
    placement: str, open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario([NODE_FOR_TWO])
    await scenario.create(an_all_or_nothing_gang(placement, f"{WAITS} gangSchedulingStyle=Hard"))

    async def has_failed() -> bool:
        found = Counter((pod["status"]["phase"], pod["status"].get("reason")) for pod in await scenario.pods())
        return found == {("Failed", "ResourceReservationTimeout"): 4} and not await scenario.pods(placeholders=True)

    await scenario.eventually("every member has failed", has_failed)
    assert not [write for write in scenario.writes(of_operator=True) if write.subresource == "binding"]


@all_or_nothing
async def test_an_unsatisfiable_gang_is_reported_immediately(placement: str, open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([NODE_FOR_TWO])
    await scenario.create(a_gang("huge", [Group("workers", 2, cpu="64")], timeout_s=600, placement=placement))
    await wait_for_event(scenario, "huge-workers-0", "workers", "cpu")
    await wait_for_reason(scenario, "huge-workers-0", "Unschedulable", "empty cluster")


async def test_a_changed_default_placement_applies_to_new_gangs(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([NODE_FOR_TWO], {"gang.placement": "Direct"})
    await scenario.create(a_gang("first", GANG, timeout_s=600))
    await wait_for_reason(scenario, "first-workers-0", "Unschedulable")
    assert await scenario.pods(placeholders=True) == []
    await push(scenario, {"gang.placement": "reserve"})
    await reported_on_config_map(scenario, "gang.placement", "write Reserve, Direct or Auto")
    await push(scenario, {"gang.placement": "Reserve"})

    async def is_in_force() -> bool:
        return "configuration replaced" in scenario.muster.operator.tail(500)  # the core logs this too, but earlier

    await scenario.eventually("the operator took it", is_in_force)
    await scenario.create(a_gang("second", GANG, timeout_s=600))

    async def has_placeholders() -> bool:
        return len(await scenario.pods(placeholders=True)) == 4

    await scenario.eventually("the second gang has placeholders", has_placeholders)
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="8")])
    await scenario.all_bound(8)
    assert scenario.created_placeholders() == 4
