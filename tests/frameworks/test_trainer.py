"""Kubeflow Trainer: the nodes of a TrainJob start together, with the runtime that Kubeflow installs."""

from devcluster import programs
from devcluster.cluster import Cluster
from devcluster.frameworks import ControllerContext, Framework, module_folder
from tests.e2e.scenario import Scenario
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.controllers import JOBSET
from tests.frameworks.gangs import applied_example, finishes, is_released, is_reserved_first

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
    [runtime] = await home.apply_file(module_folder(TRAINER) / "manifests/base/runtimes/torch_distributed.yaml")

    async def is_accepted() -> bool:
        await applied_example(scenario, "20-trainer")
        return True

    # Rejected until Trainer's cache has the runtime.
    await scenario.eventually("the TrainJob is accepted", is_accepted)
    await is_reserved_first(scenario, APP, {"node": 3})
    await finishes(scenario, APP, pods=3)
    await completes(scenario)
    await scenario.api.delete("trainjobs.trainer.kubeflow.org", "mnist", scenario.namespace)
    await is_released(scenario, APP)
    await home.admin.delete(RUNTIMES, runtime["metadata"]["name"])  # while Trainer is there to remove its finalizer

    async def is_gone() -> bool:
        return not await home.admin.find(RUNTIMES)

    await scenario.eventually("the runtime is gone", is_gone)


async def completes(scenario: Scenario) -> None:
    async def has_completed() -> bool:
        job = await scenario.api.get("trainjobs.trainer.kubeflow.org", "mnist", scenario.namespace)
        conditions = {one["type"]: one["status"] for one in job.get("status", {}).get("conditions", [])}
        return conditions.get("Complete") == "True"

    await scenario.eventually("the TrainJob is complete", has_completed)
