"""Measures the core in its own process at 15,000 nodes, 150,000 running pods, 50,000 waiting pods and 5,000 queues.

    .venv/bin/python -m benchmarks.core_scale [--quick | --nodes=N] [--profile]

`--nodes` changes the numbers of pods, applications and queues, and the duration of the loads, in proportion: each load
replaces the same share of the pods.

A recovery as from the operator comes over gRPC: applications, drained nodes with their pods, requests, a barrier, the
opened nodes, and the last barrier. One node in a hundred is free, the others are full. Running and waiting pods have
the same sizes, so about as many pods start as end. Then follow single events, a load of 5,000 events per second (two
pods end, two are new, and one request is withdrawn, of five events), and REST queries during such a load.

Times are CPU time of the core's process, and pauses are CPU time of the thread of its event loop, so that other
processes on the machine do not count. A pause is `iteration`, one iteration of the scheduler task, or `busy`, the
delay of another task, which includes what gRPC and REST do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import orjson
import psutil
import uvloop

from benchmarks.measured_core import PROFILE
from benchmarks.operator_scale import Run, _free_port, _until
from muster_si import keys, muster_pb2, si_pb2
from muster_si.transport.grpc_client import GrpcClient
from muster_si.transport.settings import TransportSettings

RM: Final = "benchmark"
_PARENTS: Final = 20
_CORES: Final = (1000, 2000, 4000, 8000)
#: CPUs of the pods that fill a node: all sizes of requests.
_FULL: Final = (8000, 8000, 4000, 4000, 2000, 2000, 1000, 1000, 1000, 1000)
_PODS: Final = len(_FULL)
_CAPACITY: Final = {"vcore": 32_000, "memory": 256 << 30, "pods": 110}
RATE: Final = 5_000
#: Messages per second of that load.
_BATCHES: Final = 250
#: CPU seconds of an idle core in 3 seconds: its health checks.
_IDLE: Final = 0.5
VIEWS: Final = ("queues", "nodes", "applications/active", "usage/users")

#: Name to unit and goal; lower is better.
GOALS: Final[Mapping[str, tuple[str, float | None]]] = {
    "listening": ("CPU s", None),
    "registered": ("CPU s", None),
    "applications": ("CPU s", None),
    "nodes": ("CPU s", None),
    "requests": ("CPU s", None),
    "opened": ("CPU s", None),
    "start": ("CPU s", 30.0),
    "placed": ("CPU s", None),
    "memory-recovered": ("MiB", None),
    "memory-peak": ("MiB", 1024.0),
    "memory-after": ("MiB", None),
    "pause-start": ("ms", 100.0),
    "pause-start-busy": ("ms", None),
    "single-p50": ("ms", 5.0),
    "single-p99": ("ms", 20.0),
    "single-max": ("ms", 100.0),
    "per-event": ("CPU us", 200.0),
    "allocations": ("/event", None),
    "cycles": ("", None),
    "cycles-p50": ("ms", None),
    "pause-events": ("ms", 100.0),
    "pause-events-busy": ("ms", None),
    "lag-p99": ("ms", 200.0),
    "pause-rest-busy": ("ms", 100.0),
    **{f"rest-{view.partition('/')[0]}": ("ms", None) for view in VIEWS},
}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the cluster and its load."""

    nodes: int = 15_000
    #: A multiple of the pods per node.
    applications: int = 10_000
    queues: int = 5_000
    asks: int = 50_000
    single: int = 100
    seconds: float = 10.0

    @classmethod
    def of(cls, nodes: int) -> Size:
        """Return this number of nodes. Pods, applications, queues and the duration of loads are in proportion."""
        full, share = cls(), nodes / cls().nodes
        applications = max(1, round(full.applications * share / _PODS)) * _PODS
        asks, seconds = max(1, round(full.asks * share)), full.seconds * share
        return cls(nodes, applications, max(1, applications // 2), asks, seconds=seconds)

    @property
    def free(self) -> int:
        """Number of nodes without pods."""
        return max(1, self.nodes // 100)


QUICK: Final = Size(500, 400, 200, 2_000, 50, 0.5)


class Listener:
    """A resource manager that counts responses, and adds new pods to the running ones."""

    def __init__(self, running: list[tuple[str, str]]) -> None:
        self.accepted = self.placed = 0
        self._running = running
        self.first = asyncio.Event()

    def update_allocation(self, response: si_pb2.AllocationResponse) -> None:
        """Count the allocations."""
        self.placed += len(response.new)
        self._running += [(new.applicationID, new.allocationKey) for new in response.new]
        if response.new:
            self.first.set()
        if response.rejected or response.rejectedAllocations:
            raise SystemExit(f"rejected: {response}")

    def update_application(self, response: si_pb2.ApplicationResponse) -> None:
        """Count the accepted applications."""
        self.accepted += len(response.accepted)

    def update_node(self, response: si_pb2.NodeResponse) -> None:
        """Nothing to do."""

    def call_back(self, callback: muster_pb2.Callback) -> None:
        """Nothing to do."""

    def session_lost(self, reason: str) -> None:
        """Ignore the end of the session."""


@dataclass(slots=True)
class Work:
    """The messages about the pods of one cluster."""

    size: Size
    random: Random = field(default_factory=lambda: Random(1))
    number: int = 0
    #: Keys and applications of running pods, which end in a random order, and of requests.
    running: list[tuple[str, str]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def queues(self) -> str:
        """Return queues with guarantees, a maximum in every fifth queue, and a limit for each user."""

        def most(number: int) -> dict[str, dict[str, str]]:
            return {} if number % 5 else {"max": {"vcore": "120000m"}}

        parents = []
        for parent in range(_PARENTS):
            leaves = [
                {"name": f"q{number}", "resources": {"guaranteed": {"vcore": f"{50_000 + number}m"}} | most(number)}
                for number in range(parent, self.size.queues, _PARENTS)
            ]
            parents.append({"name": f"p{parent}", "parent": True, "queues": leaves})
        limits = [{"limit": "", "users": ["*"], "maxresources": {"vcore": str(1 << 30)}}]
        tree = {"name": "root", "submitacl": "*", "limits": limits, "queues": parents}
        partition = {"name": "default", "placementrules": [{"name": "provided"}], "queues": [tree]}
        return orjson.dumps({"partitions": [partition]}).decode()  # JSON is YAML

    def applications(self) -> Iterator[si_pb2.ApplicationRequest]:
        """Yield the applications in messages of 100."""
        for start in range(0, self.size.applications, 100):
            numbers = range(start, min(start + 100, self.size.applications))
            yield si_pb2.ApplicationRequest(rmID=RM, new=map(self.application, numbers))

    def application(self, number: int) -> si_pb2.AddApplicationRequest:
        """Return an application of one of 500 users."""
        queue = number % self.size.queues
        return si_pb2.AddApplicationRequest(
            applicationID=f"app-{number:05d}",
            queueName=f"root.p{queue % _PARENTS}.q{queue}",
            partitionName="default",
            ugi=si_pb2.UserGroupInformation(user=f"user-{number % 500}", groups=["some"]),
            tags={keys.APP_TAG_NAMESPACE: f"team-{queue}", keys.APP_TAG_CREATE_FORCE: "true"},
        )

    def nodes(self) -> Iterator[si_pb2.NodeRequest]:
        """Yield the drained nodes with their pods in messages of 50."""
        for start in range(0, self.size.nodes, 50):
            numbers = range(start, min(start + 50, self.size.nodes))
            yield si_pb2.NodeRequest(rmID=RM, nodes=map(self.node, numbers))

    def node(self, number: int) -> si_pb2.NodeInfo:
        """Return a node in one of five zones."""
        name, label = f"node-{number:05d}", keys.NODE_LABEL_PREFIX
        pods = range(_PODS) if number >= self.size.free else ()
        return si_pb2.NodeInfo(
            nodeID=name,
            action=si_pb2.NodeInfo.CREATE_DRAIN,
            attributes={
                f"{label}kubernetes.io/hostname": name,
                f"{label}zone": str(number % 5),
                f"{label}kubernetes.io/arch": "amd64",
                f"{label}node.kubernetes.io/instance-type": "large",
                "ready": "true",
            },
            schedulableResource=_resource(_CAPACITY),
            existingAllocations=[self.pod(number * _PODS + index, name) for index in pods],
        )

    def opened(self) -> Iterator[si_pb2.NodeRequest]:
        """Yield the opening of all nodes in messages of 100."""
        action = si_pb2.NodeInfo.DRAIN_TO_SCHEDULABLE
        for start in range(0, self.size.nodes, 100):
            numbers = range(start, min(start + 100, self.size.nodes))
            nodes = [si_pb2.NodeInfo(nodeID=f"node-{number:05d}", action=action) for number in numbers]
            yield si_pb2.NodeRequest(rmID=RM, nodes=nodes)

    def pod(self, number: int, node: str) -> si_pb2.Allocation:
        """Return a running pod."""
        app, key = f"app-{number % self.size.applications:05d}", f"{number:036d}"
        self.running.append((app, key))
        # Each application has pods of all sizes, although its number of pods per round is a multiple of `_PODS`.
        amounts = _amounts(_FULL[(number + number // self.size.applications) % _PODS])
        return si_pb2.Allocation(
            allocationKey=key,
            allocationTags={**self.tags(number, app), keys.TAG_ALLOCATED_AT: str(1_790_000_000_000 + number)},
            resourcePerAlloc=_resource(amounts),
            nodeID=node,
            applicationID=app,
            partitionName="default",
        )

    def tags(self, number: int, app: str) -> dict[str, str]:
        """Return the tags of a pod with one image and three labels."""
        return {
            keys.TAG_POD_NAME: f"pod-{number}",
            keys.TAG_NAMESPACE: f"team-{int(app[4:]) % self.size.queues}",
            keys.TAG_CREATION_TIME: str(1_790_000_000 + number // 100),
            keys.TAG_PREFERENCES: '{"images":["docker.io/library/pause:latest"]}',
            **{f"{keys.TAG_POD_LABEL_PREFIX}{label}": app for label in ("app", "applicationId", "team")},
        }

    def asks(self) -> Iterator[si_pb2.AllocationRequest]:
        """Yield the requests in messages of 100."""
        for start in range(0, self.size.asks, 100):
            count = min(100, self.size.asks - start)
            yield si_pb2.AllocationRequest(rmID=RM, asks=[self.ask() for _ in range(count)])

    def ask(self) -> si_pb2.AllocationAsk:
        """Return one more request, of one of about a hundred scheduling classes."""
        self.number += 1
        number = self.number
        # The requests of an application have all sizes, also if the number of applications is a multiple of four.
        cores = _CORES[(number + number // self.size.applications) % len(_CORES)]
        app, key = f"app-{number % self.size.applications:05d}", f"ask-{number:032d}"
        zone = {keys.TAG_CONSTRAINTS: f'{{"nodeSelector":{{"zone":"{number % 7}"}}}}'} if number % 7 < 5 else {}
        self.asked.append((app, key))
        return si_pb2.AllocationAsk(
            allocationKey=key,
            applicationID=app,
            partitionName="default",
            resourceAsk=_resource(_amounts(cores)),
            maxAllocations=1,
            priority=number % 3 * 10,
            tags={**self.tags(10_000_000 + number, app), **zone},
        )

    def end(self) -> si_pb2.AllocationRelease:
        """Return the end of a running pod."""
        app, key = _taken(self.running, self.random)
        stopped = si_pb2.STOPPED_BY_RM
        return si_pb2.AllocationRelease(
            partitionName="default", applicationID=app, allocationKey=key, terminationType=stopped
        )

    def withdrawn(self) -> si_pb2.AllocationAskRelease:
        """Return the end of a request, which may already be placed."""
        app, key = _taken(self.asked, self.random)
        stopped = si_pb2.STOPPED_BY_RM
        return si_pb2.AllocationAskRelease(
            partitionName="default", applicationID=app, allocationKey=key, terminationType=stopped
        )

    def some(self, events: int) -> si_pb2.AllocationRequest:
        """Return a message with this number of events, a multiple of five."""
        fifth = events // 5
        return si_pb2.AllocationRequest(
            rmID=RM,
            asks=[self.ask() for _ in range(2 * fifth)],
            releases=si_pb2.AllocationReleasesRequest(
                allocationsToRelease=[self.end() for _ in range(2 * fifth)],
                allocationAsksToRelease=[self.withdrawn() for _ in range(fifth)],
            ),
        )


def _amounts(cores: int) -> dict[str, int]:
    return {"vcore": cores, "memory": cores << 20, "pods": 1}


def _taken(names: list[tuple[str, str]], random: Random) -> tuple[str, str]:
    index = random.randrange(len(names))
    names[index], names[-1] = names[-1], names[index]
    return names.pop()


def _resource(amounts: Mapping[str, int]) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts.items()})


@dataclass(slots=True)
class Measurement:
    """One run: the core's process, the client and the results."""

    work: Work
    core: psutil.Process
    notes: Path
    client: GrpcClient
    rest: str
    listener: Listener
    found: dict[str, float] = field(default_factory=dict)
    profile: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    sent: muster_pb2.BarrierRequest = field(default_factory=lambda: muster_pb2.BarrierRequest(rmID=RM))
    cpu_s: float = 0.0
    wall_s: float = field(default_factory=time.perf_counter)

    async def noted(self, phase: str) -> dict[str, Any]:
        """Return the core's values since the last report."""
        self.notes.unlink(missing_ok=True)
        self.core.send_signal(signal.SIGUSR1)
        await _until(self.notes.exists)
        values: dict[str, Any] = orjson.loads(self.notes.read_bytes())
        self.profile[phase] = values.get("places", [])
        return values

    def phase(self, name: str) -> None:
        """Record the CPU time since the last phase."""
        now, wall = self._used_s(), time.perf_counter()
        self.found[name], self.cpu_s = now - self.cpu_s, now
        if "--verbose" in sys.argv:
            print(f"{name}: {self.found[name]:.2f} CPU s, {wall - self.wall_s:.2f} s", file=sys.stderr)
        self.wall_s = wall

    async def send(self, request: si_pb2.ApplicationRequest | si_pb2.NodeRequest | si_pb2.AllocationRequest) -> None:
        """Send a message, which later barriers wait for."""
        match request:
            case si_pb2.ApplicationRequest():
                self.sent.applicationRequests += 1
                await self.client.update_application(request)
            case si_pb2.NodeRequest():
                self.sent.nodeRequests += 1
                await self.client.update_node(request)
            case _:
                self.sent.allocationRequests += 1
                await self.client.update_allocation(request)

    async def barrier(self, *, more: bool = True) -> None:
        """Wait until the core has processed all messages."""
        barrier = muster_pb2.BarrierRequest(more=more)
        barrier.MergeFrom(self.sent)
        await self.client.barrier(barrier)

    async def recover(self) -> None:
        """Send the complete state and wait for the first decision, then until nothing else fits."""
        self.phase("listening")
        registration = si_pb2.RegisterResourceManagerRequest(
            rmID=RM,
            version="1.0.0",
            policyGroup="queues",
            config=self.work.queues(),
            extraConfig={keys.EXTRA_BARRIER: "true"},
        )
        await self.client.register_resource_manager(registration, self.listener)
        self.phase("registered")
        for applications in self.work.applications():
            await self.send(applications)
        await _until(lambda: self.listener.accepted >= self.work.size.applications)
        await self.barrier()
        self.phase("applications")
        for nodes in self.work.nodes():
            await self.send(nodes)
        await self.barrier()
        self.phase("nodes")
        for asks in self.work.asks():
            await self.send(asks)
        await self.barrier()
        self.phase("requests")
        for nodes in self.work.opened():
            await self.send(nodes)
        await self.barrier(more=False)
        await self.listener.first.wait()
        self.phase("opened")
        self.found["start"] = self.cpu_s
        self.found["memory-recovered"] = self.core.memory_info().rss / 2**20
        await self.settled()
        self.phase("placed")
        values = await self.noted("start")
        self.found |= {"pause-start": values["iteration"]["max"], "pause-start-busy": values["busy"]["max"]}

    async def settled(self) -> None:
        """Wait until the core has processed all messages, places nothing any more and is idle.

        Node reservations, which follow after a delay, belong to what came before, not to the next phase.
        """
        before, used_s = -1, -_IDLE
        while self.listener.placed > before or self._used_s() > used_s + _IDLE:
            before, used_s = self.listener.placed, self._used_s()
            await self.barrier()
            await asyncio.sleep(3.0)

    def _used_s(self) -> float:
        times = self.core.cpu_times()
        return times.user + times.system

    async def single(self) -> None:
        """Send single events. Each has its own cycle."""
        await self.noted("idle")
        for number in range(self.work.size.single):
            request = si_pb2.AllocationRequest(rmID=RM)
            if number % 2:
                request.asks.append(self.work.ask())
            else:
                request.releases.allocationsToRelease.append(self.work.end())
            await self.send(request)
            await self.barrier()
            await asyncio.sleep(0.06)
        busy = (await self.noted("single"))["work"]
        self.found |= {f"single-{which}": busy[which] for which in ("p50", "p99", "max")}

    async def events(self) -> None:
        """Send events at a rate, and record how long a barrier takes meanwhile."""
        await self.noted("idle")
        before, placed, lags = self._used_s(), self.listener.placed, list[float]()
        probe = asyncio.create_task(self._probe(lags))
        sent = await self._load(self.work.size.seconds)
        await self.settled()
        probe.cancel()
        values = await self.noted("events")
        lags.sort()
        self.found |= {
            "per-event": 1e6 * (self._used_s() - before) / sent,
            "allocations": (self.listener.placed - placed) / sent,
            "cycles": values["cycle"]["n"],
            "cycles-p50": values["cycle"]["p50"],
            "pause-events": values["iteration"]["max"],
            "pause-events-busy": values["busy"]["max"],
            "lag-p99": lags[int(0.99 * (len(lags) - 1))],
        }

    async def _probe(self, lags: list[float]) -> None:
        while True:
            began = time.perf_counter()
            await self.barrier()
            lags.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)

    async def _load(self, seconds: float) -> int:
        began, sent, each = time.perf_counter(), 0, RATE // _BATCHES
        while (passed := time.perf_counter() - began) < seconds:
            if sent < passed * RATE:
                await self.send(self.work.some(each))
                sent += each
            else:
                await asyncio.sleep(0.002)
        return sent

    async def queries(self) -> None:
        """Read the REST views during a load."""
        await self.noted("idle")
        async with aiohttp.ClientSession(self.rest, timeout=aiohttp.ClientTimeout(total=300)) as session:
            for view in VIEWS:
                load = asyncio.create_task(self._load(self.work.size.seconds / 5))
                began = time.perf_counter()
                async with session.get(f"/ws/v1/partition/default/{view}") as answer:
                    body = await answer.read()
                    assert answer.status == 200, body[:500]
                self.found[f"rest-{view.partition('/')[0]}"] = (time.perf_counter() - began) * 1000
                await load
        self.found["pause-rest-busy"] = (await self.noted("rest"))["busy"]["max"]


def run(size: Size, *, profiled: bool = False) -> tuple[dict[str, float], Mapping[str, Sequence[tuple[str, int]]]]:
    """Run one measurement. GOALS has the keys of the result."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        return uvloop.run(_measure(Run(Path(folder), processes), size, profiled=profiled))


async def _measure(
    one: Run, size: Size, *, profiled: bool
) -> tuple[dict[str, float], Mapping[str, Sequence[tuple[str, int]]]]:
    address, port = f"unix://{one.folder}/core.sock", _free_port()
    options = (f"--listen={address}", f"--rest-port={port}", "--log-level=warning")
    notes = one.folder / "notes.json"
    environment = {PROFILE: "1"} if profiled else {}
    core = one.start("core", "benchmarks.measured_core", str(notes), *options, env=environment)
    await _until((one.folder / "core.sock").exists)
    settings = replace(TransportSettings(), register_timeout_s=120.0)
    client = GrpcClient(address, settings=settings)
    work = Work(size)
    measured = Measurement(work, core, notes, client, f"http://127.0.0.1:{port}", Listener(work.running))
    try:
        await measured.recover()
        await measured.single()
        await measured.events()
        await measured.queries()
    finally:
        log = (one.folder / "core.log").read_text()
        if log:
            print(log[-3000:], file=sys.stderr)
    values = await measured.noted("end")
    measured.found |= {"memory-peak": values["peak_mib"], "memory-after": values["mib"]}
    await client.aclose()
    return measured.found, measured.profile


def main() -> None:
    """Measure and print."""
    nodes = next((int(text.partition("=")[2]) for text in sys.argv if text.startswith("--nodes=")), Size().nodes)
    size = QUICK if "--quick" in sys.argv else Size.of(nodes)
    found, profile = run(size, profiled="--profile" in sys.argv)
    for name, (unit, goal) in GOALS.items():
        print(f"{name:18} {found[name]:9.2f} {unit:6}" + (f" (goal: {goal:g})" if goal else ""))
    for phase, places in profile.items():
        samples = sum(count for _, count in places)
        for place, count in places[:25]:
            print(f"{phase:8} {count / samples:6.1%} {count:7} ms  {place}")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
