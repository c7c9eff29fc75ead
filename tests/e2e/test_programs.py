"""The examples of programs that run as gangs, and of services next to them: the bound pods and their order in every
placement mode.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from devcluster.api import Json
from devcluster.cluster import documents
from devcluster.leftovers import leftovers
from devcluster.nodes import FakeNode
from devcluster.resources import BY_KIND
from tests.e2e.conditions import wait_for_reason
from tests.e2e.conftest import OpenScenario, placement_of_run
from tests.e2e.manifests import owned
from tests.e2e.scenario import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
#: As in `make demo`, with two nodes less.
NODES = [FakeNode(f"node-{index}", cpu="1", memory="4Gi") for index in range(6)]
HAS_PLACEHOLDERS = placement_of_run() != "Direct"
SPARK, OPERATED = "spark-3f1b6f0c9a5e4d7f8a2c1d0e9b8a7c6d", "spark-b41c7e52d0934f6e9f3a5c8d7e6b1a20"


async def apply(scenario: Scenario, file: str, user: str = "") -> None:
    """Create the objects of the file in the scenario's namespace; `user`: as the webhook would annotate it."""
    for manifest in documents(EXAMPLES / file):
        await scenario.api.apply(owned(manifest, user, "a group") if user else manifest, scenario.namespace)


async def bound(scenario: Scenario, *names: str) -> list[Json]:
    """Wait until exactly these pods run. A name may be a prefix of a generated name."""

    async def all_run() -> list[Json]:
        found = await scenario.bound()
        wanted = Counter(names)
        is_complete = Counter(name_prefix(pod, names) for pod in found) == wanted
        return found if is_complete and all(pod["status"].get("phase") == "Running" for pod in found) else []

    return await scenario.eventually(f"{names} run", all_run)


def name_prefix(pod: Json, names: tuple[str, ...]) -> str:
    """The name that is a prefix of the pod's name, or the pod's name."""
    own: str = pod["metadata"]["name"]
    return next((name for name in names if own.startswith(name)), own)


def order(scenario: Scenario) -> list[str]:
    """The real pods in the order in which they were bound."""
    bindings = [
        write for write in scenario.writes(of_operator=True) if write.subresource == "binding" and write.succeeded
    ]
    return [write.name for write in sorted(bindings, key=lambda write: write.at) if not write.name.startswith("tg-")]


async def wait_for_reservations(scenario: Scenario, count: int) -> None:
    """Wait for ``count`` reservations of missing members, as placeholder pods if the placement has them."""

    async def are_reserved() -> bool:
        found = await scenario.bound(placeholders=True)
        return len(found) == count if HAS_PLACEHOLDERS else not found

    await scenario.eventually(f"{count} reservations exist", are_reserved)


async def application(scenario: Scenario, name: str) -> Json:
    """The application in the core's state, or an empty object."""
    found = [app for app in (await scenario.muster.dump())["applications"] if app["applicationID"] == name]
    return found[0] if found else {}


@asynccontextmanager
async def lesson(scenario: Scenario, folder: str) -> AsyncIterator[None]:
    """Delete the objects of the example at the end, and wait until all are deleted."""
    yield
    for file in sorted((EXAMPLES / folder).glob("**/*.yaml")):
        for manifest in documents(file):
            if manifest["kind"] in BY_KIND:  # no custom resources: their definitions are not installed
                plural, name = BY_KIND[manifest["kind"]].plural, manifest["metadata"]["name"]
                await scenario.api.delete(plural, name, scenario.namespace)

    async def is_clean() -> bool:
        return not await scenario.api.find("pods", scenario.namespace) and not leftovers(await scenario.muster.dump())

    await scenario.eventually(f"all objects of {folder} are deleted", is_clean)


async def spark(scenario: Scenario) -> None:
    """The driver runs when its executors are reserved. Spark's IDs are the application IDs, and executors that the
    driver's account creates cause no mismatch.
    """
    account = f"system:serviceaccount:{scenario.namespace}:spark"
    await apply(scenario, "07-spark/pods/1-driver.yaml", user="ann")
    await bound(scenario, "spark-pi-5c0e8d91b7a2f364-driver")
    await wait_for_reservations(scenario, 2)
    await apply(scenario, "07-spark/pods/2-executors.yaml", user=account)
    executors = [f"spark-pi-8a6f2c91b7a2f5d0-exec-{number}" for number in (1, 2)]
    native = ["spark-pi-5c0e8d91b7a2f364-driver", *executors]
    await bound(scenario, *native)
    assert order(scenario)[0] == native[0]
    await apply(
        scenario, "07-spark/pods/3-operator-driver.yaml", user="system:serviceaccount:spark-operator:controller"
    )
    await apply(scenario, "07-spark/pods/4-operator-executors.yaml", user=account)
    operated = [f"spark-pi-operated-2d7e5f91b7a41c08-exec-{number}" for number in (1, 2)]
    await bound(scenario, *native, "spark-pi-operated-driver", *operated)
    await wait_for_reservations(scenario, 0)
    for app in (SPARK, OPERATED):
        assert (await application(scenario, app))["applicationState"] == "Running"


