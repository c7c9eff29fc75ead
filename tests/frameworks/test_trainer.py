"""Kubeflow Trainer: the nodes of a TrainJob start together, with the runtime that Kubeflow installs."""

import pytest

from devcluster import programs
from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.frameworks import ControllerContext, Framework, module_folder
from devcluster.nodes import FakeNode
from tests.e2e.pod_groups.test_labelled_pod_groups import api
from tests.e2e.scenario import Scenario
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.controllers import JOBSET
from tests.frameworks.gangs import EXAMPLES, applied_example, bound_of, finishes, is_released, is_reserved_first

__all__ = ["api"]

RUNTIMES = "clustertrainingruntimes.trainer.kubeflow.org"
APP = "trainer-mnist"


def flags(context: ControllerContext) -> list[str]:
    """The configuration is that of the module, with our ports and certificate."""
    config = context.folder / "config.yaml"
    config.write_text(
        f"""\
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
certManagement: {{enable: false}}
metrics: {{bindAddress: "127.0.0.1:{context.metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{context.health}"}}
webhook: {{host: 127.0.0.1, port: {context.webhooks}}}
"""
    )
    return [f"--config={config}"]


TRAINER = Framework(
    program=programs.TRAINER,
    module="github.com/kubeflow/trainer/v2",
    account=("kubeflow-system", "kubeflow-trainer-controller-manager"),
    flags=flags,
    # The overlay of these also installs JobSet, from a URL.
    bases=("manifests/base/crds", "manifests/base/rbac", "manifests/base/webhook"),
)


async def test_the_nodes_of_a_trainjob_start_together(home: Cluster, open_framework: OpenFramework) -> None:
    scenario = await open_framework(JOBSET, TRAINER)
    await home.admin.apply(the_runtime())

    async def is_accepted() -> bool:
        await applied_example(scenario, "20-trainer")
        return True

    # Rejected until Trainer's cache has the runtime.
    await scenario.eventually("the TrainJob is accepted", is_accepted)
    await is_reserved_first(scenario, APP, {"node": 3})
    await ends(home, scenario, APP)


@pytest.mark.usefixtures("api")
async def test_the_pod_group_of_a_trainjob_is_a_gang_without_annotations(
    home: Cluster, open_framework: OpenFramework
) -> None:
    """Trainer creates a PodGroup of scheduler-plugins and labels the pods, as the runtime demands."""
    scenario = await open_framework(JOBSET, TRAINER, nodes=[FakeNode("node-0", cpu="2200m")])
    runtime = the_runtime()
    runtime["spec"]["podGroupPolicy"] = {"coscheduling": {"scheduleTimeoutSeconds": 100}}
    await home.admin.apply(runtime)
    [job] = documents(EXAMPLES / "20-trainer" / "trainjob.yaml")
    del job["spec"]["runtimePatches"]

    async def is_accepted() -> bool:
        await scenario.api.apply(job, scenario.namespace)
        return True

    await scenario.eventually("the TrainJob is accepted", is_accepted)
    assert await bound_of(scenario, 0, total=3) == []
    await scenario.cluster.add_nodes([FakeNode("node-1", cpu="1")])
    await ends(home, scenario, "mnist")


def the_runtime() -> Json:
    [runtime] = documents(module_folder(TRAINER) / "manifests/base/runtimes/torch_distributed.yaml")
    return runtime


async def ends(home: Cluster, scenario: Scenario, app: str) -> None:
    """Wait until the TrainJob is complete, and delete it and its runtime."""
    await finishes(scenario, app, pods=3)
    await completes(scenario)
    await scenario.api.delete("trainjobs.trainer.kubeflow.org", "mnist", scenario.namespace)
    await is_released(scenario, app)
    name = the_runtime()["metadata"]["name"]
    await home.admin.delete(RUNTIMES, name)  # while Trainer is there to remove its finalizer

    async def is_gone() -> bool:
        return not await home.admin.find(RUNTIMES)

    await scenario.eventually("the runtime is gone", is_gone)


async def completes(scenario: Scenario) -> None:
    async def has_completed() -> bool:
        job = await scenario.api.get("trainjobs.trainer.kubeflow.org", "mnist", scenario.namespace)
        conditions = {one["type"]: one["status"] for one in job.get("status", {}).get("conditions", [])}
        return conditions.get("Complete") == "True"

    await scenario.eventually("the TrainJob is complete", has_completed)
