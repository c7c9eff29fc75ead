"""Health checks and other periodic work of the REST server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.rest.auth import ServerContext
from muster_core.rest.http import EVERY_S, RestContext
from muster_core.rest.schemas import Health, HealthCheck
from muster_core.state.scheduler_state import Partition, SchedulerState

#: Number of findings per check in a message, so that it stays readable.
_MOST_SHOWN: Final = 10

#: Yielded by a check that found nothing wrong, so that other work may run.
_FINE: Final = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted since the start: failed steps and cycles, and rejected nodes."""

    failures: int
    nodes_refused: int


@dataclass(slots=True)
class _Finding:
    """Result of one check, with the first of its findings."""

    name: str
    description: str
    wrong: list[str] = field(default_factory=list)
    count: int = 0

    def found(self, what: str) -> None:
        self.count += 1
        if len(self.wrong) < _MOST_SHOWN:
            self.wrong.append(what)

    def shape(self) -> HealthCheck:
        details = "; ".join(self.wrong)
        if self.count > len(self.wrong):
            details += f"; and {self.count - len(self.wrong)} more"
        return HealthCheck(
            Name=self.name,
            Succeeded=not self.count,
            Description=self.description,
            DiagnosisMessage=details or "nothing found",
        )


def checks(scheduler_state: SchedulerState, counts: Counts) -> Iterator[Health | None]:
    """Yields None after each evaluated object, and at last the result."""
    errors = _Finding("Scheduling errors", "no event and no cycle failed")
    if counts.failures:
        errors.found(f"{counts.failures} events or cycles failed since the start; see the log")
    failed = _Finding("Failed nodes", "no node was rejected")
    if counts.nodes_refused:
        failed.found(f"{counts.nodes_refused} nodes were rejected since the start")
    findings = [errors, failed]
    for name, description, walk in _WALKS:
        finding = _Finding(name, description)
        findings.append(finding)
        for partition in list(scheduler_state.partitions.values()):
            for broken in walk(partition):
                if broken:
                    finding.found(f"{partition.id}: {broken}")
                yield None
    shapes = [finding.shape() for finding in findings]
    yield Health(Healthy=all(shape.Succeeded for shape in shapes), HealthChecks=shapes)


def _negative_queues(partition: Partition) -> Iterator[str]:
    for path, queue in list(partition.queues.by_path.items()):
        wrong = _below_nothing(queue.allocated) or _below_nothing(partition.shown_pending(queue))
        yield f"queue {path} has {wrong}" if wrong else _FINE


