"""A scenario: a namespace on the shared cluster, its nodes, and a running Muster.

``eventually`` is the only way to wait. After its deadline it prints the state of cluster and core, and the logs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import aiohttp

from devcluster.api import Json
from devcluster.audit import Write
from devcluster.cluster import Cluster
from devcluster.errors import ApiError, ConditionNotMet, DevclusterError
from devcluster.muster import ACCOUNT, Muster
from devcluster.waiting import until
from tests.e2e.gate import Gate
from tests.e2e.manifests import a_pod, is_bound, is_placeholder

T = TypeVar("T")

DEADLINE_S = 90.0
"""Longer than each pause of the product that ends by itself: the longest ones, such as that of a sweep, are 60 s."""
OCCUPIES = ("test", "occupies")
"""The label of the pod that `Scenario.occupy` creates."""


class Scenario:
    """The environment of one scenario. ``gate`` exists only if the scenario requested it.

    ``completes_slowly``: its completing timeout is longer than a test should wait at its end.
    """

    def __init__(
        self, cluster: Cluster, muster: Muster, namespace: str, gate: Gate | None, *, completes_slowly: bool = False
    ) -> None:
        self.cluster = cluster
        self.api = cluster.admin
        self.muster = muster
        self.namespace = namespace
        self.deadline_s = DEADLINE_S
        self.completes_slowly = completes_slowly
        self._gate = gate
        self._mark = cluster.audit.mark() if cluster.plane else 0

    @property
    def gate(self) -> Gate:
        """The gate between operator and API server."""
        assert self._gate is not None, "open the scenario with gated=True"
        return self._gate

    @property
    def has_gate(self) -> bool:
        """Whether the operator connects through a gate."""
        return self._gate is not None

    async def create(self, manifests: Iterable[Json]) -> None:
        """Create the objects in this order, in the namespace of the scenario unless they name another one."""
        for manifest in manifests:
            await self.api.create(manifest, self.namespace)

    async def occupy(self, node: str, cpu: str) -> None:
        """Bind a pod of another scheduler to the node: a gang that fits on the empty node does not fit now."""
        pod = a_pod(f"occupies-{node}", cpu=cpu, scheduler="other", labels=dict([OCCUPIES]))
        pod["spec"]["nodeName"] = node
        await self.api.create(pod, self.namespace)

    async def pods(self, *, placeholders: bool = False) -> list[Json]:
        """The real pods, or the placeholders, of the scenario's namespace; not the pod that `occupy` created."""
        key, value = OCCUPIES
        found = await self.api.find("pods", self.namespace, labelSelector=f"{key}!={value}")
        return [pod for pod in found if is_placeholder(pod) == placeholders]

    async def bound(self, *, placeholders: bool = False) -> list[Json]:
        """Those of them that have a node and are not terminating."""
        found = await self.pods(placeholders=placeholders)
        return [pod for pod in found if is_bound(pod) and "deletionTimestamp" not in pod["metadata"]]

    async def events(self, reason: str = "") -> list[Json]:
        """Kubernetes events of the namespace, of one reason if given."""
        found = await self.api.find("events", self.namespace)
        return [event for event in found if reason in {"", event.get("reason")}]

    def writes(self, *, of_operator: bool = False) -> list[Write]:
        """The writes since the scenario was opened; ``of_operator``: only those of the operator's account."""
        user = f"system:serviceaccount:{self.muster.setup.namespace}:{ACCOUNT}"
        writes = self.cluster.audit.since(self._mark)
        return [write for write in writes if not of_operator or write.user == user]

    def created_placeholders(self) -> int:
        """How many placeholder pods the operator created. `final_checks` bounds how often a request is repeated."""
        return sum(write.what == "create pods" and write.succeeded for write in self.writes(of_operator=True))

    async def eventually(self, what: str, check: Callable[[], Awaitable[T]], deadline_s: float = 0) -> T:
        """Wait for a true result and return it, by default until ``deadline_s``. A failure shows the complete state."""
        try:
            return await until(what, check, deadline_s or self.deadline_s, tolerate=(ApiError, aiohttp.ClientError))
        except ConditionNotMet as error:
            raise AssertionError(f"{error}\n{await self.report()}") from None

    async def bindings(self, count: int) -> list[Write]:
        """Wait for at least this many successful bindings of the operator; returns all, in order of arrival.

        The API server logs a binding after others can read it.
        """

        async def are_logged() -> list[Write]:
            writes = self.writes(of_operator=True)
            found = [write for write in writes if write.subresource == "binding" and write.succeeded]
            return found if len(found) >= count else []

        found = await self.eventually(f"{count} bindings are in the audit log", are_logged)
        return sorted(found, key=lambda write: write.at)

    async def all_bound(self, count: int, deadline_s: float = 0) -> list[Json]:
        """Wait until exactly this many real pods are bound and no placeholder is left; returns the pods."""

        async def done() -> list[Json]:
            bound, placeholders = await asyncio.gather(self.bound(), self.pods(placeholders=True))
            return bound if len(bound) == count and not placeholders else []

        return await self.eventually(f"{count} real pods are bound and no placeholder is left", done, deadline_s)

    async def report(self) -> str:
        """Return pods, events, the core's state and the last log lines."""
        parts = [f"=== pods of {self.namespace} ==="]
        parts += [_pod_line(pod) for pod in await self.api.find("pods", self.namespace)]
        parts += ["=== events ===", *(_event_line(event) for event in await self.events())]
        parts += ["=== core ===", await self._dump_text(), self.muster.tails()]
        return "\n".join(parts)

    async def _dump_text(self) -> str:
        try:
            return str(await self.muster.dump())[:6000]
        except (aiohttp.ClientError, DevclusterError) as error:
            return f"(no dump: {error!r})"


def _pod_line(pod: Json) -> str:
    meta, node = pod["metadata"], pod["spec"].get("nodeName", "-")
    gates = [c.get("message", c.get("reason")) for c in pod["status"].get("conditions", []) if c["status"] == "False"]
    terminating = " (terminating)" if "deletionTimestamp" in meta else ""
    return f"{meta['name']:48} {pod['status'].get('phase', '?'):10} on {node}{terminating} {gates or ''}"


def _event_line(event: Json) -> str:
    about = event["involvedObject"].get("name", "?")
    return f"{event.get('type', '?'):8} {event.get('reason', '?'):20} {about:40} {event.get('message', '')}"
