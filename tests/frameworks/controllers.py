"""Frameworks that more than one test needs."""

from devcluster import programs
from devcluster.frameworks import ControllerContext, Framework


def _jobset_flags(context: ControllerContext) -> list[str]:
    """The configuration is that of the module, with our ports and certificate."""
    config = context.folder / "config.yaml"
    config.write_text(
        f"""\
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
metrics: {{bindAddress: "127.0.0.1:{context.metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{context.health}"}}
webhook: {{host: 127.0.0.1, port: {context.webhooks}}}
"""
    )
    return [f"--config={config}"]


JOBSET = Framework(
    program=programs.JOBSET,
    module="sigs.k8s.io/jobset",
    account=("jobset-system", "jobset-controller-manager"),
    flags=_jobset_flags,
    kustomization="config/default",
)
