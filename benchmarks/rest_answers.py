"""Measures REST views of a large cluster while the core schedules, and how long they block the core.

    .venv/bin/python -m benchmarks rest

The cluster has 500 queues, 5,000 applications of 300 users, 5,000 nodes, and 100,000 asks, nine tenths of them pending.
While a view is read, an ask is added and removed repeatedly. `ms` is the time from the request to the last byte. The
additional value is the longest time for which the event loop was blocked.

The views `rest/large-*` show another cluster, of 10,000 leaf queues and 250 nodes: one application has 25,000
allocations and as many pending requests, and 20,000 applications wait in one leaf queue.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import aiohttp
import uvloop

from benchmarks.core_placement import PARTITION, RM, a_node
from benchmarks.figures import Figure, Options
from muster_core.main import configure_logs
from muster_core.model.config import ALLOW_ALL, Configuration, PartitionConfig, PlacementRule, QueueConfig
from muster_core.model.events import ApplicationAdded, AskAdded, AskReleased, Event, ManagerRegistered, NodeAdded
from muster_core.model.ids import AllocationKey, ApplicationId, Termination
from muster_core.model.resources import Resources
from muster_core.model.specs import ApplicationSpec, AskSpec
from muster_core.rest.server import RestServer, RestSettings
from muster_core.runtime.log_level import LogLevel
from muster_core.runtime.loop import QueuedMessage
from muster_core.runtime.service import Scheduler
from muster_core.scheduling.scheduler import cycle, step
from muster_core.state.scheduler_state import SchedulerState
from muster_si.log_lines import LogFormat

PATHS: Mapping[str, str] = {
    "rest/queues": "/ws/v1/partition/default/queues",
    "rest/nodes": "/ws/v1/partition/default/nodes",
    "rest/applications": "/ws/v1/partition/default/applications/active",
    "rest/users": "/ws/v1/partition/default/usage/users",
    "rest/metrics": "/ws/v1/metrics",
    "rest/large-application": "/ws/v1/partition/default/application/large",
    "rest/large-waiting": "/ws/v1/partition/default/queue/root.waiting/waiting?limit=10",
    "rest/large-queues": "/ws/v1/partition/default/queues",
    "rest/large-users": "/ws/v1/partition/default/usage/users",
    "rest/large-outstanding": "/ws/v1/partition/default/autoscaling",
    "rest/large-metrics": "/ws/v1/metrics",
}
GOALS = {"rest/queues": 200.0}
"""In milliseconds."""

PARENTS, LEAVES, USERS, ASKS = 20, 24, 300, 20
TAGS = {"namespace": "ns", "kubernetes.io/meta/podName": "p", **{f"kubernetes.io/label/l{i}": "v" for i in range(6)}}
SMALL, LARGE = Resources({"vcore": 100, "pods": 1}), Resources({"vcore": 900_000, "pods": 1})


def measure(names: Sequence[str], options: Options) -> list[Figure]:
    """Measure the milliseconds to the last byte of each view."""
    return uvloop.run(_measure(names, options))


async def _measure(names: Sequence[str], options: Options) -> list[Figure]:
    configure_logs(LogLevel.ERROR, LogFormat.JSON)
    size = 500 if options.quick else 5_000
    large = [name for name in names if name.startswith("rest/large-")]
    others = [name for name in names if name not in large]
    figures = await _of_state(others, options, _scheduler_state(_events(size))) if others else []
    return figures + (await _of_state(large, options, _scheduler_state(_large(2 * size))) if large else [])


async def _of_state(names: Sequence[str], options: Options, scheduler_state: SchedulerState) -> list[Figure]:
    core = Scheduler()
    core.loop.scheduler_state = scheduler_state
    gc.collect()
    gc.freeze()  # as the core does after a recovery
    server = RestServer(core, RestSettings(port=0))
    port = await server.start()
    tasks = [asyncio.create_task(core.run()), asyncio.create_task(_come_and_go(core))]
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            return [await _figure(session, name, options.runs) for name in names]
    finally:
        core.close()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await server.stop()


async def _figure(session: aiohttp.ClientSession, name: str, runs: int) -> Figure:
    taken: list[float] = []
    held: list[float] = []
    size = 0
    for _ in range(runs):
        watch = asyncio.create_task(longest_pause())
        started = time.perf_counter()
        async with session.get(PATHS[name], headers={"Accept-Encoding": "identity"}) as answer:
            answer.raise_for_status()
            size = len(await answer.read())
        taken.append((time.perf_counter() - started) * 1000)
        watch.cancel()
        held.append(await watch * 1000)
    additional = {"longest pause, ms": held, "MB": [size / 1e6]}
    return Figure(name, "ms", taken, GOALS.get(name), less_is_better=True, additional=additional)


async def longest_pause() -> float:
    """Return the longest pause of the event loop in seconds, measured until cancelled."""
    longest, last = 0.0, time.perf_counter()
    with suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
    return longest


async def _come_and_go(core: Scheduler) -> None:
    """Add and remove an ask that fits on no node."""
    app, key = ApplicationId("app-0"), AllocationKey("comes-and-goes")
    ask = AskSpec(PARTITION, app, key, LARGE)
    while True:
        core.loop.event_queue.post(QueuedMessage([AskAdded(ask)]))
        await asyncio.sleep(0.001)
        core.loop.event_queue.post(QueuedMessage([AskReleased(PARTITION, app, key, Termination.STOPPED_BY_RM)]))
        await asyncio.sleep(0.001)


def _scheduler_state(events: Iterator[Event]) -> SchedulerState:
    """Return the state after these events and the cycles that follow."""
    scheduler_state = SchedulerState()
    for event in events:
        step(scheduler_state, event, 1)
    while cycle(scheduler_state, 2, lambda: True).more:
        pass
    return scheduler_state


def _events(size: int) -> Iterator[Event]:
    """Yield the events for a state with `size` nodes and applications."""
    leaves = tuple(QueueConfig(f"q{number}") for number in range(LEAVES))
    groups = tuple(QueueConfig(f"g{number}", parent=True, children=leaves) for number in range(PARENTS))
    root = QueueConfig("root", parent=True, children=groups, submit_acl=ALLOW_ALL)
    yield ManagerRegistered(RM, Configuration((PartitionConfig("default", root, (PlacementRule("provided"),)),)))
    for number in range(size):
        yield NodeAdded(a_node(number))
    for number in range(size):
        app = ApplicationId(f"app-{number}")
        queue = f"root.g{number % PARENTS}.q{number // PARENTS % LEAVES}"
        yield ApplicationAdded(ApplicationSpec(PARTITION, app, queue, user=f"user-{number % USERS}"))
        for ask in range(ASKS):
            resources = SMALL if ask < ASKS // 10 else LARGE
            yield AskAdded(AskSpec(PARTITION, app, AllocationKey(f"ask-{number}-{ask}"), resources))


def _large(size: int) -> Iterator[Event]:
    """Yield the events for `size` leaf queues, twice as many waiting applications, and an application of 5 x `size`."""
    leaves = tuple(QueueConfig(f"q{number}") for number in range(size))
    children = (QueueConfig("large"), QueueConfig("waiting"), QueueConfig("leaves", parent=True, children=leaves))
    root = QueueConfig("root", parent=True, children=children, submit_acl=ALLOW_ALL)
    yield ManagerRegistered(RM, Configuration((PartitionConfig("default", root, (PlacementRule("provided"),)),)))
    for number in range(size // 40):
        yield NodeAdded(a_node(number))
    name = ApplicationId("large")
    yield ApplicationAdded(ApplicationSpec(PARTITION, name, "root.large", user="user"))
    for number in range(5 * size):
        resources = SMALL if number % 2 else LARGE
        yield AskAdded(AskSpec(PARTITION, name, AllocationKey(f"large-{number}"), resources, tags=TAGS))
    for number in range(3 * size):
        app = ApplicationId(f"app-{number}")
        queue = "root.waiting" if number < 2 * size else f"root.leaves.q{number % size}"
        yield ApplicationAdded(ApplicationSpec(PARTITION, app, queue, user="user"))
        yield AskAdded(AskSpec(PARTITION, app, AllocationKey(f"ask-{number}"), LARGE))
