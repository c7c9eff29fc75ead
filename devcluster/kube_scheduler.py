"""kube-scheduler as one more process beside a cluster: a peer to measure against, or pods' default scheduler.

It has a service account of its own with the roles that every cluster has for it, so the API server treats it as it
treats any other scheduler, and the audit log knows it by name.
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
"""Kubernetes makes both at its start (RBAC, default roles)."""

READY_S = 60.0


class KubeScheduler:
    """Serves pods of ``default-scheduler``.

    ``gangs``: with its alpha gang mode (PodGroup objects, ``spec.schedulingGroup``), which the cluster has to be
    started for (``running(gangs=True)``).
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
        """Start it and return when it has seen the cluster. Raises ProcessFailed or ConditionNotMet."""
        self.process.start()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:

            async def is_ready() -> bool:
                self.process.check()
                async with session.get(f"https://127.0.0.1:{self._port}/readyz") as answer:
                    return answer.status == 200

            await until("kube-scheduler is ready", is_ready, READY_S, tolerate=(aiohttp.ClientError,))

    async def stop(self) -> None:
        """SIGTERM; it has nothing to put in order."""
        await self.process.stop(grace_s=2.0)


async def account(cluster: Cluster) -> Path:
    """Make its service account and its rights, and return its kubeconfig."""
    for manifest in manifests():
        try:
            await cluster.admin.create(manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
    return await cluster.kubeconfig_for(ACCOUNT, NAMESPACE)


def manifests() -> list[Json]:
    """The account, and its bindings."""
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
    """Its defaults, but for limits that it would otherwise only wait at, and for an election with nobody else."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # The flags --kube-api-qps and --kube-api-burst count only without such a file.
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000},
        "leaderElection": {"leaderElect": False},
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
