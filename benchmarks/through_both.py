"""Measures operator and core in one process without an API server: 50,000 pods on 5,000 nodes.

    .venv/bin/python -m benchmarks.through_both

Operator and core are connected as by `muster run`. Pods of 10 applications appear on the watch as fast as
they are read, as JSON of the size that a real API server sends. Each pod is decoded, translated, sent to the core,
placed, bound by a request, and received again on the watch with its node. The time is from the first pod's event until
the event of the last bound pod is handled. It includes the time of the stub (`stub`).

YuniKorn's BenchmarkSchedulingThroughPut, 5,971 pods per second, does the same work except for the API server: its pods
are Go objects that are passed to the shim, and a bind is a function call. This benchmark reads and writes bytes.

Kubernetes events wait until no other write is in flight, for at most ten seconds. A longer run posts some of them
before its last bind, and its figures include them. The cost of an event is measured after the run.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import psutil
import structlog
import uvloop

from benchmarks import recorded
from benchmarks.counted import CountingClient, Counts
from benchmarks.figures import Figure
from benchmarks.figures import Options as Figures
from benchmarks.peak import peak_mib
from benchmarks.shown_pod import NAMESPACE, shown_pod
from benchmarks.stages import Samples, sampling
from benchmarks.stand_in import Objects
from benchmarks.stub_server import Feed, StubKubeSession, StubServer, pod_event
from devcluster.errors import ProcessFailed
from muster_core import main as core
from muster_core.runtime.service import Administration
from muster_operator.kube.leadership import NoElection
from muster_operator.kube.session import LeadershipGuard
from muster_operator.running import CoreClients, Options, assembled, configured
from muster_operator.runtime.metrics import Metrics
from muster_operator.serving import Parts, serve
from muster_si.transport.inprocess import InProcessClient

PODS: Final = 50_000
NODES: Final = 5_000
APPLICATIONS: Final = 10
DEADLINE_S: Final = 120.0
#: Names, units and goals. The memory includes the stub and its objects.
GOALS: Final[Mapping[str, tuple[str, float | None]]] = {
    "both/50000": ("/s", 12_000.0),
    "both/50000 cpu": ("/CPU s", None),
    "both/50000 memory": ("MiB", 1024.0),
}
NAMES: Final = tuple(GOALS)
QUEUES: Final = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: default}]}]}]"


@dataclass(slots=True)
class Found:
    """One run: wall-clock and CPU seconds, MiB of memory, events posted in that time, and CPU seconds per event."""

    pods: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0
    grown_mib: float = 0.0
    events: int = 0
    event_s: float = 0.0
    samples: Samples = field(default_factory=Samples)
    counts: Counts = field(default_factory=Counts)
    """Messages between both, if the run was profiled."""

    @property
    def placing_s(self) -> float:
        """CPU seconds without those events."""
        return self.cpu_s - self.events * self.event_s


def a_server(nodes: int) -> StubServer:
    """Return a stub server with nodes, one namespace, one queue and no pods."""
    event = pod_event([shown_pod(app) for app in range(APPLICATIONS)], lambda name: int(name[5]))
    pods = Feed(event=event)
    lists = {
        "/api/v1/pods": Objects("pods"),
        "/api/v1/nodes": Objects("nodes", [orjson.dumps(recorded.node(number)) for number in range(nodes)]),
        "/api/v1/namespaces": Objects(
            "namespaces", [orjson.dumps({"metadata": {"name": NAMESPACE, "uid": "n", "resourceVersion": "1"}})]
        ),
    }
    config = {
        "metadata": {"name": "muster-configs", "namespace": "default", "uid": "config", "resourceVersion": "1"},
        "data": {"queues.yaml": QUEUES},
    }
    return StubServer(lists, {"/api/v1/namespaces/default/configmaps/muster-configs": config}, pods)


def run(pods: int = PODS, nodes: int = NODES, *, profiled: bool = False) -> Found:
    """Run one measurement."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30), cache_logger_on_first_use=True)
    return uvloop.run(_measured(pods, nodes, profiled=profiled))


async def _measured(pods: int, nodes: int, *, profiled: bool) -> Found:
    server, guard, metrics = a_server(nodes), LeadershipGuard(), Metrics()
    session = StubKubeSession(server, guard, metrics.requested)
    stop = asyncio.Event()
    async with core.running(core.Options(rest_port=None)) as scheduler:
        configuration = await configured(session, "default")
        found = Found(pods)
        client = CountingClient(scheduler, found.counts) if profiled else InProcessClient(scheduler)
        clients = CoreClients(client, Administration(scheduler))
        parts = assembled(configuration, session, metrics, clients, Options())
        serving = asyncio.create_task(serve(parts, NoElection(guard), stop))
        await _until(lambda: not parts.loop.missing, serving)
        found.counts.reset()
        before = _resident_mib()
        with sampling() if profiled else nullcontext(Samples()) as found.samples:
            began, cpu = time.perf_counter(), time.process_time()
            for number in range(pods):
                server.pods.add(f"load-{number % APPLICATIONS}-{number:012d}")
            await _until(lambda: server.pods.read == 2 * pods and not len(parts.inbox), serving)
            found.wall_s, found.cpu_s = time.perf_counter() - began, time.process_time() - cpu
        found.events = server.seen["POST events"]
        found.peak_mib, found.grown_mib = peak_mib(), _resident_mib() - before
        found.event_s = await _one_event_s(server, parts, serving)
        _check(server, parts, pods)
        stop.set()
        await serving
    return found


