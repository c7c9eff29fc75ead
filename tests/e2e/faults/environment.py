"""The environment: nodes, a namespace, the faulty proxy, Muster behind it, a kubelet for all processes, an observer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from devcluster import muster as muster_processes
from devcluster.api import Json
from devcluster.cluster import Cluster
from devcluster.controlplane import ControlPlane
from devcluster.errors import ApiError, ConditionNotMet, ProcessFailed
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.process import Process
from devcluster.waiting import until
from tests.e2e.faults.killer import Victim
from tests.e2e.faults.kubelet import Kubelet
from tests.e2e.faults.plan import Plan
from tests.e2e.faults.pod_versions import PodObserver
from tests.e2e.faults.proxy import FaultyProxy
from tests.e2e.faults.schedule import Schedule
from tests.e2e.scenario import Scenario

CONFIG = {"service.completingTimeout": "1s", "service.placeholderImage": "registry.k8s.io/pause:3.10.2"}
ENV = {"MUSTER_LEASE_DURATION": "3", "MUSTER_COMPARE_EVERY": "0.3"}
NOT_NOW = (ApiError, aiohttp.ClientError, TimeoutError)
READY_S = 90.0
GONE_S = 60.0


@dataclass(frozen=True, slots=True)
class FaultEnvironment:
    """All of it, running."""

    scenario: Scenario
    musters: list[Muster]
    plane: ControlPlane
    proxy: FaultyProxy
    kubelet: Kubelet
    witness: PodObserver

    async def leader(self) -> Muster | None:
        """The one of several that leads and is in session; None = nobody is, just now."""
        for muster in self.musters:
            with suppress(*NOT_NOW):
                if await muster.role() == "ok" and _is_in_session(await muster.dump()):
                    return muster
        return None

    async def process(self, victim: Victim) -> Process:
        """Who that is: with several operators the one that leads, or its core."""
        if victim is Victim.APISERVER:
            return self.plane.apiserver
        muster = await self.leader() or self.musters[0]
        return muster.core if victim is Victim.CORE else muster.operator

    async def recovered(self) -> None:
        """Wait until the API server and Muster say that they serve. Raises ProcessFailed with the logs' ends."""

        async def serves() -> bool:
            await self.scenario.api.request("GET", "/readyz")
            return await self.leader() is not None

        try:
            await until("everything serves again", serves, READY_S, tolerate=NOT_NOW)
        except ConditionNotMet as error:
            tails = "\n".join(muster.tails() for muster in self.musters)
            raise ProcessFailed("muster", f"{error}; ended by itself: {self.kubelet.exits}", tails) from error


def _is_in_session(dump: Json) -> bool:
    """Whether this core has an operator that is live; the operator may be ready still for a core that just died."""
    return any(told.get("phase") == "LIVE" for told in dump["rmDiagnostics"].values())


@asynccontextmanager
async def fault_environment(home: Cluster, plan: Plan) -> AsyncIterator[FaultEnvironment]:
    """Open the environment in a cluster in which Muster is installed and which has no other nodes.

    Each operator has a core of its own, as in a pod.
    """
    name, nodes = plan.name, [FakeNode(f"node-{number}", cpu=str(plan.node_cpu)) for number in range(plan.nodes)]
    plane = home.plane
    assert plane is not None, "only our own control plane may be killed"
    async with AsyncExitStack() as stack:
        await home.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stack.push_async_callback(home.admin.delete, "namespaces", name)
        await _has_account(home, name)
        stack.push_async_callback(home.remove_nodes)
        await home.add_nodes(nodes)
        stack.push_async_callback(_emptied, home, name)
        files = plane.authority.issue(name, ["127.0.0.1"])
        proxy = await stack.enter_async_context(FaultyProxy(home.admin.access, files, Schedule(plan.seed), plan.page))
        musters = [Muster(setup) for setup in await _setups(home, name, proxy.url, plan.operators)]
        for muster in musters:
            stack.push_async_callback(muster.stop)
        witness = PodObserver(nodes)
        await stack.enter_async_context(witness.watching(plane.etcd_url))
        processes = [process for muster in musters for process in (muster.core, muster.operator)]
        kubelet = Kubelet([plane.apiserver, *processes])
        await stack.enter_async_context(kubelet.working())
        scenario = Scenario(home, musters[0], name, None)
        made = FaultEnvironment(scenario, musters, plane, proxy, kubelet, witness)
        await made.recovered()
        yield made


async def _setups(home: Cluster, name: str, server: str, operators: int) -> list[Setup]:
    """Where they will run, with their ConfigMap written; their logs are only of what users can see."""
    namespace = muster_processes.NAMESPACE
    await muster_processes.configure(home, CONFIG)
    kubeconfig = await home.kubeconfig_for(muster_processes.ACCOUNT, namespace, server)
    setups = []
    for number in range(operators):
        folder = home.folder / name / f"muster-{number}"
        folder.mkdir(parents=True)
        setups.append(Setup(kubeconfig, folder, identity=f"muster-{number}", env=ENV))
    return setups


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

    await until("the load's pods are gone", is_empty, GONE_S, every_s=0.2, tolerate=NOT_NOW)
