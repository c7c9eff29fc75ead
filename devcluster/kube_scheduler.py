"""Runs kube-scheduler as a process, to compare benchmarks with it or as the default scheduler of a test.

It has its own service account with Kubernetes' default roles. The API server treats it like any other scheduler, and
the audit log shows its name.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp
import yaml

from devcluster import binaries, ports, programs
from devcluster.api import Json
from devcluster.cluster import Cluster
from devcluster.controlplane import GANG_GATES
from devcluster.errors import ApiError
from devcluster.process import Process
from devcluster.waiting import until

ACCOUNT, NAMESPACE = "kube-scheduler", "kube-system"
ROLES = ("system:kube-scheduler", "system:volume-scheduler")
"""Kubernetes creates both at startup (RBAC default roles)."""

READY_S = 60.0


class KubeScheduler:
    """A kube-scheduler that schedules pods of ``default-scheduler``.

    ``gangs`` enables its gang mode (PodGroup objects, ``spec.schedulingGroup``). The cluster must serve the API
    (``running(gangs=True)``).
    """

    def __init__(self, cluster: Cluster, kubeconfig: Path, *, gangs: bool = False) -> None:
        program = binaries.ensure([programs.SCHEDULER])[programs.SCHEDULER.name]
        self._port = ports.free(1)[0]
        config = configuration(cluster.folder / "kube-scheduler.yaml", kubeconfig)
        argv = [
            str(program),
            f"--config={config}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={cluster.folder / 'kube-scheduler'}",
            *([f"--feature-gates={GANG_GATES}"] if gangs else []),
        ]
        self.process = Process("kube-scheduler", argv, cluster.folder / "logs" / "kube-scheduler.log")

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises ProcessFailed or ConditionNotMet."""
        self.process.start()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:

            async def is_ready() -> bool:
                self.process.check()
                async with session.get(f"https://127.0.0.1:{self._port}/readyz") as answer:
                    return answer.status == 200

            await until("kube-scheduler is ready", is_ready, READY_S, tolerate=(aiohttp.ClientError,))

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after two seconds."""
        await self.process.stop(grace_s=2.0)


async def account(cluster: Cluster) -> Path:
    """Create its service account and role bindings, and return its kubeconfig."""
    for manifest in manifests():
        try:
            await cluster.admin.create(manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    return await cluster.kubeconfig_for(ACCOUNT, NAMESPACE)


def manifests() -> list[Json]:
    """The service account and its role bindings."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    return [account, *(_binding(role, subject) for role in ROLES)]


def _binding(role: str, subject: Json) -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"muster-devcluster:{role.rpartition(':')[2]}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def configuration(path: Path, kubeconfig: Path) -> Path:
    """Write a configuration with its defaults, except for a higher client rate limit and no leader election."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # With a configuration file, kube-scheduler ignores the flags --kube-api-qps and --kube-api-burst.
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000},
        "leaderElection": {"leaderElect": False},
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
