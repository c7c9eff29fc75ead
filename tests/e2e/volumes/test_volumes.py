"""Pods with claims run where their volumes are or can be provisioned, once the claims are bound."""

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang
from tests.e2e.scenario import Scenario
from tests.e2e.volumes.storage import SELECTED_NODE, Provisioner, a_claim, a_csi_node, a_user, a_volume, storage

NODES = [FakeNode(f"node-{number}", cpu="4") for number in range(3)]
DRIVER = "csi.muster.example.com"


async def node_of(scenario: Scenario, pod: str) -> str:
    """Wait until the pod is bound, and return its node."""

    async def has_node() -> str:
        return str((await scenario.api.get("pods", pod, scenario.namespace))["spec"].get("nodeName", ""))

    return await scenario.eventually(f"{pod} is bound", has_node)


async def claim_of(scenario: Scenario, name: str) -> Json:
    return await scenario.api.get("persistentvolumeclaims", name, scenario.namespace)


async def is_bound_claim(scenario: Scenario, name: str) -> None:
    async def is_so() -> bool:
        return bool((await claim_of(scenario, name))["status"]["phase"] == "Bound")

    await scenario.eventually(f"claim {name} is bound", is_so)


def of_storage(scenario: Scenario) -> list[tuple[str, str]]:
    """The operator's successful writes of volumes and claims. A conflict with another controller is tried again."""
    kinds = {"persistentvolumes", "persistentvolumeclaims"}
    writes = [write for write in scenario.writes(of_operator=True) if write.resource in kinds and write.succeeded]
    return [(write.verb, write.resource) for write in writes]


async def test_a_pod_runs_where_a_free_volume_is_and_a_second_one_waits_for_the_claim(
    open_scenario: OpenScenario,
) -> None:
    """A volume of one node with ReadWriteOncePod; the second pod runs after the first one is deleted."""
    scenario = await open_scenario(NODES)
    async with storage(scenario):
        only = "ReadWriteOncePod"
        await scenario.create(
            [
                a_volume("local-1", "static", node="node-1", mode=only),
                a_claim("data", "static", mode=only),
                a_user("one", "data"),
            ]
        )
        assert await node_of(scenario, "one") == "node-1"
        await is_bound_claim(scenario, "data")
        assert (await claim_of(scenario, "data"))["spec"]["volumeName"] == "local-1"
        assert of_storage(scenario) == [("patch", "persistentvolumes")]
        await scenario.create([a_user("two", "data")])
        text = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        await wait_for_reason(scenario, "two", "Unschedulable", text)
        await scenario.api.delete("pods", "one", scenario.namespace, grace_s=0)
        assert await node_of(scenario, "two") == "node-1"
        assert of_storage(scenario) == [("patch", "persistentvolumes")], "claims that are bound cost no write"


async def test_a_volume_is_provisioned_on_another_node_after_a_failure(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES)
    async with storage(scenario), Provisioner(scenario, first_rejected=True) as provisioner:
        await scenario.create([a_claim("data", "made"), a_user("one", "data")])
        node = await node_of(scenario, "one")
        first, second = provisioner.requested
        assert (first != second, second) == (True, node)
        await wait_for_event(scenario, "one", f"volumes for node {first} failed", 'provisioning failed for PVC "data"')


async def test_deleting_a_pod_during_provisioning_clears_the_node_of_its_claim(open_scenario: OpenScenario) -> None:
    """Without a provisioner: the claim does not keep the node, and pods without claims do not wait."""
    scenario = await open_scenario(NODES)
    async with storage(scenario):
        await scenario.create([a_claim("data", "made"), a_user("one", "data")])

        async def is_selected(*, expected: bool = True) -> bool:
            annotations = (await claim_of(scenario, "data"))["metadata"].get("annotations", {})
            return (SELECTED_NODE in annotations) is expected

        await scenario.eventually("the claim has a node", is_selected)
        await scenario.create([a_user("other")])
        await node_of(scenario, "other")
        await scenario.api.delete("pods", "one", scenario.namespace, grace_s=0)
        await scenario.eventually("the claim no longer has a selected node", lambda: is_selected(expected=False))


async def test_each_gang_member_gets_a_separate_volume(open_scenario: OpenScenario) -> None:
    """Generic ephemeral volumes: a controller creates their claims after the pods."""
    scenario = await open_scenario(NODES)
    async with storage(scenario), Provisioner(scenario) as provisioner:
        gang = a_gang("firm", [Group("workers", 3, cpu="3")])
        for pod in gang:
            spec = a_claim("", "made")["spec"]
            pod["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
        await scenario.create(gang)
        bound = await scenario.all_bound(3)
        assert {pod["spec"]["nodeName"] for pod in bound} == {node.name for node in NODES} == {*provisioner.requested}
        claims = await scenario.api.find("persistentvolumeclaims", scenario.namespace)
        assert len({claim["spec"]["volumeName"] for claim in claims}) == 3


async def test_a_pod_reports_which_volume_it_waits_for(open_scenario: OpenScenario) -> None:
    """Nodes at their attach limit, and an unbound claim with immediate binding."""
    scenario = await open_scenario(NODES[:1])
    async with storage(scenario):
        await scenario.create([a_csi_node("node-0", DRIVER, 1)])
        for number in range(2):
            volume, claim = f"disk-{number}", f"data-{number}"
            await scenario.create([a_volume(volume, "static", driver=DRIVER), a_claim(claim, "static", volume=volume)])
            await is_bound_claim(scenario, claim)
        await scenario.create([a_user("one", "data-0")])
        await node_of(scenario, "one")
        await scenario.create([a_claim("soon", "now"), a_user("two", "data-1"), a_user("three", "soon")])
        await wait_for_reason(scenario, "two", "Unschedulable", "node(s) exceed max volume count")
        await wait_for_reason(scenario, "three", "Unschedulable", "pod has unbound immediate PersistentVolumeClaims")
        await scenario.api.delete("csinodes", "node-0")
        assert await node_of(scenario, "two") == "node-0"