def _negative_nodes(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        wrong = _below_nothing(partition.nodes.allocated(name))
        yield f"node {name} has {wrong}" if wrong else _FINE


def _totals(partition: Partition) -> Iterator[str]:
    total, kept = Counter[str](), partition.nodes.capacity_total
    for name in list(partition.nodes):
        yield _FINE
        if partition.nodes.capacity_total is not kept:
            return  # a node has changed meanwhile: the next check compares
        total.update(dict(partition.nodes.record(name).spec.capacity.items()))
    counted = Resources(total)
    yield f"capacity is {kept}, the sum of the nodes is {counted}" if kept != counted else _FINE


def _sums_of_nodes(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        counted = sum((item.spec.resources.on_nodes for item in partition.placed.get(name, {}).values()), NOTHING)
        for app_id, key in partition.targets.get(name, {}):
            app = partition.applications.get(app_id)
            ask = app.asks.get(key) if app else None
            counted += ask.spec.resources.on_nodes if ask else NOTHING
        kept = partition.nodes.allocated(name)
        yield f"node {name}: allocated is {kept}, the sum of its allocations is {counted}" if kept != counted else _FINE


def _within_capacity(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        capacity, taken = partition.nodes.record(name).spec.capacity, partition.nodes.allocated(name)
        yield _FINE if capacity.covers(taken) else f"node {name}: capacity is {capacity}, allocated is {taken}"


def _orphans_on_nodes(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        lost = [
            item.spec.key
            for (app_id, identity), item in partition.placed.get(name, {}).items()
            if (app := partition.applications.get(app_id)) is None or app.allocations.get(identity) is not item
        ]
        yield f"node {name}: no application has {', '.join(lost)}" if lost else _FINE


def _orphans_of_applications(partition: Partition) -> Iterator[str]:
    for app in list(partition.applications.values()):
        lost = [item.spec.key for item in app.allocations.values() if item.node not in partition.nodes]
        yield f"application {app.id}: no node has {', '.join(lost)}" if lost else _FINE


def _reservations(partition: Partition) -> Iterator[str]:
    for reservation in list(partition.reservations.by_ask.values()):
        app = partition.applications.get(reservation.application)
        is_known = app is not None and reservation.key in app.asks and reservation.node in partition.nodes
        if reservation.ask in partition.reservations.by_ask and not is_known:
            subject = f"{reservation.key} of {reservation.application}"
            yield f"node {reservation.node} is reserved for {subject}, one of which does not exist"
        else:
            yield _FINE


def _nodes_of(partition: Partition) -> Iterator[NodeId]:
    for name in list(partition.nodes):
        if name in partition.nodes:
            yield name


def _below_nothing(amounts: Resources) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in amounts.items() if amount < 0)


_WALKS: Final[tuple[tuple[str, str, Callable[[Partition], Iterator[str]]], ...]] = (
    ("Negative resources", "no queue has a negative amount", _negative_queues),
    ("Negative resources", "no node has a negative amount", _negative_nodes),
    ("Consistency of data", "the capacity of a partition is the sum of its nodes", _totals),
    ("Consistency of data", "a node's allocated amount is the sum of its allocations", _sums_of_nodes),
    ("Consistency of data", "no node has more allocated than its capacity", _within_capacity),
    ("Reservation check", "every reservation has a node and a request", _reservations),
    ("Orphan allocation on node check", "every allocation on a node belongs to an application", _orphans_on_nodes),
    ("Orphan allocation on app check", "every allocation of an application is on a node", _orphans_of_applications),
)

_SECOND: Final = 1_000_000_000

#: Time that checks run before other work runs.
_SLICE_S: Final = 0.005

#: Interval at which disabled health checks read the setting again.
_OFF_S: Final = 5.0
_CERTIFICATE_S: Final = 10.0


class Background:
    """Periodic tasks of the REST server, from `start` to `stop`."""

    def __init__(self, rest_context: RestContext, context: ServerContext | None) -> None:
        self._rest_context = rest_context
        self._context = context
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts the tasks."""
        work: dict[str, Coroutine[None, None, None]] = {
            "history": _sample(self._rest_context),
            "health": _check(self._rest_context),
        }
        if self._context is not None:
            work["certificate"] = _renew(self._context)
        self._tasks = [asyncio.create_task(each, name=f"muster-rest-{name}") for name, each in work.items()]

    async def stop(self) -> None:
        """Stops the tasks and waits until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def check_health(rest_context: RestContext) -> None:
    """Runs all checks once and publishes the result. Lets other work run every few milliseconds."""
    metrics = rest_context.core.metrics
    failures = int(metrics.registry.get_sample_value("muster_core_failures_total") or 0)
    until = time.perf_counter() + _SLICE_S
    for found in checks(rest_context.core.loop.scheduler_state, Counts(failures, metrics.nodes_refused)):
        if found is not None:
            rest_context.health = found
            metrics.healthy = found.Healthy
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + _SLICE_S


async def _sample(rest_context: RestContext) -> None:
    while True:
        rest_context.history.sample(rest_context.core.loop.scheduler_state, rest_context.now_ns())
        await asyncio.sleep(EVERY_S)


async def _check(rest_context: RestContext) -> None:
    while True:
        interval_ns = rest_context.core.dispatcher.settings.health_interval_ns
        if interval_ns:
            await check_health(rest_context)
        else:
            rest_context.health = None
        await asyncio.sleep(interval_ns / _SECOND or _OFF_S)


async def _renew(context: ServerContext) -> None:
    while True:
        await asyncio.sleep(_CERTIFICATE_S)
        context.renew()
