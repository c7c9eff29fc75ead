"""All placement modes: complete gangs, in order, through every kill."""

from collections import Counter

import pytest

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_member, a_pod, with_annotations
from tests.e2e.scenario import Scenario

MEMBERS = 5
WORKERS = [Group("workers", MEMBERS)]
PLACEMENTS = ["Reserve", "Direct", "Auto"]
#: Number of writes for a member and its placeholder.
OWN = {"create pods/binding": 1, "create events": 1}
WITH_PLACEHOLDER = {"create pods": 1, "create pods/binding": 2, "delete pods": 1, "create events": 1}
COSTS = {"Reserve": WITH_PLACEHOLDER, "Direct": OWN, "Auto": OWN}

every_placement = pytest.mark.parametrize("placement", PLACEMENTS)
every_victim = pytest.mark.parametrize(
    "victims", [["operator"], ["core"], ["operator", "core"]], ids=["operator", "core", "both"]
)


async def restart(scenario: Scenario, victims: list[str]) -> None:
    """Kill the processes with SIGKILL, then start them again."""
    for victim in victims:
        await getattr(scenario.muster, victim).kill()
    if scenario.has_gate:
        scenario.gate.clear()
    await scenario.muster.start()


@every_placement
async def test_a_gang_costs_the_expected_writes_of_its_placement(placement: str, open_scenario: OpenScenario) -> None:
    """Counted at the API server. The gang itself has one event series."""
    scenario = await open_scenario([FakeNode("node-0"), FakeNode("node-1")])
    await scenario.create(a_gang("gang", WORKERS, timeout_s=600, placement=placement))
    await scenario.all_bound(MEMBERS)

    async def all_are_reported() -> bool:
        return len(await scenario.events("Scheduled")) == MEMBERS

    await scenario.eventually("every member has its event", all_are_reported)
    await wait_for_event(scenario, "gang-workers-0", "All 5", kind="Normal")
    series = {event["metadata"]["name"] for event in await scenario.events("GangScheduling")}
    expected = Counter({what: times * MEMBERS for what, times in COSTS[placement].items()})

    async def all_are_logged() -> Counter[str]:
        writes = [write for write in scenario.writes(of_operator=True) if write.namespace == scenario.namespace]
        found = Counter(write.what for write in writes if write.name not in series)
        return found if found >= expected else Counter()

    assert await scenario.eventually("the expected writes are in the audit log", all_are_logged) == expected


@every_placement
async def test_two_gangs_that_fit_only_one_at_a_time_both_finish(placement: str, open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode(f"node-{index}", cpu="2") for index in range(2)])
    gangs = [a_gang(app, [Group("workers", 3)], timeout_s=600, placement=placement) for app in ("left", "right")]
    for pair in zip(*gangs, strict=True):
        await scenario.create(with_annotations(pod, {"devcluster.muster/run-for": "1s"}) for pod in pair)

    async def all_done() -> bool:
        return Counter(pod["status"].get("phase", "") for pod in await scenario.pods()) == {"Succeeded": 6}

    await scenario.eventually("both gangs are done", all_done)


@every_victim
async def test_a_gang_of_each_placement_completes_after_a_kill_during_its_binds(
    victims: list[str], open_scenario: OpenScenario
) -> None:
    """Two of five members are bound, and three binds are lost."""
    scenario = await open_scenario([FakeNode("node-0", cpu="20"), FakeNode("node-1", cpu="20")], gated=True)
    for placement in PLACEMENTS:
        rule = scenario.gate.hold("POST", rf"/pods/{placement.lower()}-[^/]*/binding$", skip=2)
        await scenario.create(a_gang(placement.lower(), WORKERS, timeout_s=600, placement=placement))
        await rule.reached(1)
    await restart(scenario, victims)
    await scenario.all_bound(MEMBERS * len(PLACEMENTS))


@every_victim
async def test_a_waiting_gang_of_each_placement_survives_a_kill_and_runs_when_resources_are_free(
    victims: list[str], open_scenario: OpenScenario
) -> None:
    """The gangs wait for nodes of their own, so that none waits for another one's quota or turn."""
    scenario = await open_scenario([FakeNode(name.lower(), cpu="2500m", labels={"for": name}) for name in PLACEMENTS])
    for placement in PLACEMENTS:
        gang = a_gang(placement.lower(), WORKERS, timeout_s=600, placement=placement)
        for pod in gang:
            pod["spec"]["nodeSelector"] = {"for": placement}
        await scenario.create(gang)

    async def all_report_it() -> bool:
        waiting = [pod for pod in await scenario.pods() if "members of task group workers" in str(pod["status"])]
        return {pod["metadata"]["labels"]["applicationId"] for pod in waiting} == {name.lower() for name in PLACEMENTS}

    await scenario.eventually("a member of each gang reports that the gang waits", all_report_it)
    await restart(scenario, victims)
    assert await scenario.bound() == []
    await scenario.cluster.add_nodes([FakeNode(f"{name.lower()}-1", labels={"for": name}) for name in PLACEMENTS])
    await scenario.all_bound(MEMBERS * len(PLACEMENTS))


@every_placement
async def test_resources_are_reserved_for_executors_created_after_their_driver_runs(
    placement: str, open_scenario: OpenScenario
) -> None:
    """Another gang that was created in between waits for further resources."""
    scenario = await open_scenario([FakeNode("node-0", cpu="5")])
    groups = [Group("driver", 1), Group("executors", 4)]
    parameters = f"gangPlacement={placement}"
    await scenario.create([a_member("spark", "driver", "driver", groups, parameters)])

    async def driver_runs() -> bool:
        return [pod["status"].get("phase") for pod in await scenario.pods()] == ["Running"]

    await scenario.eventually("the driver runs", driver_runs)
    await scenario.create([a_pod("rival", labels={"applicationId": "rival"})])

    async def other_gang_waits() -> bool:
        return "Insufficient cpu" in str((await scenario.api.get("pods", "rival", scenario.namespace))["status"])

    await scenario.eventually("the other gang waits", other_gang_waits)
    await scenario.create(a_member("spark", "executors", f"executor-{index}", groups, parameters) for index in range(4))
    found = await scenario.all_bound(5)
    assert "rival" not in {pod["metadata"]["name"] for pod in found}
