"""Preemption: by guaranteed resources, and for the required node of a DaemonSet pod."""

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import condition, scheduled, wait_for_event, wait_for_reason
from tests.e2e.configuration import QUICK_PREEMPTION, a_queue, queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, a_daemon_set, a_pod, with_annotations
from tests.e2e.scenario import Scenario

SOON = {"preemption.delay": "1s"}
NODES = [FakeNode("node-0", cpu="4")]


def two_queues() -> dict[str, str]:
    """Two leaf queues with two guaranteed CPUs each."""
    leaves = [a_queue(name, guaranteed={"vcore": "2"}, properties=SOON) for name in ("owner", "borrower")]
    return queue_file(*leaves) | QUICK_PREEMPTION


def a_pod_of(queue: str, index: int) -> Json:
    return a_pod(f"{queue}-{index}", labels={"applicationId": f"app-{queue}", "queue": f"root.{queue}"})


async def names_bound(scenario: Scenario) -> set[str]:
    return {pod["metadata"]["name"] for pod in await scenario.bound()}


async def test_a_queue_regains_its_guarantee_by_preemption(open_scenario: OpenScenario) -> None:
    """Victims report the reason and terminate gracefully; their resources stay reserved until they are deleted."""
    scenario = await open_scenario(NODES, two_queues())
    for index in range(4):
        victim = with_annotations(a_pod_of("borrower", index), {"devcluster.muster/delete-after": "3600s"})
        victim["spec"]["terminationGracePeriodSeconds"] = 3600
        await scenario.create([victim])
    await scenario.all_bound(4)
    await scenario.create(a_pod_of("owner", index) for index in range(2))

    async def victims() -> list[Json]:
        terminating = [pod for pod in await scenario.pods() if "deletionTimestamp" in pod["metadata"]]
        return terminating if len(terminating) == 2 else []

    terminating = await scenario.eventually("two pods are being deleted", victims)
    assert not {"owner-0", "owner-1"} & await names_bound(scenario)
    for victim in terminating:
        target = condition(victim, "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
        assert "root.owner" in target["message"]
    for victim in terminating:
        await scenario.api.delete("pods", victim["metadata"]["name"], scenario.namespace, grace_s=0)
    await scenario.all_bound(4)
    assert {"owner-0", "owner-1"} < await names_bound(scenario)
    for victim in terminating:
        await wait_for_event(scenario, victim["metadata"]["name"], "preempt", kind="Normal")


async def test_the_node_of_terminating_victims_is_nominated_and_the_nomination_of_a_user_has_no_effect(
    open_scenario: OpenScenario,
) -> None:
    """Autoscalers ignore pods with a nominated node, because room is being made for them there."""
    scenario = await open_scenario(NODES, two_queues())
    for index in range(4):
        victim = with_annotations(a_pod_of("borrower", index), {"devcluster.muster/delete-after": "3600s"})
        victim["spec"]["terminationGracePeriodSeconds"] = 3600
        await scenario.create([victim])
    await scenario.all_bound(4)
    no_node = a_pod("nowhere", cpu="64", labels={"applicationId": "nowhere", "queue": "root.borrower"})
    await scenario.create([no_node, a_pod_of("owner", 0)])
    await wait_for_reason(scenario, "nowhere", "Unschedulable")
    written = {"status": {"nominatedNodeName": "node-0"}}
    await scenario.api.patch("pods", "nowhere", written, scenario.namespace, subresource="status")

    async def nominated() -> Json:
        pod = await scenario.api.get("pods", "owner-0", scenario.namespace)
        return pod if pod["status"].get("nominatedNodeName") else {}

    pod = await scenario.eventually("the node of the victim is nominated", nominated)
    assert pod["status"]["nominatedNodeName"] == "node-0"
    assert scheduled(pod)["reason"] == "Unschedulable"
    assert pod["spec"].get("nodeName") is None
    await scenario.muster.operator.kill()
    await scenario.muster.core.kill()
    await scenario.muster.start()

    async def is_removed() -> bool:
        again = await scenario.api.get("pods", "nowhere", scenario.namespace)
        return "nominatedNodeName" not in again["status"]

    await scenario.eventually("the nomination that the core does not know is removed", is_removed)
    for victim in await scenario.pods():
        if "deletionTimestamp" in victim["metadata"]:
            await scenario.api.delete("pods", victim["metadata"]["name"], scenario.namespace, grace_s=0)
    await scenario.all_bound(4)
    assert "owner-0" in await names_bound(scenario), "neither nomination counts as used on the node"


async def test_a_pod_that_opted_out_of_preemption_is_a_victim_of_last_resort(open_scenario: OpenScenario) -> None:
    """Victims of last resort."""
    scenario = await open_scenario(NODES, two_queues())
    kept = {"borrower-2", "borrower-3"}
    for index in range(4):
        pod = a_pod_of("borrower", index)
        opted_out = {f"{PREFIX}allow-preemption": "false"} if pod["metadata"]["name"] in kept else {}
        await scenario.create([with_annotations(pod, opted_out)])
    await scenario.all_bound(4)
    await scenario.create(a_pod_of("owner", index) for index in range(2))

    async def owner_runs() -> bool:
        return {"owner-0", "owner-1"} < await names_bound(scenario)

    await scenario.eventually("the owner has its guarantee", owner_runs)
    assert await names_bound(scenario) == {"owner-0", "owner-1"} | kept


async def test_daemon_set_pods_preempt_other_pods_on_every_node(open_scenario: OpenScenario) -> None:
    """Those of Muster's own namespace, which users cannot write. A DaemonSet of the other namespace waits."""
    scenario = await open_scenario([FakeNode(f"node-{index}", cpu="2") for index in range(2)], QUICK_PREEMPTION)
    api, home = scenario.api, scenario.muster.setup.namespace
    await scenario.create(a_pod(f"plain-{index}", labels={"applicationId": "plain"}) for index in range(4))
    await scenario.all_bound(4)
    await scenario.create([a_daemon_set("ordinary", cpu="1")])

    async def are_unschedulable() -> bool:
        pods = await api.find("pods", scenario.namespace, labelSelector="daemon=ordinary")
        return len(pods) == 2 and all(condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in pods)

    async def are_everywhere() -> bool:
        pods = await api.find("pods", home, labelSelector="daemon=agent")
        return {pod["spec"].get("nodeName") for pod in pods} == {"node-0", "node-1"}

    await scenario.eventually("the pods of the ordinary DaemonSet wait", are_unschedulable)
    await scenario.all_bound(4)
    await api.create(a_daemon_set("agent", cpu="1"), home)
    try:
        await scenario.eventually("a daemon of the system runs on every node", are_everywhere)
        await scenario.all_bound(2)
        assert all(name.startswith("plain") for name in await names_bound(scenario))
    finally:
        await api.delete("daemonsets", "agent", home)
        await api.delete_all("pods", home)
