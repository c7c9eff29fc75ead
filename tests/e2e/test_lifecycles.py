"""Pods and applications come, end and come again: held back, recreated, completed, an id used anew."""

from collections import Counter

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene, with_pods
from tests.e2e.manifests import Group, a_gang, a_pod, is_bound, with_annotations
from tests.e2e.scenario import Scene

BRIEF = {"devcluster.muster/run-for": "1s"}
WORKERS = [Group("workers", 2)]


async def phases(scene: Scene) -> Counter[str]:
    return Counter(pod["status"].get("phase", "") for pod in await scene.pods())


async def application(scene: Scene, name: str) -> Json | None:
    """The core's word of an application; None once it is forgotten."""
    found = [app for app in (await scene.muster.dump())["applications"] if app["applicationID"] == name]
    return found[0] if found else None


def placeholders_made(scene: Scene) -> int:
    return sum(write.what == "create pods" and write.succeeded for write in scene.writes(of_operator=True))


def a_deployment(name: str, replicas: int, groups: list[Group]) -> Json:
    """A Deployment whose pods are one gang."""
    pod = a_gang(name, groups, placement=with_pods())[0]
    pod["metadata"]["labels"]["deployment"] = name
    pod["spec"]["restartPolicy"] = "Always"
    template = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"deployment": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


async def test_a_pod_that_its_deployment_makes_again_is_scheduled_as_usual(open_scene: OpenScene) -> None:
    """The gang has started, so no placeholder is made again."""
    scene = await open_scene([FakeNode("node-0")])
    await scene.create([a_deployment("serves", 3, [Group("workers", 3)])])
    first = {pod["metadata"]["uid"] for pod in await scene.all_bound(3)}
    await scene.api.delete("pods", (await scene.bound())[0]["metadata"]["name"], scene.namespace)

    async def is_replaced() -> bool:
        now = {pod["metadata"]["uid"] for pod in await scene.bound()}
        return len(now) == 3 and now != first

    await scene.eventually("the new pod is bound", is_replaced)
    assert placeholders_made(scene) == 3


async def test_a_pod_behind_scheduling_gates_waits_and_says_so_until_they_are_taken_away(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0")])
    gated = a_pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    await scene.create([gated, a_pod("free")])

    async def is_told() -> bool:
        return any("example.com/quota" in event["message"] for event in await scene.events())

    await scene.eventually("an event names the gate", is_told)
    assert [pod["metadata"]["name"] for pod in await scene.all_bound(1)] == ["free"]
    await scene.api.patch("pods", "gated", {"spec": {"schedulingGates": None}}, scene.namespace)
    await scene.all_bound(2)


async def test_a_pod_that_has_ended_gives_its_room_back_although_it_is_still_there(open_scene: OpenScene) -> None:
    scene = await open_scene([FakeNode("node-0", cpu="1500m")])
    await scene.create(with_annotations(a_pod(f"brief-{index}"), BRIEF) for index in range(2))

    async def both_are_done() -> bool:
        return await phases(scene) == {"Succeeded": 2}

    await scene.eventually("one ran after the other", both_are_done)


async def test_an_id_can_be_used_again_once_its_application_has_completed(open_scene: OpenScene) -> None:
    """A CronJob's shape: the pods of the first run stay as they ended, the second is a gang of its own."""
    scene = await open_scene([FakeNode("node-0")])
    for run in (1, 2):
        gang = a_gang("nightly", WORKERS, placement=with_pods())
        for pod in gang:
            pod["metadata"]["name"] += f"-{run}"
        await scene.create(with_annotations(pod, BRIEF) for pod in gang)

        async def is_forgotten(done: int = 2 * run) -> bool:
            return await phases(scene) == {"Succeeded": done} and await application(scene, "nightly") is None

        await scene.eventually(f"run {run} has completed", is_forgotten)
        assert placeholders_made(scene) == 2 * run


async def test_a_gang_without_a_queue_gets_one_named_after_its_namespace(open_scene: OpenScene) -> None:
    """The configuration in force without a queues.yaml."""
    scene = await open_scene([FakeNode("node-0")])
    await scene.create(a_gang("homeless", WORKERS))
    await scene.all_bound(2)
    app = await application(scene, "homeless")
    assert app is not None
    assert app["queueName"] == f"root.{scene.namespace}"


async def test_a_pod_that_claims_to_be_a_placeholder_is_reported_and_neither_scheduled_nor_deleted(
    open_scene: OpenScene,
) -> None:
    """Muster did not sign it; the same for an operator that starts and finds it."""
    scene = await open_scene([FakeNode("node-0")])
    claim = {"internal.yunikorn.apache.org/placeholder": "true"}
    await scene.create([with_annotations(a_pod("mine"), claim)])

    async def is_reported() -> bool:
        warnings = [event for event in await scene.events() if event["type"] == "Warning"]
        return {one["involvedObject"]["name"] for one in warnings if "placeholder" in one["message"]} == {"mine"}

    await scene.eventually("an event says that the annotation is reserved", is_reported)
    await scene.muster.operator.kill()
    await scene.muster.start()
    await scene.create([a_pod("after")])
    await scene.eventually("the new operator schedules", lambda: _has_node(scene, "after"))
    mine = await scene.api.get("pods", "mine", scene.namespace)
    assert not is_bound(mine)
    assert "deletionTimestamp" not in mine["metadata"]


async def _has_node(scene: Scene, name: str) -> bool:
    return is_bound(await scene.api.get("pods", name, scene.namespace))
