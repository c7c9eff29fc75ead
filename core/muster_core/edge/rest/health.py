"""Is the world what it should be? The checks that run in the background (contract 10.8).

Pure: they read the world. `checks` yields None where others may run and at
the end its findings; the world may change in between, so each comparison is
made in one go and covers no more than one queue, node or application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from muster_core.edge.rest.shapes.records import Health, HealthCheck
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.world.world import Partition, World

#: Of each check, so that a message stays readable.
_MOST_TOLD: Final = 10
#: Yielded by a walk: nothing is wrong here, others may run.
_FINE: Final = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted since the start: steps and cycles that failed, nodes that were refused."""

    failures: int
    nodes_refused: int


@dataclass(slots=True)
class _Finding:
    """One check, and the first of what it found."""

    name: str
    description: str
    wrong: list[str] = field(default_factory=list)
    count: int = 0

    def found(self, what: str) -> None:
        self.count += 1
        if len(self.wrong) < _MOST_TOLD:
            self.wrong.append(what)

    def shape(self) -> HealthCheck:
        told = "; ".join(self.wrong)
        if self.count > len(self.wrong):
            told += f"; and {self.count - len(self.wrong)} more"
        return HealthCheck(
            Name=self.name,
            Succeeded=not self.count,
            Description=self.description,
            DiagnosisMessage=told or "nothing found",
        )


def checks(world: World, counts: Counts) -> Iterator[Health | None]:
    """None, None, … and at last what was found."""
    errors = _Finding("Scheduling errors", "no step and no cycle of the scheduler failed")
    if counts.failures:
        errors.found(f"{counts.failures} steps or cycles failed since the start; each is in the log")
    failed = _Finding("Failed nodes", "no node was refused")
    if counts.nodes_refused:
        failed.found(f"{counts.nodes_refused} nodes were refused since the start")
    findings = [errors, failed]
    for name, description, walk in _WALKS:
        finding = _Finding(name, description)
        findings.append(finding)
        for partition in list(world.partitions.values()):
            for broken in walk(partition):
                if broken:
                    finding.found(f"{partition.id}: {broken}")
                yield None
    shapes = [finding.shape() for finding in findings]
    yield Health(Healthy=all(shape.Succeeded for shape in shapes), HealthChecks=shapes)


def _negative_queues(partition: Partition) -> Iterator[str]:
    for path, queue in list(partition.queues.by_path.items()):
        wrong = _below_nothing(queue.allocated) or _below_nothing(queue.pending)
        yield f"queue {path} has {wrong}" if wrong else _FINE


def _negative_nodes(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        wrong = _below_nothing(partition.nodes.allocated(name))
        yield f"node {name} has {wrong}" if wrong else _FINE


def _totals(partition: Partition) -> Iterator[str]:
    total = Counter[str]()
    for name in partition.nodes:
        total.update(dict(partition.nodes.record(name).spec.capacity.items()))
    kept, counted = partition.nodes.capacity_total, Resources(total)
    yield f"capacity is kept as {kept}, counted over the nodes as {counted}" if kept != counted else _FINE


def _sums_of_nodes(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        counted = sum((item.spec.resources for item in partition.placed.get(name, {}).values()), NOTHING)
        for app_id, key in partition.targets.get(name, {}):
            app = partition.applications.get(app_id)
            ask = app.asks.get(key) if app else None
            counted += ask.spec.resources if ask else NOTHING
        kept = partition.nodes.allocated(name)
        yield f"node {name}: allocated is kept as {kept}, counted as {counted}" if kept != counted else _FINE


def _within_capacity(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        capacity, taken = partition.nodes.record(name).spec.capacity, partition.nodes.allocated(name)
        yield _FINE if capacity.covers(taken) else f"node {name} has {capacity}, allocated is {taken}"


def _orphans_on_nodes(partition: Partition) -> Iterator[str]:
    for name in _nodes_of(partition):
        lost = [
            item.spec.key
            for (app_id, identity), item in partition.placed.get(name, {}).items()
            if (app := partition.applications.get(app_id)) is None or app.allocations.get(identity) is not item
        ]
        yield f"node {name}: no application knows {', '.join(lost)}" if lost else _FINE


def _orphans_of_applications(partition: Partition) -> Iterator[str]:
    for app in list(partition.applications.values()):
        lost = [item.spec.key for item in app.allocations.values() if item.node not in partition.nodes]
        yield f"application {app.id}: no node holds {', '.join(lost)}" if lost else _FINE


def _reservations(partition: Partition) -> Iterator[str]:
    for hold in list(partition.reservations.by_ask.values()):
        app = partition.applications.get(hold.application)
        is_known = app is not None and hold.key in app.asks and hold.node in partition.nodes
        if hold.ask in partition.reservations.by_ask and not is_known:
            yield f"room on {hold.node} is held for {hold.key} of {hold.application}, one of which is gone"
        else:
            yield _FINE


def _nodes_of(partition: Partition) -> Iterator[NodeId]:
    for name in list(partition.nodes):
        if name in partition.nodes:
            yield name


def _below_nothing(amounts: Resources) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in amounts.items() if amount < 0)


_WALKS: Final[tuple[tuple[str, str, Callable[[Partition], Iterator[str]]], ...]] = (
    ("Negative resources", "no queue of a partition has less than nothing", _negative_queues),
    ("Negative resources", "no node has less than nothing", _negative_nodes),
    ("Consistency of data", "a partition has what its nodes have", _totals),
    ("Consistency of data", "a node's allocated amount is the sum of its allocations", _sums_of_nodes),
    ("Consistency of data", "no node has more allocated than it has", _within_capacity),
    ("Reservation check", "what is reserved, and for whom, is there", _reservations),
    ("Orphan allocation on node check", "every allocation on a node belongs to an application", _orphans_on_nodes),
    ("Orphan allocation on app check", "every allocation of an application is on a node", _orphans_of_applications),
)
