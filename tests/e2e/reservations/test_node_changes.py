"""Nodes are drained, tainted, resized and created again while gangs reserve and run."""

import asyncio
import os

from devcluster.api import Json, bind
from devcluster.binaries import ensure
from devcluster.nodes import FakeNode
from devcluster.programs import KUBECTL
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound, with_annotations
from tests.e2e.scenario import Scenario


async def reserved(scenario: Scenario, count: int) -> list[Json]:
    async def are_bound() -> list[Json]:
        found = await scenario.bound(placeholders=True)
        return found if len(found) == count else []

    return await scenario.eventually(f"{count} placeholders are bound", are_bound)


async def evict(scenario: Scenario, pod: Json) -> None:
    """Evict the pod, as `kubectl drain` does."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": scenario.namespace}}
    await scenario.api.request("POST", f"/api/v1/namespaces/{scenario.namespace}/pods/{name}/eviction", body)


async def allocatable(scenario: Scenario, node: str, cpu: str) -> None:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    await scenario.api.patch("nodes", node, {"status": {"allocatable": amounts}}, subresource="status")


async def resize(scenario: Scenario, pod: str, container: Json) -> None:
    """Resize the pod in place, as a user does (Kubernetes 1.33)."""
    path = f"/api/v1/namespaces/{scenario.namespace}/pods/{pod}/resize"
    body = {"spec": {"containers": [container]}}
    await scenario.api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")


async def in_core(scenario: Scenario, node: str) -> Json:
    """The node in the core's state."""
    nodes = [one for partition in (await scenario.muster.dump())["nodes"] for one in partition["nodesInfo"]]
    return next(one for one in nodes if one["nodeID"] == node)


async def node_events(scenario: Scenario, *nodes: str) -> set[tuple[str, str]]:
    """Nodes and reasons of Muster's events on these nodes, in the namespace `default`."""
    events = await scenario.api.find("events", "default")
    muster_events = [event for event in events if event.get("reportingComponent") == "muster"]
    reasons = {(event["involvedObject"]["name"], event["reason"]) for event in muster_events}
    return {(node, reason) for node, reason in reasons if node in nodes}


async def test_a_reserving_gang_moves_off_drained_and_tainted_nodes(open_scenario: OpenScenario) -> None:
    """A placeholder that is evicted by `kubectl drain` or for a taint is recreated on another node."""
    scenario = await open_scenario([FakeNode("drained", cpu="4"), FakeNode("tainted", cpu="1")])
    await scenario.occupy("drained", "2")
    await scenario.create(a_gang("moves", [Group("workers", 5)], timeout_s=600, placement="Reserve"))
    first = {pod["metadata"]["name"] for pod in await reserved(scenario, 3)}
    await scenario.api.patch("nodes", "drained", {"spec": {"unschedulable": True}})
    for pod in await scenario.bound(placeholders=True):
        if pod["spec"]["nodeName"] == "drained":
            await evict(scenario, pod)
    taint = {"key": "hardware", "value": "broken", "effect": "NoExecute"}
    await scenario.api.patch("nodes", "tainted", {"spec": {"taints": [taint]}})

    async def all_wait() -> list[Json]:
        found = [pod for pod in await scenario.pods(placeholders=True) if "deletionTimestamp" not in pod["metadata"]]
        return found if len(found) == 5 and not any(is_bound(pod) for pod in found) else []

    waiting = await scenario.eventually("all five placeholders wait again", all_wait)
    assert first.isdisjoint(pod["metadata"]["name"] for pod in waiting)
    await scenario.cluster.add_nodes([FakeNode("fresh")])
    assert {pod["spec"]["nodeName"] for pod in await scenario.all_bound(5)} == {"fresh"}

    reasons = await scenario.eventually("the new node is reported", lambda: node_events(scenario, "fresh"))
    assert reasons == {("fresh", "NodeAccepted")}
    assert not await node_events(scenario, "drained", "tainted")


