"""Measures placements per second of the core: 10,000 asks of 10 applications on 500 to 5,000 nodes, in one process.

    .venv/bin/python -m benchmarks.core_placement

There are three measurements: only planning, with all members of an application at once; only planning, pod by pod; and
the engine, which receives each ask as an event, plans, commits and reports each allocation. Nodes have 32 CPUs,
256 GiB, room for 110 pods, and a unique label. Half of the asks of the mixed column select a zone. Results are medians
of `--runs`, in CPU time. The goal is 48,000 allocations per second of the engine on 5,000 nodes, ten times YuniKorn's.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from muster_core.model.config import ALLOW_ALL, Configuration, NodeSort, PartitionConfig, PlacementRule, QueueConfig
from muster_core.model.constraints import ANYWHERE, Constraints
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import ApplicationAdded, AskAdded, ManagerRegistered, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, RmId, partition_id
from muster_core.model.resources import Resources
from muster_core.model.specs import ApplicationSpec, AskSpec, NodeSpec
from muster_core.placement.node_search import place
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.nodes import NodeTable
from muster_core.state.scheduler_state import SchedulerState
from muster_core.state.snapshot import RequestShape, Snapshot

RM = RmId("benchmark")
PARTITION = partition_id(RM, "default")
SIZES = (500, 1000, 2000, 5000)
APPLICATIONS = 10
ASKED = Resources({"vcore": 100, "memory": 50 << 20, "pods": 1})
IN_ZONE = Constraints((("zone", "1"),))
TARGET = 48_000


def a_node(number: int) -> NodeSpec:
    """Return a node of the cluster on which the other schedulers were measured."""
    name = f"node-{number:05d}"
    capacity = Resources({"vcore": 32_000, "memory": 256 << 30, "pods": 110})
    labels = {"kubernetes.io/hostname": name, "zone": str(number % 3)}
    return NodeSpec(PARTITION, NodeId(name), capacity, labels=labels)


def a_table(size: int) -> NodeTable:
    """Return a table of schedulable nodes."""
    table = NodeTable()
    for number in range(size):
        table.add(a_node(number), draining=False)
    return table


def constraints(*, mixed: bool) -> list[Constraints]:
    """Return the constraints of each application."""
    return [IN_ZONE if mixed and number % 2 else ANYWHERE for number in range(APPLICATIONS)]


def planned_at_once(size: int, asks: int, *, mixed: bool) -> float:
    """Return the seconds to place the members of each application together."""
    snapshot = Snapshot(a_table(size))
    return timed(
        lambda: [
            place(snapshot, RequestShape(ASKED, of), asks // APPLICATIONS, NodeSort())
            for of in constraints(mixed=mixed)
        ]
    )


def planned_singly(size: int, asks: int, *, mixed: bool) -> float:
    """Return the seconds to place one pod after the other."""
    snapshot = Snapshot(a_table(size))
    shapes = [RequestShape(ASKED, of) for of in constraints(mixed=mixed)]
    return timed(lambda: [place(snapshot, shapes[number % APPLICATIONS], 1, NodeSort()) for number in range(asks)])


def by_the_engine(size: int, asks: int, *, mixed: bool) -> float:
    """Return the seconds from the first ask received to the last allocation reported."""
    scheduler_state = a_state(size)
    events = list(asks_of_all(asks, constraints(mixed=mixed)))
    effects: list[Effect] = []

    def run() -> None:
        for event in events:
            effects.extend(step(scheduler_state, event, 1))
        effects.extend(cycle(scheduler_state, 1, lambda: True).effects)

    seconds = timed(run)
    count = sum(len(effect.new) for effect in effects if isinstance(effect, AllocationResponse))
    assert count == asks, f"{count} of {asks} were allocated"
    return seconds


def a_state(size: int) -> SchedulerState:
    """Return the state of a registered resource manager with nodes, and applications in one leaf queue each."""
    scheduler_state = SchedulerState()
    root = QueueConfig("root", parent=True, submit_acl=ALLOW_ALL)
    rules = (PlacementRule("provided", create=True),)
    step(scheduler_state, ManagerRegistered(RM, Configuration((PartitionConfig("default", root, rules),))), 0)
    for number in range(size):
        step(scheduler_state, NodeAdded(a_node(number)), 0)
    for number in range(APPLICATIONS):
        spec = ApplicationSpec(PARTITION, ApplicationId(f"app-{number}"), queue=f"root.queue-{number}")
        step(scheduler_state, ApplicationAdded(spec), 0)
    return scheduler_state


def asks_of_all(asks: int, values: list[Constraints]) -> Iterator[AskAdded]:
    """Yield the asks. The applications alternate."""
    for number in range(asks):
        iteration = number % APPLICATIONS
        key, app = AllocationKey(f"{number:036d}"), ApplicationId(f"app-{iteration}")
        yield AskAdded(AskSpec(PARTITION, app, key, ASKED, constraints=values[iteration], namespace="benchmark"))


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the work. The core is one thread, and the machine may be shared.

    Existing objects are frozen for the garbage collector, as when the core runs.
    """
    gc.collect()
    gc.freeze()
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    gc.unfreeze()
    return seconds


WAYS: tuple[tuple[str, Callable[..., float], bool], ...] = (
    ("plan, at once", planned_at_once, False),
    ("plan, one by one", planned_singly, False),
    ("plan, one by one, mixed", planned_singly, True),
    ("engine", by_the_engine, False),
    ("engine, mixed", by_the_engine, True),
)


def main(
    asks: Annotated[int, typer.Option(help="Pods to place in all.")] = 10_000,
    runs: Annotated[int, typer.Option(help="Runs of each measurement; the median counts.")] = 3,
) -> None:
    """Print placements per CPU second for each measurement and size."""
    table = Table("places per processor second", *(f"{size:,} nodes" for size in SIZES))
    for name, measure, mixed in WAYS:
        rates = [asks / statistics.median(measure(size, asks, mixed=mixed) for _ in range(runs)) for size in SIZES]
        table.add_row(name, *(f"{rate:,.0f}" for rate in rates))
    console = Console()
    console.print(table)
    console.print(f"target: {TARGET:,} by the engine on 5,000 nodes")


if __name__ == "__main__":
    typer.run(main)
