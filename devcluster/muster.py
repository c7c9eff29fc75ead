"""Core and operator as real processes against a cluster, the way the Pod runs them: a unix socket between them."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from devcluster import ports
from devcluster.api import Json
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError, ConditionNotMet, ProcessFailed
from devcluster.process import Process
from devcluster.resources import BY_KIND
from devcluster.waiting import until

ACCOUNT = "muster-operator"
"""The service account the operator runs as; its role is the product's own manifest."""

NAMESPACE = "muster"
"""Where its configuration lives and its service account is."""

LEASE = "muster"
"""The Lease there that says which of several operators leads."""

MANIFESTS = Path(__file__).parents[1] / "deploy" / "rbac.yaml"
"""The product's own: namespace, service account and the smallest role that does."""

OPERATOR_POLICY = MANIFESTS.with_name("operator-policy.yaml")
"""The product's own: what that account may do with pods and Secrets."""

READY_S = 60.0
GONE_S = 60.0
"""Seconds that a namespace that was deleted may take: its controller empties it first."""
DUMP_PATH = "/debug/fullstatedump"

CONFIGURATION = "muster-configs"
"""The ConfigMap of its settings."""

POLICY_PARAMETERS = "muster-operator-policy"
"""The ConfigMap that tells the policy the settings it depends on."""

LIBRARIES_DEBUG = re.compile(r'"level": "debug", "logger": "(?!muster)')


@dataclass(frozen=True, slots=True)
class Setup:
    """Where Muster runs: its kubeconfig (not the administrator's), its namespace, and a folder for socket and logs."""

    kubeconfig: Path
    folder: Path
    namespace: str = NAMESPACE
    log_level: str = "info"
    tethered: bool = True
    embedded: bool = False
    """Both halves in one process with the in-process transport between them (``muster run --embedded``)."""
    env: Mapping[str, str] = field(default_factory=dict)
    identity: str = "muster-0"
    """Who the operator is in the Lease. One name is one place, as in a pod: it takes over from itself at once."""


async def configure(cluster: Cluster, entries: Mapping[str, str]) -> None:
    """Write Muster's settings, and those that the policy of its account depends on, as the chart does."""
    permitted = {
        "placeholderImage": entries.get("service.placeholderImage", "registry.k8s.io/pause:3.7"),
        "schedulerNames": entries.get("service.schedulerNames", "muster,yunikorn"),
        "allowInjectedContainers": "false",
    }
    for name, data in ((CONFIGURATION, dict(entries)), (POLICY_PARAMETERS, permitted)):
        await cluster.admin.delete("configmaps", name, NAMESPACE)
        await cluster.admin.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}, NAMESPACE
        )


@asynccontextmanager
async def installed(cluster: Cluster, *, keep: bool = False) -> AsyncIterator[None]:
    """Have the product's namespace, account and role in the cluster.

    Afterwards what was not there before is taken away, unless it is to be kept. Raises ConditionNotMet if a namespace
    that is on its way out does not go.
    """
    made: list[Json] = []
    await until("the old namespace is gone", lambda: _is_not_going(cluster), GONE_S)
    try:
        for manifest in [*documents(MANIFESTS), *documents(OPERATOR_POLICY)]:
            try:
                made.append(await cluster.admin.create(manifest))
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                await cluster.admin.apply(manifest)
        yield
    finally:
        for thing in reversed(made if not keep else []):
            meta = thing["metadata"]
            await cluster.admin.delete(BY_KIND[thing["kind"]].plural, meta["name"], meta.get("namespace"))


async def _is_not_going(cluster: Cluster) -> bool:
    """Whether things can be made in our namespace: it is not there, or is there to stay."""
    try:
        found = await cluster.admin.get("namespaces", NAMESPACE)
    except ApiError as error:
        if error.status == 404:
            return True
        raise
    return "deletionTimestamp" not in found["metadata"]


