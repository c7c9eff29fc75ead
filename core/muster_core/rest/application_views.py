"""Views of applications, requests and allocations as JSON objects of the REST interface.

Differs: `allocationLog` has the results of preemption attempts and the one present reason for which a request waits
(count 1), not every reason that it ever had. Earlier reasons are in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from muster_core.model.decisions import ReasonKind
from muster_core.model.ids import Termination, partition_name
from muster_core.model.resources import Limit, Resources
from muster_core.model.states import ApplicationState
from muster_core.rest import schemas
from muster_core.state import ordering
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition

_PERCENT: Final = 100
_SECOND: Final = 1_000_000_000
_UNITS: Final = ((3600 * _SECOND, "h"), (60 * _SECOND, "m"))


def amounts(found: Resources | Limit) -> dict[str, int]:
    """Amounts or limits by resource name."""
    return dict(sorted(found.items()))


def percents(used: Resources, whole: Resources | Limit) -> dict[str, int]:
    """Used share in percent of every resource in `whole`."""
    return {name: used[name] * _PERCENT // amount for name, amount in sorted(whole.items()) if amount > 0}


def span(nanoseconds: int) -> str:
    """Formats a duration like Go: `30s`, `1m30s`, `1h0m0s`."""
    if nanoseconds % _SECOND:
        return f"{nanoseconds / _SECOND:g}s"
    text, rest = "", nanoseconds
    for unit, letter in _UNITS:
        if rest >= unit or text:
            text += f"{rest // unit}{letter}"
            rest %= unit
    return f"{text}{rest // _SECOND}s"


_MILLISECOND: Final = 1_000_000


def application(app: Application, partition: Partition, now_ns: int) -> schemas.ApplicationInfo:
    """Returns one application, live or ended."""
    spec, gang = app.spec, app.gang
    held = [f"{hold.node}|{hold.key}" for hold in partition.reservations.of(app.id)]
    return schemas.ApplicationInfo(
        applicationID=app.name,
        namespace=spec.namespace or None,
        usedResource=amounts(app.allocated),
        maxUsedResource=amounts(app.peak),
        pendingResource=amounts(app.pending),
        placeholderResource=amounts(gang.allocated),
        placeholderAsk=amounts(spec.placeholder_ask),
        reservedQuota=amounts(gang.quota_reservation),
        partition=partition_name(spec.partition),
        queueName=app.queue.path,
        submissionTime=app.submitted_ns,
        finishedTime=app.ended_ns or None,
        requests=[ask(app, item, _reasons(app, item, now_ns)) for item in app.asks.values()],
        allocations=[allocation(item, partition) for item in app.allocations.values()],
        applicationState=app.state.value,
        user=spec.user,
        groups=list(spec.groups),
        rejectedMessage=app.rejected_message,
        stateLog=[schemas.StateChange(time=at, applicationState=state.value) for at, state in app.state_log],
        placeholderData=_groups(app),
        gangSchedulingStyle=spec.style.value if spec.is_gang else None,
        gangPlacement=spec.gang_placement.value if spec.is_gang else None,
        unsatisfiable=app.is_reserving and bool(gang.impossible or gang.exceeds_nodes) if spec.is_gang else None,
        hasReserved=bool(held),
        reservations=held,
        maxRequestPriority=max((kind.priority for kind in app.waiting), default=0),
        startTime=app.started_ns // _MILLISECOND,
        resourceHistory=_history(app),
        backoffDeadline=app.backoff_until_ns or None,
    )


def all_of(apps: Iterable[Application], partition: Partition, now_ns: int) -> Iterator[schemas.ApplicationInfo]:
    """Yields the applications one at a time."""
    for app in list(apps):
        yield application(app, partition, now_ns)


def ask(app: Application, item: Ask, log: list[schemas.LogEntry]) -> schemas.AskInfo:
    """Returns one request that waits, including one that waits for a placeholder to be released."""
    spec, replacement = item.spec, item.replacement
    return schemas.AskInfo(
        allocationKey=spec.key,
        allocationTags=dict(spec.tags),
        requestTime=spec.created_ns,
        resource=amounts(spec.resources),
        pendingCount=item.left,
        priority=str(spec.priority),
        requiredNodeId=spec.required_node or spec.constraints.node_name,
        applicationId=app.name,
        partition=partition_name(spec.partition),
        placeholder=spec.placeholder,
        placeholderTimeout=spec.timeout_ns if spec.placeholder else 0,
        taskGroupName=spec.group,
        allocationLog=log,
        triggeredPreemption=item.triggered,
        originator=spec.originator,
        schedulingAttempted=item.reported_kind is not None,
        triggeredScaleUp=item.reported_kind in (ReasonKind.NODES, ReasonKind.CLUSTER),
        is_virtual=spec.is_virtual or None,
        replaces=None
        if replacement is None
        else schemas.ReplacementInfo(allocationID=replacement.placeholder, nodeId=replacement.node),
    )


def allocation(item: Allocation, partition: Partition) -> schemas.AllocationInfo:
    """Returns one allocation of an application."""
    spec = item.spec
    app = partition.applications.get(spec.application)
    return schemas.AllocationInfo(
        allocationKey=spec.key,
        allocationID=item.id,
        allocationTags=dict(spec.tags),
        requestTime=spec.created_ns,
        allocationTime=item.allocated_ns,
        allocationDelay=max(item.allocated_ns - spec.created_ns, 0) if spec.created_ns else 0,
        resource=amounts(spec.resources),
        priority=str(spec.priority),
        nodeId=item.node,
        applicationId=app.name if app is not None else spec.application,
        partition=partition_name(partition.id),
        placeholder=spec.placeholder,
        placeholderUsed=item.replaced_placeholder,
        taskGroupName=spec.group,
        preempted=item.releasing is Termination.PREEMPTED_BY_SCHEDULER,
        originator=spec.originator,
        releasing=None if item.releasing is None else item.releasing.value,
        is_virtual=spec.is_virtual or None,
        utilization=None if item.utilization is None else amounts(item.utilization),
    )


def line(leaf: Queue, partition: Partition) -> list[schemas.Waiting]:
    """Returns the waiting applications of a leaf in scheduling order."""
    blockers = leaf.blockers
    return [
        schemas.Waiting(
            applicationID=app.name,
            namespace=app.spec.namespace or None,
            applicationState=app.state.value,
            priority=app.shown or 0,
            submissionTime=app.submitted_ns,
            pendingResource=amounts(app.pending),
            usedResource=amounts(app.allocated),
            placeholderResource=amounts(app.gang.allocated),
            blocksOthers=app.id in blockers,
        )
        for app in ordering.applications(partition, leaf)
    ]


def with_state(partition: Partition, state: str) -> list[Application]:
    """Returns the applications that are `active`, `rejected` or `completed`; `completed` includes failed ones."""
    if state == "active":
        return list(partition.applications.values())
    wants_rejected = state == "rejected"
    return [app for app in partition.history if (app.state is ApplicationState.REJECTED) == wants_rejected]


def _groups(app: Application) -> list[schemas.TaskGroupInfo]:
    return [
        schemas.TaskGroupInfo(
            taskGroupName=name,
            count=group.count,
            minResource=amounts(group.resources),
            replaced=group.replaced,
            timedout=group.timed_out,
        )
        for name, group in app.gang.groups.items()
    ]


def _reasons(app: Application, item: Ask, now_ns: int) -> list[schemas.LogEntry]:
    """Returns the results of preemption attempts, oldest first, and the reason found by the last scheduling attempt."""
    log = [
        schemas.LogEntry(message=words, lastOccurrence=at_ns, count=times)
        for words, (times, at_ns) in (item.attempts or {}).items()
    ]
    why = app.refusals.get(item.kind)
    if why is not None and item.replacement is None:
        log.append(
            schemas.LogEntry(
                message=why.text(),
                lastOccurrence=now_ns,
                count=1,
                reason=why.kind.value,
                reasons=dict(why.counts) or None,
            )
        )
    return log


def _history(app: Application) -> schemas.ResourceHistory:
    return schemas.ResourceHistory(
        resourceUsage=app.used.seconds(),
        preemptedResource=app.preempted.seconds(),
        placeholderResource=app.placeholder_consumption.seconds(),
    )
