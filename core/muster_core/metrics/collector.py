"""Metrics that are computed from the scheduler state when they are scraped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest
from itertools import accumulate
from operator import itemgetter
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from muster_core.metrics.counters import PAUSE, Metrics
from muster_core.model import limits
from muster_core.model.ids import ROOT, QueuePath
from muster_core.model.states import ApplicationState
from muster_core.placement.autoscaling import outstanding_in_steps
from muster_core.si.events import EventStore, PushFilter
from muster_core.state.applications import Application, lacking
from muster_core.state.nodes import Columns
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.waiting_times import BOUNDS_S, sums
from muster_si.keys import CPU, MEMORY

#: Label values. Expired applications are not counted.
_LABELS: Final[Mapping[ApplicationState, str]] = MappingProxyType(
    {state: state.value.lower() for state in ApplicationState if state is not ApplicationState.EXPIRED}
)

_ENDED: Final = (ApplicationState.COMPLETED, ApplicationState.FAILED, ApplicationState.REJECTED)

_INVALID: Final = re.compile(r"[^a-zA-Z0-9_]")

#: Applications that are counted before other work may run.
_APPLICATIONS_PER_SLICE: Final = 500


class Phase(StrEnum):
    """Progress of a gang: no reservation, a part, all of it, running, or scheduled as usual after a timeout."""

    WAITING = "waiting"
    PARTIAL = "partial"
    RESERVED = "reserved"
    RUNNING = "running"
    RESUMING = "resuming"
    FAILING = "failing"


@dataclass(slots=True)
class Census:
    """Counts of applications, requests and allocations."""

    states: Counter[str] = field(default_factory=Counter)
    by_queue: dict[QueuePath, dict[str, int]] = field(default_factory=dict)
    phases: Counter[Phase] = field(default_factory=Counter)
    #: When the oldest incomplete gang of each queue was submitted.
    oldest_gangs_ns: dict[QueuePath, int] = field(default_factory=dict)
    asks: int = 0
    allocations: int = 0


def count(found: Census, partitions: Iterable[Partition]) -> Iterator[None]:
    """Counts every application once, including stored ended ones. Omits deleted queues.

    The state may change after each yield.
    """
    for partition in partitions:
        by_queue = found.by_queue
        for path, queue in partition.queues.by_path.items():
            if queue.is_leaf:
                by_queue.setdefault(path, dict.fromkeys(_LABELS.values(), 0))
        ended = list(partition.history)
        for number, app in enumerate(list(partition.applications.values())):
            if number % _APPLICATIONS_PER_SLICE == 0:
                yield
            _count(found, app)
            found.asks += app.pending_count
            found.allocations += len(app.allocations)
            if app.spec.placeholder_ask and not app.removed:
                found.phases[phase(app)] += 1
                if app.is_reserving:
                    oldest, path = found.oldest_gangs_ns, app.queue.path
                    oldest[path] = min(app.submitted_ns, oldest.get(path, app.submitted_ns))
        for number, app in enumerate(ended):
            if number % _APPLICATIONS_PER_SLICE == 0:
                yield
            _count(found, app)


def _count(found: Census, app: Application) -> None:
    label = _LABELS.get(app.state)
    if label is None:
        return
    found.states[label] += 1
    in_queue = found.by_queue.get(app.queue.path)
    if in_queue is not None:
        in_queue[label] += 1


def phase(app: Application) -> Phase:
    """Returns the progress of a gang."""
    if app.state is ApplicationState.RESUMING:
        return Phase.RESUMING
    if app.state is ApplicationState.FAILING:
        return Phase.FAILING
    if app.is_reserving:
        return Phase.PARTIAL if app.gang.allocated else Phase.WAITING
    return Phase.RESERVED if app.gang.reserved and not lacking(app) else Phase.RUNNING


def application_families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """Yields the metrics about applications."""
    partitions = list(partitions)
    found = Census()
    for _ in count(found, partitions):
        yield PAUSE
    yield gauge(
        "yunikorn_scheduler_application_total",
        "Applications, by state.",
        [({"state": state}, found.states[state]) for state in _LABELS.values()],
    )
    yield gauge(
        "yunikorn_queue_app",
        "Applications of a queue, by state.",
        [
            ({"queue": path, "state": state}, number)
            for path, states in found.by_queue.items()
            for state, number in states.items()
        ],
    )
    ended: Counter[tuple[QueuePath, ApplicationState]] = Counter()
    for partition in partitions:
        ended.update(partition.ended)
    yield counter(
        "yunikorn_queue_app_total",
        "Applications that ended in a queue, by final state. Counts of deleted queues remain; above a limit, the "
        "oldest are added to the parent queue.",
        [
            ({"queue": path, "state": _LABELS[state]}, ended[path, state])
            for path in dict.fromkeys(path for path, _ in ended)
            for state in _ENDED
        ],
    )
    yield gauge(
        "muster_core_gangs",
        "Gangs, by progress.",
        [({"phase": each.value}, found.phases[each]) for each in Phase],
    )
    oldest = nsmallest(limits.QUEUES_WITH_PENDING_GANGS, found.oldest_gangs_ns.items(), key=itemgetter(1, 0))
    yield gauge(
        "muster_core_oldest_pending_gang_timestamp_seconds",
        "Submission time of the oldest incomplete gang of a leaf queue; queues without one have no series.",
        [({"queue": path}, at_ns / 10**9) for path, at_ns in oldest],
    )
    yield gauge("muster_core_pending_asks", "Pending requests.", [({}, found.asks)])
    yield gauge("muster_core_allocations", "Allocations, including placeholders.", [({}, found.allocations)])


_TENTHS: Final = 10

#: Labels of the ranges, as in YuniKorn.
RANGES: Final = ("[0,10%]", *(f"({10 * each}%,{10 * each + 10}%]" for each in range(1, _TENTHS)))


def node_families(partitions: Iterable[Partition], failed: int, decommissioned: int) -> Iterator[Metric]:
    """Yields the metrics about nodes. Rejected and decommissioned nodes are counted elsewhere."""
    active = known = 0
    usage: dict[str, npt.NDArray[np.int64]] = {}
    sums: Counter[tuple[str, str]] = Counter()
    for partition in partitions:
        columns = partition.nodes.columns()
        active += int(columns.open.sum())
        known += len(partition.nodes)
        for resource in columns.capacities:
            sums.update(_sums(partition, columns, resource))
            total = columns.capacities.column(resource, columns.size)
            left = columns.availables.column(resource, columns.size)
            if total is not None:
                counts = usage_counts(total, np.zeros_like(total) if left is None else left)
                usage[resource] = usage[resource] + counts if resource in usage else counts
    states = {"active": active, "draining": known - active, "failed": failed, "decommissioned": decommissioned}
    yield gauge(
        "yunikorn_scheduler_node",
        "Nodes, by state; failed and decommissioned nodes are counted since the start.",
        [({"state": state}, count) for state, count in states.items()],
    )
    yield gauge(
        "muster_core_cluster_resource",
        "Resources of all nodes: capacity, allocated, reserved, and reported utilization.",
        [({"resource": resource, "state": state}, amount) for (resource, state), amount in sums.items()],
    )
    for name, ranges in _by_name(usage).items():
        yield gauge(
            f"yunikorn_scheduler_{name}_node_usage_total",
            "Nodes, by usage of the resource.",
            [({"range": label}, int(count)) for label, count in zip(RANGES, ranges, strict=True)],
        )


def _sums(partition: Partition, columns: Columns, resource: str) -> dict[tuple[str, str], int]:
    """Returns totals of one resource over all nodes of a partition."""

    def sum_of(column: npt.NDArray[np.int64] | None) -> int:
        return 0 if column is None else int(column.sum())

    capacity = sum_of(columns.capacities.column(resource, columns.size))
    taken = capacity - sum_of(columns.availables.column(resource, columns.size))
    return {
        (resource, "capacity"): capacity,
        (resource, "allocated"): taken,
        (resource, "reserved"): sum_of(columns.node_reserved.column(resource, columns.size)),
        (resource, "used"): taken + sum_of(partition.nodes.measured(resource)),
    }


def usage_counts(total: npt.NDArray[np.int64], left: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns how many nodes use up to 10 %, 20 %, … of their capacity. Nodes without capacity are omitted."""
    has = total > 0
    used = (total[has] - left[has]) / total[has]
    tenths = np.clip(np.ceil(used * _TENTHS).astype(np.int64) - 1, 0, _TENTHS - 1)
    return np.bincount(tenths, minlength=_TENTHS)


