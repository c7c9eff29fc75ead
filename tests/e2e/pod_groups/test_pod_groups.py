"""Kubernetes' PodGroups with Muster: all members start together or none, and the group has the condition."""

from pathlib import Path

import pytest

from devcluster.api import Json
from devcluster.cluster import documents
from devcluster.nodes import FakeNode
from tests.e2e.conditions import condition, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.scenario import Scenario

SAMPLE = documents(Path(__file__).with_name("training.yaml"))
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
SCHEDULED = "PodGroupInitiallyScheduled"


def a_pod_group(name: str = "train", minimum: int = 3, **spec: object) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec},
    }


def members(count: int, group: str = "train", first: int = 0, **fields: object) -> list[Json]:
    pods = [a_pod(f"{group}-{number}") for number in range(first, first + count)]
    for pod in pods:
        pod["spec"] |= {"schedulingGroup": {"podGroupName": group}, **fields}
    return pods


async def condition_of(scenario: Scenario, group: str = "train") -> Json:
    """The scheduler's condition of a PodGroup."""
    found = await scenario.api.get("podgroups", group, scenario.namespace)
    return condition({"status": found.get("status") or {}}, SCHEDULED)


async def wait_for_condition(
    scenario: Scenario, status: str, reason: str, text: str = "", group: str = "train"
) -> None:
    async def is_so() -> bool:
        found = await condition_of(scenario, group)
        return (found.get("status"), found.get("reason")) == (status, reason) and text in found.get("message", "")

    await scenario.eventually(f"PodGroup {group} has {SCHEDULED}={status}, {reason}", is_so)


async def nothing_is_bound(scenario: Scenario) -> None:
    """Assert that no member has a node, also after a single pod that was created now was bound."""
    await scenario.create([a_pod("witness", cpu="100m", labels={"applicationId": "witness"})])

    async def is_bound() -> bool:
        return any(pod["metadata"]["name"] == "witness" for pod in await scenario.bound())

    await scenario.eventually("a single pod is bound", is_bound)
    assert [pod["metadata"]["name"] for pod in await scenario.bound()] == ["witness"]
    await scenario.api.delete("pods", "witness", scenario.namespace, grace_s=0)


async def test_the_sample_starts_completely_when_the_last_member_fits(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="2200m")])
    await scenario.create(SAMPLE)
    await wait_for_condition(scenario, "False", "Unschedulable", "1 of 3 members", group="training-workers")
    await nothing_is_bound(scenario)
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="2")])
    await scenario.all_bound(3)
    await wait_for_condition(scenario, "True", "Scheduled", group="training-workers")


async def test_members_wait_until_enough_of_them_exist(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create([a_pod_group(), *members(2)])
    await wait_for_condition(scenario, "False", "Unschedulable", TOO_FEW)
    await wait_for_reason(scenario, "train-0", "SchedulingSkipped", TOO_FEW)
    await nothing_is_bound(scenario)
    await scenario.create(members(2, first=2))
    await scenario.all_bound(4)
    await wait_for_condition(scenario, "True", "Scheduled")


async def test_members_wait_for_their_group_and_lose_their_requests_with_it(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="2")])
    await scenario.create(members(3))
    await wait_for_reason(scenario, "train-0", "SchedulingSkipped", 'waiting for pods\'s pod group "train" to appear')
    await scenario.create([a_pod_group()])
    await wait_for_condition(scenario, "False", "Unschedulable", "1 of 3 members")
    group = await scenario.api.get("podgroups", "train", scenario.namespace)
    await scenario.api.patch("podgroups", "train", {"metadata": {"finalizers": []}}, scenario.namespace)
    await scenario.api.delete("podgroups", "train", scenario.namespace)
    await wait_for_reason(scenario, "train-0", "SchedulingSkipped", 'waiting for pods\'s pod group "train" to appear')
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="4")])
    await nothing_is_bound(scenario)
    await scenario.create([a_pod_group()])
    await scenario.all_bound(3)
    assert (
        group["metadata"]["uid"]
        != (await scenario.api.get("podgroups", "train", scenario.namespace))["metadata"]["uid"]
    )


async def test_a_gated_member_is_missing_until_its_gate_is_removed(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create([a_pod_group(), *members(2), *members(1, first=2, schedulingGates=[{"name": "quota"}])])
    await wait_for_condition(scenario, "False", "Unschedulable", TOO_FEW)
    await nothing_is_bound(scenario)
    await scenario.api.patch("pods", "train-2", {"spec": {"schedulingGates": []}}, scenario.namespace)
    await scenario.all_bound(3)


@pytest.mark.parametrize(
    "spec, field", [({"disruptionMode": {"all": {}}}, "spec.disruptionMode.all is not supported yet")]
)
async def test_a_field_that_is_not_supported_keeps_all_members_waiting(
    spec: Json, field: str, open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create([a_pod_group(**spec), *members(3)])
    await wait_for_condition(scenario, "False", "SchedulerError", field)
    await wait_for_reason(scenario, "train-0", "SchedulingSkipped", field)
    await nothing_is_bound(scenario)


@pytest.mark.parametrize("process", ["core", "operator"])
async def test_a_restart_keeps_what_waits_and_what_runs(process: str, open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="4")])
    await scenario.create([a_pod_group("first", 2), *members(2, "first")])
    await scenario.all_bound(2)
    await scenario.create([a_pod_group(), *members(3)])
    await wait_for_condition(scenario, "False", "Unschedulable", "2 of 3 members")
    await getattr(scenario.muster, process).kill()
    await scenario.muster.start()
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1")])
    await scenario.all_bound(5)
    await wait_for_condition(scenario, "True", "Scheduled")


async def test_all_members_of_a_group_are_in_one_domain_of_its_topology(open_scenario: OpenScenario) -> None:
    nodes = [FakeNode(f"node-{rack}", cpu=cpu, labels={"rack": rack}) for rack, cpu in {"a": "2", "b": "4"}.items()]
    scenario = await open_scenario(nodes)
    topology = {"topology": [{"key": "rack"}]}
    await scenario.create([a_pod_group(schedulingConstraints=topology), *members(3)])
    assert {pod["spec"]["nodeName"] for pod in await scenario.all_bound(3)} == {"node-b"}
    await scenario.create(members(2, first=3))
    await scenario.all_bound(4)
    waiting = next(pod["metadata"]["name"] for pod in await scenario.pods() if not pod["spec"].get("nodeName"))
    await wait_for_reason(scenario, waiting, "Unschedulable", "outside the gang's topology domain")
    await scenario.create([a_pod_group("large", 3, schedulingConstraints=topology), *members(3, "large")])
    await wait_for_condition(scenario, "False", "Unschedulable", "fit in rack=b (at most 2 in rack=a)", "large")
