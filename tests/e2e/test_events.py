"""Events and conditions: the reason why a pod waits, the progress of a gang, and their number of writes."""

from collections import Counter

from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled, wait_for_reason
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod


async def test_a_pod_that_fits_no_node_reports_the_node_reasons(open_scenario: OpenScenario) -> None:
    """The reason is Unschedulable, for which an autoscaler adds nodes."""
    scenario = await open_scenario([FakeNode("node-0", cpu="1"), FakeNode("node-1", labels={"disk": "ssd"})])
    picky = a_pod("picky", cpu="2")
    picky["spec"]["nodeSelector"] = {"disk": "hdd"}
    await scenario.create([picky])
    await wait_for_reason(scenario, "picky", "Unschedulable", "0/2 nodes are available", "node affinity/selector")
    await scenario.cluster.add_nodes([FakeNode("node-2", labels={"disk": "hdd"})])
    [pod] = await scenario.all_bound(1)

    async def is_scheduled() -> bool:
        return scheduled(await scenario.api.get("pods", "picky", scenario.namespace)).get("status") == "True"

    await scenario.eventually("the condition is true", is_scheduled)
    assert pod["spec"]["nodeName"] == "node-2"


async def test_a_pod_that_waits_for_quota_does_not_trigger_a_scale_up(open_scenario: OpenScenario) -> None:
    """The reason is SchedulingSkipped, for which no autoscaler adds a node."""
    scenario = await open_scenario([FakeNode("node-0")], queues(resources={"max": {"vcore": "1"}}))
    labels = {"applicationId": "bounded", "queue": "root.leaf"}
    await scenario.create([a_pod("first", labels=labels)])
    await scenario.all_bound(1)
    await scenario.create([a_pod("second", labels=labels)])
    await wait_for_reason(scenario, "second", "SchedulingSkipped", "root.leaf", "cpu")


async def test_a_gang_costs_few_writes_and_reports_its_progress_once(open_scenario: OpenScenario) -> None:
    """Five writes per member, and few for the gang: its progress is one event series on the first pod."""
    members = 40
    scenario = await open_scenario([FakeNode(f"node-{index}", cpu="16") for index in range(4)])
    await scenario.create(a_gang("large", [Group("workers", members)], placement="Reserve"))
    await scenario.all_bound(members)

    async def all_are_reported() -> bool:
        return len(await scenario.events("Scheduled")) == members

    await scenario.eventually("every member has its event", all_are_reported)
    writes = scenario.writes(of_operator=True)
    per_kind = Counter(write.what for write in writes)
    assert len(writes) <= 5 * members + 5, per_kind
    assert per_kind["create pods"] == per_kind["delete pods"] == members
    assert per_kind["create pods/binding"] == 2 * members
    per_pod = Counter(event["involvedObject"]["name"] for event in await scenario.events())
    assert per_pod.pop("large-workers-0") <= 3
    assert set(per_pod.values()) == {1}