async def _one_event_s(server: StubServer, parts: Parts, serving: asyncio.Task[None]) -> float:
    """Return the CPU seconds per waiting event."""
    before, cpu = server.seen["POST events"], time.process_time()
    await _until(lambda: not parts.pool.depths()["events"], serving)
    return (time.process_time() - cpu) / max(1, server.seen["POST events"] - before)


def _check(server: StubServer, parts: Parts, pods: int) -> None:
    """Check that every pod was bound once, that no node is overfull, and that the session did not restart."""
    fullest = max(Counter(server.bound.values()).values())
    assert len(server.bound) == pods, f"{len(server.bound)} of {pods} were bound"
    assert not server.twice, f"bound twice: {server.twice[:5]}"
    assert fullest <= 110, f"{fullest} pods on one node"
    assert not parts.loop.missing, f"the session is not what it was: {parts.loop.missing}"


async def _until(is_so: Callable[[], bool], serving: asyncio.Task[None]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():
            if serving.done():
                serving.result()
            await asyncio.sleep(0.001)


def _resident_mib() -> float:
    return psutil.Process().memory_info().rss / 2**20


def measure(names: Sequence[str], options: Figures) -> list[Figure]:
    """Measure all names at once, in a separate process. An additional run is profiled."""
    runs = [_in_subprocess("--quick" if options.quick else "") for _ in range(options.runs)]
    profile = _in_subprocess("--profile", "--quick" if options.quick else "")["profile"]
    figures = []
    for name in names:
        unit, goal = GOALS[name]
        values = [found[name] for found in runs]
        additional = {word: [value] for word, value in profile.items()} if name == NAMES[0] else {}
        if name == NAMES[1]:
            additional = {word: [found[word] for found in runs] for word in ("without events", "an event, us")}
        figures.append(Figure(name, unit, values, goal, less_is_better=unit == "MiB", additional=additional))
    return figures


def _in_subprocess(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.through_both", "--json", *filter(None, arguments)]
    done = subprocess.run(command, check=False, capture_output=True)
    if done.returncode != 0:
        raise ProcessFailed("operator and core", f"ended with {done.returncode}", done.stderr.decode()[-2000:])
    found: dict[str, Any] = orjson.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print where the time goes."""
    size = (5000, 500) if "--quick" in sys.argv else (PODS, NODES)
    found = run(*size, profiled="--profile" in sys.argv)
    pods, us = found.pods, 1e6 * found.cpu_s / found.pods
    if "--json" in sys.argv:
        values = (pods / found.wall_s, pods / found.cpu_s, found.peak_mib)
        profile = {f"{stage}, us a pod": share * us for stage, share in found.samples.shares().items()}
        for name, count in found.counts.messages.items():
            profile[f"{name}, pods a message"] = pods / count
            profile[f"{name}, bytes a pod"] = found.counts.bytes[name] / pods
        events = {"without events": found.pods / found.placing_s, "an event, us": 1e6 * found.event_s}
        sys.stdout.buffer.write(orjson.dumps({**dict(zip(NAMES, values, strict=True)), "profile": profile, **events}))
        return
    print(f"{found.pods / found.wall_s:8,.0f} pods/s   {found.pods / found.cpu_s:8,.0f} a processor second")
    print(f"{us:8.1f} us a pod; {found.events} events posted meanwhile, {1e6 * found.event_s:.1f} us each")
    print(f"{found.pods / found.placing_s:8,.0f} a processor second without them")
    print(f"{found.peak_mib:8.0f} MiB at most, {1024 * found.grown_mib / found.pods:.2f} KiB a pod")
    samples = found.samples.stages.total()
    for stage, share in found.samples.shares().items() if samples else ():
        print(f"{stage:14} {us * share:6.1f} us a pod  {share:6.1%}")
    for name, count in found.counts.messages.items():
        print(f"{name:20} {pods / count:8.1f} pods a message  {found.counts.bytes[name] / pods:7.1f} bytes a pod")
    for place, count in found.samples.places.most_common(70):
        print(f"    {us * count / samples:6.2f} us  {place}")


if __name__ == "__main__":
    main()
