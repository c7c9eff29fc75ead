"""A namespace's annotations become the quota and the parent of the queue that is made for it."""

import json

from devcluster.nodes import FakeNode
from muster_si import keys
from tests.e2e.conditions import waits_with
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import PREFIX, a_pod
from tests.e2e.scenario import Scene

NODES = [FakeNode("node-0", cpu="8")]


async def annotate(scene: Scene, **annotations: str | None) -> None:
    """Annotate the scene's namespace; underscores stand for dots, None takes one away."""
    written = {PREFIX + key.replace("_", "."): value for key, value in annotations.items()}
    await scene.api.patch("namespaces", scene.namespace, {"metadata": {"annotations": written}})


async def knows_tag(scene: Scene, tag: str) -> None:
    """Namespaces and pods have watches of their own: a pod that comes first is placed without the annotation."""

    async def is_known() -> bool:
        (operator,) = (await scene.muster.dump())["rmDiagnostics"].values()
        return tag in operator["namespaces"][scene.namespace]["tags"]

    await scene.eventually(f"the operator knows {tag}", is_known)


async def test_a_namespaces_quota_holds_its_pods_back_and_a_change_counts_at_once(open_scene: OpenScene) -> None:
    """With the built-in configuration: a queue for each namespace. No new application is needed to hear of a change."""
    scene = await open_scene(NODES)
    queue = f"root.{scene.namespace}"
    await annotate(scene, namespace_quota=json.dumps({"cpu": "1"}))
    await knows_tag(scene, keys.APP_TAG_RESOURCE_QUOTA)
    await scene.create(a_pod(f"pod-{index}", labels={"applicationId": "only"}) for index in range(3))
    await waits_with(scene, "pod-1", "SchedulingSkipped", queue, "cpu")
    await annotate(scene, namespace_quota="2 CPUs")
    await scene.eventually("the bad annotation is told", lambda: is_told_of_namespace(scene, "is not JSON"), 10)
    assert len(await scene.bound()) == 1, "an annotation that cannot be read takes nothing away"
    await annotate(scene, namespace_quota=json.dumps({"cpu": "2"}))
    await scene.all_bound(2)
    await annotate(scene, namespace_quota=None)
    await scene.all_bound(3)


async def is_told_of_namespace(scene: Scene, words: str) -> bool:
    """Events about things without a namespace stand in the namespace ``default``."""
    events = await scene.api.find("events", "default")
    about = [event for event in events if event["involvedObject"]["name"] == scene.namespace]
    return any(event["involvedObject"]["kind"] == "Namespace" and words in event["message"] for event in about)


async def test_a_namespace_names_the_parent_of_its_queue_whose_template_it_gets(open_scene: OpenScene) -> None:
    template = {"resources": {"max": {"vcore": "2"}}}
    tenants = a_queue("tenants", parent=True, childtemplate=template)
    by_namespace = {
        "name": "tag",
        "value": "namespace",
        "create": True,
        "parent": {"name": "tag", "value": "namespace.parentqueue"},
    }
    scene = await open_scene(NODES, queue_file(tenants, rules=[by_namespace]))
    await annotate(scene, parentqueue="root.tenants")
    await knows_tag(scene, keys.APP_TAG_PARENT_QUEUE)
    await scene.create(a_pod(f"pod-{index}", labels={"applicationId": "job"}) for index in range(3))
    await scene.all_bound(2)
    await waits_with(scene, "pod-2", "SchedulingSkipped", f"root.tenants.{scene.namespace}", "cpu")
