"""Event records of changes to applications, requests and allocations.

The other modules of `scheduling` call it at each change, or a method of `Partition` such as `note_ask`. Records of
requests and allocations are created only while event tracking is enabled.

Differs: an allocation is also recorded on its queue (QUEUE_ALLOC), and the end of its request too (REQUEST_ALLOC);
YuniKorn defines numbers for both and never sends them.

Differs: APP_STARTING and NODE_READY are never sent, because there is no state Starting, and NODE_SCHEDULABLE reports
that a node is ready.

Differs: QUEUE_MAX of root has the new total of the nodes; YuniKorn's record has the previous one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster_core.model.config import QuotaLimit
from muster_core.model.errors import BrokenDecision
from muster_core.model.ids import NodeId, QueuePath, Termination
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState
from muster_core.state.applications import Allocation, Application
from muster_core.state.scheduler_state import Partition

_STATES: Final[Mapping[ApplicationState, Detail]] = MappingProxyType(
    {
        ApplicationState.NEW: Detail.APP_NEW,
        ApplicationState.ACCEPTED: Detail.APP_ACCEPTED,
        ApplicationState.RUNNING: Detail.APP_RUNNING,
        ApplicationState.RESUMING: Detail.APP_RESUMING,
        ApplicationState.COMPLETING: Detail.APP_COMPLETING,
        ApplicationState.COMPLETED: Detail.APP_COMPLETED,
        ApplicationState.FAILING: Detail.APP_FAILING,
        ApplicationState.FAILED: Detail.APP_FAILED,
        ApplicationState.REJECTED: Detail.APP_REJECT,
        ApplicationState.EXPIRED: Detail.APP_EXPIRED,
    }
)

_RUNNABLE: Final[Mapping[Detail, Detail]] = MappingProxyType(
    {
        Detail.APP_CANNOTRUN_QUEUE: Detail.APP_RUNNABLE_QUEUE,
        Detail.APP_CANNOTRUN_QUOTA: Detail.APP_RUNNABLE_QUOTA,
    }
)

_GOING: Final[Mapping[Termination | None, Detail]] = MappingProxyType(
    {
        None: Detail.ALLOC_CANCEL,
        Termination.STOPPED_BY_RM: Detail.ALLOC_CANCEL,
        Termination.TIMEOUT: Detail.ALLOC_TIMEOUT,
        Termination.PREEMPTED_BY_SCHEDULER: Detail.ALLOC_PREEMPT,
        Termination.PLACEHOLDER_REPLACED: Detail.ALLOC_REPLACED,
    }
)


def application_added(partition: Partition, app: Application) -> None:
    """Records a new application and its queue."""
    partition.note(Notice.APPLICATION, app.id, change=Change.ADD, detail=Detail.APP_NEW)
    queue_application_added(partition, app)


def queue_application_added(partition: Partition, app: Application) -> None:
    """Records that an application was added to its queue."""
    partition.note(Notice.QUEUE, app.queue.path, change=Change.ADD, detail=Detail.QUEUE_APP, reference=app.id)


def application_state_changed(partition: Partition, app: Application, message: str = "") -> None:
    """Records the new state of an application."""
    detail, name = _STATES[app.state], app.spec.shown_as
    partition.note(Notice.APPLICATION, app.id, change=Change.SET, detail=detail, message=message, app_name=name)


def application_removed(partition: Partition, app: Application) -> None:
    """Records that an application was removed from its queue and partition."""
    if app.linked:
        partition.note_group(app, Change.REMOVE)
    partition.note(Notice.APPLICATION, app.id, change=Change.REMOVE, app_name=app.spec.shown_as)
    queue_application_removed(partition, app)


def queue_application_removed(partition: Partition, app: Application) -> None:
    """Records that an application was removed from its queue."""
    queue, gone, name = app.queue.path, Change.REMOVE, app.spec.shown_as
    partition.note(Notice.QUEUE, queue, change=gone, detail=Detail.QUEUE_APP, reference=app.id, app_name=name)


def allocation_removed(partition: Partition, app: Application, place: Allocation, *, node_removed: bool) -> None:
    """Records the end of an allocation, with the termination type or the removal of its node."""
    why = Detail.ALLOC_NODEREMOVED if node_removed else _GOING[place.releasing]
    if why is Detail.ALLOC_TIMEOUT and app.gang.given_up:
        why = Detail.ALLOC_CANCEL
    partition.note_allocations(app, (place,), Change.REMOVE, why)


def group_changed(partition: Partition, app: Application, before: str) -> None:
    """Records that an application counts for another group. `before`: the earlier group; empty = none."""
    detail = Detail.UG_APP_LINK
    if before:
        partition.note(Notice.USER_GROUP, before, change=Change.REMOVE, detail=detail, reference=app.id)
    app.linked = False
    if app.group:
        partition.note_group(app, Change.SET)


def runnable_changed(partition: Partition, app: Application, held: Detail) -> None:
    """Records that `maxapplications` has started to hold the application back, or no longer does (`Detail.NONE`).

    The details are those of YuniKorn: APP_CANNOTRUN_* and APP_RUNNABLE_*.
    """
    detail = held if held is not Detail.NONE else _RUNNABLE[app.cannot_run]
    app.cannot_run = held
    partition.note(Notice.APPLICATION, app.id, detail=detail)


def reserved(partition: Partition, node: NodeId, ask: AskSpec, change: Change) -> None:
    """Records that a node is reserved for a request (`Change.ADD`) or no longer."""
    detail = Detail.NODE_RESERVATION
    partition.note(Notice.NODE, node, change=change, detail=detail, reference=ask.key, resource=ask.resources)


def broken(partition: Partition, queue: QueuePath, why: BrokenDecision) -> str:
    """Counts and records a plan that was not valid when it was committed, which is a bug. Returns the reason."""
    partition.void_decisions += 1
    partition.note(Notice.QUEUE, queue, message=str(why))
    return str(why)


def limits_changed(
    partition: Partition, queue: QueuePath, old: tuple[QuotaLimit, ...], new: tuple[QuotaLimit, ...]
) -> None:
    """Records set, changed and removed limits of users and groups of a queue."""
    if old == new:
        return
    for detail, of in ((Detail.UG_USER_LIMIT, _of_users), (Detail.UG_GROUP_LIMIT, _of_groups)):
        before, now = of(old), of(new)
        for name in before.keys() - now.keys():
            partition.note(Notice.USER_GROUP, name, change=Change.REMOVE, detail=detail, reference=queue)
        for name, limit in now.items():
            if before.get(name) != limit:
                most = Resources(dict(limit.max.items()))
                partition.note(
                    Notice.USER_GROUP, name, change=Change.SET, detail=detail, reference=queue, resource=most
                )


def _of_users(limits: tuple[QuotaLimit, ...]) -> dict[str, QuotaLimit]:
    return {name: limit for limit in limits for name in limit.users}


def _of_groups(limits: tuple[QuotaLimit, ...]) -> dict[str, QuotaLimit]:
    return {name: limit for limit in limits for name in limit.groups}
