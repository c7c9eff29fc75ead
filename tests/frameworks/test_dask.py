"""dask-kubernetes: scheduler and workers start together, and nothing is left when the DaskCluster is deleted."""

from devcluster import programs
from devcluster.frameworks import ControllerContext, Framework
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import applied_example, delete_all, is_released, is_reserved_first


def flags(context: ControllerContext) -> list[str]:
    """Those of the package's chart."""
    liveness = f"--liveness=http://127.0.0.1:{context.health}/healthz"
    return ["run", "-m", "dask_kubernetes.operator.controller", liveness, "--all-namespaces"]


DASK = Framework(
    program=programs.DASK,
    module="",
    account=("dask-operator", "dask-kubernetes-operator"),
    flags=flags,
    chart="dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator",
    ready="/healthz",
)


async def test_scheduler_and_workers_of_a_dask_cluster_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(DASK)
    manifests = await applied_example(scenario, "09-dask")
    await is_reserved_first(scenario, "dask-demo", {"dask": 3})

    async def are_available() -> bool:
        found = await scenario.api.find("deployments", scenario.namespace, labelSelector="dask.org/cluster-name=demo")
        return [one["status"].get("availableReplicas") for one in found] == [1, 1, 1]

    # Not `status.phase`: two handlers of dask-kubernetes write Pending and Running in no fixed order.
    await scenario.eventually("scheduler and workers are available", are_available)
    await delete_all(scenario, manifests)
    await is_released(scenario, "dask-demo")
