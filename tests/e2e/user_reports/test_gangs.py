"""Reports about gangs: all members or none, on ordinary inputs, for both scheduler names."""

import json

from devcluster.api import Json
from tests.e2e.manifests import with_annotations
from tests.e2e.scenario import Scenario
from tests.e2e.user_reports.reports import both_schedulers, bound, members, noted, on_node, plain, runs, waits


def one_per_node(pods: list[Json]) -> list[Json]:
    """The same pods, each on a node of its own."""
    for pod in pods:
        selector = {"matchLabels": {"applicationId": pod["metadata"]["labels"]["applicationId"]}}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pods


@both_schedulers
async def test_two_gangs_with_one_member_per_node_run_one_after_the_other(demo: Scenario, scheduler: str) -> None:
    both = ("one", "two")
    await demo.create(
        pod for pair in zip(*(one_per_node(members(app, 8, scheduler)) for app in both), strict=True) for pod in pair
    )

    async def is_complete() -> str:
        counts = {app: len(await bound(demo, app)) for app in both}
        return next((app for app in both if counts[app] == 8), "")

    first = await demo.eventually("one of the gangs is complete", is_complete)
    [second] = {*both} - {first}
    reasons = await waits(demo, [f"{second}-w-0"])
    assert await bound(demo, second) == []
    assert "0/8 nodes are available" in reasons[f"{second}-w-0"]
    await demo.api.delete_all("pods", demo.namespace, labelSelector=f"applicationId={first}")
    await runs(demo, second, 8)


@both_schedulers
async def test_numbers_in_min_resource_are_accepted(demo: Scenario, scheduler: str) -> None:
    numbers = [{"name": "w", "minMember": 2, "minResource": {"cpu": 0.5, "memory": 67108864}}]
    pods = members("numbers", 2, scheduler, cpu="500m")
    await demo.create(with_annotations(pod, {"yunikorn.apache.org/task-groups": json.dumps(numbers)}) for pod in pods)
    await runs(demo, "numbers", 2)
    await noted(demo, "All 2 ")


async def test_a_large_waiting_pod_does_not_block_small_ones_on_a_node_with_room(demo: Scenario) -> None:
    await demo.occupy("node-0", "500m")
    await demo.create([plain("large", nodeSelector=on_node("node-0"))])
    await waits(demo, ["large"])
    await demo.create([plain("small", "200m", nodeSelector=on_node("node-0"))])
    await runs(demo, "small", 1)
    assert "1 Insufficient cpu" in (await waits(demo, ["large"]))["large"]


@both_schedulers
async def test_a_gated_member_keeps_its_slot_and_the_others_run_only_if_all_fit(demo: Scenario, scheduler: str) -> None:
    await demo.create([plain(f"busy-{number}") for number in range(6)])
    for number in range(6):
        await runs(demo, f"busy-{number}", 1)
    pods = members("gated", 3, scheduler)
    pods[2]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    await demo.create(pods)
    await waits(demo, ["gated-w-0", "gated-w-1"])
    assert await bound(demo, "gated") == []
    await demo.api.delete("pods", "busy-0", demo.namespace)
    await runs(demo, "gated", 2)
    await demo.create([plain("rival")])
    await waits(demo, ["rival"])
    ungated = {"spec": {"schedulingGates": None}}
    await demo.api.patch("pods", "gated-w-2", ungated, demo.namespace)
    await runs(demo, "gated", 3)
    assert await bound(demo, "rival") == []
