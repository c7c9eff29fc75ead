"""The examples of programs that come as gangs, and of what runs beside them: which pods are bound, and in which order,
whichever way gangs get their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from devcluster.api import Json
from devcluster.cluster import documents
from devcluster.ledgers import leftovers
from devcluster.nodes import FakeNode
from devcluster.resources import BY_KIND
from tests.e2e.conditions import waits_with
from tests.e2e.conftest import OpenScene, placement_of_run
from tests.e2e.manifests import owned
from tests.e2e.scenario import Scene

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What `make demo` has, but for two nodes less: nothing here needs them.
NODES = [FakeNode(f"node-{index}", cpu="1", memory="4Gi") for index in range(6)]
HAS_PLACEHOLDERS = placement_of_run() != "Direct"
SPARK, OPERATED = "spark-3f1b6f0c9a5e4d7f8a2c1d0e9b8a7c6d", "spark-b41c7e52d0934f6e9f3a5c8d7e6b1a20"


async def apply(scene: Scene, file: str, user: str = "") -> None:
    """What `kubectl apply -f` does, in the scene's namespace; `user`: as the webhook writes it on pods."""
    for manifest in documents(EXAMPLES / file):
        await scene.api.apply(owned(manifest, user, "a group") if user else manifest, scene.namespace)


async def bound(scene: Scene, *names: str) -> list[Json]:
    """Wait until just these pods have a node and run; a name ends where a controller makes up the rest."""

    async def all_run() -> list[Json]:
        found = await scene.bound()
        wanted = Counter(names)
        is_whole = Counter(known(pod, names) for pod in found) == wanted
        return found if is_whole and all(pod["status"].get("phase") == "Running" for pod in found) else []

    return await scene.eventually(f"{names} run", all_run)


def known(pod: Json, names: tuple[str, ...]) -> str:
    """Which of the names the pod's begins with, its own if none."""
    own: str = pod["metadata"]["name"]
    return next((name for name in names if own.startswith(name)), own)


def order(scene: Scene) -> list[str]:
    """The real pods in the order in which they were bound."""
    made = [write for write in scene.writes(of_operator=True) if write.subresource == "binding" and write.succeeded]
    return [write.name for write in sorted(made, key=lambda write: write.at) if not write.name.startswith("tg-")]


def created(scene: Scene) -> int:
    """How many placeholders were made so far."""
    return len([write for write in scene.writes(of_operator=True) if write.what == "create pods"])


async def held(scene: Scene, count: int) -> None:
    """Wait until so many places are kept for members that nobody has created; as pods, if there are any."""

    async def are_held() -> bool:
        found = await scene.bound(placeholders=True)
        return len(found) == count if HAS_PLACEHOLDERS else not found

    await scene.eventually(f"{count} places are held", are_held)


async def application(scene: Scene, name: str) -> Json:
    """What the core says of it; empty if it does not know it."""
    found = [app for app in (await scene.muster.dump())["applications"] if app["applicationID"] == name]
    return found[0] if found else {}


@asynccontextmanager
async def lesson(scene: Scene, folder: str) -> AsyncIterator[None]:
    """The files of the example are deleted at the end, and nothing of it is left."""
    yield
    for file in sorted((EXAMPLES / folder).glob("**/*.yaml")):
        for manifest in documents(file):
            if manifest["kind"] in BY_KIND:  # no custom resources: their definitions are not installed
                plural, name = BY_KIND[manifest["kind"]].plural, manifest["metadata"]["name"]
                await scene.api.delete(plural, name, scene.namespace)

    async def is_clean() -> bool:
        return not await scene.api.find("pods", scene.namespace) and not leftovers(await scene.muster.dump())

    await scene.eventually(f"nothing of {folder} is left", is_clean)


async def spark(scene: Scene) -> None:
    """The driver runs when its executors have places; their own ids name the applications, and the accounts of the
    drivers, which create the executors, are no mismatch.
    """
    account = f"system:serviceaccount:{scene.namespace}:spark"
    await apply(scene, "07-spark/pods/1-driver.yaml", user="ann")
    await bound(scene, "spark-pi-5c0e8d91b7a2f364-driver")
    await held(scene, 2)
    await apply(scene, "07-spark/pods/2-executors.yaml", user=account)
    executors = [f"spark-pi-8a6f2c91b7a2f5d0-exec-{number}" for number in (1, 2)]
    native = ["spark-pi-5c0e8d91b7a2f364-driver", *executors]
    await bound(scene, *native)
    assert order(scene)[0] == native[0]
    await apply(scene, "07-spark/pods/3-operator-driver.yaml", user="system:serviceaccount:spark-operator:controller")
    await apply(scene, "07-spark/pods/4-operator-executors.yaml", user=account)
    operated = [f"spark-pi-operated-2d7e5f91b7a41c08-exec-{number}" for number in (1, 2)]
    await bound(scene, *native, "spark-pi-operated-driver", *operated)
    await held(scene, 0)
    for app in (SPARK, OPERATED):
        assert (await application(scene, app))["applicationState"] == "Running"


