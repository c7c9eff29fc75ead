"""Inter-pod affinity, host ports and preferences: placements and reasons as in kube-scheduler."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devcluster.api import Json
from devcluster.errors import ApiError
from devcluster.nodes import FakeNode
from devcluster.waiting import until
from tests.e2e.conditions import wait_for_event, wait_for_reason
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound
from tests.e2e.scenario import Scenario

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTS = ("a0", "a1", "b0", "b1")


def nodes() -> list[FakeNode]:
    """Two nodes in each of two zones."""
    return [FakeNode(host, labels={ZONE: host[0]}) for host in HOSTS]


def a_small_pod(name: str, app: str, scheduler: str = "muster", **spec: object) -> Json:
    """A pod of a separate application with the label ``app``."""
    pod = a_pod(name, cpu="10m", labels={"applicationId": name, "app": app}, scheduler=scheduler)
    pod["spec"].update(spec)
    return pod


def term(app: str, key: str, **fields: object) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def affinity(app: str, key: str, **fields: object) -> Json:
    return {"podAffinity": {REQUIRED: [term(app, key, **fields)]}}


def anti_affinity(app: str, key: str) -> Json:
    return {"podAntiAffinity": {REQUIRED: [term(app, key)]}}


def running(name: str, app: str, host: str) -> Json:
    """A pod that another scheduler placed."""
    return a_small_pod(name, app, "default-scheduler", nodeName=host)


async def hosts(scenario: Scenario, app: str, count: int) -> list[str]:
    """Wait until ``count`` pods with that label have a node, and return their nodes in order."""

    async def are_there() -> list[str]:
        found = await scenario.api.find("pods", scenario.namespace, labelSelector=f"app={app}")
        placed = sorted(pod["spec"]["nodeName"] for pod in found if is_bound(pod))
        return placed if len(placed) == count else []

    return await scenario.eventually(f"{count} pods of {app} have a node", are_there)


async def host(scenario: Scenario, app: str) -> str:
    [found] = await hosts(scenario, app, 1)
    return found


async def name_of_waiting_pod(scenario: Scenario, app: str) -> str:
    found = await scenario.api.find("pods", scenario.namespace, labelSelector=f"app={app}")
    [name] = [pod["metadata"]["name"] for pod in found if not is_bound(pod)]
    return str(name)


async def relabel(scenario: Scenario, pod: str, app: str) -> None:
    await scenario.api.patch("pods", pod, {"metadata": {"labels": {"app": app}}}, scenario.namespace)


async def test_pod_affinity_and_anti_affinity_apply_and_waiting_pods_report_them(open_scenario: OpenScenario) -> None:
    """Between pods of Muster, and between them and pods of other schedulers."""
    scenario = await open_scenario(nodes())
    await scenario.create(running(f"loud-{name}", "loud", name) for name in HOSTS)
    await scenario.create(
        a_small_pod(f"solo-{index}", "solo", affinity=anti_affinity("solo", HOST)) for index in range(5)
    )
    await scenario.create([a_small_pod("db", "db", nodeSelector={ZONE: "b"})])
    await scenario.create(a_small_pod(f"web-{index}", "web", affinity=affinity("db", ZONE)) for index in range(3))
    await scenario.create([a_small_pod("shy", "shy", affinity=anti_affinity("loud", HOST))])
    await scenario.create([a_small_pod("fan", "fan", affinity=affinity("star", HOST)), a_small_pod("nobody", "nobody")])

    assert await hosts(scenario, "solo", 4) == sorted(HOSTS)
    assert {name[0] for name in await hosts(scenario, "web", 3)} == {"b"}
    text = "0/4 nodes are available: 4 node(s) didn't match pod "
    await wait_for_reason(
        scenario, await name_of_waiting_pod(scenario, "solo"), "Unschedulable", f"{text}anti-affinity rules"
    )
    await wait_for_reason(scenario, "shy", "Unschedulable", f"{text}anti-affinity rules")
    await wait_for_reason(scenario, "fan", "Unschedulable", f"{text}affinity rules")

    await relabel(scenario, "loud-a1", "quiet")
    assert await host(scenario, "shy") == "a1"
    first_host = await host(scenario, "nobody")
    await relabel(scenario, "nobody", "star")
    assert await host(scenario, "fan") == first_host
    waiting_pod = await name_of_waiting_pod(scenario, "solo")
    await scenario.api.delete("pods", waiting_pod, scenario.namespace, grace_s=0)


async def test_topology_spread_host_ports_and_node_preferences_apply(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(nodes())
    selector = {"matchLabels": {"app": "even"}}
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
    await scenario.create(a_small_pod(f"even-{index}", "even", topologySpreadConstraints=spread) for index in range(4))
    for index in range(5):
        pod = a_small_pod(f"port-{index}", "port")
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        await scenario.create([pod])
    expressions = [{"key": HOST, "operator": "In", "values": ["b1"]}]
    preferred = [{"weight": 100, "preference": {"matchExpressions": expressions}}]
    await scenario.create([a_small_pod("picky", "picky", affinity={"nodeAffinity": {PREFERRED: preferred}})])
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    await scenario.create([a_small_pod("claims", "claims", resourceClaims=claims)])

    assert Counter(name[0] for name in await hosts(scenario, "even", 4)) == {"a": 2, "b": 2}
    assert await hosts(scenario, "port", 4) == sorted(HOSTS)
    assert await host(scenario, "picky") == "b1"
    last = await name_of_waiting_pod(scenario, "port")
    text = "0/4 nodes are available: 4 node(s) didn't have free ports for the requested pod ports"
    await wait_for_reason(scenario, last, "Unschedulable", text)
    await wait_for_reason(
        scenario,
        "claims",
        "UnsupportedResourceClaims",
        "need the setting kubernetes.deviceClaims",
    )
    await wait_for_event(scenario, "claims", "or use another scheduler")
    for name in (last, "claims"):
        await scenario.api.delete("pods", name, scenario.namespace, grace_s=0)


@asynccontextmanager
async def another_namespace(scenario: Scenario) -> AsyncIterator[str]:
    """A namespace next to the scenario's, in which pods can be created."""
    name, api = f"{scenario.namespace}-beside", scenario.api
    await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        await until(
            "the namespace has its default service account",
            lambda: api.get("serviceaccounts", "default", name),
            50,
            tolerate=(ApiError,),
        )
        yield name
    finally:
        await api.delete_all("pods", name)
        await api.delete("namespaces", name)


