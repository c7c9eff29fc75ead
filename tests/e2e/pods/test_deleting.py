"""A pod is deleted at each step of its bind: its resources are free immediately for the next pod of its name."""

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod, is_bound
from tests.e2e.scenario import Scenario

BINDING = r"/pods/{}/binding"


def full_node_pod(name: str) -> Json:
    """A pod as large as its node: the next one fits only after this one is released completely."""
    pod = a_pod(name, cpu="4", labels={"applicationId": "one-at-a-time"})
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    return pod


async def is_placed(scenario: Scenario, name: str) -> None:
    async def has_node() -> bool:
        return is_bound(await scenario.api.get("pods", name, scenario.namespace))

    await scenario.eventually(f"{name} has a node", has_node)


async def delete(scenario: Scenario, name: str) -> None:
    await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)

    async def is_deleted() -> bool:
        return not [pod for pod in await scenario.pods() if pod["metadata"]["name"] == name]

    await scenario.eventually(f"{name} is deleted", is_deleted)


async def test_a_pod_deleted_at_any_step_of_its_bind_frees_its_resources(open_scenario: OpenScenario) -> None:
    """A waiting pod, one after the decision, one after a bind without a response, and a running pod."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4")], gated=True)
    await scenario.create([full_node_pod("first"), full_node_pod("waits")])
    await is_placed(scenario, "first")
    await delete(scenario, "waits")
    await delete(scenario, "first")

    rule = scenario.gate.hold("POST", BINDING.format("decided"))
    await scenario.create([full_node_pod("decided")])
    await rule.reached(1)
    await delete(scenario, "decided")
    await scenario.create([full_node_pod("decided")])  # the held bind has the UID of the deleted pod
    rule.open()
    scenario.gate.clear()
    await is_placed(scenario, "decided")
    await delete(scenario, "decided")

    lost = scenario.gate.drop_response("POST", BINDING.format("unanswered"), times=1)
    await scenario.create([full_node_pod("unanswered")])
    await lost.reached(1)
    await delete(scenario, "unanswered")
    await scenario.create([full_node_pod("unanswered")])
    await is_placed(scenario, "unanswered")
    warnings = {event["reason"] for event in await scenario.events() if event["type"] == "Warning"}
    assert warnings <= {"FailedScheduling"}, "a pod may wait for the room of the one before it"
