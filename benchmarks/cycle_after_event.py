"""Measures one event and the cycle after it: 500 queues, 5,000 applications, 5,000 full nodes, 100,000 pending asks.

    .venv/bin/python -m benchmarks.cycle_after_event

Every node is full, and every ask has failed once. Then single events follow. The CPU time of `step` and the `cycle`
after it is measured, because the machine may be shared. The events are: an allocation ends, an application sends one
more ask, a new application, and its first ask. The goals are 5 ms at the median, 20 ms at p99, 100 ms at most, and 600
MiB.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.peak import peak_mib
from muster_core.model.config import ALLOW_ALL, Configuration, PartitionConfig, PlacementRule, QueueConfig, QuotaLimit
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    AllocationReleased,
    ApplicationAdded,
    AskAdded,
    Event,
    ManagerRegistered,
    NodeAdded,
)
from muster_core.model.ids import AllocationId, AllocationKey, ApplicationId, NodeId, RmId, Termination, partition_id
from muster_core.model.resources import UNLIMITED, Limit, Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, NodeSpec
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState

RM = RmId("benchmark")
PARTITION = partition_id(RM, "default")
_SECOND = 1_000_000_000
_PARENTS = 20
TARGETS = {"median": 5.0, "p99": 20.0, "max": 100.0, "memory": 600.0}
_CORES = (1000, 2000, 4000, 8000)


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the cluster and of its workload."""

    queues: int = 500
    applications: int = 5_000
    nodes: int = 5_000
    asks: int = 100_000


QUICK = Size(50, 500, 500, 5_000)


@dataclass(slots=True)
class Cluster:
    """The state of a full cluster, and the events that are measured."""

    scheduler_state: SchedulerState
    size: Size
    random: Random
    number: int = 0

    def send(self, event: Event) -> list[Effect]:
        """Handle one event and run the cycle after it."""
        now_ns = 1_000 * _SECOND + self.number
        return [*step(self.scheduler_state, event, now_ns), *cycle(self.scheduler_state, now_ns, lambda: True).effects]

    def release(self) -> Event:
        """Return the end of an allocation."""
        partition = self.scheduler_state.partitions[PARTITION]
        node = NodeId(f"node-{self.random.randrange(self.size.nodes):05d}")
        app, identity = next(iter(partition.placed[node]))
        key = partition.placed[node][app, identity].spec.key
        return AllocationReleased(PARTITION, app, key, identity, Termination.STOPPED_BY_RM)

    def ask(self) -> Event:
        """Return one more ask of an application."""
        return AskAdded(self.an_ask(self.random.randrange(self.size.applications)))

    def submit(self) -> Event:
        """Return a new application. Its first ask is the next event."""
        self.number += 1
        queue = queue_path(self.random.randrange(self.size.queues), self.size)
        return ApplicationAdded(ApplicationSpec(PARTITION, ApplicationId(f"new-{self.number}"), queue, user="new"))

    def first_ask(self) -> Event:
        """Return the first ask of the newest application."""
        return AskAdded(self.an_ask(0, app=f"new-{self.number}"))

    def an_ask(self, number: int, app: str = "") -> AskSpec:
        """Return an ask of one of about a hundred scheduling classes."""
        self.number += 1
        cores = _CORES[number % len(_CORES)]
        zone = number % 7
        constraints = Constraints((("zone", str(zone)),)) if zone < 5 else ANYWHERE
        name = ApplicationId(app or f"app-{number:05d}")
        shape = Resources({"vcore": cores, "memory": cores << 20, "pods": 1})
        key = AllocationKey(f"ask-{self.number:032d}")
        return AskSpec(PARTITION, name, key, shape, constraints, priority=number % 3 * 10)


def queue_path(number: int, size: Size) -> str:
    """Return the path of a leaf queue below one of twenty parents."""
    number %= size.queues
    return f"root.p{number % _PARENTS}.q{number}"


def a_cluster(size: Size, seed: int = 1) -> Cluster:
    """Return a cluster with full nodes and pending asks."""
    cluster = Cluster(SchedulerState(), size, Random(seed))
    step(cluster.scheduler_state, ManagerRegistered(RM, configuration(size)), 0)
    for number in range(size.applications):
        step(cluster.scheduler_state, ApplicationAdded(an_application(number, size)), 0)
    for number in range(size.nodes):
        step(cluster.scheduler_state, NodeAdded(a_node(number), existing=tuple(existing(number, size))), 0)
    for number in range(size.asks):
        step(cluster.scheduler_state, AskAdded(cluster.an_ask(number % size.applications)), 0)
    cycle(cluster.scheduler_state, 0, lambda: True)
    return cluster


