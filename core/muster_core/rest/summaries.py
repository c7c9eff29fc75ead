"""Short forms of applications and nodes, and the waiting requests by reason: what lists of thousands of them show.

Each costs a few microseconds, and no list of pods is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.states import ApplicationState
from muster_core.rest import schemas
from muster_core.rest.views import GANG, amounts, attributes, reason_of_gang, with_devices
from muster_core.state.applications import Application
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition

#: Reason of a gang that waits for members which nothing creates.
_MEMBERS: Final = "members"

#: Applications that are counted before other work may run, at about 20 us each.
_AT_ONCE: Final = 50

#: Longer messages are truncated: one can have the reasons of thousands of nodes.
_MOST_TEXT: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Wait:
    """Requests of one class and what they wait for. Empty reason: they were not evaluated yet."""

    reason: str
    message: str
    requests: int
    resource: Resources


def applications(apps: Iterable[Application], partition: Partition) -> Iterator[schemas.ApplicationSummary]:
    """Yields the summaries of applications, live or ended, one at a time."""
    for app in list(apps):
        yield _application(app, partition)


def _application(app: Application, partition: Partition) -> schemas.ApplicationSummary:
    spec = app.spec
    most = max(_waits(app, partition), key=lambda wait: wait.requests, default=None)
    message = app.rejected_message or app.failure_message or (most.message if most else "")
    return schemas.ApplicationSummary(
        applicationID=app.name,
        namespace=spec.namespace or None,
        queueName=app.queue.path,
        applicationState=app.state.value,
        user=spec.user,
        submissionTime=app.oldest_ns,
        finishedTime=app.ended_ns or None,
        usedResource=amounts(app.allocated),
        pendingResource=amounts(app.pending),
        placeholderResource=amounts(app.gang.allocated),
        pods=app.real_allocations,
        placeholders=len(app.allocations) - app.real_allocations,
        pending=app.pending_count,
        isGang=spec.is_gang,
        unsatisfiable=(app.is_reserving and bool(app.gang.impossible or app.gang.exceeds_nodes)) or None,
        reason=(most.reason or None) if most else None,
        message=message[:_MOST_TEXT] or None,
    )


def _waits(app: Application, partition: Partition) -> Iterator[_Wait]:
    """Yields what the requests of an application wait for, by class.

    Members of an incomplete gang wait for the same as its placeholders. They count once: as placeholders, if any wait.
    """
    if app.state is ApplicationState.REJECTED:
        return
    if app.is_reserving and app.gang.members_missing:
        yield _Wait(_MEMBERS, app.gang.members_missing, app.pending_count, app.pending)
        return
    skips_members = app.is_reserving and app.placeholder_asks > 0
    for kind, keys in app.waiting.items():
        if kind.placeholder or not skips_members:
            count = sum(app.asks[key].left for key in keys) if app.has_multiple else len(keys)
            yield _wait(app, kind, count, partition)


def _wait(app: Application, kind: AskClass, requests: int, partition: Partition) -> _Wait:
    ask = app.asks[next(iter(app.waiting[kind]))]
    resource = NOTHING.plus(ask.spec.resources, requests)
    why = partition.node_demand.refusal(app, ask) or app.refusals.get(kind)
    if why is not None:
        return _Wait(why.kind.value, why.text(), requests, resource)
    if app.is_reserving and not kind.placeholder:
        return _Wait(GANG, reason_of_gang(app), requests, resource)
    return _Wait("", "", requests, resource)


def waiting_by_reason(partition: Partition) -> Iterator[schemas.WaitingSummary | None]:
    """Yields the waiting requests by reason, the reason of most requests first, and None before."""
    found: dict[str, tuple[int, int, Resources]] = {}
    longest: dict[str, tuple[Application, str]] = {}
    for number, app in enumerate(list(partition.applications.values()), 1):
        if number % _AT_ONCE == 0:
            yield None
        reasons: dict[str, None] = {}
        for wait in _waits(app, partition) if app.waiting else ():
            requests, apps, resource = found.get(wait.reason, (0, 0, NOTHING))
            is_new = wait.reason not in reasons
            found[wait.reason] = requests + wait.requests, apps + is_new, resource + wait.resource
            reasons[wait.reason] = None
            if wait.reason not in longest or app.oldest_ns < longest[wait.reason][0].oldest_ns:
                longest[wait.reason] = app, wait.message
    for reason, (requests, apps, resource) in sorted(found.items(), key=lambda item: (-item[1][0], item[0])):
        app, message = longest[reason]
        yield schemas.WaitingSummary(
            reason=reason or None,
            requests=requests,
            applications=apps,
            resource=amounts(resource),
            applicationID=app.name,
            namespace=app.spec.namespace or None,
            queueName=app.queue.path,
            submissionTime=app.oldest_ns,
            message=message[:_MOST_TEXT] or None,
        )


def nodes(partition: Partition, names: Iterable[NodeId]) -> Iterator[schemas.NodeSummary]:
    """Yields the summaries of these nodes one at a time, without those that were removed meanwhile."""
    for name in names:
        if name not in partition.nodes:
            continue
        record = partition.nodes.record(name)
        spec, (capacity, taken) = record.spec, with_devices(partition, name)
        yield schemas.NodeSummary(
            nodeID=name,
            state=record.state.value,
            attributes=attributes(partition, spec),
            capacity=amounts(capacity),
            allocated=amounts(taken),
            occupied=amounts(spec.occupied + record.foreign),
            available=dict.fromkeys(capacity, 0) | amounts(capacity - taken - spec.occupied - record.foreign),
            allocations=len(partition.placed.get(name, ())),
            foreignAllocations=len(record.foreign_pods),
            reservations=sum(1 for _ in partition.reservations.on(name)),
        )