def _by_name(usage: dict[str, npt.NDArray[np.int64]]) -> dict[str, npt.NDArray[np.int64]]:
    """Groups by the resource name as a part of a metric name. Resources with the same result are added up."""
    named: dict[str, npt.NDArray[np.int64]] = {}
    for resource, counts in usage.items():
        name = word(resource)
        named[name] = named[name] + counts if name in named else counts
    return named


#: Queues that are counted before other work may run.
_QUEUES_PER_SLICE: Final = 50
_Amounts = dict[tuple[str, str, str], int]


def queue_families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """Yields the metrics about queues."""
    amounts: _Amounts = {}
    containers: dict[QueuePath, tuple[int, int]] = {}
    reserved_quota = 0
    for partition in partitions:
        for count, (path, queue) in enumerate(list(partition.queues.by_path.items())):
            if count % _QUEUES_PER_SLICE == 0:
                yield PAUSE
            _add(amounts, path, queue, partition)
            if queue.is_leaf:
                made, gone = containers.get(path, (0, 0))
                containers[path] = (made + queue.made, gone + queue.gone)
                reserved_quota += bool(queue.reserved_quota or queue.requested_quota)
    yield gauge(
        "yunikorn_queue_resource",
        "Resources of a queue: guaranteed, max, allocated, pending, preempting, maxRunningApps.",
        [
            ({"queue": path, "state": state, "resource": resource}, amount)
            for (path, state, resource), amount in amounts.items()
        ],
    )
    yield gauge(
        "muster_core_quota_reserving_queues", "Leaf queues in which a gang has reserved quota.", [({}, reserved_quota)]
    )
    for path, (made, gone) in containers.items():
        yield counter(
            f"yunikorn_{word(path)}_queue_container",
            "Allocations of the queue, allocated and released.",
            [({"state": "allocated"}, made), ({"state": "released"}, gone)],
        )


