"""Runs one scheduler at a time: Muster, kube-scheduler, kube-scheduler with its gang mode, or none.

A second scheduler would watch the same pods and use CPU of the measured one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import aiohttp

from benchmarks.cluster.benches import Contender
from devcluster import kube_scheduler, muster
from devcluster.cluster import Cluster
from devcluster.kube_scheduler import KubeScheduler
from devcluster.leftovers import leftovers
from devcluster.muster import Muster, Setup
from devcluster.process import Process
from devcluster.waiting import until

Kind = Literal["muster", "kube-scheduler", "kube-scheduler with gangs", "none"]
EMPTY_S = 180.0


class Schedulers:
    """Starts and stops the schedulers. ``accounts``: the kubeconfigs of Muster and kube-scheduler."""

    def __init__(self, cluster: Cluster, accounts: tuple[Path, Path]) -> None:
        ours, theirs = accounts
        self.muster = Muster(Setup(ours, cluster.folder))
        self._kube = KubeScheduler(cluster, theirs)
        self._gangs = KubeScheduler(cluster, theirs, gangs=True)
        self.running: Kind = "none"

    async def change_to(self, kind: Kind) -> bool:
        """Run only this scheduler. Returns whether it was started. Raises ProcessFailed or ConditionNotMet."""
        if kind == self.running:
            return False
        await self.stop()
        match kind:
            case "muster":
                await self.muster.start()
            case "kube-scheduler":
                await self._kube.start()
            case "kube-scheduler with gangs":
                await self._gangs.start()
            case "none":
                pass
        self.running = kind
        return True

    async def stop(self) -> None:
        """Stop the running scheduler."""
        await self.muster.stop()
        await self._kube.stop()
        await self._gangs.stop()
        self.running = "none"

    def processes(self) -> list[Process]:
        """The processes of the running scheduler."""
        ours = [self.muster.operator, self.muster.core]
        return [process for process in (*ours, self._kube.process, self._gangs.process) if process.is_running()]

    def user(self) -> str:
        """The user of the running scheduler in the audit log."""
        where = f"{muster.NAMESPACE}:{muster.ACCOUNT}"
        if self.running != "muster":
            where = f"{kube_scheduler.NAMESPACE}:{kube_scheduler.ACCOUNT}"
        return f"system:serviceaccount:{where}"

    def tails(self) -> str:
        """Return the ends of the logs, for error messages."""
        if self.running == "muster":
            return self.muster.tails()
        return "\n".join(f"--- {process.name} ---\n{process.tail()}" for process in self.processes())

    async def wait_until_empty(self) -> None:
        """Wait until the core has no allocations of deleted pods. Raises ConditionNotMet."""
        if self.running != "muster":
            return
        left: list[str] = []

        async def nothing() -> bool:
            left[:] = leftovers(await self.muster.dump())
            return not left

        await until("the core's ledgers are empty", nothing, EMPTY_S, every_s=0.2, tolerate=(aiohttp.ClientError,))


def kind_of(contender: Contender, *, gangs: bool) -> Kind:
    """Return the scheduler that a load needs."""
    if contender in (Contender.NONE, Contender.FLOOR):
        return "none"
    if contender is Contender.KUBE:
        return "kube-scheduler with gangs" if gangs else "kube-scheduler"
    return "muster"
