"""A kubelet rejects a pod that was bound to its node: the gang keeps its reservations.

The test writes the status as a kubelet does; fake pods here do not start for an hour.
"""

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, with_annotations
from tests.e2e.scenario import Scenario

NOT_YET = {"devcluster.muster/start-after": "1h"}


async def reject(scenario: Scenario, pod: Json, reason: str) -> str:
    """Set the status of a pod that its kubelet rejects, and return the node."""
    status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected: the node has less than was thought"}
    await scenario.api.patch(
        "pods", pod["metadata"]["name"], {"status": status}, scenario.namespace, subresource="status"
    )
    return str(pod["spec"]["nodeName"])


async def names(scenario: Scenario, *, placeholders: bool = False) -> set[str]:
    return {pod["metadata"]["name"] for pod in await scenario.bound(placeholders=placeholders)}


async def test_a_gang_keeps_its_reservations_after_kubelet_rejections(open_scenario: OpenScenario) -> None:
    """First a placeholder is rejected while the gang reserves, then a member whose node another pod waits for."""
    nodes = [FakeNode("node-0", cpu="2"), FakeNode("node-1", cpu="1")]
    scenario = await open_scenario(nodes, queues(resources={"max": {"vcore": "3"}}))
    await scenario.occupy("node-0", "1")
    group = Group("workers", 3, extra={"annotations": NOT_YET})
    gang = a_gang("firm", [group], timeout_s=600, queue="root.leaf", placement="Reserve")
    await scenario.create(with_annotations(pod, NOT_YET) for pod in gang)

    async def two_placeholders() -> list[Json]:
        found = await scenario.bound(placeholders=True)
        return found if len(found) == 2 and len(await scenario.pods(placeholders=True)) == 3 else []

    first, _ = await scenario.eventually("two placeholders are bound", two_placeholders)
    before = {pod["metadata"]["name"] for pod in await scenario.pods(placeholders=True)}
    away = await reject(scenario, first, "OutOfcpu")

    async def is_replaced() -> str:
        existing = {pod["metadata"]["name"] for pod in await scenario.pods(placeholders=True)}
        return next(iter(existing - before)) if len(existing) == 3 and first["metadata"]["name"] not in existing else ""

    replaced_by = await scenario.eventually("another placeholder replaces it", is_replaced)
    await wait_for_event(scenario, "firm-workers-0", away, "rejected", first["metadata"]["name"], "OutOfcpu")
    await scenario.cluster.add_nodes([FakeNode("node-2", cpu="1"), FakeNode("node-3", cpu="1")])
    members = await scenario.all_bound(3)
    placed = {write.name: write.node for write in scenario.writes(of_operator=True) if write.subresource == "binding"}
    assert placed[replaced_by] not in {away, ""}

    await scenario.create([a_pod("rival", labels={"applicationId": "rival", "queue": "root.leaf"})])
    member = members[0]
    node = await reject(scenario, member, "UnexpectedAdmissionError")
    await wait_for_event(scenario, "firm-workers-0", node, member["metadata"]["name"], "is reserved for 120 s")
    assert "rival" not in await names(scenario)
    (again,) = a_gang("firm", [group], timeout_s=600, queue="root.leaf", placement="Reserve")[:1]
    again["metadata"]["name"] = "firm-again"
    await scenario.create([with_annotations(again, NOT_YET)])

    async def is_complete() -> bool:
        return "firm-again" in await names(scenario)

    await scenario.eventually("the gang is complete again", is_complete)
    found = await scenario.api.get("pods", "firm-again", scenario.namespace)
    assert found["spec"]["nodeName"] != node
    assert "rival" not in await names(scenario)