async def ray(scene: Scene) -> None:
    """Head and workers together; the autoscaler's worker joins them."""
    await apply(scene, "08-ray/pods/1-cluster.yaml")
    cluster = ["raycluster-demo-head", *(f"raycluster-demo-small-group-worker-{number}" for number in (1, 2))]
    await bound(scene, *cluster)
    await apply(scene, "08-ray/pods/2-autoscaled.yaml")
    await bound(scene, *cluster, "raycluster-demo-small-group-worker-3")
    assert order(scene)[-1] == "raycluster-demo-small-group-worker-3"
    assert len((await application(scene, "raycluster-demo"))["allocations"]) == 4


async def dask(scene: Scene) -> None:
    """Three Deployments are one gang, and what dies is made again."""
    await apply(scene, "09-dask/pods/cluster.yaml")
    names = ("demo-scheduler", "demo-default-worker-4be1f0a7c2", "demo-default-worker-9d03c6e85a")
    for pod in await bound(scene, *names):
        if "worker" in pod["metadata"]["name"]:
            await scene.api.delete("pods", pod["metadata"]["name"], scene.namespace)
    await bound(scene, *names)


async def mpi(scene: Scene) -> None:
    """The launcher's place is kept until the workers' operator creates it."""
    await apply(scene, "10-mpi/pods/1-workers.yaml")
    await bound(scene, "pi-worker-0", "pi-worker-1")
    await held(scene, 1)
    await apply(scene, "10-mpi/pods/2-launcher.yaml")
    await bound(scene, "pi-worker-0", "pi-worker-1", "pi-launcher")
    await held(scene, 0)


async def pytorch(scene: Scene) -> None:
    """The second training reserves what the queue has left, if anything, and runs when the first one is deleted."""
    await apply(scene, "11-pytorch/pods/1-mnist.yaml")
    first = ("mnist-master-0", "mnist-worker-0", "mnist-worker-1")
    await bound(scene, *first)
    await apply(scene, "11-pytorch/pods/2-resnet.yaml")
    await waits_with(scene, "resnet-master-0", "SchedulingSkipped", "gang pytorch-resnet waits for its reservation")
    assert (await application(scene, "pytorch-resnet"))["queueName"] == "root.examples.training"
    await bound(scene, *first)
    await held(scene, 1 if placement_of_run() == "Reserve" else 0)
    for name in first:
        await scene.api.delete("pods", name, scene.namespace)
    await bound(scene, *(name.replace("mnist", "resnet") for name in first))


async def daemonset(scene: Scene) -> None:
    """A gang, a pod for each node and a plain one side by side."""
    for file in ("1-gang", "2-agent", "3-plain"):
        await apply(scene, f"13-daemonset/{file}.yaml")
    pods = await bound(scene, *["render"] * 3, *["agent"] * len(NODES), "shell")
    agents = {pod["spec"]["nodeName"] for pod in pods if known(pod, ("agent",)) == "agent"}
    assert agents == {node.name for node in NODES}
    assert await application(scene, f"yunikorn-{scene.namespace}-autogen")


async def services(scene: Scene) -> None:
    """Two controllers' pods are one application, also those that come later."""
    await apply(scene, "14-services/services.yaml")
    await bound(scene, "web", "web", "db-0", "db-1")
    await scene.api.patch("deployments", "web", {"spec": {"replicas": 3}}, scene.namespace)
    await bound(scene, "web", "web", "web", "db-0", "db-1")
    assert (await application(scene, "blog"))["usedResource"]["vcore"] == 3 * 200 + 2 * 300


async def cronjob(scene: Scene) -> None:
    """Two runs, one after the other, are each a gang of the same application id."""
    before = created(scene)
    await apply(scene, "15-cron/cronjob.yaml")
    template = (await scene.api.get("cronjobs", "nightly", scene.namespace))["spec"]["jobTemplate"]
    for run in ("first", "second"):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": run}, "spec": template["spec"]}
        job["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "1"]
        await scene.create([job])

        async def is_done(name: str = run) -> bool:
            return bool((await scene.api.get("jobs", name, scene.namespace))["status"].get("succeeded") == 3)

        await scene.eventually(f"run {run} is done", is_done)
        await scene.eventually("its application is over", lambda: _is_over(scene, "nightly"))
    assert created(scene) - before == (6 if HAS_PLACEHOLDERS else 0)
    for run in ("first", "second"):
        await scene.api.delete("jobs", run, scene.namespace)


async def _is_over(scene: Scene, name: str) -> bool:
    return not await application(scene, name)


async def test_programs_run_as_gangs_and_services_beside_them(open_scene: OpenScene) -> None:
    config = documents(EXAMPLES / "queues.yaml")[0]["data"]
    scene = await open_scene(NODES, config)
    for folder, steps in {
        "07-spark": spark,
        "08-ray": ray,
        "09-dask": dask,
        "10-mpi": mpi,
        "11-pytorch": pytorch,
        "13-daemonset": daemonset,
        "14-services": services,
        "15-cron": cronjob,
    }.items():
        async with lesson(scene, folder):
            await steps(scene)
    ours = [event for event in await scene.events() if event.get("reportingComponent") == "muster"]
    # A program may wait until the pods of the one before it have ended.
    expected = {"FailedScheduling"}
    warnings = {event["message"] for event in ours if event["type"] == "Warning" and event["reason"] not in expected}
    assert warnings == set()