class Muster:
    """The two processes. ``core`` and ``operator`` can be stopped, killed and started each on its own.

    Embedded they are one process, under both names.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.rest_port, self.health_port = ports.free(2)
        self.socket = f"unix://{setup.folder / 'core.sock'}"
        level = f"--log-level={setup.log_level}"
        rest = (f"--rest-port={self.rest_port}", "--rest-trust-loopback")
        flags = (*rest, f"--health-port={self.health_port}")
        if setup.embedded:
            self.core = self.operator = self._process("muster", "muster", "run", "--embedded", *flags, level)
            return
        self.core = self._process("core", "muster_core", f"--listen={self.socket}", *rest, level)
        self.operator = self._process(
            "operator", "muster_operator", f"--core={self.socket}", f"--health-port={self.health_port}", level
        )

    @property
    def rest_url(self) -> str:
        """Where the core's REST is, from this machine."""
        return f"http://127.0.0.1:{self.rest_port}"

    async def start(self) -> None:
        """Start both (what runs already stays) and return when the operator is ready."""
        for process in self._processes():
            if not process.is_running():
                process.start()
        await self.ready()

    async def ready(self, deadline_s: float = READY_S) -> None:
        """Wait until the operator says that it serves. Raises ProcessFailed if either dies, ConditionNotMet if late."""
        async with aiohttp.ClientSession() as session:

            async def is_ready() -> bool:
                self.core.check()
                self.operator.check()
                async with session.get(f"http://127.0.0.1:{self.health_port}/readyz") as answer:
                    return answer.status == 200

            try:
                await until("Muster is ready", is_ready, deadline_s, tolerate=(aiohttp.ClientError,))
            except ConditionNotMet as error:
                raise ProcessFailed("operator", str(error), self.tails()) from error

    async def role(self) -> str:
        """What the operator says of itself to the kubelet's readiness probe."""
        url = f"http://127.0.0.1:{self.health_port}/readyz"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return (await answer.text()).strip()

    async def samples(self, metric: str) -> dict[str, float]:
        """What the operator has counted so far of a metric, by its labels as they are written."""
        url = f"http://127.0.0.1:{self.health_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            lines = [line.rpartition(" ") for line in (await answer.text()).splitlines()]
        return {name.removeprefix(metric): float(value) for name, _, value in lines if name.partition("{")[0] == metric}

    async def stop(self) -> None:
        """SIGTERM to both, the operator first, for it drains into the core."""
        for process in self._processes():
            await process.stop()

    async def dump(self) -> Json:
        """The core's ledgers, from its debug endpoint."""
        async with aiohttp.ClientSession() as session, session.get(self.rest_url + DUMP_PATH) as answer:
            answer.raise_for_status()
            state: Json = await answer.json()
            return state

    def tails(self, lines: int = 40) -> str:
        """The ends of both logs, for a failure's report."""
        return "\n".join(f"--- {p.name} ---\n{_own_words(p.tail(500), lines)}" for p in self._processes())

    def _processes(self) -> list[Process]:
        """In the order in which they stop: the operator first. Any order will do to start."""
        return [self.operator] if self.setup.embedded else [self.operator, self.core]

    def _process(self, name: str, module: str, *flags: str) -> Process:
        setup = self.setup
        env = {
            "KUBECONFIG": str(setup.kubeconfig),
            "NAMESPACE": setup.namespace,
            "MUSTER_IDENTITY": setup.identity,
            "PYTHONUNBUFFERED": "1",
            **setup.env,
        }
        argv = [sys.executable, "-m", module, *flags]
        return Process(name, argv, setup.folder / "logs" / f"{name}.log", env=env, tethered=setup.tethered)


def _own_words(log: str, lines: int) -> str:
    """The last lines without the libraries' chatter, which at debug level is most of the log."""
    return "\n".join([line for line in log.splitlines() if not LIBRARIES_DEBUG.search(line)][-lines:])
