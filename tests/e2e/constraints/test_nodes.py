"""Tolerated cordons, and scores for taints and images, as in kube-scheduler."""

from itertools import count

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import IMAGE, a_pod, is_bound
from tests.e2e.scenario import Scenario

HOST = "kubernetes.io/hostname"
TOLERATION = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
SOFT = {"key": "old", "effect": "PreferNoSchedule"}


def a_small_pod(name: str, **spec: object) -> Json:
    pod = a_pod(name, cpu="10m", labels={"applicationId": name})
    pod["spec"].update(spec)
    return pod


async def node_of(scenario: Scenario, pod: str) -> str:
    """Wait until the pod has a node."""

    async def its_node() -> str:
        found = await scenario.api.get("pods", pod, scenario.namespace)
        return str(found["spec"]["nodeName"]) if is_bound(found) else ""

    return await scenario.eventually(f"{pod} has a node", its_node)


async def cordons(scenario: Scenario) -> None:
    """ADR 0018."""
    there = {"nodeSelector": {HOST: "closed"}}
    await scenario.create([a_small_pod("tolerant", tolerations=[TOLERATION], **there), a_small_pod("other", **there)])
    assert await node_of(scenario, "tolerant") == "closed"
    await wait_for_reason(scenario, "other", "Unschedulable", "1 node(s) were unschedulable")
    await scenario.api.patch("nodes", "closed", {"spec": {"unschedulable": False}})
    assert await node_of(scenario, "other") == "closed"
    await scenario.api.patch("nodes", "closed", {"spec": {"unschedulable": True}})


async def soft_taints_and_images(scenario: Scenario) -> None:
    """The weight of PreferNoSchedule is three times that of images, which weigh more than the use of the node."""
    large = a_small_pod("large")
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    await scenario.create([large])
    assert await node_of(scenario, "large") == "b"
    images = [{"names": [IMAGE], "sizeBytes": 3 << 30}]
    for name in ("a", "b"):
        await scenario.api.patch("nodes", name, {"status": {"images": images}}, subresource="status")
    names = (f"drawn-{number}" for number in count())

    async def one_has_its_image() -> bool:
        """Pods that are created before the core receives the images go to the less used node."""
        name = next(names)
        await scenario.create([a_small_pod(name)])
        return await node_of(scenario, name) == "b"

    await scenario.eventually("a pod is bound to the node with its image", one_has_its_image)
    await scenario.create([a_small_pod("at-ease", tolerations=[{"key": "old", "operator": "Exists"}])])
    assert await node_of(scenario, "at-ease") == "a"


async def test_node_conditions_and_taints_filter_and_score_nodes(open_scenario: OpenScenario) -> None:
    closed, soft = FakeNode("closed", unschedulable=True), FakeNode("a", taints=[SOFT])
    scenario = await open_scenario([closed, soft, FakeNode("b"), FakeNode("c")])
    await cordons(scenario)
    await soft_taints_and_images(scenario)
