"""The local control plane with nodes and one scheduler at a time: runs one load and cleans up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import psutil

from benchmarks.cluster import load, usage
from benchmarks.cluster.benches import WORKS, Contender, Run
from benchmarks.cluster.load import Load, NoProgress, Progress
from benchmarks.cluster.schedulers import EMPTY_S, Schedulers, kind_of
from benchmarks.cluster.usage import Stopwatch
from devcluster import kube_scheduler, muster
from devcluster.api import Json
from devcluster.audit import counts
from devcluster.cluster import Cluster, running
from devcluster.errors import ApiError, ConditionNotMet
from devcluster.flavour import Flavour
from devcluster.nodes import FakeNode
from devcluster.process import Process
from devcluster.waiting import until

NAMESPACE = "load"
NODES = 1000
QUICK_NODES = 100
CONFIG = {
    "service.completingTimeout": "1s",  # each run waits until the state is empty
    "service.placeholderImage": "registry.k8s.io/pause:3.10.2",
}
SCHEDULER_WARM_UP = 20
"""Pods that a scheduler binds after its start, before the measurement."""

SETTLED_S = 300.0
QUIET_S = 4.0
"""Seconds without writes after which a scheduler is done. Events are delayed and must not fall into the next run."""
CALM_SHARE = 0.3
"""Maximal CPU share of an idle machine. The leases of 1,000 fake nodes use part of it."""
CALM_FOR_S = 0.5
CALM_S = 10.0
"""Seconds to wait for an idle machine. Then the run starts, and its `others` show the load."""


def load_of(run: Run, *, quick: bool) -> Load:
    """Return the load of a run."""
    work = WORKS[run.work]
    pods, gangs = (work.quick_pods, work.quick_gangs) if quick else (work.pods, work.gangs)
    return Load(f"load-{run.work}-{run.contender.lower()}-{run.number}-{run.repeat}", pods, gangs, run.contender)


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster for the runs. ``quick``: small loads."""

    cluster: Cluster
    schedulers: Schedulers
    quick: bool

    @property
    def processes(self) -> list[Process]:
        """The processes of the scheduler, then those of the cluster."""
        return [*self.schedulers.processes(), *self.cluster.processes()]

    async def run(self, run: Run) -> Json:
        """Measure one load, clean up, and return the results.

        Raises NoProgress, ConditionNotMet or ProcessFailed. Then ``cleared`` must be called before the next run.
        """
        what = load_of(run, quick=self.quick)
        if await self.schedulers.change_to(kind_of(run.contender, gangs=what.gangs > 0)):
            warm_up = Load(f"warm-up-{what.name}", SCHEDULER_WARM_UP, min(what.gangs, 1), run.contender)
            await self._run(warm_up, counted=False)
        return await self._run(what, counted=True)

    async def warm_up_cluster(self) -> None:
        """Create and delete a full load. The first load in a new cluster takes longer with every scheduler.

        Raises NoProgress, ConditionNotMet or ProcessFailed. Then ``cleared`` must be called before the first run.
        """
        await self.schedulers.change_to(kind_of(Contender.KUBE, gangs=False))
        await self._run(Load("warm-up-cluster", WORKS["single-5000"].pods, 0, Contender.KUBE), counted=False)

    async def cleared(self) -> None:
        """Stop the scheduler and delete all pods after a failure. Raises ConditionNotMet."""
        await self.schedulers.stop()
        await self._delete()

    async def _run(self, what: Load, *, counted: bool) -> Json:
        watch, mark = Stopwatch(), self.cluster.audit.mark()
        seen, found = await self.measured(what.name, partial(load.run, self.cluster.admin, NAMESPACE, what), watch)
        if counted:
            found["writes"] = await self._writes(mark)
            watch.end_phase("writes")
        await self._delete()
        watch.end_phase("delete")
        await self.schedulers.wait_until_empty()
        watch.end_phase("forgotten")
        _check(what, seen)
        return found | {"phases_s": watch.phases}

    async def measured(
        self, name: str, bound: Callable[[], Awaitable[Progress]], watch: Stopwatch
    ) -> tuple[Progress, Json]:
        """Carry out a load on an idle machine. Returns its progress and results. Raises NoProgress."""
        await self._collect_garbage()
        watch.end_phase("collect")
        await _calm()
        watch.end_phase("calm")
        used = usage.mark(self.processes)
        try:
            seen = await bound()
        except NoProgress as error:
            raise NoProgress(f"{name}: {error}\n{self.schedulers.tails()}") from error
        watch.end_phase("load")
        return seen, {
            "pods": len(seen.created),
            **seen.details(),
            "cpu_s": used.since(self.processes),
            "resident_mib": usage.resident_mib(self.schedulers.processes()),
        }

    async def _collect_garbage(self) -> None:
        """Trigger a Go garbage collection in the API server, so that every load starts with a similarly small heap.

        It needs the API server's profiling, which is enabled by default. Without this call, a collection ran during 8
        of 18 loads of 400 pods, in which the API server used 0.9 CPU seconds more.
        """
        await self.cluster.admin.request("GET", "/debug/pprof/heap", params={"gc": "1"})

    async def _writes(self, mark: int) -> Counter[str]:
        """Return the scheduler's writes since the mark. Waits for its events, which follow the last bind."""
        found: Counter[str] = Counter()

        async def are_settled() -> bool:
            nonlocal mark
            writes, mark = self.cluster.audit.writes_with_mark(mark)
            more = counts(writes, self.schedulers.user())
            found.update(more)
            return not more

        await until("the scheduler writes no more", are_settled, SETTLED_S, every_s=QUIET_S)
        return found

    async def _delete(self) -> None:
        """Delete all pods and PodGroups and wait until they are removed."""
        for plural in ("pods", "podgroups"):
            await until(
                f"all {plural} are gone", partial(self._none, plural), EMPTY_S, tolerate=(TimeoutError, ApiError)
            )

    async def _none(self, plural: str) -> bool:
        """Delete all objects; whether none is left. A request may time out with thousands of objects."""
        if not await self.cluster.admin.find(plural, NAMESPACE, limit="1"):
            return True
        await self.cluster.admin.delete_all(plural, NAMESPACE)
        return False


