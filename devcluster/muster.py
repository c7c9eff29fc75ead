"""Runs core and operator as processes against a cluster, connected by a unix socket as in the Pod."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from devcluster import ports
from devcluster.api import Api, Json
from devcluster.cluster import Cluster, documents
from devcluster.errors import ApiError, ConditionNotMet, ProcessFailed
from devcluster.process import Process
from devcluster.resources import BY_KIND
from devcluster.waiting import until

ACCOUNT = "muster-operator"
"""The service account of the operator. deploy/rbac.yaml has its role."""

NAMESPACE = "muster"
"""The namespace of its configuration and service account."""

LEASE = "muster"
"""The Lease of the leader election."""

MANIFESTS = Path(__file__).parents[1] / "deploy" / "rbac.yaml"
"""The product's manifest: namespace, service account and minimal role."""

OPERATOR_POLICY = MANIFESTS.with_name("operator-policy.yaml")
"""The product's admission policy, which limits what that account may do with pods and Secrets."""

DEFAULT_IMAGE = "registry.k8s.io/pause:3.7"
"""The image of placeholders without a setting."""

READY_S = 90.0
DELETED_S = 90.0
"""Until a terminating namespace is removed; its controller deletes the content first."""
DUMP_PATH = "/debug/fullstatedump?invariants=1"

CONFIGURATION = "muster-configs"
"""The ConfigMap with Muster's settings."""

DEFAULTS = "muster-defaults"
"""The ConfigMap that the chart writes. Entries of CONFIGURATION take precedence."""

POLICY = "muster-operator"
"""The name of the admission policy."""

LIBRARIES_DEBUG = re.compile(r'"level": "debug", "logger": "(?!muster)')


@dataclass(frozen=True, slots=True)
class Setup:
    """Kubeconfig (not the administrator's) and namespace of Muster, and a folder for its socket and logs."""

    kubeconfig: Path
    folder: Path
    namespace: str = NAMESPACE
    log_level: str = "info"
    tethered: bool = True
    embedded: bool = False
    """Operator and core in one process with the in-process transport (``muster run``)."""
    env: Mapping[str, str] = field(default_factory=dict)
    preloaded: bool = False
    """Started by fork servers, which have imported the programs: for runs that start Muster hundreds of times."""
    identity: str = "muster-0"
    """Identity of the operator in the Lease. A restarted operator with the same identity takes it immediately."""


@asynccontextmanager
async def configured(
    cluster: Cluster, entries: Mapping[str, str], name: str = CONFIGURATION, *, keep: bool = False
) -> AsyncIterator[None]:
    """Write Muster's settings, and what its admission policy must permit with them, as the chart does.

    ``installed`` comes first. Afterwards deletes the settings, unless ``keep``. The policy stays as it is.
    """
    await cluster.admin.delete("configmaps", name, NAMESPACE)
    await cluster.admin.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(entries)}, NAMESPACE
    )
    try:
        await _permit(
            cluster,
            entries.get("service.placeholderImage", DEFAULT_IMAGE),
            entries.get("service.schedulerNames", "muster,yunikorn").split(","),
        )
        yield
    finally:
        if not keep:
            await cluster.admin.delete("configmaps", name, NAMESPACE)


async def _permit(cluster: Cluster, image: str, schedulers: list[str]) -> None:
    """Make the policy permit placeholders of this image and these schedulers, and wait until it does."""
    policies = "validatingadmissionpolicies"
    variables = (await cluster.admin.get(policies, POLICY))["spec"]["variables"]
    literals = {"image": json.dumps(image), "schedulers": json.dumps(schedulers)}
    changed = [entry | {"expression": literals.get(entry["name"], entry["expression"])} for entry in variables]
    if changed == variables:
        return
    await cluster.admin.patch(policies, POLICY, {"spec": {"variables": changed}})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "none", "uid": "1"}
    rejected: Json = {
        "metadata": {
            "name": "rejected",
            "annotations": {"internal.yunikorn.apache.org/placeholder": "true"},
            "ownerReferences": [owner],
        },
        "spec": {"schedulerName": schedulers[0], "containers": [{"name": "pause", "image": f"not-{image}"}]},
    }
    async with Api(cluster.admin.access, user=f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}") as operator:

        async def is_in_force() -> bool:
            try:
                await operator.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", rejected, {"dryRun": "All"})
            except ApiError as error:
                return f'with the image "{image}"' in error.message
            return False

        await until("the policy permits the image and the scheduler names", is_in_force, READY_S, every_s=0.1)


