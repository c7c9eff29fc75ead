"""Runs etcd, kube-apiserver and kube-controller-manager as processes, with their flags and start order.

Only kubelets are simulated (``kwok``); the API server, admission, RBAC, controllers and garbage collector are real.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from devcluster import certificates, kubeconfig, ports
from devcluster.api import Access, Api
from devcluster.connection import trusting
from devcluster.errors import ApiError
from devcluster.process import Process
from devcluster.waiting import until

POLICY = Path(__file__).with_name("audit_policy.yaml")
GANG_GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
"""Kubernetes' own gang scheduling (KEP-4671, off by default in 1.37): the PodGroup API and the scheduler plugin."""
GANG_API = "scheduling.k8s.io/v1beta1"
START_S = 60.0
"""Until a program is ready. An idle laptop takes three seconds, a machine that is compiling much longer."""

CONTROLLERS = (
    # Without these two a new node keeps its not-ready taint and accepts only pods that tolerate everything.
    "node-lifecycle-controller", "taint-eviction-controller",
    "garbage-collector-controller", "namespace-controller", "pod-garbage-collector-controller",
    "serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
    "resourcequota-controller", "disruption-controller", "ttl-after-finished-controller",
    "job-controller", "cronjob-controller", "deployment-controller", "replicaset-controller",
    "statefulset-controller", "daemonset-controller", "replicationcontroller-controller",
    "clusterrole-aggregation-controller",
    "persistentvolume-binder-controller", "ephemeral-volume-controller",
    "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller",
    # Removes the finalizer of PodGroups; without their API there are none.
    "podgroup-protection-controller",
    "resourceclaim-controller",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the servers, all on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api: int
    controllers: int

    @classmethod
    def pick(cls) -> Ports:
        """Select four free ports."""
        return cls(*ports.free(4))


class ControlPlane:
    """The three processes and their files, all under ``folder``.

    ``readable``: etcd stores objects as JSON, so that a test can read their history; slower than protobuf.
    ``gangs``: serves the API of Kubernetes' own gang scheduling. ``bare``: nodes need no kubelet and pods may name a
    priority, as in scheduler_perf; a node is ready if its creator writes so.
    """

    def __init__(
        self,
        folder: Path,
        programs: Mapping[str, Path],
        *,
        tethered: bool = True,
        readable: bool = False,
        gangs: bool = False,
        bare: bool = False,
    ) -> None:
        self.folder = folder
        self.ports = Ports.pick()
        self.server = f"https://127.0.0.1:{self.ports.api}"
        self.audit_log = folder / "audit.jsonl"
        self.authority = certificates.Authority(folder)
        self._programs = programs
        self._tethered = tethered
        self._readable = readable
        self._gates = [f"--feature-gates={GANG_GATES}"] if gangs else []
        self._bare = bare
        self._token = secrets.token_hex(16)
        self._write_token_file()
        self.admin_kubeconfig = kubeconfig.write(
            folder / "admin.kubeconfig", kubeconfig.document(self.server, str(self.authority.file), self._token)
        )
        keys = certificates.write_signing_key(folder)
        self.etcd = self._process("etcd", self._etcd_flags())
        self.apiserver = self._process("kube-apiserver", self._apiserver_flags(*keys))
        self.controllers = self._process("kube-controller-manager", self._controller_flags(keys[0]))

    @property
    def access(self) -> Access:
        """The administrator's access."""
        return Access(self.server, trusting(self.authority.file), self._token)

    @property
    def etcd_url(self) -> str:
        """URL of etcd, which needs no credentials."""
        return f"http://127.0.0.1:{self.ports.etcd}"

    async def start(self) -> None:
        """Start all three processes and wait until the API server is ready. Raises ProcessFailed or ConditionNotMet."""
        self.etcd.start()
        await self._etcd_answers()
        await self.start_apiserver()
        self.controllers.start()

    async def start_apiserver(self) -> None:
        """Start or restart the API server and wait until it is ready."""
        self.apiserver.start()
        async with Api(self.access) as api:

            async def is_ready() -> bool:
                self.apiserver.check()
                return bool((await api.request("GET", "/readyz"))["text"] == "ok")

            await until("the API server is ready", is_ready, START_S, tolerate=(aiohttp.ClientError, ApiError))

    async def stop(self) -> None:
        """Stop all, clients before servers. Processes are killed after one second, because the data is discarded."""
        for process in (self.controllers, self.apiserver, self.etcd):
            await process.stop(grace_s=1.0)

    def processes(self) -> list[Process]:
        """The three processes."""
        return [self.etcd, self.apiserver, self.controllers]

    def _process(self, name: str, flags: list[str]) -> Process:
        argv = [str(self._programs[name]), *flags]
        return Process(name, argv, self.folder / "logs" / f"{name}.log", tethered=self._tethered)

    def _write_token_file(self) -> None:
        file = self.folder / "tokens.csv"
        file.touch(mode=0o600)
        file.write_text(f'{self._token},devcluster-admin,devcluster-admin,"system:masters"\n')

    async def _etcd_answers(self) -> None:
        async with aiohttp.ClientSession() as session:

            async def is_healthy() -> bool:
                self.etcd.check()
                async with session.get(f"{self.etcd_url}/health") as answer:
                    return answer.status == 200

            await until("etcd is healthy", is_healthy, START_S, tolerate=(aiohttp.ClientError,))

    def _etcd_flags(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.ports.etcd, self.ports.etcd_peer))
        return [
            "--name=devcluster",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=devcluster={peer}",
            "--unsafe-no-fsync",  # the data is discarded at the end
            "--log-level=warn",
        ]

    def _apiserver_flags(self, signing_key: Path, public_key: Path) -> list[str]:
        certificate = self.authority.issue("apiserver", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
        return [
            f"--etcd-servers={self.etcd_url}",
            *(["--storage-media-type=application/json"] if self._readable else []),
            *([*self._gates, f"--runtime-config={GANG_API}=true"] if self._gates else []),
            *(["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority"] if self._bare else []),
            f"--secure-port={self.ports.api}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={certificate.certificate}",
            f"--tls-private-key-file={certificate.key}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={signing_key}",
            f"--service-account-key-file={public_key}",
            "--service-account-max-token-expiration=720h",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged",
            "--endpoint-reconciler-type=none",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=1500",
            f"--audit-policy-file={POLICY}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=100000",  # never rotated, because tests read from an offset
            "--audit-log-mode=blocking",  # an answered request is in the file
            "--delete-collection-workers=8",  # a single worker would not delete thousands of pods within a request
            "--shutdown-delay-duration=0s",
        ]

    def _controller_flags(self, signing_key: Path) -> list[str]:
        return [
            *self._gates,
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--authentication-kubeconfig={self.admin_kubeconfig}",
            f"--authorization-kubeconfig={self.admin_kubeconfig}",
            f"--service-account-private-key-file={signing_key}",
            f"--root-ca-file={self.authority.file}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports.controllers}",
            f"--cert-dir={self.folder / 'controllers'}",
            f"--controllers={','.join(CONTROLLERS)}",
            # With the defaults (20 requests per second), deleting a thousand pods takes minutes.
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
            "--concurrent-gc-syncs=50",
            "--concurrent-namespace-syncs=20",
            "--concurrent-job-syncs=20",
            "--node-monitor-period=1s",
            *(["--node-monitor-grace-period=1h"] if self._bare else []),
        ]
