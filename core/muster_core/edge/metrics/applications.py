"""Applications by state and by queue, and gangs by how far they are: one walk over the live ones, when scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from prometheus_client.core import Metric

from muster_core.edge.metrics.family import PAUSE, counter, gauge
from muster_core.model.ids import QueuePath
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Application, lacking
from muster_core.world.world import Partition

#: As the labels write them; an application that expired is counted no more.
_LABELS: Final[Mapping[ApplicationState, str]] = MappingProxyType(
    {state: state.value.lower() for state in ApplicationState if state is not ApplicationState.EXPIRED}
)
_ENDED: Final = (ApplicationState.COMPLETED, ApplicationState.FAILED, ApplicationState.REJECTED)
#: Applications between two moments at which others may run.
_AT_ONCE: Final = 500


class Phase(StrEnum):
    """How far a gang is: nothing held, a part, all of it and running, or scheduled as usual after a time-out."""

    WAITING = "waiting"
    PARTIAL = "partial"
    RESERVED = "reserved"
    RUNNING = "running"
    RESUMING = "resuming"
    FAILING = "failing"


@dataclass(slots=True)
class Census:
    """What one walk found."""

    states: Counter[str] = field(default_factory=Counter)
    by_queue: dict[QueuePath, dict[str, int]] = field(default_factory=dict)
    phases: Counter[Phase] = field(default_factory=Counter)
    asks: int = 0
    allocations: int = 0


def count(found: Census, partitions: Iterable[Partition]) -> Iterator[None]:
    """Count every application once, also those that ended and are kept. Queues that are gone are left out.
    Where it yields the world may change.
    """
    for partition in partitions:
        by_queue = found.by_queue
        for path, queue in partition.queues.by_path.items():
            if queue.is_leaf:
                by_queue.setdefault(path, dict.fromkeys(_LABELS.values(), 0))
        ended = list(partition.history)
        for number, app in enumerate(list(partition.applications.values())):
            if number % _AT_ONCE == 0:
                yield
            _count(found, app)
            found.asks += len(app.asks)
            found.allocations += len(app.allocations)
            if app.spec.placeholder_ask:
                found.phases[phase(app)] += 1
        for number, app in enumerate(ended):
            if number % _AT_ONCE == 0:
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
    """How far a gang is."""
    if app.state is ApplicationState.RESUMING:
        return Phase.RESUMING
    if app.state is ApplicationState.FAILING:
        return Phase.FAILING
    if app.is_reserving:
        return Phase.PARTIAL if app.gang.allocated else Phase.WAITING
    return Phase.RESERVED if app.gang.reserved and not lacking(app) else Phase.RUNNING


def families(partitions: Iterable[Partition]) -> Iterator[Metric]:
    """All metrics about applications."""
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
        "Gangs, by how far they are.",
        [({"phase": each.value}, found.phases[each]) for each in Phase],
    )
    yield gauge("muster_core_asks", "Asks that wait.", [({}, found.asks)])
    yield gauge("muster_core_allocations", "Allocations, placeholders among them.", [({}, found.allocations)])
