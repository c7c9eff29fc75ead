"""MPI operator: resources are reserved for the launcher, which the operator creates when the workers are ready."""

from devcluster import programs
from devcluster.frameworks import Framework
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import applied_example, ends, is_released, is_reserved_first

MPI = Framework(
    program=programs.MPI_OPERATOR,
    module="github.com/kubeflow/mpi-operator",
    account=("mpi-operator", "mpi-operator"),
    flags=lambda place: ["-alsologtostderr"],  # as in its Deployment; it reads KUBECONFIG
    kustomization="manifests/overlays/standalone",
    ready="/healthz",
    health=8080,
)
APP = "mpi-pi"


async def test_the_launcher_uses_the_resources_reserved_before_the_workers_started(
    open_framework: OpenFramework,
) -> None:
    scenario = await open_framework(MPI)
    await applied_example(scenario, "10-mpi", "mpijob.yaml")
    await is_reserved_first(scenario, APP, {"launcher": 1, "worker": 2})
    await ends(scenario, APP, "launcher")  # mpirun ends by itself, a worker's sshd does not

    async def has_succeeded() -> bool:
        job = await scenario.api.get("mpijobs.kubeflow.org", "pi", scenario.namespace)
        conditions = {one["type"]: one["status"] for one in job["status"]["conditions"]}
        return conditions.get("Succeeded") == "True"

    await scenario.eventually("the MPIJob has succeeded", has_succeeded)
    await scenario.api.delete("mpijobs.kubeflow.org", "pi", scenario.namespace)
    await is_released(scenario, APP)
