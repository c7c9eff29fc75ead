"""Applications with their asks and allocations.

Differs: `allocationLog` has what came of attempts to preempt and the one reason for which an ask waits now (count 1),
not all that it ever met; the past is in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from muster_core.edge.rest.shapes import applications as shapes
from muster_core.edge.rest.views.amounts import amounts
from muster_core.edge.si_encode import partition_name
from muster_core.model.release import Termination
from muster_core.model.shortfall import Lack
from muster_core.model.states import ApplicationState
from muster_core.world import ordering
from muster_core.world.applications import Allocation, Application, Ask
from muster_core.world.queues import Queue
from muster_core.world.world import Partition

_MILLISECOND: Final = 1_000_000


def application(app: Application, partition: Partition, now_ns: int) -> shapes.Application:
    """One application, live or ended."""
    spec, gang = app.spec, app.gang
    held = [f"{hold.node}|{hold.key}" for hold in partition.reservations.of(app.id)]
    return shapes.Application(
        applicationID=app.name,
        namespace=spec.namespace or None,
        usedResource=amounts(app.allocated),
        maxUsedResource=amounts(app.peak),
        pendingResource=amounts(app.pending),
        placeholderResource=amounts(gang.allocated),
        placeholderAsk=amounts(spec.placeholder_ask),
        pledgedResource=amounts(gang.pledge),
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
        stateLog=[shapes.StateChange(time=at, applicationState=state.value) for at, state in app.state_log],
        placeholderData=_groups(app),
        gangSchedulingStyle=spec.style.value if spec.is_gang else None,
        gangPlacement=spec.gang_placement.value if spec.is_gang else None,
        hasReserved=bool(held),
        reservations=held,
        maxRequestPriority=max((kind.priority for kind in app.waiting), default=0),
        startTime=app.started_ns // _MILLISECOND,
        resourceHistory=_history(app),
        backoffDeadline=app.asleep_until_ns or None,
    )


def all_of(apps: Iterable[Application], partition: Partition, now_ns: int) -> Iterator[shapes.Application]:
    """Each of them, one at a time."""
    for app in list(apps):
        yield application(app, partition, now_ns)


def ask(app: Application, item: Ask, log: list[shapes.LogEntry]) -> shapes.Ask:
    """One ask that waits, or is parked behind a placeholder that goes."""
    spec, swap = item.spec, item.swap
    return shapes.Ask(
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
        schedulingAttempted=item.said is not None,
        triggeredScaleUp=item.said in (Lack.NODES, Lack.CLUSTER),
        podless=spec.podless or None,
        replaces=None if swap is None else shapes.Swap(allocationID=swap.placeholder, nodeId=swap.node),
    )


def allocation(item: Allocation, partition: Partition) -> shapes.Allocation:
    """One allocation of an application."""
    spec = item.spec
    app = partition.applications.get(spec.application)
    return shapes.Allocation(
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
        podless=spec.podless or None,
        utilization=None if item.utilization is None else amounts(item.utilization),
    )


def line(leaf: Queue, partition: Partition) -> list[shapes.Waiting]:
    """Who waits in a leaf, who is tried first comes first."""
    blockers = leaf.blockers
    return [
        shapes.Waiting(
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
    """`active`, `rejected` or `completed` (which is ended, in whatever way but rejected)."""
    if state == "active":
        return list(partition.applications.values())
    wants_rejected = state == "rejected"
    return [app for app in partition.history if (app.state is ApplicationState.REJECTED) == wants_rejected]


def _groups(app: Application) -> list[shapes.TaskGroup]:
    return [
        shapes.TaskGroup(
            taskGroupName=name,
            count=group.count,
            minResource=amounts(group.resources),
            replaced=group.replaced,
            timedout=group.timed_out,
        )
        for name, group in app.gang.groups.items()
    ]


def _reasons(app: Application, item: Ask, now_ns: int) -> list[shapes.LogEntry]:
    """What came of attempts to preempt, oldest first, and why the ask still waits, as the last try found."""
    log = [
        shapes.LogEntry(message=words, lastOccurrence=at_ns, count=times)
        for words, (times, at_ns) in (item.attempts or {}).items()
    ]
    why = app.refusals.get(item.kind)
    if why is not None and item.swap is None:
        log.append(
            shapes.LogEntry(
                message=why.text(),
                lastOccurrence=now_ns,
                count=1,
                lack=why.lack.value,
                reasons=dict(why.counts) or None,
            )
        )
    return log


def _history(app: Application) -> shapes.ResourceHistory:
    return shapes.ResourceHistory(
        resourceUsage=app.used.seconds(),
        preemptedResource=app.preempted.seconds(),
        placeholderResource=app.placeheld.seconds(),
    )
