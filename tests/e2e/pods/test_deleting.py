"""A pod is deleted at each step of its bind: its resources are free at once, and the next pod of its name gets them."""

from __future__ import annotations

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod, is_bound
from tests.e2e.scenario import Scenario

BINDING = r"/pods/{}/binding"


def whole(name: str) -> Json:
    """A pod as large as its node: the next one fits only if nothing is left of this one."""
    pod = a_pod(name, cpu="4", labels={"applicationId": "one-at-a-time"})
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    return pod


async def is_placed(scenario: Scenario, name: str) -> None:
    async def has_node() -> bool:
        return is_bound(await scenario.api.get("pods", name, scenario.namespace))

    await scenario.eventually(f"{name} has a node", has_node)


async def delete(scenario: Scenario, name: str) -> None:
    await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)

    async def is_gone() -> bool:
        return not [pod for pod in await scenario.pods() if pod["metadata"]["name"] == name]

    await scenario.eventually(f"{name} is gone", is_gone)


async def test_a_pod_deleted_at_any_step_of_its_bind_frees_its_resources(open_scenario: OpenScenario) -> None:
    """While it waits, after the decision, after the bind whose answer is lost, and when it runs; of one name."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4")], gated=True)
    await scenario.create([whole("first"), whole("waits")])
    await is_placed(scenario, "first")
    await delete(scenario, "waits")
    await delete(scenario, "first")

    held = scenario.gate.hold("POST", BINDING.format("decided"))
    await scenario.create([whole("decided")])
    await held.reached(1)
    await delete(scenario, "decided")
    await scenario.create([whole("decided")])  # the bind that is held names the UID of the one that is gone
    held.open()
    scenario.gate.clear()
    await is_placed(scenario, "decided")
    await delete(scenario, "decided")

    lost = scenario.gate.drop_response("POST", BINDING.format("unanswered"), times=1)
    await scenario.create([whole("unanswered")])
    await lost.reached(1)
    await delete(scenario, "unanswered")
    await scenario.create([whole("unanswered")])
    await is_placed(scenario, "unanswered")
    warnings = {event["reason"] for event in await scenario.events() if event["type"] == "Warning"}
    assert warnings <= {"FailedScheduling"}, "a pod may wait for the room of the one before it"
