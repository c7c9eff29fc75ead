"""The environment: nodes, a namespace, the faulty proxy, Muster behind it, a kubelet for all processes, an observer."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from devcluster import muster as muster_processes
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
from tests.e2e.final_checks import is_in_session
from tests.e2e.scenario import Scenario

CONFIG = {"service.completingTimeout": "1s", "service.placeholderImage": "registry.k8s.io/pause:3.10.2"}
ENV = {"MUSTER_LEASE_DURATION": "3", "MUSTER_COMPARE_EVERY": "0.3"}
RETRIED_ERRORS = (ApiError, aiohttp.ClientError, TimeoutError)
READY_S = 90.0
DELETED_S = 90.0


@dataclass(frozen=True, slots=True)
class FaultEnvironment:
    """The running environment."""

    scenario: Scenario
    musters: list[Muster]
    plane: ControlPlane
    proxy: FaultyProxy
    kubelet: Kubelet
    observer: PodObserver

    async def leader(self) -> Muster | None:
        """The instance that leads and has a live session, or None."""
        for muster in self.musters:
            with suppress(*RETRIED_ERRORS):
                if await muster.role() == "ok" and is_in_session(await muster.dump()):
                    return muster
        return None

    async def process(self, victim: Victim) -> Process:
        """Return the process of the victim: with several operators that of the leader or its core."""
        if victim is Victim.APISERVER:
            return self.plane.apiserver
        muster = await self.leader() or self.musters[0]
        return muster.core if victim is Victim.CORE else muster.operator

    async def recovered(self) -> None:
        """Wait until the API server and Muster are ready. Raises ProcessFailed with the last log lines."""

        async def is_ready() -> bool:
            await self.scenario.api.request("GET", "/readyz")
            return await self.leader() is not None

        try:
            await until("the API server and Muster are ready", is_ready, READY_S, tolerate=RETRIED_ERRORS)
        except ConditionNotMet as error:
            tails = "\n".join(muster.tails() for muster in self.musters)
            raise ProcessFailed("muster", f"{error}; ended by itself: {self.kubelet.exits}", tails) from error


@asynccontextmanager
async def fault_environment(home: Cluster, plan: Plan) -> AsyncIterator[FaultEnvironment]:
    """Open the environment in a cluster in which Muster is installed and which has no other nodes.

    Each operator has its own core, as in a pod.
    """
    name, nodes = plan.name, [FakeNode(f"node-{number}", cpu=str(plan.node_cpu)) for number in range(plan.nodes)]
    plane = home.plane
    assert plane is not None, "only the local control plane may be killed"
    async with AsyncExitStack() as stack:
        await home.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stack.push_async_callback(home.admin.delete, "namespaces", name)
        await _has_account(home, name)
        stack.push_async_callback(home.remove_nodes)
        await home.add_nodes(nodes)
        stack.push_async_callback(_emptied, home, name)
        files = plane.authority.issue(name, ["127.0.0.1"])
        proxy = await stack.enter_async_context(FaultyProxy(home.admin.access, files, Schedule(plan.seed), plan.page))
        musters = [Muster(setup) for setup in await _setups(home, stack, name, proxy.url, plan.operators)]
        for muster in musters:
            stack.push_async_callback(muster.stop)
        observer = PodObserver(nodes)
        await stack.enter_async_context(observer.watching(plane.etcd_url))
        processes = [process for muster in musters for process in (muster.core, muster.operator)]
        kubelet = Kubelet([plane.apiserver, *processes])
        await stack.enter_async_context(kubelet.working())
        scenario = Scenario(home, musters[0], name, None)
        environment = FaultEnvironment(scenario, musters, plane, proxy, kubelet, observer)
        await environment.recovered()
        yield environment


async def _setups(home: Cluster, stack: AsyncExitStack, name: str, server: str, operators: int) -> list[Setup]:
    """Write the ConfigMap and return the setups of the operators. The logs have the default level."""
    namespace = muster_processes.NAMESPACE
    await stack.enter_async_context(muster_processes.configured(home, CONFIG))
    kubeconfig = await home.kubeconfig_for(muster_processes.ACCOUNT, namespace, server)
    setups = []
    for number in range(operators):
        folder = home.folder / name / f"muster-{number}"
        folder.mkdir(parents=True)
        setups.append(Setup(kubeconfig, folder, identity=f"muster-{number}", env=ENV))
    return setups


async def _has_account(home: Cluster, namespace: str) -> None:
    await until(
        "the namespace has its default service account",
        lambda: home.admin.get("serviceaccounts", "default", namespace),
        DELETED_S,
        tolerate=(ApiError,),
    )


async def _emptied(home: Cluster, namespace: str) -> None:
    """Delete the load, so that the next test starts with an empty cluster."""

    async def is_empty() -> bool:
        await home.admin.delete_all("jobs", namespace)
        await home.admin.delete_all("pods", namespace)
        return not await home.admin.find("pods", namespace)

    await until("the load's pods are deleted", is_empty, DELETED_S, every_s=0.2, tolerate=RETRIED_ERRORS)