def waiting_families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """Yields the metrics about waiting times."""
    partitions = list(partitions)
    for name, meaning, times in (
        (
            "muster_core_pod_scheduling_seconds",
            "Time from the creation of a pod to its allocation to a node, without placeholders, by leaf queue.",
            [partition.pod_times for partition in partitions],
        ),
        (
            "muster_core_gang_scheduling_seconds",
            "Time from the submission of a gang until all its members have resources, by leaf queue.",
            [partition.gang_times for partition in partitions],
        ),
    ):
        metric = Metric(name, meaning, "histogram")
        for number, (queue, counts, sum_s) in enumerate(sums(times)):
            if number % _QUEUES_PER_SLICE == 0:
                yield PAUSE
            metric.samples += _buckets(name, {"queue": queue}, counts, sum_s)
        yield metric


def _buckets(name: str, labels: Mapping[str, str], counts: list[int], sum_s: float) -> Iterator[Sample]:
    for bound, total in zip((*map(float, BOUNDS_S), "+Inf"), accumulate(counts), strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": str(bound)}, total)
    yield Sample(f"{name}_count", dict(labels), sum(counts))
    yield Sample(f"{name}_sum", dict(labels), sum_s)


def _add(amounts: _Amounts, path: QueuePath, queue: Queue, partition: Partition) -> None:
    """Adds one queue. Usage of 0 is included for CPU, memory, and resources with a guarantee or maximum, so that
    dashboards show an idle queue as 0. The maximum of root is the cluster size."""
    bound = dict(queue.max.items() if queue.path != ROOT else partition.nodes.capacity_total.items())
    named = dict.fromkeys([CPU, MEMORY, *queue.guaranteed, *bound], 0)
    for state, found in (
        ("guaranteed", dict(queue.guaranteed.items())),
        ("max", bound),
        ("allocated", {**named, **dict(queue.allocated.items())}),
        ("pending", {**named, **dict(queue.pending.items())}),
        ("preempting", dict(queue.preempting.items())),
    ):
        for resource, amount in found.items():
            key = (path, state, resource)
            amounts[key] = amounts.get(key, 0) + amount
    if queue.max_applications:
        key = (path, "maxRunningApps", "apps")
        amounts[key] = amounts.get(key, 0) + queue.max_applications


def shortage_families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """Yields the metrics about missing resources."""
    partitions = list(partitions)
    requests = 0
    amounts: Counter[str] = Counter()
    for partition in partitions:
        for found in outstanding_in_steps(partition):
            yield PAUSE
            for number, one in enumerate(found or ()):
                if number % _APPLICATIONS_PER_SLICE == 0:
                    yield PAUSE
                requests += one.count
                amounts.update(dict(one.resources.times(one.count).items()))
    yield gauge(
        "muster_core_outstanding_requests",
        "Pending requests that fit only if nodes are added.",
        [({}, requests)],
    )
    yield gauge(
        "muster_core_outstanding_resource",
        "Resources of the pending requests that fit only if nodes are added.",
        [({"resource": name}, amount) for name, amount in sorted(amounts.items())],
    )
    reservations = sum(len(partition.reservations.by_ask) for partition in partitions)
    yield gauge("muster_core_reservations", "Requests with a node reservation.", [({}, reservations)])
    yield from _preemptions(partitions)


def _preemptions(partitions: list[Partition]) -> Iterator[Metric]:
    preemptions = [partition.preemptions for partition in partitions]
    running = sum(len(each.running) for each in preemptions)
    yield gauge("muster_core_preemptions_running", "Preemptions whose victims have not ended yet.", [({}, running)])
    yield counter(
        "muster_core_preemptions_total", "Preemptions since the start.", [({}, sum(each.count for each in preemptions))]
    )
    victims = sum(each.victims for each in preemptions)
    yield counter("muster_core_preemption_victims_total", "Allocations preempted for other requests.", [({}, victims)])
    pairs = sum(len(each.thrashing_guards) for each in preemptions)
    yield gauge(
        "muster_core_preemption_thrashing_pairs",
        "Pairs of queues that preempted from each other recently.",
        [({}, pairs)],
    )
    stopped = sum(each.livelocks for each in preemptions)
    yield counter("muster_core_preemption_thrashing_total", "Pauses of preemption between two queues.", [({}, stopped)])


class Backlog(Protocol):
    """The messages that wait for the scheduler task."""

    def __len__(self) -> int: ...

    def oldest_s(self) -> float:
        """Returns the waiting time of the oldest message in seconds; 0 = empty."""


@dataclass(frozen=True, slots=True)
class CollectorSources:
    """Objects that the collector reads. `scheduler_state` is a function, because a rebuild replaces the state."""

    scheduler_state: Callable[[], SchedulerState]
    event_queue: Backlog
    events: EventStore
    pushes: PushFilter
    open_sessions: Callable[[], int]
    metrics: Metrics


class StateCollector(Collector):
    """Reads the state between two iterations of the loop. Changes nothing."""

    def __init__(self, owners: CollectorSources) -> None:
        self._owners = owners

    def describe(self) -> list[Metric]:
        """Returns no names, because they depend on queues and resources."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields every metric. Other work may run between two of them."""
        owners = self._owners
        partitions = list(owners.scheduler_state().partitions.values())
        counted = owners.metrics
        yield from node_families(partitions, counted.nodes_refused, counted.nodes_gone)
        yield from application_families(partitions)
        yield from queue_families(partitions)
        yield from shortage_families(partitions)
        yield from waiting_families(partitions)
        yield from self._events()
        yield from self._core()

    def _events(self) -> Iterator[Metric]:
        events, pushes = self._owners.events, self._owners.pushes
        for name, meaning, value in (
            ("created", "Event records since the start.", events.stored),
            ("channeled", "Event records passed to the store.", events.stored),
            ("not_channeled", "Always 0: the store never rejects a record.", 0),
            ("processed", "Event records accepted by the store.", events.stored),
            ("stored", "Event records written to the ring buffer.", events.stored),
            ("not_stored", "Always 0: the ring buffer never rejects a record.", 0),
            ("collected", "Event records sent to resource managers.", pushes.sent),
        ):
            yield gauge(f"yunikorn_event_total_{name}", meaning, [({}, value)])
        yield gauge("muster_core_events_stored", "Event records in the ring buffer.", [({}, len(events))])
        yield gauge("muster_core_event_streams", "Open event streams.", [({}, events.open_streams)])
        held_back = "Events not sent to resource managers: rate limit, or repeated."
        yield counter("muster_core_events_suppressed_total", held_back, [({}, pushes.held_back)])

    def _core(self) -> Iterator[Metric]:
        owners = self._owners
        event_queue = owners.event_queue
        yield gauge(
            "muster_core_event_queue_depth", "Messages that wait for the scheduler task.", [({}, len(event_queue))]
        )
        lag = "Age of the oldest message that waits for the scheduler task."
        yield gauge("muster_core_event_queue_lag_seconds", lag, [({}, event_queue.oldest_s())])
        yield gauge("muster_core_sessions", "Resource managers with an open session.", [({}, owners.open_sessions())])
        if owners.metrics.healthy is not None:
            meaning = "1 = the last health checks passed."
            yield gauge("muster_core_healthy", meaning, [({}, float(owners.metrics.healthy))])
        ignored = owners.scheduler_state().ignored
        yield counter(
            "muster_core_ignored_events_total",
            "Received events without an effect, by kind.",
            [({"kind": kind}, count) for kind, count in ignored.items()],
        )


def gauge(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Returns a gauge with exactly this name."""
    return _metric(name, name, meaning, "gauge", values)


def counter(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Returns a counter. A name that does not end in `_total` is kept unchanged."""
    return _metric(name.removesuffix("_total"), name, meaning, "counter", values)


def word(text: str) -> str:
    """Returns a valid part of a metric name: other characters become `_`."""
    return _INVALID.sub("_", text)


def _metric(
    family: str, name: str, meaning: str, kind: str, values: Iterable[tuple[Mapping[str, str], float]]
) -> Metric:
    metric = Metric(family, meaning, kind)
    metric.samples = [Sample(name, dict(labels), value) for labels, value in values]
    return metric
