"""dask-kubernetes: scheduler and workers start together, and nothing is left when the DaskCluster is deleted."""

from __future__ import annotations

from devcluster import programs
from devcluster.frameworks import Framework, Place
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import applied_example, delete_all, is_released, is_reserved_first


def flags(place: Place) -> list[str]:
    """Those of the package's chart."""
    liveness = f"--liveness=http://127.0.0.1:{place.health}/healthz"
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

    async def is_running() -> bool:
        found = await scenario.api.get("daskclusters.kubernetes.dask.org", "demo", scenario.namespace)
        return bool(found.get("status", {}).get("phase") == "Running")

    await scenario.eventually("the DaskCluster runs", is_running)
    await delete_all(scenario, manifests)
    await is_released(scenario, "dask-demo")
