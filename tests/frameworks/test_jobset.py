"""JobSet: the pods of all its Jobs start together, and everything is gone when it has finished."""

from __future__ import annotations

from devcluster import programs
from devcluster.frameworks import Framework, Place
from tests.frameworks.conftest import OpenFramework
from tests.frameworks.gangs import applied_example, finishes, is_reserved_first


def flags(place: Place) -> list[str]:
    """The configuration is that of the module, with our ports and certificate."""
    config = place.folder / "config.yaml"
    config.write_text(
        f"""\
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
metrics: {{bindAddress: "127.0.0.1:{place.metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{place.health}"}}
webhook: {{host: 127.0.0.1, port: {place.webhooks}}}
"""
    )
    return [f"--config={config}"]


JOBSET = Framework(
    program=programs.JOBSET,
    module="sigs.k8s.io/jobset",
    account=("jobset-system", "jobset-controller-manager"),
    flags=flags,
    kustomization="config/default",
)


async def test_all_jobs_of_a_jobset_start_together(open_framework: OpenFramework) -> None:
    scenario = await open_framework(JOBSET)
    await applied_example(scenario, "19-jobset")
    await is_reserved_first(scenario, "jobset-train", {"launcher": 1, "worker": 2})
    await finishes(scenario, "jobset-train", pods=3)
