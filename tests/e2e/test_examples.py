"""The examples run as they are written, and what their READMEs promise comes true."""

from pathlib import Path

import yaml

from devcluster.nodes import FakeNode
from tests.e2e.conditions import scheduled
from tests.e2e.configuration import QUICK_PREEMPTION
from tests.e2e.conftest import OpenScene
from tests.e2e.scenario import Scene

EXAMPLES = Path(__file__).parents[2] / "examples"
NODES = [FakeNode("node-0", cpu="8")]


def configuration() -> dict[str, str]:
    """The data of the ConfigMap that all examples share."""
    found: dict[str, str] = yaml.safe_load((EXAMPLES / "queues.yaml").read_text())["data"]
    return found


async def apply(scene: Scene, example: str, file: str) -> None:
    """What ``kubectl apply -f`` does, in the scene's namespace."""
    for manifest in yaml.safe_load_all((EXAMPLES / example / file).read_text()):
        await scene.api.apply(manifest, scene.namespace)


async def running(scene: Scene) -> dict[str, int]:
    """How many pods of each application have a node, those on their way out not counted."""
    counts: dict[str, int] = {}
    for pod in await scene.bound():
        app = pod["metadata"]["labels"]["applicationId"]
        counts[app] = counts.get(app, 0) + 1
    return counts


async def settles(scene: Scene, counts: dict[str, int], waiting: int = 0) -> None:
    """Wait until so many run, and at least so many have been told that their turn has not come."""

    async def is_so() -> bool:
        told = [pod for pod in await scene.pods() if scheduled(pod).get("reason") == "SchedulingSkipped"]
        return await running(scene) == counts and len(told) >= waiting

    await scene.eventually(f"{counts} run, {waiting} wait", is_so)


async def test_the_three_placements_hold_while_they_wait_what_the_readme_says(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES)
    await apply(scene, "06-placements", "1-reserve.yaml")
    await settles(scene, {"simulate": 3})
    await apply(scene, "06-placements", "2-driver.yaml")
    await settles(scene, {"simulate": 3, "pipeline": 1})
    await apply(scene, "06-placements", "3-atomic.yaml")

    async def train_waits() -> bool:
        return any("1 of 4 members of task group" in str(scheduled(pod)) for pod in await scene.pods())

    await scene.eventually("train says that it waits", train_waits)
    await apply(scene, "06-placements", "4-late.yaml")
    await settles(scene, {"simulate": 3, "pipeline": 1, "late": 1})
    assert await scene.bound(placeholders=True) == []
    await apply(scene, "06-placements", "5-executors.yaml")
    await settles(scene, {"simulate": 3, "pipeline": 4, "late": 1})
    await scene.api.delete("jobs", "simulate", scene.namespace)
    await scene.api.delete("pods", "late", scene.namespace)
    await settles(scene, {"pipeline": 4, "train": 4})


async def test_a_guarantee_is_given_back_and_the_job_counts_no_failure(open_scene: OpenScene) -> None:
    scene = await open_scene(NODES, configuration() | QUICK_PREEMPTION)
    await apply(scene, "03-preemption", "1-research.yaml")
    await settles(scene, {"research": 4})
    await apply(scene, "03-preemption", "2-production.yaml")
    await settles(scene, {"research": 2, "production": 2})
    job = await scene.api.get("jobs", "research", scene.namespace)
    assert not job["status"].get("failed")
