"""Invalid requests are rejected with a reason that the user sees, and no process crashes."""

import json

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conditions import reported_on_config_map, wait_for_event
from tests.e2e.configuration import queues
from tests.e2e.conftest import OpenScenario
from tests.e2e.manifests import PREFIX, a_pod, with_annotations

NODES = [FakeNode("node-0", cpu="8")]
GOOD: Json = {"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}


MALFORMED = {
    "no-json": ("{not json", "task-groups"),
    "members-in-words": (json.dumps([{**GOOD, "minMember": "two"}]), "task-groups[0].minMember"),
    "a-group-twice": (json.dumps([GOOD, GOOD]), "task-groups[1].name"),
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