def _check(what: Load, seen: Progress) -> None:
    """Check that a gang with Direct got no placeholders. With Auto, members that appear slowly have some: a result."""
    if what.contender is Contender.DIRECT and seen.placeholders:
        raise NoProgress(f"{len(seen.placeholders)} placeholders were created for gangs with the placement Direct")


@asynccontextmanager
async def open_stage(*, quick: bool) -> AsyncIterator[Stage]:
    """Start the local control plane with nodes and accounts, without a scheduler. Only this flavour has an audit log.

    The API server always serves PodGroups, so that all runs use the same server.
    """
    async with running(which=Flavour.LOCAL, gangs=True) as cluster, staged(cluster, CONFIG, quick=quick) as stage:
        admin = cluster.admin
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        nodes = QUICK_NODES if quick else NODES
        await cluster.add_nodes(FakeNode(f"node-{n:04d}", cpu="32", memory="256Gi") for n in range(nodes))
        await until(
            "the default service account",
            lambda: admin.get("serviceaccounts", "default", NAMESPACE),
            30,
            tolerate=(ApiError,),
        )
        yield stage


@asynccontextmanager
async def staged(cluster: Cluster, config: Mapping[str, str], *, quick: bool) -> AsyncIterator[Stage]:
    """Install both schedulers' accounts and Muster's configuration, and stop the running scheduler afterwards."""
    async with muster.installed(cluster), muster.configured(cluster, config):
        ours = await cluster.kubeconfig_for(muster.ACCOUNT, muster.NAMESPACE)
        schedulers = Schedulers(cluster, (ours, await kube_scheduler.account(cluster)))
        try:
            yield Stage(cluster, schedulers, quick)
        finally:
            await schedulers.stop()


async def _calm() -> None:
    """Wait until the machine is idle, for at most CALM_S."""
    psutil.cpu_percent()  # starts the first measuring interval

    async def is_calm() -> bool:
        await asyncio.sleep(CALM_FOR_S)
        return bool(psutil.cpu_percent() <= 100 * CALM_SHARE)

    with suppress(ConditionNotMet):
        await until("the machine is calm", is_calm, CALM_S)
