"""A node of a running gang is lost while pods of other queues wait: the gang gets the next node."""

import json

import pytest

from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_member, a_pod

QUEUES = [{"name": name, "submitacl": "*"} for name in ("training", "others")]
CONFIGURATION = {
    "queues.yaml": json.dumps({"partitions": [{"name": "default", "queues": [{"name": "root", "queues": QUEUES}]}]})
}


@pytest.mark.parametrize("placement", ["Auto", "Direct", "Reserve"])
async def test_the_replacement_of_a_lost_member_precedes_a_pod_of_another_queue(
    open_scenario: OpenScenario, placement: str
) -> None:
    """The texts of all waiting pods name the same number of nodes, before and after."""
    scenario = await open_scenario([FakeNode(f"node-{index}", cpu="1") for index in range(3)], CONFIGURATION)
    workers = [Group("workers", 3)]
    await scenario.create(a_gang("train", workers, queue="root.training", placement=placement))
    bound = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in await scenario.all_bound(3)}
    rival = a_pod("rival", labels={"applicationId": "rival", "queue": "root.others"})
    await scenario.create([rival])
    await wait_for_reason(scenario, "rival", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")

    await scenario.cluster.remove_nodes(["node-1"])
    await scenario.api.delete("pods", bound["node-1"], scenario.namespace)
    again = a_member("train", "workers", "again", workers, f"gangPlacement={placement}")
    again["metadata"]["labels"]["queue"] = "root.training"
    await scenario.create([again])
    short = "gang train runs with 2 of 3 members of task group workers"
    await wait_for_reason(scenario, "again", "Unschedulable", f"{short}: 0/2 nodes are available: 2 Insufficient cpu.")
    await wait_for_reason(scenario, "rival", "Unschedulable", "0/2 nodes are available: 2 Insufficient cpu.")
    originator = "train-workers-0" if bound["node-1"] != "train-workers-0" else "train-workers-1"
    await wait_for_event(scenario, originator, short)

    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1")])
    names = {pod["metadata"]["name"] for pod in await scenario.all_bound(3)}
    assert names == {"again", *(name for node, name in bound.items() if node != "node-1")}
    await wait_for_reason(scenario, "rival", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
