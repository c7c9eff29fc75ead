"""Measures how long binding stops when the leader ends: `python -m benchmarks.takeover [RUNS]`, with the default lease.

A pod is created every 50 ms. The time counts from the signal to the leader until the first binding of its successor, by
the API server's audit log. The cases are: a standby after SIGTERM, a standby after kill -9 of operator and core, and a
single operator that is killed and restarted immediately, as by a kubelet the first time.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from signal import SIGTERM

from benchmarks.cluster.stage import CONFIG
from devcluster import muster, signals
from devcluster.api import Json
from devcluster.cluster import Cluster, running
from devcluster.errors import ApiError
from devcluster.flavour import Flavour
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.waiting import until

NAMESPACE = "load"
NODES = 100
PAUSE_S = 0.05
QUIET_S = 3.0
"""Seconds without faults before each measurement, so that the lease is renewed and the standby has observed it."""


@dataclass(slots=True)
class Pair:
    """A leader and a standby."""

    cluster: Cluster
    leader: Muster
    standby: Muster

    async def takeover_seconds(self, stop: Callable[[Muster], Awaitable[None]]) -> float:
        """Return the seconds from the signal to the standby's first binding. Afterwards both have changed roles."""
        await asyncio.sleep(QUIET_S)
        mark, began = self.cluster.audit.mark(), datetime.now(tz=UTC)
        await stop(self.leader)
        seconds = await first_binding(self.cluster, mark, began, self.standby)
        await self.leader.stop()
        await self.leader.start()
        self.leader, self.standby = self.standby, self.leader
        return seconds


async def first_binding(cluster: Cluster, mark: int, after: datetime, by: Muster) -> float:
    """Return the seconds from ``after`` to the first binding by this instance."""

    async def seen() -> float:
        for write in cluster.audit.since(mark):
            at = datetime.fromisoformat(write.at)
            if write.subresource == "binding" and write.succeeded and by.setup.identity in write.agent and at > after:
                return (at - after).total_seconds()
        return 0.0

    return await until("the new leader binds", seen, 60, every_s=0.2)


async def terminated(leader: Muster) -> None:
    """Stop the leader as in a rolling upgrade."""
    leader.operator.signal(SIGTERM)


async def killed(leader: Muster) -> None:
    """Kill the leader as in a node failure."""
    await asyncio.gather(leader.operator.kill(), leader.core.kill())


async def restarted(cluster: Cluster, leader: Muster) -> float:
    """Return the seconds from the kill of a single operator to its first binding."""
    await asyncio.sleep(QUIET_S)
    await leader.operator.kill()
    mark, began = cluster.audit.mark(), datetime.now(tz=UTC)
    leader.operator.start()
    return await first_binding(cluster, mark, began, leader)


async def measure(runs: int) -> dict[str, list[float]]:
    """Measure the three cases ``runs`` times each."""
    async with _cluster() as cluster, _pods_created(cluster):
        kubeconfig = await cluster.kubeconfig_for(muster.ACCOUNT, muster.NAMESPACE)
        first = Muster(Setup(kubeconfig, cluster.folder))
        second = Muster(replace(first.setup, folder=cluster.folder / "second", identity="muster-1"))
        second.setup.folder.mkdir()
        try:
            await first.start()
            alone = [await restarted(cluster, first) for _ in range(runs)]
            await second.start()
            pair = Pair(cluster, first, second)
            return {
                "a single operator, kill -9 and restart": alone,
                "a standby, after SIGTERM": [await pair.takeover_seconds(terminated) for _ in range(runs)],
                "a standby, after kill -9": [await pair.takeover_seconds(killed) for _ in range(runs)],
            }
        finally:
            await second.stop()
            await first.stop()


@asynccontextmanager
async def _cluster() -> AsyncIterator[Cluster]:
    async with running(which=Flavour.LOCAL) as cluster, muster.installed(cluster), muster.configured(cluster, CONFIG):
        admin = cluster.admin
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await cluster.add_nodes(FakeNode(f"node-{n:04d}", cpu="32", memory="256Gi") for n in range(NODES))
        account = ("serviceaccounts", "default", NAMESPACE)
        await until("the service account", lambda: admin.get(*account), 30, tolerate=(ApiError,))
        yield cluster


@asynccontextmanager
async def _pods_created(cluster: Cluster) -> AsyncIterator[None]:
    """Create a pod for Muster every PAUSE_S during the block."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}

    async def feed() -> None:
        for number in count():
            pod: Json = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"pod-{number}", "labels": {"applicationId": "load"}},
                "spec": {"schedulerName": "muster", "containers": [container]},
            }
            await cluster.admin.create(pod, NAMESPACE)
            await asyncio.sleep(PAUSE_S)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        feeding.cancel()


if __name__ == "__main__":
    for name, seconds in signals.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3)).items():
        shown = ", ".join(f"{value:.2f}" for value in seconds)
        print(f"{name}: {statistics.median(seconds):.2f} s ({shown})")
