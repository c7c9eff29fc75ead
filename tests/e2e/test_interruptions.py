"""The API server is slow, loses history or responses, or restarts in the middle of a gang."""

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

LONG_S = 600


async def reserved(scenario: Scenario, count: int) -> None:
    async def is_so() -> bool:
        return len(await scenario.bound(placeholders=True)) == count

    await scenario.eventually(f"{count} placeholders are bound", is_so)


async def test_a_gang_continues_when_the_api_server_restarts_while_it_reserves(open_scenario: OpenScenario) -> None:
    """All watches break, and the operator's writes fail on a closed port."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4500m")])
    await scenario.occupy("node-0", "2")
    await scenario.create(a_gang("patient", [Group("workers", 4)], timeout_s=LONG_S, placement="Reserve"))
    await reserved(scenario, 2)
    await scenario.cluster.restart_apiserver()
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scenario.all_bound(4)


async def test_a_gang_continues_when_the_api_server_restarts_during_its_replacement(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0")], gated=True)
    rule = scenario.gate.hold("DELETE", r"/pods/tg-")
    await scenario.create(a_gang("patient", [Group("workers", 4)], timeout_s=LONG_S, placement="Reserve"))
    await rule.reached(4)
    await scenario.cluster.restart_apiserver()
    rule.open()
    await scenario.all_bound(4)


async def test_deletes_missed_by_the_watch_are_found_by_the_list_after_410(open_scenario: OpenScenario) -> None:
    """After 410 Gone no event reports a deleted pod or a deleted placeholder."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4500m")], gated=True)
    await scenario.create([a_pod("holds-room", cpu="2")])
    await scenario.all_bound(1)
    rule = scenario.gate.hold("DELETE", r"/pods/tg-")
    await scenario.create(a_gang("waits", [Group("workers", 2)], timeout_s=LONG_S, placement="Reserve"))
    await rule.reached(2)
    await scenario.create([a_pod("guaranteed", cpu="2")])
    scenario.gate.freeze_watches()
    for placeholder in await scenario.pods(placeholders=True):
        await scenario.api.delete("pods", placeholder["metadata"]["name"], scenario.namespace)
    await scenario.api.delete("pods", "holds-room", scenario.namespace, grace_s=0)
    scenario.gate.expire_watches()

    async def all_have_nodes() -> bool:
        names = {pod["metadata"]["name"] for pod in await scenario.bound()}
        return names == {"waits-workers-0", "waits-workers-1", "guaranteed"}

    await scenario.eventually("the gang and the waiting pod have nodes", all_have_nodes)


async def test_a_permanently_rejected_bind_is_reported_and_tried_on_another_node(
    open_scenario: OpenScenario,
) -> None:
    """The request keeps its key, and the gang its reservation."""
    scenario = await open_scenario([FakeNode("node-0"), FakeNode("node-1")], gated=True)
    rejection = scenario.gate.fail("POST", r"/pods/single/binding", 422)
    scenario.gate.fail("POST", r"/pods/tg-[^/]*/binding", 422)
    await scenario.create([a_pod("single"), *a_gang("keeps", [Group("workers", 2)], timeout_s=LONG_S)])
    await scenario.all_bound(3)
    assert len(rejection.seen) == 1
    await wait_for_event(scenario, "single", "binding to node node-")
    assert all("binding to node node-" in event["message"] for event in await scenario.events("PodBindFailure"))