async def test_kubectl_drains_a_node_with_placeholders_without_force(open_scenario: OpenScenario) -> None:
    """Placeholders have a controller and no local storage, so `kubectl drain` needs no further option."""
    scenario = await open_scenario([FakeNode("old", cpu="2")])
    await scenario.create(a_gang("moves", [Group("workers", 3)], timeout_s=600, placement="Reserve"))
    pods = await reserved(scenario, 2)
    safe = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    assert {pod["metadata"]["annotations"][safe] for pod in pods} == {"true"}
    process = await asyncio.create_subprocess_exec(
        *(str(ensure([KUBECTL])["kubectl"]), "drain", "old", "--timeout=60s"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "KUBECONFIG": str(await scenario.cluster.admin_kubeconfig())},
    )
    text = (await process.communicate())[0].decode()
    assert (process.returncode, "node/old drained" in text) == (0, True), text
    await scenario.cluster.add_nodes([FakeNode("fresh")])
    assert {pod["spec"]["nodeName"] for pod in await scenario.all_bound(3)} == {"fresh"}


async def test_node_resources_can_change_under_pods_and_a_node_can_be_recreated(
    open_scenario: OpenScenario,
) -> None:
    odd = {"example.com/fpga": "3", "hugepages-2Mi": "1Gi", "attachable-volumes-x": "39"}
    scenario = await open_scenario([FakeNode("node-0", cpu="4", extra=odd)])
    not_yet = {"devcluster.muster/start-after": "1h"}  # fake kubelets do not resize running pods
    foreign = with_annotations(a_pod("foreign", cpu="1", scheduler="somebody-else"), not_yet)
    await scenario.create([foreign, *a_gang("firm", [Group("workers", 2)])])
    await bind(scenario.api, "foreign", "node-0", scenario.namespace)
    await scenario.all_bound(3)

    await allocatable(scenario, "node-0", "2")
    await scenario.create([a_pod("late", cpu="900m")])

    async def is_over() -> bool:
        node = await in_core(scenario, "node-0")
        return (node["capacity"]["vcore"], node["available"]["vcore"]) == (2000, -1000)

    await scenario.eventually("the node is overcommitted in the core", is_over)
    await allocatable(scenario, "node-0", "3")
    smaller = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    await resize(scenario, "foreign", smaller)
    await scenario.all_bound(4)

    await scenario.cluster.remove_nodes(["node-0"])
    await scenario.cluster.add_nodes([FakeNode("node-0", cpu="5")])

    async def pods_are_on_it() -> bool:
        allocated: Json = (await in_core(scenario, "node-0"))["allocated"]
        return dict(allocated).get("vcore") == 2900

    await scenario.eventually("the pods of the old node are on the new one", pods_are_on_it)
    await scenario.create([a_pod("last", cpu="2")])
    await scenario.all_bound(5)


async def test_resources_of_a_nominated_pod_are_not_allocated(open_scenario: OpenScenario) -> None:
    """Its status names the node as kube-scheduler writes it after a preemption, until the pod is bound or gives up."""
    scenario = await open_scenario([FakeNode("node-0", cpu="3"), FakeNode("node-1", cpu="1")])
    await scenario.create([a_pod("promised", cpu="2", scheduler="somebody-else")])
    promised = {"status": {"nominatedNodeName": "node-0"}}
    await scenario.api.patch("pods", "promised", promised, scenario.namespace, subresource="status")

    async def is_counted() -> bool:
        return bool((await in_core(scenario, "node-0"))["available"]["vcore"] == 1000)

    await scenario.eventually("the core counts it", is_counted)
    await scenario.create([a_pod("waits", cpu="2"), a_pod("fits", cpu="1")])
    await scenario.all_bound(1)
    await scenario.api.patch(
        "pods", "promised", {"status": {"nominatedNodeName": None}}, scenario.namespace, subresource="status"
    )
    await scenario.all_bound(2)
