"""Where it happens: nodes, a namespace, the faulty proxy, Muster behind it, a kubelet for all processes, a witness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from devcluster import muster as muster_processes
from devcluster.api import Json
from devcluster.cluster import Cluster
from devcluster.controlplane import ControlPlane
from devcluster.errors import ApiError, ConditionNotMet, DevclusterError, ProcessFailed
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.waiting import until
from tests.e2e.faults.kubelet import Kubelet
from tests.e2e.faults.proxy import FaultyProxy
from tests.e2e.faults.schedule import Schedule
from tests.e2e.faults.witness import Witness
from tests.e2e.scene import Scene

CONFIG = {"service.completingTimeout": "1s", "service.placeholderImage": "registry.k8s.io/pause:3.10.2"}
READY_S = 60.0
GONE_S = 60.0


@dataclass(frozen=True, slots=True)
class Arena:
    """All of it, running."""

    scene: Scene
    plane: ControlPlane
    proxy: FaultyProxy
    kubelet: Kubelet
    witness: Witness

    async def recovered(self) -> None:
        """Wait until the API server and Muster say that they serve. Raises ProcessFailed with the logs' ends."""
        muster = self.scene.muster
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:

            async def all_serve() -> bool:
                await self.scene.api.request("GET", "/readyz")
                async with session.get(f"http://127.0.0.1:{muster.health_port}/readyz") as answer:
                    is_ready = answer.status == 200
                return is_ready and _is_in_session(await muster.dump())

            tolerate = (aiohttp.ClientError, TimeoutError, ApiError)
            try:
                await until("everything serves again", all_serve, READY_S, tolerate=tolerate)
            except ConditionNotMet as error:
                why = f"{error}; ended by itself: {self.kubelet.exits}"
                raise ProcessFailed("muster", why, muster.tails()) from error


def _is_in_session(dump: Json) -> bool:
    """Whether this core has an operator that is live; the operator may be ready still for a core that just died."""
    return any(told.get("phase") == "LIVE" for told in dump["rmDiagnostics"].values())


@asynccontextmanager
async def arena(home: Cluster, name: str, schedule: Schedule, nodes: list[FakeNode]) -> AsyncIterator[Arena]:
    """The arena for the length of the block, in a cluster in which Muster is installed and which has no other nodes."""
    assert home.plane is not None, "only our own control plane may be killed"
    async with AsyncExitStack() as stack:
        await home.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stack.push_async_callback(home.admin.delete, "namespaces", name)
        await _has_account(home, name)
        stack.push_async_callback(home.remove_nodes)
        await home.add_nodes(nodes)
        stack.push_async_callback(_emptied, home, name)
        proxy = await stack.enter_async_context(
            FaultyProxy(home.admin.access, home.plane.authority.issue(name, ["127.0.0.1"]), schedule)
        )
        muster = Muster(await _setup(home, name, proxy.url))
        stack.push_async_callback(muster.stop)
        witness = Witness(nodes)
        await stack.enter_async_context(witness.watching(home.plane.etcd_url))
        kubelet = Kubelet([home.plane.apiserver, muster.core, muster.operator])
        await stack.enter_async_context(kubelet.working())
        made = Arena(Scene(home, muster, name, None), home.plane, proxy, kubelet, witness)
        await made.recovered()
        yield made


async def _setup(home: Cluster, name: str, server: str) -> Setup:
    """Where Muster will run, with its ConfigMap written; its logs are only of what users can see."""
    namespace = muster_processes.NAMESPACE
    document: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "muster-configs"}, "data": CONFIG}
    await home.admin.delete("configmaps", "muster-configs", namespace)
    await home.admin.create(document, namespace)
    kubeconfig = await home.kubeconfig_for(muster_processes.ACCOUNT, namespace, server)
    folder = home.folder / name
    folder.mkdir()
    return Setup(kubeconfig, folder)


async def _has_account(home: Cluster, namespace: str) -> None:
    await until(
        "the default service account",
        lambda: home.admin.get("serviceaccounts", "default", namespace),
        GONE_S,
        tolerate=(ApiError,),
    )


async def _emptied(home: Cluster, namespace: str) -> None:
    """Take away what is left of the load, so that the next test finds an empty cluster."""

    async def is_empty() -> bool:
        await home.admin.delete_all("jobs", namespace)
        await home.admin.delete_all("pods", namespace)
        return not await home.admin.find("pods", namespace)

    tolerate = (ApiError, aiohttp.ClientError, TimeoutError, DevclusterError)
    await until("the load's pods are gone", is_empty, GONE_S, every_s=0.2, tolerate=tolerate)
