"""Life cycles of pods and applications: gated, recreated, completed, a reused application ID."""

from collections import Counter

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound, with_annotations
from tests.e2e.scenario import Scenario

BRIEF = {"devcluster.muster/run-for": "1s"}
WORKERS = [Group("workers", 2)]


async def phases(scenario: Scenario) -> Counter[str]:
    return Counter(pod["status"].get("phase", "") for pod in await scenario.pods())


async def application(scenario: Scenario, name: str) -> Json | None:
    """The application in the core's state, or None after it was removed."""
    found = [app for app in (await scenario.muster.dump())["applications"] if app["applicationID"] == name]
    return found[0] if found else None


def a_deployment(name: str, replicas: int, groups: list[Group]) -> Json:
    """A Deployment whose pods are one gang."""
    pod = a_gang(name, groups, placement="Reserve")[0]
    pod["metadata"]["labels"]["deployment"] = name
    pod["spec"]["restartPolicy"] = "Always"
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"deployment": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


async def test_a_pod_recreated_by_its_deployment_is_scheduled_as_usual(open_scenario: OpenScenario) -> None:
    """The gang has started, so no placeholder is created again."""
    scenario = await open_scenario([FakeNode("node-0")])
    await scenario.create([a_deployment("serves", 3, [Group("workers", 3)])])
    first = {pod["metadata"]["uid"] for pod in await scenario.all_bound(3)}
    await scenario.api.delete("pods", (await scenario.bound())[0]["metadata"]["name"], scenario.namespace)

    async def is_replaced() -> bool:
        now = {pod["metadata"]["uid"] for pod in await scenario.bound()}
        return len(now) == 3 and now != first

    await scenario.eventually("the new pod is bound", is_replaced)
    assert scenario.created_placeholders() == 3


async def test_a_pod_with_scheduling_gates_reports_them_and_waits_for_their_removal(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario([FakeNode("node-0")])
    gated = a_pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    await scenario.create([gated, a_pod("free")])

    async def is_reported() -> bool:
        return any("example.com/quota" in event["message"] for event in await scenario.events())

    await scenario.eventually("an event names the gate", is_reported)
    assert [pod["metadata"]["name"] for pod in await scenario.all_bound(1)] == ["free"]
    await scenario.api.patch("pods", "gated", {"spec": {"schedulingGates": None}}, scenario.namespace)
    await scenario.all_bound(2)


async def test_an_id_can_be_reused_after_its_application_has_completed(open_scenario: OpenScenario) -> None:
    """As with a CronJob: the finished pods of the first run remain, and the second run is a separate gang."""
    scenario = await open_scenario([FakeNode("node-0")])
    for run in (1, 2):
        gang = a_gang("nightly", WORKERS, placement="Reserve")
        for pod in gang:
            pod["metadata"]["name"] += f"-{run}"
        await scenario.create(with_annotations(pod, BRIEF) for pod in gang)

        async def is_removed(done: int = 2 * run) -> bool:
            return await phases(scenario) == {"Succeeded": done} and await application(scenario, "nightly") is None

        await scenario.eventually(f"run {run} has completed", is_removed)
        assert scenario.created_placeholders() == 2 * run


async def test_a_gang_without_a_queue_gets_one_named_after_its_namespace(open_scenario: OpenScenario) -> None:
    """The default configuration without a queues.yaml."""
    scenario = await open_scenario([FakeNode("node-0")])
    await scenario.create(a_gang("homeless", WORKERS))
    await scenario.all_bound(2)
    app = await application(scenario, "homeless")
    assert app is not None
    assert app["queueName"] == f"root.{scenario.namespace}"


async def test_a_forged_placeholder_is_reported_and_neither_scheduled_nor_deleted(
    open_scenario: OpenScenario,
) -> None:
    """It has no signature of Muster. A restarted operator treats it in the same way."""
    scenario = await open_scenario([FakeNode("node-0")])
    claim = {"internal.yunikorn.apache.org/placeholder": "true"}
    await scenario.create([with_annotations(a_pod("mine"), claim)])

    async def is_reported() -> bool:
        warnings = [event for event in await scenario.events() if event["type"] == "Warning"]
        return {one["involvedObject"]["name"] for one in warnings if "placeholder" in one["message"]} == {"mine"}

    await scenario.eventually("an event reports that the annotation is reserved", is_reported)
    await scenario.muster.operator.kill()
    await scenario.muster.start()
    await scenario.create([a_pod("after")])
    await scenario.eventually("the new operator schedules", lambda: _has_node(scenario, "after"))
    forged = await scenario.api.get("pods", "mine", scenario.namespace)
    assert not is_bound(forged)
    assert "deletionTimestamp" not in forged["metadata"]


async def _has_node(scenario: Scenario, name: str) -> bool:
    return is_bound(await scenario.api.get("pods", name, scenario.namespace))
