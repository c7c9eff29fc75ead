"""Karpenter with Muster: it creates the nodes that gangs need, once, and no node for other waiting pods."""

import pytest

from devcluster.api import Json
from devcluster.cluster import Cluster
from tests.e2e.conditions import scheduled, wait_for_reason
from tests.e2e.configuration import QUICK_PREEMPTION, a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, owned, with_annotations
from tests.e2e.scenario import Scenario
from tests.frameworks import karpenter
from tests.frameworks.gangs import SLOW_S
from tests.frameworks.karpenter import Karpenter

PLACEMENTS = ("Reserve", "Direct", "Auto")
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
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(home, scenario.namespace) as running:
        groups = [Group("driver", 1, cpu="2"), Group("workers", 6)]
        await scenario.create(a_gang("train", groups, queue="root.open", placement=placement, timeout_s=600))
        await scenario.all_bound(7, SLOW_S)
        await buys(scenario, running, "later", cpus=8 + NODE_CPUS)


@pytest.mark.parametrize("placement", ["Reserve", "Direct", "Auto"])
async def test_a_gang_that_waits_for_quota_or_order_or_a_limit_buys_no_node(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
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


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_gangs_that_share_a_quota_buy_nodes_for_one_of_them(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(home, scenario.namespace) as running:
        gangs = [a_full_node(f"gang-{number}", "root.full", placement) for number in range(3)]
        await scenario.create(pod for gang in gangs for pod in gang)
        await _bound(scenario, NODE_CPUS)
        await buys(scenario, running, "later", cpus=2 * NODE_CPUS)


@pytest.mark.parametrize("placement", ["", "Reserve", "Auto"])
async def test_pods_for_which_others_are_preempted_buy_no_node(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    """The victims terminate slowly. The queue has a maximum, so the pods never waited for nodes before."""
    owner = a_queue("owner", guaranteed={"vcore": "2"}, properties={"preemption.delay": "1s"})
    shared = a_queue("shared", owner, a_queue("borrower"), maximum=FULL)
    scenario = await open_scenario([karpenter.SYSTEM], queue_file(a_queue("open"), shared) | QUICK_PREEMPTION)
    async with karpenter.running(home, scenario.namespace) as running:
        labels = {"applicationId": "borrower", "queue": "root.shared.borrower"}
        for number in range(NODE_CPUS):
            pod = with_annotations(
                a_pod(f"victim-{number}", labels=labels), {"devcluster.muster/delete-after": "3600s"}
            )
            pod["spec"]["terminationGracePeriodSeconds"] = 3600
            await scenario.create([pod])
        await _bound(scenario, NODE_CPUS)
        groups = [Group("workers", 2)]
        gang = a_gang("owner", groups, queue="root.shared.owner", placement=placement or "Reserve", timeout_s=600)
        plain = {"applicationId": "owner", "queue": "root.shared.owner"}
        alone = [a_pod(f"owner-workers-{number}", labels=plain) for number in range(2)]
        await scenario.create(gang if placement else alone)

        async def victims() -> list[str]:
            pods = [pod["metadata"] for pod in await scenario.pods() if "deletionTimestamp" in pod["metadata"]]
            return [pod["name"] for pod in pods] if len(pods) == 2 else []

        names = await scenario.eventually("two pods are being preempted", victims, SLOW_S)
        await buys(scenario, running, "later", cpus=2 * NODE_CPUS)
        for name in names:
            await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)
        await are_bound(scenario, "owner-workers-0", "owner-workers-1")
        assert running.cpus() == 2 * NODE_CPUS


async def test_pods_beyond_the_quota_of_their_queue_buy_no_node(home: Cluster, open_scenario: OpenScenario) -> None:
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(home, scenario.namespace) as running:
        labels = {"applicationId": "pods", "queue": "root.full"}
        await scenario.create(a_pod(f"pod-{number}", labels=labels) for number in range(3 * NODE_CPUS))
        await _bound(scenario, NODE_CPUS)
        await buys(scenario, running, "later", cpus=2 * NODE_CPUS)


async def test_applications_beyond_the_quota_of_their_queue_buy_no_node(
    home: Cluster, open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(home, scenario.namespace) as running:
        await scenario.create(
            a_pod(f"pod-{number}", labels={"applicationId": f"app-{number}", "queue": "root.full"})
            for number in range(3 * NODE_CPUS)
        )
        await _bound(scenario, NODE_CPUS)
        await buys(scenario, running, "later", cpus=2 * NODE_CPUS)


async def _bound(scenario: Scenario, count: int) -> None:
    async def is_so() -> bool:
        return len(await scenario.bound()) == count

    await scenario.eventually(f"{count} pods are bound", is_so, SLOW_S)


@pytest.mark.parametrize("placement", ["Reserve", "Auto"])
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


@pytest.mark.parametrize("placement", ["Direct", "Auto"])
async def test_free_nodes_that_a_waiting_gang_needs_are_not_removed(
    home: Cluster, open_scenario: OpenScenario, placement: str
) -> None:
    """Two of the three nodes are free. Their pods are reserved without placeholders, so the nodes are empty.

    The removal of a small node that the gang cannot use shows that Karpenter has searched for empty nodes.
    """
    small = 2
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(
        home, scenario.namespace, sizes=(NODE_CPUS, small), consolidate_after="0s", max_cpus=3 * NODE_CPUS + small + 1
    ) as running:
        sizes = {"keeps": NODE_CPUS, "leaves-0": NODE_CPUS, "leaves-1": NODE_CPUS, "leaves-2": small}
        await scenario.create(
            a_pod(name, cpu=str(cpus), labels={"applicationId": name, "queue": "root.open"})
            for name, cpus in sizes.items()
        )
        await are_bound(scenario, *sizes)
        small_node = (await scenario.api.get("pods", "leaves-2", scenario.namespace))["spec"]["nodeName"]
        before = {node["metadata"]["name"] for node in await running.nodes()}
        groups = [Group("workers", 3, cpu=str(NODE_CPUS))]
        await scenario.create(a_gang("train", groups, queue="root.open", placement=placement, timeout_s=600))
        for number in range(3):
            await wait_for_reason(scenario, f"train-workers-{number}", "Unschedulable")
            await scenario.api.delete("pods", f"leaves-{number}", scenario.namespace)

        async def is_removed() -> bool:
            return small_node not in {node["metadata"]["name"] for node in await running.nodes()}

        await scenario.eventually("Karpenter removes the node that the gang cannot use", is_removed, SLOW_S)
        assert {node["metadata"]["name"] for node in await running.nodes()} == before - {small_node}
        await scenario.api.delete("pods", "keeps", scenario.namespace)
        await are_bound(scenario, *(f"train-workers-{number}" for number in range(3)))
        assert running.cpus() == 3 * NODE_CPUS + small


async def test_annotations_of_a_task_group_are_on_its_placeholders(home: Cluster, open_scenario: OpenScenario) -> None:
    annotations = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        "karpenter.sh/do-not-disrupt": "true",
    }
    scenario = await open_scenario([karpenter.SYSTEM], QUEUES)
    async with karpenter.running(home, scenario.namespace):
        groups = [Group("driver", 1), Group("executors", 2, real=0, extra={"annotations": annotations})]
        await scenario.create(a_gang("spark", groups, queue="root.open", placement="Reserve", timeout_s=600))
        await are_bound(scenario, "spark-driver-0")
        for pod in await scenario.bound(placeholders=True):
            assert annotations.items() <= pod["metadata"]["annotations"].items()
            assert scheduled(pod)["status"] == "True"
