"""A namespace's annotations become the quota and the parent of the queue that is made for it (contract 1.6)."""

import json

from devcluster.nodes import FakeNode
from tests.e2e.configuration import a_queue, queue_file
from tests.e2e.conftest import OpenScene
from tests.e2e.manifests import PREFIX, a_pod
from tests.e2e.scene import Scene
from tests.e2e.telling import waits_with

NODES = [FakeNode("node-0", cpu="8")]


async def annotate(scene: Scene, **annotations: str) -> None:
    """Annotate the scene's namespace; underscores stand for dots."""
    written = {PREFIX + key.replace("_", "."): value for key, value in annotations.items()}
    await scene.api.patch("namespaces", scene.namespace, {"metadata": {"annotations": written}})


async def test_a_namespaces_quota_holds_its_pods_back_and_a_raised_one_counts_with_the_next_application(
    open_scene: OpenScene,
) -> None:
    """With the built-in configuration: a queue for each namespace."""
    scene = await open_scene(NODES)
    queue = f"root.{scene.namespace}"
    await annotate(scene, namespace_quota=json.dumps({"cpu": "1"}))
    await scene.create(a_pod(f"pod-{index}", labels={"applicationId": "first"}) for index in range(2))
    await waits_with(scene, "pod-1", "SchedulingSkipped", queue, "vcore")
    await annotate(scene, namespace_quota=json.dumps({"cpu": "4"}))
    await scene.create([a_pod("next", labels={"applicationId": "second"})])
    await scene.all_bound(3)


async def test_a_namespace_names_the_parent_of_its_queue_whose_template_it_gets(open_scene: OpenScene) -> None:
    """Contract 2.6, 2.10."""
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
    await scene.create(a_pod(f"pod-{index}", labels={"applicationId": "job"}) for index in range(3))
    await scene.all_bound(2)
    await waits_with(scene, "pod-2", "SchedulingSkipped", f"root.tenants.{scene.namespace}", "vcore")
