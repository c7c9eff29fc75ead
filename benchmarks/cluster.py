"""Muster against a real API server with 1,000 fake nodes: from the first create call to the last pod bound.

Core and operator run as in their Pod: two processes, a unix socket between them, the operator with its own service
account. Between runs all pods are deleted and the core's ledgers have to be empty.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from benchmarks import load, usage
from benchmarks.figures import Figure, Options
from benchmarks.load import Load, Seen
from devcluster import muster, signals
from devcluster.api import Json
from devcluster.audit import counts
from devcluster.cluster import Cluster, running
from devcluster.errors import ApiError
from devcluster.flavour import Flavour
from devcluster.ledgers import leftovers
from devcluster.muster import Muster, Setup
from devcluster.nodes import FakeNode
from devcluster.process import Process
from devcluster.waiting import until

NAMESPACE = "load"
NODES = 1000
CONFIG = {
    "service.completingTimeout": "1s",  # empty ledgers are waited for
    "service.placeholderImage": "registry.k8s.io/pause:3.10.2",
}
WRITES_GOAL = 6.0
"""Writes of our account per gang member. The design says 5: create, bind and delete a placeholder, bind, an event."""

DETAILS = ("create_s", "first_bound_s", "p50_s", "p99_s")
PROCESSES = ("operator", "core", "kube-apiserver", "etcd", "kwok", "kube-controller-manager", "load generator")

EMPTY_S = 180.0
SETTLED_S = 60.0


@dataclass(frozen=True, slots=True)
class Bench:
    """One load, its goal in seconds, and how many pods a quick run makes of it."""

    pods: int
    gangs: int
    goal_s: float | None
    quick_pods: int
    scheduler: str = "muster"


BENCHES = {
    "cluster/floor-5000": Bench(5000, 0, None, 500, scheduler=load.NOBODY),
    "cluster/single-5000": Bench(5000, 0, 25.0, 500),
    "cluster/gang-100": Bench(100, 1, 2.0, 100),
    "cluster/gang-1000": Bench(1000, 1, 10.0, 200),
}


@dataclass(frozen=True, slots=True)
class Stage:
    """Where loads run."""

    cluster: Cluster
    muster: Muster

    @property
    def processes(self) -> list[Process]:
        """Ours first, then the cluster's."""
        return [self.muster.operator, self.muster.core, *self.cluster.processes()]


@dataclass(slots=True)
class Runs:
    """The results of all runs of one load."""

    seconds: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    details: list[Json] = field(default_factory=list)


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """The loads of these names, one after the other on one cluster."""
    return signals.run(_measure(names, options))


async def _measure(names: Sequence[str], options: Options) -> list[Figure]:
    results = {name: Runs() for name in names}
    async with _stage(100 if options.quick else NODES) as stage:
        await _run_once(stage, Load("warm-up", 20))
        # By turns, so that a busy minute of the machine touches every load and not all runs of one.
        for number in range(options.runs):
            for name, runs in results.items():
                bench = BENCHES[name]
                pods = bench.quick_pods if options.quick else bench.pods
                prefix = f"load-{name.partition('/')[2]}-{number}"
                await _run(stage, Load(prefix, pods, bench.gangs, bench.scheduler), runs)
    return [figure for name, runs in results.items() for figure in _figures(name, BENCHES[name], runs)]


@asynccontextmanager
async def _stage(nodes: int) -> AsyncIterator[Stage]:
    """The local control plane (only it keeps an audit log for us) with nodes and a running Muster."""
    async with running(which=Flavour.LOCAL) as cluster, muster.installed(cluster):
        admin = cluster.admin
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "muster-configs"}, "data": CONFIG}
        await admin.create(config, muster.NAMESPACE)
        await cluster.add_nodes(FakeNode(f"node-{n:04d}", cpu="32", memory="256Gi") for n in range(nodes))
        await until(
            "the default service account",
            lambda: admin.get("serviceaccounts", "default", NAMESPACE),
            30,
            tolerate=(ApiError,),
        )
        kubeconfig = await cluster.kubeconfig_for(muster.ACCOUNT, muster.NAMESPACE)
        processes = Muster(Setup(kubeconfig, cluster.folder))
        try:
            await processes.start()
            stage = Stage(cluster, processes)
            _say("up: " + ", ".join(f"{process.name} {process.pid}" for process in stage.processes))
            yield stage
        finally:
            await processes.stop()