def configuration(size: Size) -> Configuration:
    """Return queues with guarantees, a maximum in every fifth queue, and a limit per user."""
    parents = []
    for parent in range(_PARENTS):
        leaves = tuple(
            QueueConfig(
                f"q{number}",
                guaranteed=Resources({"vcore": 200_000 + number * 100}),
                max=Limit({"vcore": 280_000}) if number % 5 == 0 else UNLIMITED,
            )
            for number in range(parent, size.queues, _PARENTS)
        )
        parents.append(QueueConfig(f"p{parent}", parent=True, children=leaves))
    limits = (QuotaLimit(users=("*",), max=Limit({"vcore": 1 << 40})),)
    root = QueueConfig("root", parent=True, children=tuple(parents), submit_acl=ALLOW_ALL, limits=limits)
    return Configuration((PartitionConfig("default", root, (PlacementRule("provided"),)),))


def an_application(number: int, size: Size) -> ApplicationSpec:
    """Return an application of one of 500 users."""
    user = f"user-{number % 500}"
    return ApplicationSpec(PARTITION, ApplicationId(f"app-{number:05d}"), queue_path(number, size), user=user)


def a_node(number: int) -> NodeSpec:
    """Return a node with 32 cores in one of five zones."""
    capacity = Resources({"vcore": 32_000, "memory": 256 << 30, "pods": 110})
    return NodeSpec(PARTITION, NodeId(f"node-{number:05d}"), capacity, labels={"zone": str(number % 5)})


def existing(node: int, size: Size) -> Iterator[AllocationSpec]:
    """Yield eight allocations of four cores, which fill the node."""
    for index in range(8):
        key = f"old-{node:05d}-{index}"
        app = ApplicationId(f"app-{(node * 8 + index) % size.applications:05d}")
        shape = Resources({"vcore": 4000, "memory": 4 << 30, "pods": 1})
        identity = AllocationId(f"{key}-0")
        yield AllocationSpec(PARTITION, app, AllocationKey(key), identity, NodeId(f"node-{node:05d}"), shape)


def measure(cluster: Cluster, events: int) -> dict[str, list[float]]:
    """Return the milliseconds of each event by kind."""
    kinds: dict[str, Callable[[], Event]] = {
        "release": cluster.release,
        "ask": cluster.ask,
        "application": cluster.submit,
        "first ask": cluster.first_ask,
    }
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    gc.collect()
    gc.freeze()
    for _ in range(events):
        for kind, make in kinds.items():
            event = make()
            start = time.process_time()
            effects = cluster.send(event)
            times[kind].append((time.process_time() - start) * 1000)
            placed = sum(len(effect.new) for effect in effects if isinstance(effect, AllocationResponse))
            assert placed or kind != "release", "no request of a hundred thousand fits the released resources"
    gc.unfreeze()
    return times


def run(*, quick: bool = False, events: int = 250) -> dict[str, float]:
    """Return the figures of one run over all kinds of events."""
    times = measure(a_cluster(QUICK if quick else Size()), events)
    found = [one for some in times.values() for one in some]
    cut = statistics.quantiles(found, n=100)[98]
    return {"median": statistics.median(found), "p99": cut, "max": max(found), "memory": peak_mib()}


def main(
    events: Annotated[int, typer.Option(help="Events of each kind.")] = 250,
    *,
    quick: Annotated[bool, typer.Option(help="a tenth of the size")] = False,
) -> None:
    """Print the median, the 99th percentile and the maximum of each kind, and the memory."""
    cluster = a_cluster(QUICK if quick else Size())
    times = measure(cluster, events)
    table = Table("milliseconds", "median", "p99", "max")
    for kind, found in [*times.items(), ("all", [one for some in times.values() for one in some])]:
        cut = statistics.quantiles(found, n=100)[98]
        table.add_row(kind, f"{statistics.median(found):.2f}", f"{cut:.2f}", f"{max(found):.2f}")
    console = Console()
    console.print(table)
    console.print(f"memory: {peak_mib():.0f} MiB")


if __name__ == "__main__":
    typer.run(main)
