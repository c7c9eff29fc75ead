"""MUSTER_FAST_PATH=off: everything goes through kopf's own queues, slower, and everything works."""

from __future__ import annotations

from devcluster.nodes import FakeNode
from tests.e2e.conftest import OpenScene, with_pods
from tests.e2e.manifests import Group, a_gang, a_pod
from tests.e2e.scenario import Scene

NODES = [FakeNode("node-0"), FakeNode("node-1")]
OFF = {"MUSTER_FAST_PATH": "off"}


async def test_a_gang_goes_through_its_whole_cycle(open_scene: OpenScene) -> None:
    scene: Scene = await open_scene(NODES, env=OFF)
    gang = a_gang("gang", [Group("driver", 1), Group("executors", 3)], placement=with_pods())
    await scene.create([*gang, a_pod("single")])
    await scene.all_bound(5)


async def test_a_gang_that_times_out_goes_on_without_placeholders(open_scene: OpenScene) -> None:
    scene: Scene = await open_scene(NODES, env=OFF)
    await scene.occupy("node-0", "6")  # so that 10 of 16 places are free
    large = [Group("workers", 12, real=2)]
    await scene.create(a_gang("large", large, style="Soft", timeout_s=2, placement="Reserve"))
    await scene.all_bound(2)


async def test_deleted_pods_give_their_room_to_those_that_wait(open_scene: OpenScene) -> None:
    scene: Scene = await open_scene(NODES, env=OFF)
    whole = [a_pod(f"first-{number}", cpu="5") for number in range(2)]
    await scene.create(whole)
    first = await scene.all_bound(2)
    await scene.create([a_pod(f"second-{number}", cpu="5") for number in range(2)])
    for pod in first:
        await scene.api.delete("pods", pod["metadata"]["name"], scene.namespace)
    second = await scene.all_bound(2)
    assert {pod["metadata"]["name"] for pod in second} == {"second-0", "second-1"}


async def test_after_a_restart_the_operator_goes_on_with_the_gang(open_scene: OpenScene) -> None:
    scene: Scene = await open_scene(NODES, env=OFF)
    await scene.create(a_gang("gang", [Group("workers", 4)], timeout_s=600, placement=with_pods()))
    await scene.all_bound(4)
    await scene.muster.operator.kill()
    await scene.muster.start()
    await scene.create([a_pod("late")])
    await scene.all_bound(5)
