"""Single pods of every shape: their resources are counted as in Kubernetes, also after changes."""

from typing import Any

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import IMAGE, a_pod, is_bound, with_annotations
from tests.e2e.scenario import Scenario

MI = 2**20
START_AFTER, RUN_FOR = "devcluster.muster/start-after", "devcluster.muster/run-for"
#: A kubelet that has not started the containers does not report actual resources either.
NOT_STARTED = {START_AFTER: "1h"}


def a_container(name: str, **resources: Any) -> Json:
    return {"name": name, "image": IMAGE, "resources": resources}


def shaped(name: str, **spec: Any) -> Json:
    """A pod with this spec instead of one container of 1 CPU."""
    pod = a_pod(name, labels={"applicationId": "shapes"})
    pod["spec"].update(spec)
    return pod


def shapes() -> list[Json]:
    """Pods whose requests are not a simple sum."""
    sidecar = {**a_container("mesh", requests={"cpu": "200m"}), "restartPolicy": "Always"}
    init = a_container("migrate", requests={"cpu": "1"})
    app = a_container("app", requests={"cpu": "300m", "memory": "64Mi"})
    return [
        shaped("init-after-sidecar", initContainers=[sidecar, init], containers=[app]),
        shaped("init-before-sidecar", initContainers=[init, sidecar], containers=[app]),
        shaped("pod-level", containers=[app], resources={"requests": {"cpu": "700m", "memory": "128Mi"}}),
        shaped("limits-only", containers=[a_container("app", limits={"cpu": "150m", "memory": "32Mi"})]),
        shaped("nothing", containers=[a_container("app")]),
        shaped("zero", containers=[a_container("app", requests={"cpu": "0", "memory": "0"})]),
        shaped("extended", containers=[a_container("app", limits={"example.com/fpga": "2"})]),
        shaped(
            "huge-pages",
            containers=[a_container("app", limits={"hugepages-2Mi": "4Mi", "memory": "1e6", "cpu": "0.05"})],
        ),
        shaped("overhead", runtimeClassName="muster-sandbox", containers=[app]),
    ]


SIZES = {
    "init-after-sidecar": {"vcore": 1200, "memory": 64 * MI},
    "init-before-sidecar": {"vcore": 1000, "memory": 64 * MI},
    "pod-level": {"vcore": 700, "memory": 128 * MI},
    "limits-only": {"vcore": 150, "memory": 32 * MI},
    "nothing": {},
    "zero": {},
    "extended": {"example.com/fpga": 2},
    "huge-pages": {"hugepages-2Mi": 4 * MI, "memory": 1_000_000, "vcore": 50},
    "overhead": {"vcore": 400, "memory": 84 * MI},
}


async def allocations(scenario: Scenario) -> dict[str, Json]:
    """The core's allocations by pod name."""
    apps = (await scenario.muster.dump())["applications"]
    found = [one for app in apps for one in app.get("allocations") or []]
    return {one["allocationTags"]["kubernetes.io/meta/podName"]: one for one in found}


async def wait_for_allocation(scenario: Scenario, pod: str, vcore: int) -> None:
    """Wait until the core has this CPU allocation for the pod."""

    async def does() -> bool:
        one = (await allocations(scenario)).get(pod, {})
        return bool(one.get("resource", {}).get("vcore") == vcore)

    await scenario.eventually(f"{pod} has {vcore} allocated", does)


async def is_placed(scenario: Scenario, pod: str) -> None:
    async def has_node() -> bool:
        return is_bound(await scenario.api.get("pods", pod, scenario.namespace))

    await scenario.eventually(f"{pod} has a node", has_node)


async def resize(scenario: Scenario, pod: str, cpu: str) -> None:
    """Resize the pod through the subresource, as a user does."""
    path = f"/api/v1/namespaces/{scenario.namespace}/pods/{pod}/resize"
    body = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    await scenario.api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")


async def test_pod_requests_are_counted_as_in_kubernetes(open_scenario: OpenScenario) -> None:
    """The amounts in the core's state; the API server fills in limits and overhead."""
    scenario = await open_scenario([FakeNode("node-0", extra={"example.com/fpga": "4", "hugepages-2Mi": "1Gi"})])
    sandbox = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "muster-sandbox"},
        "handler": "sandbox",
        "overhead": {"podFixed": {"cpu": "100m", "memory": "20Mi"}},
    }
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    await scenario.api.request("POST", classes, sandbox)
    try:
        await scenario.create(shapes())
        await scenario.all_bound(len(SIZES))
    finally:
        await scenario.api.request("DELETE", f"{classes}/muster-sandbox")
    found = {name: one["resource"] for name, one in (await allocations(scenario)).items()}
    assert found == {name: {**size, "pods": 1} for name, size in SIZES.items()}


async def test_changed_pods_keep_the_correct_allocations(open_scenario: OpenScenario) -> None:
    """A pod resized in place, one with changed labels, one with a node name, and one with a finalizer."""
    scenario = await open_scenario([FakeNode("node-0", cpu="4")])
    beforehand = a_pod("beforehand", cpu="500m", labels={"applicationId": "static"})
    beforehand["spec"]["nodeName"] = "node-0"
    with_finalizer = with_annotations(a_pod("kept", cpu="1500m", labels={"applicationId": "brief"}), {RUN_FOR: "100ms"})
    with_finalizer["metadata"]["finalizers"] = ["example.com/keep"]
    resized = with_annotations(a_pod("grows", cpu="1", labels={"applicationId": "grows"}), NOT_STARTED)
    await scenario.create([beforehand, with_finalizer, resized])
    await is_placed(scenario, "grows")
    await resize(scenario, "grows", "3")
    await wait_for_allocation(scenario, "grows", 3000)
    await scenario.create([a_pod("next", cpu="800m", labels={"applicationId": "next"})])
    await scenario.eventually("next waits", lambda: waits(scenario, "next"))

    async def kept_has_finished() -> bool:
        return set(await allocations(scenario)) == {"beforehand", "grows"}

    await scenario.eventually("the pod with the finalizer has finished", kept_has_finished)

    await scenario.api.patch("pods", "grows", {"metadata": {"labels": {"role": "db"}}}, scenario.namespace)
    await scenario.api.patch("pods", "next", {"metadata": {"labels": {"applicationId": "moved"}}}, scenario.namespace)
    await resize(scenario, "grows", "2")
    await is_placed(scenario, "next")
    ledger = await allocations(scenario)
    assert ledger["grows"]["resource"]["vcore"] == 2000
    assert ledger["grows"]["allocationTags"]["kubernetes.io/label/role"] == "db"
    assert ledger["next"]["applicationId"] == "moved"
    await scenario.bindings(3)
    bound_by_us = {write.name for write in scenario.writes(of_operator=True) if write.subresource == "binding"}
    assert bound_by_us == {"kept", "grows", "next"}

    await scenario.api.delete("pods", "kept", scenario.namespace, grace_s=0)
    await scenario.api.patch("pods", "kept", {"metadata": {"finalizers": None}}, scenario.namespace)


async def waits(scenario: Scenario, pod: str) -> bool:
    """Whether the pod has a condition with the reason why it waits."""
    found = await scenario.api.get("pods", pod, scenario.namespace)
    return any(one.get("reason") == "Unschedulable" for one in found["status"].get("conditions", []))
