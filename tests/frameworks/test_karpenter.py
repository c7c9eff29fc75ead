"""Karpenter with Muster: it creates the nodes that gangs need, once, and no node for other waiting pods."""

from __future__ import annotations

import pytest

from devcluster.api import Json
from devcluster.cluster import Cluster
from tests.e2e.conditions import wait_for_reason
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, owned
from tests.e2e.scenario import Scenario
from tests.frameworks import karpenter
from tests.frameworks.gangs import SLOW_S
from tests.frameworks.karpenter import Karpenter

PLACEMENTS = ("Reserve", "Atomic", "Direct")
NODE_CPUS = karpenter.SIZES[0]
FULL = {"vcore": str(NODE_CPUS)}
QUEUES = queue_file(
    a_queue("open"),
    a_queue("full", maximum=FULL),
    a_queue("limited", limits=[{"limit": "", "users": ["ann"], "maxresources": FULL}]),
)


def a_full_node(app: str, queue: str, placement: str) -> list[Json]:
    """A gang that needs exactly one node."""
    return a_gang(app, [Group("workers", NODE_CPUS)], queue=queue, placement=placement, timeout_s=600)


async def buys(scenario: Scenario, running: Karpenter, name: str, cpus: int) -> None:
    """Submit a pod that needs a node of its own, wait until it is bound, and check what was bought until then.

    Karpenter evaluates all pods together, so pods that waited before could have caused further nodes.
    """
    await scenario.create([a_pod(name, cpu=str(NODE_CPUS), labels={"applicationId": name, "queue": "root.open"})])
    await are_bound(scenario, name)
    assert running.cpus() == cpus, await scenario.report()


async def are_bound(scenario: Scenario, *names: str) -> None:
    async def is_so() -> bool:
        return {*names} <= {pod["metadata"]["name"] for pod in await scenario.bound()}

    await scenario.eventually(f"{names} are bound", is_so, SLOW_S)


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_karpenter_creates_the_nodes_of_a_waiting_gang_once(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    scenario = await open_scenario((), QUEUES)
    async with karpenter.running(home, scenario.namespace) as running:
        groups = [Group("driver", 1, cpu="2"), Group("workers", 6)]
        await scenario.create(a_gang("train", groups, queue="root.open", placement=placement, timeout_s=600))
        await scenario.all_bound(7, SLOW_S)
        await buys(scenario, running, "later", cpus=8 + NODE_CPUS)


@pytest.mark.parametrize("placement", ["Reserve", "Direct"])
async def test_a_gang_that_waits_for_quota_or_order_or_a_limit_buys_no_node(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    scenario = await open_scenario((), QUEUES)
    async with karpenter.running(home, scenario.namespace) as running:
        ann = [owned(pod, "ann") for pod in a_full_node("ann-first", "root.limited", placement)]
        await scenario.create([*a_full_node("first", "root.full", placement), *ann])
        await scenario.all_bound(2 * NODE_CPUS, SLOW_S)
        await scenario.create(a_full_node("quota", "root.full", placement))
        await wait_for_reason(scenario, "quota-workers-0", "SchedulingSkipped")
        await scenario.create(a_full_node("order", "root.full", placement))
        await scenario.create(owned(pod, "ann") for pod in a_full_node("ann-second", "root.limited", placement))
        await wait_for_reason(scenario, "order-workers-0", "SchedulingSkipped")
        await wait_for_reason(scenario, "ann-second-workers-0", "SchedulingSkipped")
        await buys(scenario, running, "later", cpus=3 * NODE_CPUS)


@pytest.mark.parametrize("placement", ["Reserve", "Atomic"])
async def test_the_nodes_of_a_reserved_gang_are_not_removed(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    """The driver fills a node. The executors do not exist yet, so only placeholders are on the other nodes."""
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(home, scenario.namespace, consolidate_after="0s") as running:
        size = str(NODE_CPUS)
        groups = [Group("driver", 1, cpu=size), Group("executors", 2, cpu=size, real=0)]
        await scenario.create(a_gang("spark", groups, queue="root.open", placement=placement, timeout_s=600))
        await are_bound(scenario, "spark-driver-0")
        await buys(scenario, running, "decoy", cpus=4 * NODE_CPUS)
        nodes = {node["metadata"]["name"] for node in await running.nodes()}
        decoy = (await scenario.api.get("pods", "decoy", scenario.namespace))["spec"]["nodeName"]
        await scenario.api.delete("pods", "decoy", scenario.namespace)

        async def is_removed() -> bool:
            return decoy not in {node["metadata"]["name"] for node in await running.nodes()}

        await scenario.eventually("Karpenter removes the empty node", is_removed, SLOW_S)
        assert {node["metadata"]["name"] for node in await running.nodes()} == nodes - {decoy}