@asynccontextmanager
async def installed(cluster: Cluster, *, keep: bool = False) -> AsyncIterator[None]:
    """Create the product's namespace, account, role and policy in the cluster.

    An existing policy stays as it is: ``configured`` changes what it permits, and the API server may apply each of two
    changes some time later. Afterwards deletes the objects that it created, unless ``keep``. Raises ConditionNotMet if
    a terminating namespace of an earlier run is not removed in time.
    """
    created: list[Json] = []
    await until("the old namespace is deleted", lambda: _is_not_terminating(cluster), DELETED_S)
    try:
        for manifest in [*documents(MANIFESTS), *documents(OPERATOR_POLICY)]:
            try:
                created.append(await cluster.admin.create(manifest))
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                if manifest["metadata"]["name"] != POLICY or manifest["kind"] != "ValidatingAdmissionPolicy":
                    await cluster.admin.apply(manifest)
        yield
    finally:
        for thing in reversed(created if not keep else []):
            meta = thing["metadata"]
            await cluster.admin.delete(BY_KIND[thing["kind"]].plural, meta["name"], meta.get("namespace"))


async def _is_not_terminating(cluster: Cluster) -> bool:
    """Whether objects can be created in the namespace: it does not exist, or is not terminating."""
    try:
        found = await cluster.admin.get("namespaces", NAMESPACE)
    except ApiError as error:
        if error.status == 404:
            return True
        raise
    return "deletionTimestamp" not in found["metadata"]


class Muster:
    """The two processes. ``core`` and ``operator`` can be stopped, killed and started separately.

    If ``setup.embedded``, both attributes are the same process.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.rest_port, self.health_port = ports.free(2)
        self.socket = f"unix://{setup.folder / 'core.sock'}"
        level = f"--log-level={setup.log_level}"
        rest = (f"--rest-port={self.rest_port}", "--rest-trust-loopback")
        flags = (*rest, f"--health-port={self.health_port}")
        if setup.embedded:
            self.core = self.operator = self._process("muster", "muster", "run", *flags, level)
            return
        self.core = self._process("core", "muster_core", f"--listen={self.socket}", *rest, level)
        self.operator = self._process(
            "operator", "muster_operator", f"--core={self.socket}", f"--health-port={self.health_port}", level
        )

    @property
    def rest_url(self) -> str:
        """URL of the core's REST API."""
        return f"http://127.0.0.1:{self.rest_port}"

    async def start(self) -> None:
        """Start both processes unless they run, and wait until the operator is ready."""
        for process in self._processes():
            if not process.is_running():
                process.start()
        await self.ready()

    async def ready(self, deadline_s: float = READY_S) -> None:
        """Wait until the operator is ready. Raises ProcessFailed if a process ends, or after ``deadline_s``."""
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
        """Return the text of the operator's readiness endpoint."""
        url = f"http://127.0.0.1:{self.health_port}/readyz"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return (await answer.text()).strip()

    async def samples(self, metric: str) -> dict[str, float]:
        """Return the samples of one of the operator's metrics, by the text of their labels."""
        url = f"http://127.0.0.1:{self.health_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            lines = [line.rpartition(" ") for line in (await answer.text()).splitlines()]
        return {name.removeprefix(metric): float(value) for name, _, value in lines if name.partition("{")[0] == metric}

    async def stop(self) -> None:
        """Stop both processes with SIGTERM, the operator first, because it still sends to the core."""
        for process in self._processes():
            await process.stop()

    async def dump(self) -> Json:
        """Return the core's state dump."""
        async with aiohttp.ClientSession() as session, session.get(self.rest_url + DUMP_PATH) as answer:
            answer.raise_for_status()
            state: Json = await answer.json()
            return state

    def tails(self, lines: int = 40) -> str:
        """Return the ends of both logs, for error messages."""
        return "\n".join(
            f"--- {p.name} ---\n{_without_library_debug_lines(p.tail(500), lines)}" for p in self._processes()
        )

    def _processes(self) -> list[Process]:
        """The processes in stop order: the operator first. They start in any order."""
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
        log = setup.folder / "logs" / f"{name}.log"
        if setup.preloaded and not setup.embedded:
            return Process(name, flags, log, env=env, module=module)
        return Process(name, [sys.executable, "-m", module, *flags], log, env=env, tethered=setup.tethered)


def _without_library_debug_lines(log: str, lines: int) -> str:
    """The last lines without debug lines of libraries, which are most of the log at debug level."""
    return "\n".join([line for line in log.splitlines() if not LIBRARIES_DEBUG.search(line)][-lines:])
