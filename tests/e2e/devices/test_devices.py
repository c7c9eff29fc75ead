"""Dynamic Resource Allocation: pods and gangs get distinct devices, or none of them starts and nothing is written."""

from __future__ import annotations

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled, wait_for_reason
from tests.e2e.configuration import queue_file
from tests.e2e.conftest import OpenScenario
from tests.e2e.devices.devices import (
    CLASS,
    DRIVER,
    SETTING,
    a_claim,
    a_class,
    a_slice,
    a_taint_rule,
    a_template,
    a_user,
    allocated,
    claims_of,
    delete,
    devices,
    devices_of,
    is_free,
    requests,
    using,
    with_resource,
)
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scenario

NODES = [FakeNode(f"node-{number}", cpu="4") for number in range(3)]
EXTENDED = "example.com/gpu"
IMPLIED = "deviceclass.resource.kubernetes.io"
FINALIZER = "resource.kubernetes.io/delete-protection"


async def node_of(scenario: Scenario, pod: str) -> str:
    """Wait until the pod is bound, and return its node."""

    async def has_node() -> str:
        return str((await scenario.api.get("pods", pod, scenario.namespace))["spec"].get("nodeName", ""))

    return await scenario.eventually(f"{pod} is bound", has_node)


def of_claims(scenario: Scenario) -> list[tuple[str, str, str]]:
    """The operator's successful writes of claims."""
    writes = [write for write in scenario.writes(of_operator=True) if write.resource == "resourceclaims"]
    return [(write.verb, write.name, write.subresource) for write in writes if write.succeeded]


async def claim(scenario: Scenario, name: str) -> Json:
    return await scenario.api.get("resourceclaims", name, scenario.namespace)


async def names_the_cause(scenario: Scenario) -> bool:
    """Whether a member of a gang, that whose claim was there first, says why the gang waits."""
    messages = [scheduled(pod).get("message", "") for pod in await scenario.pods()]
    return any("cannot allocate all claims" in message for message in messages)


async def all_free(scenario: Scenario) -> None:
    await scenario.eventually("no claim has a device or a reservation", lambda: is_free(scenario))


