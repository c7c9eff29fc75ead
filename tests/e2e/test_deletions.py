"""Deletions while a gang is scheduled: its first pod, its namespace, a node, a placeholder."""

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

PLACEHOLDER_DELETE = r"/pods/tg-[^/]*$"


async def reserved(scenario: Scenario, count: int) -> None:
    async def is_so() -> bool:
        return len(await scenario.bound(placeholders=True)) == count

    await scenario.eventually(f"{count} placeholders are bound", is_so)


async def collected(scenario: Scenario, node: str) -> None:
    """Do what the pod garbage collector does 20 to 60 seconds later: delete the terminating pods of a deleted node."""

    async def are_deleted() -> bool:
        lost = [pod for pod in await scenario.pods(placeholders=True) if pod["spec"].get("nodeName") == node]
        for pod in lost:
            if "deletionTimestamp" in pod["metadata"]:
                await scenario.api.delete("pods", pod["metadata"]["name"], scenario.namespace, grace_s=0)
        return not lost

    await scenario.eventually(f"the placeholders of {node} are deleted", are_deleted)


async def test_a_member_whose_node_is_deleted_during_replacement_is_scheduled_elsewhere(
    open_scenario: OpenScenario,
) -> None:
    """Placeholder and member are on the deleted node."""
    scenario = await open_scenario([FakeNode(f"node-{index}", cpu="1500m") for index in range(3)], gated=True)
    rule = scenario.gate.hold("DELETE", PLACEHOLDER_DELETE)
    await scenario.create(a_gang("moves", [Group("workers", 2)], timeout_s=600, placement="Reserve"))
    await rule.reached(2)
    node = (await scenario.bound(placeholders=True))[0]["spec"]["nodeName"]
    await scenario.cluster.remove_nodes([node])
    rule.open()
    await collected(scenario, node)
    for pod in await scenario.all_bound(2):
        assert pod["spec"]["nodeName"] != node


async def test_a_replacement_continues_when_the_node_of_its_placeholder_is_deleted(
    open_scenario: OpenScenario,
) -> None:
    """The member takes over a reservation on the remaining node."""
    follows = {"gang.placeholdersFollowMembers": "false"}  # the placeholders are where their members cannot run
    scenario = await open_scenario([FakeNode("node-0")], follows, gated=True)
    rule = scenario.gate.hold("DELETE", PLACEHOLDER_DELETE)
    gang = a_gang("crosses", [Group("workers", 2)], timeout_s=600, placement="Reserve")
    for pod in gang:
        pod["spec"]["nodeSelector"] = {"disk": "ssd"}
    await scenario.create(gang)
    await reserved(scenario, 2)
    await scenario.cluster.add_nodes([FakeNode("node-1", labels={"disk": "ssd"})])
    await rule.reached(2)
    await scenario.cluster.remove_nodes(["node-0"])

    async def both_are_bound() -> bool:
        return [pod["spec"]["nodeName"] for pod in await scenario.bound()] == ["node-1"] * 2

    await scenario.eventually("both are bound, no delete was answered", both_are_bound)
    rule.open()
    await collected(scenario, "node-0")
    await scenario.all_bound(2)


async def test_a_gang_moves_off_a_node_that_is_cordoned_while_it_reserves(open_scenario: OpenScenario) -> None:
    """No pod is bound to a cordoned node, not even a member to the node of its placeholder."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4500m")])
    await scenario.occupy("node-0", "2")
    await scenario.create(a_gang("drained", [Group("workers", 4)], timeout_s=600, placement="Reserve"))
    await reserved(scenario, 2)
    await scenario.api.patch("nodes", "node-0", {"spec": {"unschedulable": True}})
    await scenario.cluster.add_nodes([FakeNode("node-1")])
    for pod in await scenario.all_bound(4):
        assert pod["spec"]["nodeName"] == "node-1"


async def test_a_placeholder_deleted_manually_during_replacement_counts_as_released(
    open_scenario: OpenScenario,
) -> None:
    """A placeholder that is deleted by another client counts as released."""
    scenario = await open_scenario([FakeNode("node-0")], gated=True)
    rule = scenario.gate.hold("DELETE", PLACEHOLDER_DELETE)
    await scenario.create(a_gang("by-hand", [Group("workers", 3)], timeout_s=600, placement="Reserve"))
    await rule.reached(1)
    victim = rule.seen[0].rpartition("/")[2]
    await scenario.api.delete("pods", victim, scenario.namespace)

    async def one_member_runs() -> bool:
        return len(await scenario.bound()) >= 1

    await scenario.eventually("its real pod is bound without our answer", one_member_runs)
    rule.open()
    await scenario.all_bound(3)


async def test_a_placeholder_deleted_manually_while_reserving_does_not_end_the_gang(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4500m")])
    await scenario.occupy("node-0", "2")
    await scenario.create(a_gang("short", [Group("workers", 4)], timeout_s=600, placement="Reserve"))
    await reserved(scenario, 2)
    await scenario.api.delete(
        "pods", (await scenario.bound(placeholders=True))[0]["metadata"]["name"], scenario.namespace
    )
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await scenario.all_bound(4)


# -- The API server is slow, loses history or responses, or restarts in the middle of a gang.

LONG_S = 600


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
