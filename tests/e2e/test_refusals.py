"""What cannot be served is refused with a reason that its author sees; nothing crashes, nothing is silently no gang."""

import json

import pytest

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import PREFIX, Group, a_gang, a_pod, with_annotations
from tests.e2e.scene import Scene

NODES = [FakeNode("node-0", cpu="8")]
GOOD: Json = {"name": "workers", "minMember": 2, "minResource": {"cpu": "1"}}


def queues(**leaf: object) -> dict[str, str]:
    """A configuration with one leaf, ``root.leaf``."""
    tree = {"name": "root", "submitacl": "*", "queues": [{"name": "leaf", **leaf}]}
    return {"queues.yaml": json.dumps({"partitions": [{"name": "default", "queues": [tree]}]})}


async def told(scene: Scene, pod: str, *words: str) -> None:
    """Wait for a Warning on the pod that has all the words."""

    async def is_told() -> bool:
        return any(
            event["type"] == "Warning"
            and event["involvedObject"]["name"] == pod
            and all(word.lower() in event["message"].lower() for word in words)
            for event in await scene.events()
        )

    await scene.eventually(f"a Warning on {pod} says {words}", is_told, 30)


async def test_a_gang_in_a_fair_queue_is_refused(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, queues(properties={"application.sort.policy": "fair"}))
    await scene.create(a_gang("fair", [Group("workers", 2)], queue="root.leaf"))
    await told(scene, "fair-workers-0", "fair")
    assert await scene.bound() == []
    assert await scene.pods(placeholders=True) == []


async def test_a_gang_larger_than_the_quota_of_its_queue_is_refused(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, queues(resources={"max": {"vcore": "2"}}))
    await scene.create(a_gang("large", [Group("workers", 3)], queue="root.leaf"))
    await told(scene, "large-workers-0", "root.leaf", "vcore")
    assert await scene.bound() == []
    assert await scene.pods(placeholders=True) == []


@pytest.mark.parametrize(
    "annotation, word",
    [
        pytest.param("{not json", "task-groups", id="no JSON"),
        pytest.param('{"name": "workers"}', "task-groups", id="no list"),
        pytest.param(json.dumps([{**GOOD, "name": ""}]), "name", id="no name"),
        pytest.param(json.dumps([{**GOOD, "minMember": 0}]), "minMember", id="no members"),
        pytest.param(json.dumps([{**GOOD, "minMember": -1}]), "minMember", id="negative members"),
        pytest.param(json.dumps([{**GOOD, "minMember": "two"}]), "minMember", id="members in words"),
        pytest.param(json.dumps([{"name": "workers", "minMember": 2}]), "minResource", id="no resources"),
        pytest.param(json.dumps([{**GOOD, "minResource": {"cpu": "-1"}}]), "minResource", id="negative quantity"),
        pytest.param(json.dumps([{**GOOD, "minResource": {"cpu": "lots"}}]), "minResource", id="no quantity"),
        pytest.param(json.dumps([GOOD, GOOD]), "workers", id="a group twice"),
    ],
)
async def test_malformed_task_groups_are_told_by_field_and_the_pod_is_scheduled_alone(
    annotation: str, word: str, open_scene: OpenScene
) -> None:
    """Contract 1.3: the application is then no gang, and a Warning says so."""
    scene = await open_scene(NODES)
    pod = a_pod("malformed", labels={"applicationId": "malformed"})
    annotations = {f"{PREFIX}task-groups": annotation, f"{PREFIX}task-group-name": "workers"}
    await scene.create([with_annotations(pod, annotations)])
    await told(scene, "malformed", word)
    await scene.all_bound(1)


async def test_an_unknown_style_is_told_and_taken_as_soft(open_scene: OpenScene) -> None:
    """Semantics 8."""
    scene = await open_scene([FakeNode("node-0", cpu="1500m")])
    await scene.create(a_gang("odd", [Group("workers", 2)], style="Firm", timeout_s=3))
    await told(scene, "odd-workers-0", "gangSchedulingStyle", "Firm")
    await scene.all_bound(1)


async def test_a_pod_that_names_an_unknown_group_is_told(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES)
    gang = a_gang("group", [Group("workers", 2)])
    stranger = with_annotations(
        a_pod("stranger", labels={"applicationId": "group"}), {f"{PREFIX}task-group-name": "drivers"}
    )
    await scene.create([*gang, stranger])
    await told(scene, "stranger", "drivers")
    await scene.all_bound(3)


async def test_a_second_configuration_counts_from_when_it_is_pushed(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, queues(resources={"max": {"vcore": "1"}}))
    labels = {"applicationId": "grows", "queue": "root.leaf"}
    await scene.create([a_pod("first", labels=labels), a_pod("second", labels=labels)])
    await scene.all_bound(1)
    wider = {"data": queues(resources={"max": {"vcore": "4"}})}
    await scene.api.patch("configmaps", "muster-configs", wider, scene.muster.setup.namespace)
    await scene.all_bound(2)


async def test_an_unreadable_configuration_leaves_the_old_one_in_force(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, queues(resources={"max": {"vcore": "2"}}))
    broken = {"data": {"queues.yaml": "partitions: [{name: default, quues: []}]"}}
    await scene.api.patch("configmaps", "muster-configs", broken, scene.muster.setup.namespace)
    labels = {"applicationId": "old", "queue": "root.leaf"}
    await scene.create(a_pod(f"single-{index}", labels=labels) for index in range(3))
    await scene.all_bound(2)
