"""Auto gangs: present members need no placeholder pod, absent members get one after the quiet period."""

from collections import Counter

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.gang_placement.test_placement_modes import every_victim, restart
from tests.e2e.manifests import Group, a_member
from tests.e2e.scenario import Scenario

MEMBERS = 5
GANG = [Group("workers", MEMBERS)]
ROOMY = [FakeNode("node-0"), FakeNode("node-1")]
#: Resources for a part of the gang only.
TIGHT = [FakeNode("node-0", cpu="2500m")]
MORE = FakeNode("more", cpu="8")
#: A pause between two creations does not make a member absent.
SLOWLY_CREATED = {"gang.memberQuietPeriod": "2s"}


def member(index: int, extra: str = "") -> Json:
    parameters = f"gangPlacement=Auto placeholderTimeoutInSeconds=600 {extra}".strip()
    return a_member("gang", "workers", f"gang-{index}", GANG, parameters)


def members(first: int, last: int = MEMBERS) -> list[Json]:
    return [member(index) for index in range(first, last)]


async def wait_for_pods(scenario: Scenario, bound: int, unassigned: int = 0) -> None:
    """Wait until the gang has exactly these placeholder pods."""

    async def are_there() -> bool:
        found = await scenario.pods(placeholders=True)
        with_node = await scenario.bound(placeholders=True)
        return (len(with_node), len(found) - len(with_node)) == (bound, unassigned)

    await scenario.eventually(f"{bound} placeholder pods are bound and {unassigned} wait", are_there)


async def wait_for_members(scenario: Scenario, count: int) -> None:
    """Wait until this number of members is bound, with or without placeholder pods next to them."""

    async def are_bound() -> bool:
        return len(await scenario.bound()) == count

    await scenario.eventually(f"{count} members are bound", are_bound)


async def test_the_pods_of_a_job_get_no_placeholders(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(ROOMY)
    template = member(0)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "burst"},
        "spec": {
            "parallelism": MEMBERS,
            "completions": MEMBERS,
            "template": {
                "metadata": {key: template["metadata"][key] for key in ("labels", "annotations")},
                "spec": template["spec"],
            },
        },
    }
    await scenario.create([job])
    await scenario.all_bound(MEMBERS)
    assert scenario.created_placeholders() == 0

    async def all_are_reported() -> bool:
        return len(await scenario.events("Scheduled")) == MEMBERS

    await scenario.eventually("every member has its event", all_are_reported)
    await scenario.bindings(MEMBERS)  # the audit log has them
    names = {pod["metadata"]["name"] for pod in await scenario.pods()}
    writes = Counter(write.what for write in scenario.writes(of_operator=True) if write.name in names)
    assert writes["create pods/binding"] == MEMBERS
    assert set(writes) <= {"create pods/binding", "create events"}


async def test_absent_members_get_placeholder_pods_that_members_replace(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(ROOMY)
    await scenario.create(members(0, 1))
    await wait_for_members(scenario, 1)
    await wait_for_pods(scenario, bound=MEMBERS - 1)
    await scenario.create(members(1))
    await scenario.all_bound(MEMBERS)
    assert scenario.created_placeholders() == MEMBERS - 1


async def test_an_autoscaler_sees_present_and_absent_members_that_need_nodes(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(TIGHT, SLOWLY_CREATED)
    await scenario.create(members(0, 2))
    await wait_for_pods(scenario, bound=0, unassigned=MEMBERS - 2)
    for name in ("gang-0", "gang-1", *(pod["metadata"]["name"] for pod in await scenario.pods(placeholders=True))):
        await wait_for_reason(
            scenario, name, "Unschedulable", "does not fit" if name == "gang-1" else "Insufficient cpu"
        )
    assert await scenario.bound() == []
    await scenario.cluster.add_nodes([MORE])
    await wait_for_members(scenario, 2)
    await wait_for_pods(scenario, bound=MEMBERS - 2)


@every_victim
async def test_a_kill_between_members_and_placeholder_pods_loses_no_slot(
    victims: list[str], open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario(TIGHT, SLOWLY_CREATED)
    await scenario.create(members(0, 2))
    await wait_for_pods(scenario, bound=0, unassigned=MEMBERS - 2)
    await restart(scenario, victims)
    await scenario.cluster.add_nodes([MORE])
    await wait_for_members(scenario, 2)
    await wait_for_pods(scenario, bound=MEMBERS - 2)
    await restart(scenario, victims)
    await scenario.create(members(2))
    await scenario.all_bound(MEMBERS)
    assert scenario.created_placeholders() == MEMBERS - 2