async def test_a_namespace_is_selected_as_soon_as_it_has_the_label(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(nodes())
    async with another_namespace(scenario) as other_namespace:
        await scenario.api.create(running("peer", "peer", "b0"), other_namespace)
        selected = {"namespaceSelector": {"matchLabels": {"team": "one"}}}
        await scenario.create([a_small_pod("friend", "friend", affinity=affinity("peer", HOST, **selected))])
        text = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules"
        await wait_for_reason(scenario, "friend", "Unschedulable", text)
        await scenario.api.patch("namespaces", other_namespace, {"metadata": {"labels": {"team": "one"}}})
        assert await host(scenario, "friend") == "b0"


async def test_a_gang_with_anti_affinity_gets_a_host_for_each_member(open_scenario: OpenScenario) -> None:
    """First its placeholders are spread, then its pods, which replace them."""
    scenario = await open_scenario(nodes())
    extra = {"affinity": anti_affinity("ring", HOST), "labels": {"app": "ring"}}
    members = a_gang("ring", [Group("workers", 4, cpu="10m", extra=extra)])
    for pod in members:
        pod["metadata"]["labels"]["app"] = "ring"
        pod["spec"]["affinity"] = anti_affinity("ring", HOST)
    await scenario.create(members)
    bound = await scenario.all_bound(4, 30)
    assert sorted(pod["spec"]["nodeName"] for pod in bound) == sorted(HOSTS)