async def _run(stage: Stage, what: Load, runs: Runs) -> None:
    seen, details = await _run_once(stage, what)
    writes: Counter[str] = details["writes"]
    runs.seconds.append(seen.seconds)
    runs.writes.append(writes.total() / what.pods)
    runs.details.append(details)
    _say(f"{what.name}: {details}")


async def _run_once(stage: Stage, what: Load) -> tuple[Seen, Json]:
    """One load, measured, counted, and taken away again."""
    mark, used = stage.cluster.audit.mark(), usage.mark(stage.processes)
    try:
        seen = await load.run(stage.cluster.admin, NAMESPACE, what)
    except TimeoutError:
        _say(stage.muster.tails())
        raise
    cpu_s = used.since(stage.processes)
    writes = await _writes(stage, mark)
    details = {
        "pods": what.pods,
        **seen.details(),
        "cpu_s": cpu_s,
        "resident_mib": usage.resident_mib([stage.muster.operator, stage.muster.core]),
        "writes": writes,
    }
    await _empty(stage)
    return seen, details


async def _writes(stage: Stage, mark: int) -> Counter[str]:
    """The writes of our account since the mark, once no more come: events may lag behind the last bind."""
    account = f"system:serviceaccount:{muster.NAMESPACE}:{muster.ACCOUNT}"
    last: Counter[str] = Counter()

    async def are_settled() -> bool:
        nonlocal last
        before, last = last, counts(stage.cluster.audit.since(mark), account)
        return before == last

    await until("the operator writes no more", are_settled, SETTLED_S, every_s=1.0)
    return last


async def _empty(stage: Stage) -> None:
    """Delete all pods and wait until the core has forgotten them."""
    admin = stage.cluster.admin

    async def no_pod() -> bool:
        await admin.delete_all("pods", NAMESPACE)
        return not await admin.find("pods", NAMESPACE)

    # A collection of thousands may take longer than one request may.
    await until("all pods are gone", no_pod, EMPTY_S, every_s=0.5, tolerate=(TimeoutError, ApiError))
    left: list[str] = []

    async def nothing() -> bool:
        left[:] = leftovers(await stage.muster.dump())
        return not left

    await until("the ledgers are empty", nothing, EMPTY_S, every_s=0.5, tolerate=(aiohttp.ClientError,))


def _figures(name: str, bench: Bench, runs: Runs) -> list[Figure]:
    goal = WRITES_GOAL if bench.gangs else None
    beside = {
        **{f"{key.removesuffix('_s')}, s": [run[key] for run in runs.details] for key in DETAILS},
        **{f"{who} CPU, s": [run["cpu_s"][who] for run in runs.details] for who in PROCESSES},
        **{f"{who}, MiB": [run["resident_mib"][who] for run in runs.details] for who in ("operator", "core")},
    }
    details = {"runs": runs.details}
    return [
        Figure(name, "s", runs.seconds, bench.goal_s, less_is_better=True, beside=beside, details=details),
        Figure(f"{name} writes", "per pod", runs.writes, goal, less_is_better=True, beside=_kinds(runs)),
    ]


def _kinds(runs: Runs) -> dict[str, list[float]]:
    """Writes per pod by verb and resource."""
    kinds = {kind for run in runs.details for kind in run["writes"]}
    return {kind: [run["writes"][kind] / run["pods"] for run in runs.details] for kind in sorted(kinds)}


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
