"""Invalid requests are rejected with a reason that the user sees, and no process crashes."""

import json

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import reported_on_config_map, wait_for_event
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, Group, a_gang, a_member, a_pod, with_annotations

NODES = [FakeNode("node-0", cpu="8")]
GOOD: Json = {"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}


async def test_a_gang_in_a_fair_queue_is_refused(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues(properties={"application.sort.policy": "fair"}))
    await scenario.create(a_gang("fair", [Group("workers", 2)], queue="root.leaf"))
    await wait_for_event(scenario, "fair-workers-0", "fair")
    assert await scenario.bound() == []
    assert await scenario.pods(placeholders=True) == []


async def test_a_gang_larger_than_the_quota_of_its_queue_is_refused(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues(resources={"max": {"vcore": "2"}}))
    await scenario.create(a_gang("large", [Group("workers", 3)], queue="root.leaf"))
    await wait_for_event(scenario, "large-workers-0", "root.leaf", "cpu")
    assert await scenario.bound() == []
    assert await scenario.pods(placeholders=True) == []


MALFORMED = {
    "no-json": ("{not json", "task-groups"),
    "no-list": ('{"name": "workers"}', "task-groups"),
    "no-name": (json.dumps([{**GOOD, "name": ""}]), "task-groups[0].name"),
    "negative-members": (json.dumps([{**GOOD, "minMember": -1}]), "task-groups[0].minMember"),
    "members-in-words": (json.dumps([{**GOOD, "minMember": "two"}]), "task-groups[0].minMember"),
    "no-resources": (json.dumps([{"name": "workers", "minMember": 2}]), "task-groups[0].minResource"),
    "negative-quantity": (json.dumps([{**GOOD, "minResource": {"cpu": "-1"}}]), "task-groups[0].minResource.cpu"),
    "no-quantity": (json.dumps([{**GOOD, "minResource": {"cpu": "lots"}}]), "task-groups[0].minResource.cpu"),
    "a-group-twice": (json.dumps([GOOD, GOOD]), "task-groups[1].name"),
    "cpu-and-vcore": (json.dumps([{**GOOD, "minResource": {"cpu": "1", "vcore": "1"}}]), "minResource.vcore"),
    "no-tolerations": (json.dumps([{**GOOD, "tolerations": "all"}]), "task-groups[0].tolerations"),
}
"""Invalid annotations, and the field that the event names."""


async def test_malformed_task_groups_are_reported_by_field_and_the_pod_is_scheduled_alone(
    open_scenario: OpenScenario,
) -> None:
    """The application is then no gang, and a Warning reports it. Each case is a separate application."""
    scenario = await open_scenario([FakeNode("node-0", cpu="16")])
    for name, (annotation, _) in MALFORMED.items():
        annotations = {f"{PREFIX}task-groups": annotation, f"{PREFIX}task-group-name": "workers"}
        await scenario.create([with_annotations(a_pod(name, labels={"applicationId": name}), annotations)])
    for name, (_, field) in MALFORMED.items():
        await wait_for_event(scenario, name, field, "without gang scheduling")
    await scenario.all_bound(len(MALFORMED))


async def test_invalid_parameters_are_reported_and_the_gang_continues(open_scenario: OpenScenario) -> None:
    """Each one is reported by name; Soft and the configured defaults apply."""
    scenario = await open_scenario(NODES, {"gang.placement": "Reserve"})
    parameters = "placeholderTimeoutInSeconds=soon gangSchedulingStyle=Firm gangPlacement=Best nonsense"
    groups = [Group("workers", 2)]
    await scenario.create(a_member("odd", "workers", f"odd-{index}", groups, parameters) for index in range(2))
    for name in ("placeholderTimeoutInSeconds", "Soft is used", "Reserve, Direct or Auto", "nonsense"):
        await wait_for_event(scenario, "odd-0", name)
    await scenario.all_bound(2)
    assert scenario.created_placeholders() == 2


async def test_a_gang_in_an_application_without_task_groups_is_reported(
    open_scenario: OpenScenario,
) -> None:
    scenario = await open_scenario(NODES)
    await scenario.create([a_pod("first", labels={"applicationId": "mixed"}), *a_gang("mixed", [Group("workers", 2)])])
    await wait_for_event(scenario, "mixed-workers-0", "task-groups", "first", "app-id")
    await scenario.all_bound(3)


async def test_an_application_id_that_is_too_long_is_rejected_with_its_length(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES)
    key = f"{PREFIX}app-id"
    await scenario.create([with_annotations(a_pod("endless"), {key: "x" * 64}), a_pod("bystander")])
    await wait_for_event(scenario, "endless", key, "64", "63")
    await scenario.all_bound(1)


async def test_pods_with_an_unknown_queue_fail_with_its_name(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES, queues())
    labels = {"applicationId": "lost", "queue": "root.nowhere"}
    await scenario.create([a_pod("lost", labels=labels), a_pod("bystander", labels={"queue": "root.leaf"})])
    await wait_for_event(scenario, "lost", "root.nowhere", "does not exist", "queues.yaml")

    async def has_failed() -> bool:
        status = (await scenario.api.get("pods", "lost", scenario.namespace))["status"]
        return status["phase"] == "Failed" and "root.nowhere" in status["message"]

    await scenario.eventually("the pod has failed", has_failed)
    await scenario.all_bound(1)


@pytest.mark.parametrize(
    "setting, texts",
    [
        pytest.param(
            {"queues.yaml": "partitions: [{name: default, quues: []}]"}, ["quues", "partitions"], id="an unknown field"
        ),
        pytest.param({"queues.yaml": "partitions: [{"}, ["queues.yaml", "line"], id="no YAML"),
        pytest.param({"kubernetes.qps": "many"}, ["kubernetes.qps", "many"], id="a setting without meaning"),
        pytest.param({"gang.placeholderTimeout": "soon"}, ["gang.placeholderTimeout", "soon"], id="no duration"),
    ],
)
async def test_a_start_with_an_unreadable_configuration_fails_with_one_line(
    setting: dict[str, str], texts: list[str], open_scenario: OpenScenario
) -> None:
    scenario = await open_scenario(NODES, setting, started=False)
    scenario.muster.core.start()
    scenario.muster.operator.start()
    operator = scenario.muster.operator
    assert await operator.ended(90), operator.tail()
    assert operator.returncode == 1
    last = operator.tail(1)
    assert last.startswith("muster operator cannot serve: ")
    assert all(text in last for text in texts), last
    note = await reported_on_config_map(scenario, "Muster cannot start", texts[0])
    assert all(text in note for text in texts), note
    fixed = {"data": dict.fromkeys(setting)}
    await scenario.api.patch("configmaps", "muster-configs", fixed, scenario.muster.setup.namespace)
    await scenario.muster.start()


async def test_a_pod_with_an_unknown_task_group_is_reported(open_scenario: OpenScenario) -> None:
    scenario = await open_scenario(NODES)
    gang = a_gang("group", [Group("workers", 2)])
    with_unknown_group = with_annotations(
        a_pod("stranger", labels={"applicationId": "group"}), {f"{PREFIX}task-group-name": "drivers"}
    )
    await scenario.create([*gang, with_unknown_group])
    await wait_for_event(scenario, "stranger", "drivers")
    await scenario.all_bound(3)