async def test_pods_of_a_template_get_distinct_devices_and_free_them(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    async with devices(scenario, a_slice("node-1", 2)):
        await scenario.create([a_user("one"), a_user("two"), a_user("three")])

        async def are_bound() -> list[Json]:
            bound = await scenario.bound()
            return bound if len(bound) == 2 else []

        bound = await scenario.eventually("two pods are bound", are_bound)
        assert {pod["spec"]["nodeName"] for pod in bound} == {"node-1"}
        assert allocated(await claims_of(scenario)) == [("node-1", "gpu-0"), ("node-1", "gpu-1")]
        names = {pod["metadata"]["name"] for pod in bound}
        [waiting] = {"one", "two", "three"} - names
        shortage = f"Request gpu needs 1 device of class {CLASS}: 2 in the class, 0 free."
        await wait_for_reason(scenario, waiting, "Unschedulable", f"3 cannot allocate all claims. {shortage}")
        await delete(scenario, min(names))
        assert await node_of(scenario, waiting) == "node-1"
        assert len(allocated(await claims_of(scenario))) == 2
        await delete(scenario, "one", "two", "three")
        await all_free(scenario)


async def test_a_queue_limits_devices_and_a_shared_claim_counts_once(open_scenario: OpenScenario) -> None:
    of_class = f"{CLASS}.deviceclass.resource.k8s.io/devices"
    leaf = {"name": "leaf", "resources": {"max": {of_class: "2"}}}
    scenario = await open_scenario(NODES, SETTING | queue_file(leaf, rules=[{"name": "fixed", "value": "root.leaf"}]))
    async with devices(scenario, a_slice("node-1", 4)):
        await scenario.create([a_claim("shared"), *(a_user(name, claim="shared") for name in ("one", "two"))])
        await scenario.create([a_user("three")])
        assert [await node_of(scenario, name) for name in ("one", "two", "three")] == ["node-1"] * 3
        await scenario.create([a_user("four")])
        await wait_for_reason(scenario, "four", "SchedulingSkipped", of_class)
        await delete(scenario, "one")
        await wait_for_reason(scenario, "four", "SchedulingSkipped", of_class)
        await delete(scenario, "two")
        assert await node_of(scenario, "four") == "node-1"


async def test_the_written_claim_is_as_kube_scheduler_writes_it(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    parameters = {"opaque": {"driver": DRIVER, "parameters": {"mode": "shared"}}}
    tolerations = [{"key": "health", "operator": "Exists", "effect": "NoSchedule"}]
    taints = [{"key": "health", "value": "worn", "effect": "NoSchedule"}]
    wanted = requests(f'device.attributes["{DRIVER}"].model == "h100"', count=2, tolerations=tolerations)
    async with devices(scenario, a_slice("node-0", 4), a_slice("node-2", 2, model="h100", taints=taints)):
        await scenario.create([a_claim("mine", {**wanted, "config": [parameters]}), a_user("one", claim="mine")])
        assert await node_of(scenario, "one") == "node-2"
        found, pod = await claim(scenario, "mine"), await scenario.api.get("pods", "one", scenario.namespace)
        assert FINALIZER in found["metadata"]["finalizers"]
        here = {"key": "metadata.name", "operator": "In", "values": ["node-2"]}
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": "node-2", "device": device, "tolerations": tolerations}
            for device in ("gpu-0", "gpu-1")
        ]
        allocation = found["status"]["allocation"]
        assert {**allocation, "allocationTimestamp": None} == {
            "devices": {"results": results, "config": [{"source": "FromClaim", **parameters}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            "allocationTimestamp": None,
        }
        assert found["status"]["reservedFor"] == [{"resource": "pods", "name": "one", "uid": pod["metadata"]["uid"]}]
        assert of_claims(scenario) == [("patch", "mine", ""), ("patch", "mine", "status")]


async def test_pods_share_a_named_claim_where_its_devices_are(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    async with devices(scenario, a_slice("node-2", 1)):
        await scenario.create([a_claim("shared"), *(a_user(f"p{number}", claim="shared") for number in range(4))])
        await scenario.all_bound(4)
        assert {await node_of(scenario, f"p{number}") for number in range(4)} == {"node-2"}
        assert len((await claim(scenario, "shared"))["status"]["reservedFor"]) == 4
        await delete(scenario, *(f"p{number}" for number in range(4)))
        await all_free(scenario)


async def test_a_pod_waits_for_its_claim_with_the_reason(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    async with devices(scenario, a_slice("node-0", 1)):
        await scenario.create([a_user("one", claim="later"), a_user("two", template="none")])
        await wait_for_reason(scenario, "one", "SchedulingSkipped", 'resourceclaim "later" not found')
        await wait_for_reason(scenario, "two", "SchedulingSkipped", 'ResourceClaim of "gpu" not created yet')
        await scenario.create([a_claim("later")])
        assert await node_of(scenario, "one") == "node-0"


@pytest.mark.parametrize(
    "wanted, texts",
    [
        (requests(device_class="none"), ("device class none does not exist",)),
        (requests(capacity={"requests": {"memory": "1Gi"}}), ("2 with too little capacity left",)),
    ],
    ids=["no class", "no capacity"],
)
async def test_a_claim_that_cannot_be_allocated_keeps_its_pod_waiting_with_the_cause(
    wanted: Json, texts: tuple[str, ...], open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario(NODES, SETTING)
    async with devices(scenario, a_slice("node-0", 2)):
        await scenario.create([a_claim("odd", wanted), a_user("one", claim="odd"), a_user("two")])
        assert await node_of(scenario, "two") == "node-0"
        await wait_for_reason(scenario, "one", "Unschedulable", *texts)
        assert [name for _, name, _ in of_claims(scenario) if name == "odd"] == []


@pytest.mark.parametrize("placement", ["Auto", "Reserve", "Direct"])
async def test_a_gang_gets_all_its_devices_or_none(placement: str, open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    async with devices(scenario, a_slice("node-0", 2)):
        gang = [using(pod) for pod in a_gang("train", [Group("workers", 4)], placement=placement)]
        await scenario.create(gang)
        await scenario.eventually("a member names the cause", lambda: names_the_cause(scenario))
        await scenario.create([a_pod("witness", cpu="100m", labels={"applicationId": "witness"})])
        await node_of(scenario, "witness")
        assert [pod["metadata"]["name"] for pod in await scenario.bound()] == ["witness"]
        assert await scenario.pods(placeholders=True) == []
        assert of_claims(scenario) == []
        await delete(scenario, "witness")
        await scenario.create([a_slice("node-1", 2)])
        bound = await scenario.all_bound(4)
        expected = [(node, device) for node in ("node-0", "node-1") for device in ("gpu-0", "gpu-1")]
        assert allocated(await claims_of(scenario)) == expected
        for pod in bound:
            [(pool, _)] = await devices_of(scenario, pod["metadata"]["name"])
            assert pool == pod["spec"]["nodeName"]
        await delete(scenario, *(pod["metadata"]["name"] for pod in bound))
        await all_free(scenario)


async def test_members_of_a_pod_group_wait_for_the_claims_of_all(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    async with devices(scenario, a_slice("node-0", 1), a_slice("node-1", 2)):
        pods = [using(a_pod(f"m{number}"), claim=f"c{number}") for number in range(3)]
        for pod in pods:
            pod["spec"]["schedulingGroup"] = {"podGroupName": "train"}
        await scenario.create([group, *pods, a_claim("c0"), a_claim("c1")])
        await wait_for_reason(scenario, "m2", "SchedulingSkipped", 'resourceclaim "c2" not found')
        await wait_for_reason(scenario, "m0", "SchedulingSkipped", "waiting for minCount pods from a gang")
        assert of_claims(scenario) == []
        await scenario.create([a_claim("c2")])
        await scenario.all_bound(3)
        assert len(allocated(await claims_of(scenario))) == 3


CLAIM_PATCH = ("PATCH", r"/resourceclaims/[^/]*$")
STATUS_PATCH = ("PATCH", r"/resourceclaims/[^/]*/status$")
BIND = ("POST", r"/pods/[^/]*/binding$")
STEPS = {"finalizer": (CLAIM_PATCH, 1), "allocation": (STATUS_PATCH, 1), "bind": (BIND, 1)}


@pytest.mark.parametrize("victims", [["operator"], ["core"], ["operator", "core"]], ids=["operator", "core", "both"])
@pytest.mark.parametrize("request_, after", STEPS.values(), ids=STEPS)
async def test_a_gang_with_devices_survives_a_kill_between_its_writes(
    request_: tuple[str, str], after: int, victims: list[str], open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario(NODES, SETTING, gated=True)
    async with devices(scenario, a_slice("node-0", 2), a_slice("node-1", 2)):
        rule = scenario.gate.hold(*request_, skip=after)
        await scenario.create([using(pod) for pod in a_gang("train", [Group("workers", 4)])])
        await rule.reached(1)
        for victim in victims:
            await getattr(scenario.muster, victim).kill()
        scenario.gate.clear()
        await scenario.muster.start()
        bound = await scenario.all_bound(4)
        assert len(set(allocated(await claims_of(scenario)))) == 4
        for pod in bound:
            [(pool, _)] = await devices_of(scenario, pod["metadata"]["name"])
            assert pool == pod["spec"]["nodeName"]
        await delete(scenario, *(pod["metadata"]["name"] for pod in bound))
        await all_free(scenario)


async def test_a_failed_bind_leaves_no_device_behind(open_scenario: OpenScenario) -> None:
    """The pod is deleted while its bind waits, so that the bind fails after the claim was written."""
    scenario = await open_scenario(NODES, SETTING, gated=True)
    async with devices(scenario, a_slice("node-0", 1)):
        await scenario.create([a_claim("mine")])
        rule = scenario.gate.hold(*BIND)
        await scenario.create([a_user("one", claim="mine")])
        await rule.reached(1)
        assert allocated(await claims_of(scenario)) == [("node-0", "gpu-0")]
        await delete(scenario, "one")
        rule.open()
        await all_free(scenario)
        await scenario.create([a_user("two", claim="mine")])
        assert await node_of(scenario, "two") == "node-0"


async def test_a_device_that_a_rule_taints_is_given_to_pods_that_tolerate_it(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    tolerating = requests(tolerations=[{"key": "repair", "operator": "Exists"}])
    async with devices(scenario, a_slice("node-0", 2)):
        await scenario.create([a_taint_rule("repair", pool="node-0", device="gpu-0"), a_user("one")])
        await node_of(scenario, "one")
        assert await devices_of(scenario, "one") == [("node-0", "gpu-1")]
        await scenario.create([a_user("two"), a_template("any", tolerating)])
        await wait_for_reason(scenario, "two", "Unschedulable", "cannot allocate all claims")
        await scenario.create([a_user("three", template="any")])
        assert await node_of(scenario, "three") == "node-0"
        await delete(scenario, "three")
        await scenario.api.delete("devicetaintrules", "repair")
        assert await node_of(scenario, "two") == "node-0"


async def test_partitions_share_counters_of_their_device_and_can_be_of_distinct_devices(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(NODES, SETTING)
    parts, shared = a_slice("node-1", 6), a_slice("node-1", 0)
    for number, device in enumerate(parts["spec"]["devices"]):
        gpu, memory = number // 3, "8Gi" if number % 3 == 0 else "4Gi"
        device["attributes"] = {"gpu": {"int": gpu}, "whole": {"bool": number % 3 == 0}}
        device["consumesCounters"] = [{"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": memory}}}]
    del shared["spec"]["devices"]
    shared["metadata"]["name"] += "-counters"
    shared["spec"]["sharedCounters"] = [
        {"name": f"gpu-{gpu}", "counters": {"memory": {"value": "8Gi"}}} for gpu in range(2)
    ]
    for one in (parts, shared):
        one["spec"]["pool"]["resourceSliceCount"] = 2
    async with devices(scenario, parts, shared):
        halves, whole = (f'device.attributes["{DRIVER}"].whole == {value}' for value in ("false", "true"))
        apart = requests(halves, count=2) | {"constraints": [{"distinctAttribute": f"{DRIVER}/gpu"}]}
        await scenario.create([a_template("apart", apart), a_template("whole", requests(whole))])
        await scenario.create([a_user("halves", template="apart")])
        assert await node_of(scenario, "halves") == "node-1"
        assert await devices_of(scenario, "halves") == [("node-1", "gpu-1"), ("node-1", "gpu-4")]
        await scenario.create([a_user("all", template="whole")])
        await wait_for_reason(scenario, "all", "Unschedulable", "2 that share counters which are used up, 0 free")
        await delete(scenario, "halves")
        assert await node_of(scenario, "all") == "node-1"


async def test_pods_share_a_device_until_its_capacity_is_used_up(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    capacity = {"memory": {"value": "40Gi", "requestPolicy": policy}}
    async with devices(scenario, a_slice("node-1", 1, allowMultipleAllocations=True, capacity=capacity)):
        await scenario.create([a_template("some", requests(capacity={"requests": {"memory": "15Gi"}}))])
        await scenario.create([a_user("one", template="some"), a_user("two", template="some")])
        await scenario.all_bound(2)
        claims = await claims_of(scenario)
        results = [one["status"]["allocation"]["devices"]["results"][0] for one in claims]
        assert [one["consumedCapacity"] for one in results] == [{"memory": "20Gi"}] * 2
        assert len({one["shareID"] for one in results}) == 2
        await scenario.create([a_user("three")])
        await wait_for_reason(scenario, "three", "Unschedulable", "1 with too little capacity left, 0 free")
        await delete(scenario, "one")
        assert await node_of(scenario, "three") == "node-1"


async def test_a_pod_is_bound_when_its_device_is_ready_and_planned_again_if_it_is_broken(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(NODES, SETTING)
    conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    fabric = a_slice("node-0", 1)
    del fabric["spec"]["nodeName"]
    fabric["spec"] |= {"allNodes": True, "pool": {**fabric["spec"]["pool"], "name": "fabric"}}
    fabric["spec"]["devices"][0] |= {"bindsToNode": True, **conditions}

    async def report(condition: str) -> None:
        true = {"type": condition, "status": "True", "reason": "Driver", "message": "no link"}
        true["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        device = {"driver": DRIVER, "pool": "fabric", "device": "gpu-0", "conditions": [true]}
        path = f"/apis/resource.k8s.io/v1/namespaces/{scenario.namespace}/resourceclaims/mine/status"
        merge = "application/merge-patch+json"
        await scenario.api.request("PATCH", path, {"status": {"devices": [device]}}, None, merge)

    async def is_allocated() -> Json:
        allocation: Json = (await claim(scenario, "mine")).get("status", {}).get("allocation") or {}
        return allocation if allocation.get("allocationTimestamp") else {}

    async with devices(scenario, fabric):
        await scenario.create([a_claim("mine"), a_user("one", claim="mine")])
        allocation = await scenario.eventually("the claim is allocated", is_allocated)
        assert {field: allocation["devices"]["results"][0][field] for field in conditions} == conditions
        [requirement] = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"]
        assert requirement["key"] == "metadata.name"
        assert await scenario.bound() == []
        await report("Broken")

        async def names_the_condition() -> bool:
            events = await scenario.api.find("events", scenario.namespace)
            return any("a device is not ready: Broken of device gpu-0: no link" in one["message"] for one in events)

        await scenario.eventually("an event names the condition", names_the_condition)

        async def is_fresh() -> bool:
            return not (await claim(scenario, "mine"))["status"].get("devices") and bool(await is_allocated())

        await scenario.eventually("the claim is allocated again", is_fresh)
        assert await scenario.bound() == []
        await report("Attached")
        [node] = requirement["values"]
        assert await node_of(scenario, "one") in {node, *(one.name for one in NODES)}


async def test_no_member_of_a_gang_is_bound_before_the_devices_of_all_are_ready(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    waits = a_slice("node-0", 1, bindingConditions=["Attached"], bindingFailureConditions=["Broken"])

    async def reserved() -> list[Json]:
        found = await claims_of(scenario)
        return found if len(found) == 2 and all(one["status"].get("reservedFor") for one in found) else []

    def slow(found: list[Json]) -> Json:
        [one] = [one for one in found if allocated([one]) == [("node-0", "gpu-0")]]
        return one

    async def report(one: Json, condition: str) -> None:
        true = {"type": condition, "status": "True", "reason": "Driver", "message": "no link"}
        true["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        device = {"driver": DRIVER, "pool": "node-0", "device": "gpu-0", "conditions": [true]}
        path = (
            f"/apis/resource.k8s.io/v1/namespaces/{scenario.namespace}/resourceclaims/{one['metadata']['name']}/status"
        )
        await scenario.api.request(
            "PATCH", path, {"status": {"devices": [device]}}, None, "application/merge-patch+json"
        )

    async with devices(scenario, waits, a_slice("node-1", 1)):
        await scenario.create([using(pod) for pod in a_gang("train", [Group("workers", 2)])])
        first = slow(await scenario.eventually("both claims are reserved", reserved))
        assert await scenario.bound() == []
        await report(first, "Broken")

        async def are_reserved_again() -> list[Json]:
            found = await reserved()
            return found if found and "devices" not in slow(found)["status"] else []

        await scenario.eventually("both claims are reserved again", are_reserved_again)
        for victim in (scenario.muster.operator, scenario.muster.core):
            await victim.kill()
            await scenario.muster.start()
        again = slow(await scenario.eventually("both claims are reserved still", reserved))
        assert await scenario.bound() == []
        await report(again, "Attached")
        await scenario.all_bound(2)


async def test_another_class_of_devices_is_not_touched(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, SETTING)
    wanted = requests(f'device.attributes["{DRIVER}"].model == "h100"')
    async with devices(scenario, a_slice("node-0", 1), a_slice("node-1", 1, model="h100")):
        await scenario.create([a_template("fast", wanted), a_user("one", template="fast")])
        assert await node_of(scenario, "one") == "node-1"
        assert CLASS in {one["metadata"]["name"] for one in await scenario.api.find("deviceclasses")}
        assert allocated(await claims_of(scenario)) == [("node-1", "gpu-0")]


async def test_an_extended_resource_of_a_class_becomes_a_claim_of_the_pod(
    open_scenario: OpenScenario,
) -> None:
    """Pods, an init container that reuses a device, and a gang; the API server's own rules check the pod's status."""
    scenario = await open_scenario(NODES, SETTING)
    async with devices(scenario, a_slice("node-1", 4)):
        await scenario.create([a_class("extended", extendedResourceName=EXTENDED)])
        one = with_resource(a_pod("one", labels={"applicationId": "one"}), EXTENDED, 2)
        main = one["spec"]["containers"][0]
        one["spec"]["initContainers"] = [{**main, "name": "first"}]
        implied = with_resource(a_pod("two", labels={"applicationId": "two"}), f"{IMPLIED}/{CLASS}", 1)
        await scenario.create([one, implied])
        assert [await node_of(scenario, name) for name in ("one", "two")] == ["node-1"] * 2
        pod = await scenario.api.get("pods", "one", scenario.namespace)
        status = pod["status"]["extendedResourceClaimStatus"]
        names = [(used["containerName"], used["requestName"]) for used in status["requestMappings"]]
        assert names == [(main["name"], "container-1-request-1"), ("first", "container-1-request-1")]
        found = await claim(scenario, status["resourceClaimName"])
        assert found["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
        assert found["status"]["reservedFor"] == [{"resource": "pods", "name": "one", "uid": pod["metadata"]["uid"]}]
        assert len(allocated([found])) == 2
        size = {"minResource": {"cpu": "1", "memory": "64Mi", EXTENDED: "1"}}
        gang = a_gang("train", [Group("workers", 2, extra=size)])
        await scenario.create([with_resource(member, EXTENDED, 1) for member in gang])
        await wait_for_reason(scenario, gang[0]["metadata"]["name"], "Unschedulable", "cannot allocate all claims")
        assert len(allocated(await claims_of(scenario))) == 3, "nothing of the gang is written"
        await delete(scenario, "two")
        await scenario.all_bound(3)
        assert len(allocated(await claims_of(scenario))) == 4
