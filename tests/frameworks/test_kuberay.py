"""KubeRay: the pods of a Ray cluster start together, with its option `batch-scheduler=yunikorn` and without it.

The pods are simulated, so no Ray runs in them. `ray_head` answers KubeRay's requests to the dashboard of the head.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest_asyncio

from devcluster import programs
from devcluster.api import Json
from devcluster.cluster import documents
from devcluster.frameworks import ControllerContext, Framework
from tests.e2e.scenario import Scenario
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import (
    EXAMPLES,
    SLOW_S,
    applied_example,
    delete_all,
    is_released,
    is_reserved_first,
    members_bound,
)
from tests.frameworks.ray_head import RayHead, ray_head

EXAMPLE = "08-ray"
QUEUES = documents(EXAMPLES / "queues.yaml")[0]["data"]
CLUSTERS, JOBS, SERVICES = "rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io"


def flags(context: ControllerContext) -> list[str]:
    """Those of the module's Deployment have no effect with this version; these are our ports."""
    return [
        "--enable-leader-election=false",
        f"--metrics-addr=127.0.0.1:{context.metrics}",
        f"--health-probe-bind-address=127.0.0.1:{context.health}",
    ]


KUBERAY = Framework(
    program=programs.KUBERAY,
    module="github.com/ray-project/kuberay/ray-operator",
    account=("default", "kuberay-operator"),
    flags=flags,
    kustomization="config/default",
)
WITH_YUNIKORN = replace(KUBERAY, flags=lambda context: [*flags(context), "--batch-scheduler=yunikorn"])


@pytest_asyncio.fixture(loop_scope="session")
async def head() -> AsyncIterator[RayHead]:
    """The dashboard of all Ray heads."""
    async with ray_head() as one:
        yield one


async def status(scenario: Scenario, plural: str, name: str) -> Json:
    """The status of a custom resource; empty if it has none yet."""
    found: Json = (await scenario.api.get(plural, name, scenario.namespace)).get("status", {})
    return found


async def scaled(scenario: Scenario, name: str, replicas: int, remove: Sequence[str] = ()) -> None:
    """Change the replicas of the worker group and name the workers to remove, as Ray's autoscaler does."""
    groups = (await scenario.api.get(CLUSTERS, name, scenario.namespace))["spec"]["workerGroupSpecs"]
    groups[0] |= {"replicas": replicas, "scaleStrategy": {"workersToDelete": list(remove)}}
    await scenario.api.patch(CLUSTERS, name, {"spec": {"workerGroupSpecs": groups}}, scenario.namespace)


def of_workers(pods: Sequence[Json]) -> list[str]:
    """Names of the pods that are workers."""
    return sorted(pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "worker")


async def is_ready(scenario: Scenario, cluster: str) -> None:
    async def has_state() -> bool:
        return (await status(scenario, CLUSTERS, cluster)).get("state") == "ready"

    await scenario.eventually(f"RayCluster {cluster} is ready", has_state, SLOW_S)


async def test_head_and_workers_of_a_ray_cluster_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(WITH_YUNIKORN, config=QUEUES)
    manifests = await applied_example(scenario, EXAMPLE, "raycluster.yaml")
    await is_reserved_first(scenario, "raycluster-demo", {"headgroup": 1, "small-group": 2}, scheduler="yunikorn")
    await is_ready(scenario, "demo")
    await scaled(scenario, "demo", 3)
    await members_bound(scenario, "raycluster-demo", {"headgroup": 1, "small-group": 3})
    await delete_all(scenario, manifests)
    await is_released(scenario, "raycluster-demo")


async def test_ray_cluster_starts_together_without_the_option_of_kuberay(open_framework: OpenFramework) -> None:
    scenario = await open_framework(KUBERAY, config=QUEUES)
    manifests = await applied_example(scenario, EXAMPLE, "annotated.yaml")
    await is_reserved_first(scenario, "raycluster-annotated", {"headgroup": 1, "small-group": 2})
    await is_ready(scenario, "annotated")
    await delete_all(scenario, manifests)
    await is_released(scenario, "raycluster-annotated")


async def test_autoscaled_workers_join_the_ray_cluster_and_leave_it(open_framework: OpenFramework) -> None:
    app = "raycluster-autoscaled"
    scenario = await open_framework(WITH_YUNIKORN, config=QUEUES)
    manifests = await applied_example(scenario, EXAMPLE, "autoscaled.yaml")
    gang = {"headgroup": 1, "small-group": 2}
    await is_reserved_first(scenario, app, gang, scheduler="yunikorn")
    await scaled(scenario, "autoscaled", 4)
    workers = of_workers(await members_bound(scenario, app, {"headgroup": 1, "small-group": 4}))
    await scaled(scenario, "autoscaled", 2, remove=workers[:2])
    assert of_workers(await members_bound(scenario, app, gang)) == workers[2:]
    await delete_all(scenario, manifests)
    await is_released(scenario, app)


async def test_ray_job_reserves_its_cluster_and_its_submitter(open_framework: OpenFramework, head: RayHead) -> None:
    kuberay = replace(WITH_YUNIKORN, env={"HTTP_PROXY": head.url})
    scenario = await open_framework(kuberay, config=QUEUES)
    manifests = await applied_example(scenario, EXAMPLE, "rayjob.yaml")
    groups = {"headgroup": 1, "small-group": 2, "submittergroup": 1}
    await is_reserved_first(scenario, "rayjob-train", groups, scheduler="yunikorn")
    job = (await status(scenario, JOBS, "train"))["jobId"]
    head.jobs[job] = "SUCCEEDED"
    [submitter] = [pod for pod in await scenario.pods() if "batch.kubernetes.io/job-name" in pod["metadata"]["labels"]]
    ends = {"metadata": {"annotations": {"devcluster.muster/run-for": "1s"}}}  # `ray job submit` ends with the job
    await scenario.api.patch("pods", submitter["metadata"]["name"], ends, scenario.namespace)

    async def is_complete() -> bool:
        only_submitter = [pod["status"].get("phase") for pod in await scenario.pods()] == ["Succeeded"]
        return only_submitter and (await status(scenario, JOBS, "train"))["jobDeploymentStatus"] == "Complete"

    await scenario.eventually("the RayJob is complete and its cluster is deleted", is_complete, SLOW_S)
    await delete_all(scenario, manifests)
    await is_released(scenario, "rayjob-train")


async def test_ray_service_reserves_its_cluster(open_framework: OpenFramework, head: RayHead) -> None:
    kuberay = replace(WITH_YUNIKORN, env={"HTTP_PROXY": head.url})
    scenario = await open_framework(kuberay, config=QUEUES)
    manifests = await applied_example(scenario, EXAMPLE, "rayservice.yaml")
    groups = {"headgroup": 1, "small-group": 2}
    await is_reserved_first(scenario, "rayservice-conditional", groups, scheduler="yunikorn")

    async def serves() -> bool:
        active = (await status(scenario, SERVICES, "conditional")).get("activeServiceStatus", {})
        return bool(active.get("applicationStatuses", {}).get("math", {}).get("status") == "RUNNING")

    await scenario.eventually("the RayService runs its application", serves, SLOW_S)
    await delete_all(scenario, manifests)
    await is_released(scenario, "rayservice-conditional")
