"""Gangs of other APIs, by labels and annotations: all members start together or none, in each of them."""

from pathlib import Path

import pytest

from devcluster.api import Json
from devcluster.cluster import documents
from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import a_pod
from tests.e2e.pod_groups.test_pod_groups import nothing_is_bound
from tests.e2e.scenario import Scenario

SAMPLES = Path(__file__).with_name("samples")
EVERY_SAMPLE = pytest.mark.parametrize("sample", sorted(path.stem for path in SAMPLES.glob("*.yaml")))
GROUPS = "gang.scheduling.koordinator.sh/groups"
COUNT = "yunikorn.apache.org/gang-size"


def members(count: int, size: str, first: int = 0) -> list[Json]:
    """Pods of a group of Kueue."""
    pods = [a_pod(f"w{number}", labels={"kueue.x-k8s.io/pod-group-name": "train"}) for number in range(first, count)]
    for pod in pods:
        pod["metadata"]["annotations"][COUNT] = size
    return pods


async def wait_for_text(scenario: Scenario, text: str) -> None:
    """Wait until a pod has a condition with the text."""

    async def is_so() -> bool:
        return any(text in scheduled(pod).get("message", "") for pod in await scenario.pods())

    await scenario.eventually(f"a pod has a condition with {text!r}", is_so)


@EVERY_SAMPLE
async def test_a_sample_waits_until_all_of_it_fits_also_across_restarts(
    sample: str, open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="1200m")])
    await scenario.create(documents(SAMPLES / f"{sample}.yaml"))
    await wait_for_text(scenario, "1 of 2 members")
    await nothing_is_bound(scenario)
    for process in (scenario.muster.core, scenario.muster.operator):
        await process.kill()
        await scenario.muster.start()
    await nothing_is_bound(scenario)
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1")])
    await scenario.all_bound(2)


async def test_gangs_of_koordinator_that_name_each_other_start_together_also_across_restarts(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="2200m")])
    pods = documents(Path(__file__).with_name("koordinator-groups.yaml"))
    for pod in pods:
        written = pod["metadata"]["annotations"]
        written[GROUPS] = written[GROUPS].replace("default/", f"{scenario.namespace}/")
    await scenario.create(pods[1:])
    await wait_for_text(scenario, 'gang "gang-example1" has none, and starts together with gang "gang-example2"')
    await nothing_is_bound(scenario)
    await scenario.create(pods[:1])
    await wait_for_text(scenario, " members of task group gang-example")
    await nothing_is_bound(scenario)
    for process in (scenario.muster.core, scenario.muster.operator):
        await process.kill()
        await scenario.muster.start()
    await nothing_is_bound(scenario)
    first, both = f"{scenario.namespace}/gang-example1", pods[0]["metadata"]["annotations"]
    alone = {GROUPS: f'["{first}"]'}
    await scenario.api.patch("pods", "pod-example1", {"metadata": {"annotations": alone}}, scenario.namespace)
    await wait_for_text(
        scenario, f'gang "{first}" is one of {first}, and of {first}, {scenario.namespace}/gang-example2 ('
    )
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1")])
    await nothing_is_bound(scenario)
    await scenario.api.patch("pods", "pod-example1", {"metadata": {"annotations": both}}, scenario.namespace)
    await scenario.all_bound(3)


async def test_pods_that_contradict_each_other_wait_until_they_agree(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create([*members(2, "3"), *members(3, "2", first=2)])
    await wait_for_text(scenario, f'its pods have "2" and "3" as {COUNT}; write the same value on all of them')
    await nothing_is_bound(scenario)
    await scenario.api.patch("pods", "w2", {"metadata": {"annotations": {COUNT: "3"}}}, scenario.namespace)
    await scenario.all_bound(3)
    await scenario.create(members(4, "2", first=3))
    await wait_for_reason(scenario, "w3", "SchedulingSkipped", 'its pods have "2" and "3"')
    assert len(await scenario.bound()) == 3


async def test_members_that_appear_late_or_are_deleted_are_awaited(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create(members(2, "3"))
    await wait_for_text(scenario, f'waiting for more pods: gang "train" ({COUNT}) needs 3 ({COUNT})')
    await scenario.api.delete("pods", "w0", scenario.namespace, grace_s=0)
    await scenario.create(members(3, "3", first=2))
    await nothing_is_bound(scenario)
    await scenario.create(members(1, "3"))
    await scenario.all_bound(3)


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_a_replacement_starts_although_the_gang_can_never_have_its_size_again(
    phase: str, open_scenario: OpenScenario
) -> None:
    """One member has failed for good, one was deleted, and one runs or has succeeded."""
    scenario = await open_scenario([FakeNode("node-0", cpu="8")])
    await scenario.create(members(3, "3"))
    await scenario.all_bound(3)
    for name, status in (("w0", "Failed"), ("w1", phase)):
        await scenario.api.patch("pods", name, {"status": {"phase": status}}, scenario.namespace, subresource="status")
    await scenario.api.delete("pods", "w2", scenario.namespace, grace_s=0)
    await scenario.create(members(4, "3", first=3))
    assert {pod["metadata"]["name"] for pod in await scenario.all_bound(3)} == {"w0", "w1", "w3"}
