"""JobSet: the pods of all its Jobs start together, and everything is gone when it has finished."""

from devcluster.api import Json
from devcluster.nodes import FakeNode
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.controllers import JOBSET
from tests.frameworks.gangs import (
    applied_example,
    bound_of,
    delete_all,
    finishes,
    is_released,
    is_reserved_first,
)


async def test_all_jobs_of_a_jobset_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(JOBSET)
    jobset = await applied_example(scenario, "19-jobset")
    await is_reserved_first(scenario, "jobset-train", {"launcher": 1, "worker": 2})
    await finishes(scenario, "jobset-train", pods=3)
    await delete_all(scenario, jobset)
    await is_released(scenario, "jobset-train")


async def test_a_jobset_with_gang_size_starts_when_the_pods_of_all_its_jobs_fit(open_framework: OpenFramework) -> None:
    """A driver and four workers on a node for four pods, as in JobSet's example of parallel Jobs."""
    scenario = await open_framework(JOBSET, nodes=[FakeNode("node-0", pods="4")])
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "paralleljobs"},
        "spec": {"replicatedJobs": [replicated("workers", 4), replicated("driver", 1)]},
    }
    await scenario.api.apply(jobset, scenario.namespace)
    assert await bound_of(scenario, 0, total=5) == []
    await scenario.cluster.add_nodes([FakeNode("node-1", pods="4")])
    await scenario.all_bound(5)
    await delete_all(scenario, [jobset])
    await is_released(scenario, "")


def replicated(name: str, count: int) -> Json:
    """A replicated Job with so many pods, of five in the gang."""
    container = {"name": "sleep", "image": "registry.k8s.io/pause:3.10.2"}
    pods = {
        "metadata": {"annotations": {"yunikorn.apache.org/gang-size": "5"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    job = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": pods}
    return {"name": name, "template": {"spec": job}}
