"""Nodes are drained, tainted, resized and made anew while gangs reserve and run."""

from __future__ import annotations

from devcluster.api import Json, bind
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import Group, a_gang, a_pod, with_annotations
from tests.e2e.scenario import Scene


async def reserved(scene: Scene, count: int) -> list[Json]:
    async def are_bound() -> list[Json]:
        found = await scene.bound(placeholders=True)
        return found if len(found) == count else []

    return await scene.eventually(f"{count} placeholders are bound", are_bound)


async def evict(scene: Scene, pod: Json) -> None:
    """What `kubectl drain` does to each pod."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": scene.namespace}}
    await scene.api.request("POST", f"/api/v1/namespaces/{scene.namespace}/pods/{name}/eviction", body)


async def allocatable(scene: Scene, node: str, cpu: str) -> None:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    await scene.api.patch("nodes", node, {"status": {"allocatable": amounts}}, subresource="status")


async def resize(scene: Scene, pod: str, container: Json) -> None:
    """In place, as a user does it (Kubernetes 1.33)."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{pod}/resize"
    body = {"spec": {"containers": [container]}}
    await scene.api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")


async def in_core(scene: Scene, node: str) -> Json:
    """The node as the core has it."""
    nodes = [one for partition in (await scene.muster.dump())["nodes"] for one in partition["nodesInfo"]]
    return next(one for one in nodes if one["nodeID"] == node)


async def told_of(scene: Scene, *nodes: str) -> set[tuple[str, str]]:
    """Our events on these nodes, and their reasons; they are in the namespace `default`."""
    events = await scene.api.find("events", "default")
    ours = [event for event in events if event.get("reportingComponent") == "muster"]
    told = {(event["involvedObject"]["name"], event["reason"]) for event in ours}
    return {(node, reason) for node, reason in told if node in nodes}


async def test_a_gang_that_reserves_moves_off_nodes_that_are_drained_or_tainted(open_scene: OpenScene) -> None:
    """A placeholder that is evicted, by `kubectl drain` or for a taint, is made again elsewhere."""
    scene = await open_scene([FakeNode("drained", cpu="4"), FakeNode("tainted", cpu="1")])
    await scene.occupy("drained", "2")
    await scene.create(a_gang("moves", [Group("workers", 5)], timeout_s=600, placement="Reserve"))
    first = {pod["metadata"]["name"] for pod in await reserved(scene, 3)}
    await scene.api.patch("nodes", "drained", {"spec": {"unschedulable": True}})
    for pod in await scene.bound(placeholders=True):
        if pod["spec"]["nodeName"] == "drained":
            await evict(scene, pod)
    taint = {"key": "hardware", "value": "broken", "effect": "NoExecute"}
    await scene.api.patch("nodes", "tainted", {"spec": {"taints": [taint]}})

    async def all_wait() -> bool:
        return len(await scene.pods(placeholders=True)) == 5 and not await scene.bound(placeholders=True)

    await scene.eventually("all five places are looked for again", all_wait)
    assert first.isdisjoint(pod["metadata"]["name"] for pod in await scene.pods(placeholders=True))
    await scene.cluster.add_nodes([FakeNode("fresh")])
    assert {pod["spec"]["nodeName"] for pod in await scene.all_bound(5)} == {"fresh"}

    told = await scene.eventually("the node that came is told of", lambda: told_of(scene, "fresh"))
    assert told == {("fresh", "NodeAccepted")}
    assert not await told_of(scene, "drained", "tainted")


async def test_what_a_node_offers_may_change_under_its_pods_and_a_node_may_be_made_anew(open_scene: OpenScene) -> None:
    odd = {"example.com/fpga": "3", "hugepages-2Mi": "1Gi", "attachable-volumes-x": "39"}
    scene = await open_scene([FakeNode("node-0", cpu="4", extra=odd)])
    not_yet = {"devcluster.muster/start-after": "1h"}  # fake kubelets resize nothing that runs
    foreign = with_annotations(a_pod("foreign", cpu="1", scheduler="somebody-else"), not_yet)
    await scene.create([foreign, *a_gang("firm", [Group("workers", 2)])])
    await bind(scene.api, "foreign", "node-0", scene.namespace)
    await scene.all_bound(3)

    await allocatable(scene, "node-0", "2")
    await scene.create([a_pod("late", cpu="900m")])

    async def is_over() -> bool:
        node = await in_core(scene, "node-0")
        return (node["capacity"]["vcore"], node["available"]["vcore"]) == (2000, -1000)

    await scene.eventually("the core knows that the node is overcommitted", is_over)
    await allocatable(scene, "node-0", "3")
    smaller = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    await resize(scene, "foreign", smaller)
    await scene.all_bound(4)

    await scene.cluster.remove_nodes(["node-0"])
    await scene.cluster.add_nodes([FakeNode("node-0", cpu="5")])

    async def pods_are_on_it() -> bool:
        allocated: Json = (await in_core(scene, "node-0"))["allocated"]
        return dict(allocated).get("vcore") == 2900

    await scene.eventually("the pods of the old node are on the new one", pods_are_on_it)
    await scene.create([a_pod("last", cpu="2")])
    await scene.all_bound(5)


async def test_room_that_kube_scheduler_makes_for_its_pod_is_not_given_away(open_scene: OpenScene) -> None:
    """Its status names the node as kube-scheduler writes it after a preemption, until the pod is bound or gives up."""
    scene = await open_scene([FakeNode("node-0", cpu="3"), FakeNode("node-1", cpu="1")])
    await scene.create([a_pod("promised", cpu="2", scheduler="somebody-else")])
    promised = {"status": {"nominatedNodeName": "node-0"}}
    await scene.api.patch("pods", "promised", promised, scene.namespace, subresource="status")

    async def is_counted() -> bool:
        return bool((await in_core(scene, "node-0"))["available"]["vcore"] == 1000)

    await scene.eventually("the core counts it", is_counted)
    await scene.create([a_pod("waits", cpu="2"), a_pod("fits", cpu="1")])
    await scene.all_bound(1)
    await scene.api.patch(
        "pods", "promised", {"status": {"nominatedNodeName": None}}, scene.namespace, subresource="status"
    )
    await scene.all_bound(2)
