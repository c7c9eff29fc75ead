"""Metrics that are computed from the scheduler state when they are scraped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest
from itertools import accumulate, islice
from operator import itemgetter
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import structlog
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from muster_core.config.settings import CoreSettings
from muster_core.metrics.counters import LINES, PAUSE, Metrics
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

_log = structlog.get_logger(__name__)

#: Label values. Expired applications are not counted.
_LABELS: Final[Mapping[ApplicationState, str]] = MappingProxyType(
    {state: state.value.lower() for state in ApplicationState if state is not ApplicationState.EXPIRED}
)

_RUNNING: Final = _LABELS[ApplicationState.RUNNING]
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
    by_queue: Counter[tuple[QueuePath, str]] = field(default_factory=Counter)
    phases: Counter[Phase] = field(default_factory=Counter)
    #: When the oldest incomplete gang of each queue was submitted.
    oldest_gangs_ns: dict[QueuePath, int] = field(default_factory=dict)
    asks: int = 0
    allocations: int = 0


def count(found: Census, partitions: Iterable[Partition]) -> Iterator[None]:
    """Counts every application once, including stored ended ones. The state may change after each yield."""
    for partition in partitions:
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
    found.by_queue[app.queue.path, label] += 1


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
    yield from gauges(
        "yunikorn_queue_app",
        "Applications of a queue, by state. States without applications are omitted, except running.",
        (
            ({"queue": path, "state": state}, found.by_queue[path, state])
            for path in _queues(partitions, leaves_only=True)
            for state in _LABELS.values()
            if state == _RUNNING or (path, state) in found.by_queue
        ),
    )
    ended: Counter[tuple[QueuePath, ApplicationState]] = Counter()
    for partition in partitions:
        ended.update(partition.ended)
    yield from counters(
        "yunikorn_queue_app_total",
        "Applications that ended in a queue, by final state. Counts of deleted queues remain; above a limit, the "
        "oldest are added to the parent queue.",
        (
            ({"queue": path, "state": _LABELS[state]}, ended[path, state])
            for path in dict.fromkeys(path for path, _ in ended)
            for state in _ENDED
        ),
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


_Amounts = dict[tuple[str, str], int]
_Queues = dict[QueuePath, list[tuple[Queue, Partition]]]


def _queues(partitions: Iterable[Partition], *, leaves_only: bool = False) -> _Queues:
    """Returns the queues by path. Several partitions may have a queue of the same path."""
    found: _Queues = {}
    for partition in partitions:
        for path, queue in partition.queues.by_path.items():
            if queue.is_leaf or not leaves_only:
                found.setdefault(path, []).append((queue, partition))
    return found


def queue_families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """Yields the metrics about queues."""
    partitions = list(partitions)
    yield from gauges(
        "yunikorn_queue_resource",
        "Resources of a queue: guaranteed, max, allocated, pending, preempting, maxRunningApps.",
        (
            ({"queue": path, "state": state, "resource": resource}, amount)
            for path, queues in _queues(partitions).items()
            for (state, resource), amount in _amounts(path, queues).items()
        ),
    )
    leaves = _queues(partitions, leaves_only=True)
    reserved_quota = sum(
        bool(queue.reserved_quota or queue.requested_quota) for queues in leaves.values() for queue, _ in queues
    )
    yield gauge(
        "muster_core_quota_reserving_queues", "Leaf queues in which a gang has reserved quota.", [({}, reserved_quota)]
    )
    yield from counters(
        "muster_core_queue_containers_total",
        "Allocations of a leaf queue, allocated and released.",
        (
            ({"queue": path, "state": state}, number)
            for path, queues in leaves.items()
            for state, number in _containers(queues)
        ),
    )


def _containers(queues: list[tuple[Queue, Partition]]) -> tuple[tuple[str, int], tuple[str, int]]:
    made, gone = sum(queue.made for queue, _ in queues), sum(queue.gone for queue, _ in queues)
    return ("allocated", made), ("released", gone)


class QueueNames:
    """The metrics of YuniKorn that have the path of a queue in their name.

    Several paths may have the same name. Only the first queue then has the metric, as in YuniKorn.
    """

    def __init__(self) -> None:
        self._reported: frozenset[QueuePath] = frozenset()

    def families(self, partitions: Iterable[Partition], *, enabled: bool) -> Iterator[Metric]:
        """Yields one metric per leaf queue, and the number of queues without one. Logs each of these queues once."""
        owners: dict[str, QueuePath] = {}
        without: set[QueuePath] = set()
        for path, queues in _queues(partitions, leaves_only=True).items() if enabled else ():
            name = f"yunikorn_{word(path)}_queue_container"
            first = owners.setdefault(name, path)
            if first == path:
                samples = [({"state": state}, number) for state, number in _containers(queues)]
                yield counter(name, "Allocations of the queue, allocated and released.", samples)
                continue
            without.add(path)
            if path not in self._reported:
                _log.warning(
                    "a queue has no metric with its name, because another queue has the same name in metrics: "
                    "use muster_core_queue_containers_total",
                    queue=path,
                    metric=name,
                    first=first,
                )
        self._reported = frozenset(without)
        yield gauge(
            "muster_core_queue_name_collisions",
            "Leaf queues without a metric of their own name, because another queue has the same name in metrics.",
            [({}, len(without))],
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
        for queue, counts, sum_s in sums(times):
            metric.samples += _buckets(name, {"queue": queue}, counts, sum_s)
            if len(metric.samples) >= LINES:
                yield metric
                metric = Metric(name, meaning, "histogram")
        yield metric


def _buckets(name: str, labels: Mapping[str, str], counts: list[int], sum_s: float) -> Iterator[Sample]:
    for bound, total in zip((*map(float, BOUNDS_S), "+Inf"), accumulate(counts), strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": str(bound)}, total)
    yield Sample(f"{name}_count", dict(labels), sum(counts))
    yield Sample(f"{name}_sum", dict(labels), sum_s)


def _amounts(path: QueuePath, queues: Iterable[tuple[Queue, Partition]]) -> _Amounts:
    amounts: _Amounts = {}
    for queue, partition in queues:
        _add(amounts, path, queue, partition)
    return amounts


def _add(amounts: _Amounts, path: QueuePath, queue: Queue, partition: Partition) -> None:
    """Adds one queue. Usage of 0 is included for CPU, memory, and resources with a guarantee or maximum, so that
    dashboards show an idle queue as 0. The maximum of root is the cluster size."""
    bound = dict(queue.max.items() if queue.path != ROOT else partition.nodes.capacity_total.items())
    named = dict.fromkeys([CPU, MEMORY, *queue.guaranteed, *bound], 0)
    for state, found in (
        ("guaranteed", dict(queue.guaranteed.items())),
        ("max", bound),
        ("allocated", {**named, **dict(queue.allocated.items())}),
        ("pending", {**named, **dict(partition.shown_pending(queue).items())}),
        ("preempting", dict(queue.preempting.items())),
    ):
        for resource, amount in found.items():
            key = (state, resource)
            amounts[key] = amounts.get(key, 0) + amount
    if queue.max_applications:
        key = ("maxRunningApps", "apps")
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
    offered = {name for partition in partitions for name in partition.nodes.capacity_total if name in amounts}
    invented = nsmallest(limits.RESOURCE_NAMES, (name for name in amounts if name not in offered))
    yield gauge(
        "muster_core_outstanding_requests",
        "Pending requests that fit only if nodes are added.",
        [({}, requests)],
    )
    yield gauge(
        "muster_core_outstanding_resource",
        "Resources of the pending requests that fit only if nodes are added.",
        [({"resource": name}, amounts[name]) for name in sorted([*offered, *invented])],
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
    settings: Callable[[], CoreSettings] = CoreSettings


class StateCollector(Collector):
    """Reads the state between two iterations of the loop. Changes nothing."""

    def __init__(self, owners: CollectorSources) -> None:
        self._owners = owners
        self._queue_names = QueueNames()

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
        yield from self._queue_names.families(partitions, enabled=owners.settings().queue_names)
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


_Values = Iterable[tuple[Mapping[str, str], float]]


def gauge(name: str, meaning: str, values: _Values) -> Metric:
    """Returns a gauge with exactly this name."""
    return _metric(name, name, meaning, "gauge", values)


def counter(name: str, meaning: str, values: _Values) -> Metric:
    """Returns a counter. A name that does not end in `_total` is kept unchanged."""
    return _metric(name.removesuffix("_total"), name, meaning, "counter", values)


def gauges(name: str, meaning: str, values: _Values) -> Iterator[Metric]:
    """Yields a gauge with many values in parts, which have the same name."""
    for part in _parts(values):
        yield gauge(name, meaning, part)


def counters(name: str, meaning: str, values: _Values) -> Iterator[Metric]:
    """Yields a counter with many values in parts, which have the same name."""
    for part in _parts(values):
        yield counter(name, meaning, part)


def _parts(values: _Values) -> Iterator[_Values]:
    """Yields the values in parts. At least one, so that the metric is there."""
    left = iter(values)
    part = list(islice(left, LINES))
    yield part
    while part := list(islice(left, LINES)):
        yield part


def word(text: str) -> str:
    """Returns a valid part of a metric name: other characters become `_`."""
    return _INVALID.sub("_", text)


def _metric(family: str, name: str, meaning: str, kind: str, values: _Values) -> Metric:
    metric = Metric(family, meaning, kind)
    metric.samples = [Sample(name, dict(labels), value) for labels, value in values]
    return metric
