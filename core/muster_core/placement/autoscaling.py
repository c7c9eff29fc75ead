"""Requests that are pending because the nodes have too few resources.

The REST API and the session with the resource manager report them as input for an autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from muster_core.model.constraints import Target, TargetOperator
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.ids import ApplicationId, PartitionId
from muster_core.model.resources import Resources
from muster_core.placement.plugins import resources
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition

_NEEDS_NODES: Final = (ReasonKind.NODES, ReasonKind.CLUSTER)

#: Node labels and the attribute by which a request selects an instance type.
_INSTANCE_KEYS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "si/instance-type")


#: Classes that are counted before other work may run, at about 5 us each.
_CLASSES_PER_STEP: Final = 250


@dataclass(frozen=True, slots=True)
class Outstanding:
    """`count` pending allocations with equal resources and instance type. `instance`: empty = any type."""

    partition: PartitionId
    resources: Resources
    instance: str
    count: int
    applications: int

    @property
    def id(self) -> str:
        """Unique in a partition. Depends only on the resources and the instance type."""
        amounts = ",".join(f"{name}={amount}" for name, amount in sorted(self.resources.items()))
        return f"{amounts}@{self.instance}" if self.instance else amounts


def outstanding_in_steps(partition: Partition) -> Iterator[list[Outstanding] | None]:
    """Yields None after a number of classes of requests, and at last the pending allocations, sorted by ID.

    The caller may process other events after each None, so the state may change in between.
    """
    found: dict[_DemandKey, _Sum] = {}
    # Equal classes of many applications share one reason object, so each is classified once. The value refers to the
    # reason, because otherwise another reason could get the same `id()`.
    known: dict[tuple[AskClass, int], tuple[_Sum, UnschedulableReason]] = {}
    for read, (app, kind, why) in enumerate(_refused(partition), 1):
        if read % _CLASSES_PER_STEP == 0:
            yield None
        if why.kind not in _NEEDS_NODES or kind not in app.waiting:
            continue
        memo = kind, id(why)
        if memo not in known:
            known[memo] = _sum_of(found, kind, why), why
        total, _ = known[memo]
        count = _wanted(partition, app, kind) if total is not _EXCLUDED else 0
        if count:
            total.count += count
            total.applications[app.id] = None
    by_id: list[tuple[str, Outstanding]] = []
    for number, ((amount, instance), total) in enumerate(found.items(), 1):
        if number % _CLASSES_PER_STEP == 0:
            yield None
        if total.count:
            one = Outstanding(partition.id, amount, instance, total.count, len(total.applications))
            by_id.append((one.id, one))
    by_id.sort(key=itemgetter(0))
    yield [one for _, one in by_id]


def _refused(partition: Partition) -> Iterator[tuple[Application, AskClass, UnschedulableReason]]:
    """Yields the classes of waiting applications that the last attempt did not schedule. The state may change."""
    for path in list(partition.waiting):
        queue = partition.queues.by_path.get(path)
        for name in [] if queue is None else list(queue.waiting):
            app = partition.applications.get(name)
            if app is not None:
                for kind, why in list(app.refusals.items()):
                    yield app, kind, why


_DemandKey = tuple[Resources, str]


@dataclass(slots=True)
class _Sum:
    """Number of pending allocations, and the applications that they belong to."""

    count: int = 0
    applications: dict[ApplicationId, None] = field(default_factory=dict)


#: Result for a class that is not pending because of resources.
_EXCLUDED: Final = _Sum()


def _sum_of(found: dict[_DemandKey, _Sum], kind: AskClass, why: UnschedulableReason) -> _Sum:
    """Returns the sum that the class is added to, or `_EXCLUDED`."""
    if not _is_about_resources(kind, why):
        return _EXCLUDED
    return found.setdefault((kind.resources, _instance(kind)), _Sum())


def _wanted(partition: Partition, app: Application, kind: AskClass) -> int:
    """Number of pending allocations of the class, without those that wait for quota as well, or for preempted pods."""
    keys, demand = app.waiting[kind], partition.node_demand.find(app, kind)
    refused = demand.refused if demand is not None else {}
    preempting = {
        reservation.key
        for reservation in partition.reservations.of(app.id)
        if reservation.preempted and reservation.key in keys
    }
    if not app.has_multiple and not preempting and (demand is None or demand.kind is not None):
        return len(keys) - len(refused)
    return sum(app.asks[key].left for key in keys if key not in refused and key not in preempting)


def _is_about_resources(kind: AskClass, why: UnschedulableReason) -> bool:
    """Whether some node has too little of a requested resource, or no node exists."""
    if not why.nodes:
        return True
    reasons = {resources.insufficient_resources(name) for name in kind.resources}
    return any(reason in reasons for reason, _ in why.counts)


def _is_one(target: Target) -> bool:
    return target.operator is TargetOperator.IN and len(target.values) == 1


def _instance(kind: AskClass) -> str:
    """Returns the instance type that the node selector or the placement constraint of the request names."""
    wanted = dict(kind.constraints.node_selector)
    if kind.placement is not None:
        wanted |= {target.key: target.values[0] for target in kind.placement.nodes if _is_one(target)}
    return next((wanted[key] for key in _INSTANCE_KEYS if key in wanted), "")