async def ray(scenario: Scenario) -> None:
    """Head and workers are a gang, which a worker of the autoscaler joins later."""
    await apply(scenario, "08-ray/pods/1-cluster.yaml")
    cluster = ["raycluster-demo-head", *(f"raycluster-demo-small-group-worker-{number}" for number in (1, 2))]
    await bound(scenario, *cluster)
    await apply(scenario, "08-ray/pods/2-autoscaled.yaml")
    await bound(scenario, *cluster, "raycluster-demo-small-group-worker-3")

    async def autoscaled_is_last() -> bool:
        return order(scenario)[-1] == "raycluster-demo-small-group-worker-3"

    await scenario.eventually("the audit log has the autoscaled worker as the last one", autoscaled_is_last)
    assert len((await application(scenario, "raycluster-demo"))["allocations"]) == 4


async def dask(scenario: Scenario) -> None:
    """Three Deployments are one gang, and a deleted pod is recreated."""
    await apply(scenario, "09-dask/pods/cluster.yaml")
    names = ("demo-scheduler", "demo-default-worker-4be1f0a7c2", "demo-default-worker-9d03c6e85a")
    for pod in await bound(scenario, *names):
        if "worker" in pod["metadata"]["name"]:
            await scenario.api.delete("pods", pod["metadata"]["name"], scenario.namespace)
    await bound(scenario, *names)


async def mpi(scenario: Scenario) -> None:
    """The launcher is reserved until the operator of the workers creates it."""
    await apply(scenario, "10-mpi/pods/1-workers.yaml")
    await bound(scenario, "pi-worker-0", "pi-worker-1")
    await wait_for_reservations(scenario, 1)
    await apply(scenario, "10-mpi/pods/2-launcher.yaml")
    await bound(scenario, "pi-worker-0", "pi-worker-1", "pi-launcher")
    await wait_for_reservations(scenario, 0)


async def pytorch(scenario: Scenario) -> None:
    """The second training reserves the free quota and runs when the first one is deleted."""
    await apply(scenario, "11-pytorch/pods/1-mnist.yaml")
    first = ("mnist-master-0", "mnist-worker-0", "mnist-worker-1")
    await bound(scenario, *first)
    await apply(scenario, "11-pytorch/pods/2-resnet.yaml")
    await wait_for_reason(
        scenario, "resnet-master-0", "SchedulingSkipped", "gang pytorch-resnet is waiting for its reservation"
    )
    assert (await application(scenario, "pytorch-resnet"))["queueName"] == "root.examples.training"
    await bound(scenario, *first)
    await wait_for_reservations(scenario, 1 if placement_of_run() == "Reserve" else 0)
    for name in first:
        await scenario.api.delete("pods", name, scenario.namespace)
    await bound(scenario, *(name.replace("mnist", "resnet") for name in first))


async def daemonset(scenario: Scenario) -> None:
    """A gang, DaemonSet pods and a single pod run next to each other."""
    for file in ("1-gang", "2-agent", "3-plain"):
        await apply(scenario, f"13-daemonset/{file}.yaml")
    pods = await bound(scenario, *["render"] * 3, *["agent"] * len(NODES), "shell")
    agents = {pod["spec"]["nodeName"] for pod in pods if name_prefix(pod, ("agent",)) == "agent"}
    assert agents == {node.name for node in NODES}
    assert await application(scenario, f"yunikorn-{scenario.namespace}-autogen")


async def services(scenario: Scenario) -> None:
    """The pods of two controllers are one application, also those that are created later."""
    await apply(scenario, "14-services/services.yaml")
    await bound(scenario, "web", "web", "db-0", "db-1")
    await scenario.api.patch("deployments", "web", {"spec": {"replicas": 3}}, scenario.namespace)
    await bound(scenario, "web", "web", "web", "db-0", "db-1")
    assert (await application(scenario, "blog"))["usedResource"]["vcore"] == 3 * 200 + 2 * 300


async def cronjob(scenario: Scenario) -> None:
    """Two consecutive runs are separate gangs with the same application ID."""
    before = scenario.created_placeholders()
    await apply(scenario, "15-cron/cronjob.yaml")
    template = (await scenario.api.get("cronjobs", "nightly", scenario.namespace))["spec"]["jobTemplate"]
    for run in ("first", "second"):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": run}, "spec": template["spec"]}
        job["spec"]["template"]["spec"]["containers"][0]["command"] = ["sleep", "1"]
        await scenario.create([job])

        async def is_done(name: str = run) -> bool:
            return bool((await scenario.api.get("jobs", name, scenario.namespace))["status"].get("succeeded") == 3)

        await scenario.eventually(f"run {run} is done", is_done)
        await scenario.eventually("its application is over", lambda: _is_over(scenario, "nightly"))
    assert scenario.created_placeholders() - before == (6 if placement_of_run() == "Reserve" else 0)
    for run in ("first", "second"):
        await scenario.api.delete("jobs", run, scenario.namespace)


async def _is_over(scenario: Scenario, name: str) -> bool:
    return not await application(scenario, name)


async def test_example_programs_run_as_gangs_next_to_services(open_scenario: OpenScenario) -> None:
    config = documents(EXAMPLES / "queues.yaml")[0]["data"]
    scenario = await open_scenario(NODES, config)
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
        async with lesson(scenario, folder):
            await steps(scenario)
    muster_events = [event for event in await scenario.events() if event.get("reportingComponent") == "muster"]
    # A program may wait until the pods of the previous one have terminated.
    expected = {"FailedScheduling"}
    warnings = {
        event["message"] for event in muster_events if event["type"] == "Warning" and event["reason"] not in expected
    }
    assert warnings == set()
