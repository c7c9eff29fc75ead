"""Event records of changes to applications, requests and allocations.

Differs: an allocation is also noted on its queue (QUEUE_ALLOC), and an ask that it fulfilled as gone (REQUEST_ALLOC);
YuniKorn has numbers for both and never sends them.

Differs: a "no" is said on the oldest request of a kind, with how many there are; YuniKorn says it on each.

Differs: APP_STARTING and NODE_READY are never sent: there is no state Starting, and what a node is ready for
is NODE_SCHEDULABLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from muster_core.model.config import QuotaLimit
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.errors import BrokenDecision
from muster_core.model.ids import NodeId, QueuePath, Termination
from muster_core.model.records import AllocationsRecorded, AskRecorded, Change, Detail, Notice
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState
from muster_core.state.applications import Allocation, Application, Ask
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

_QUOTAS: Final = (ReasonKind.QUOTA, ReasonKind.USER_QUOTA)

_GOING: Final[Mapping[Termination | None, Detail]] = MappingProxyType(
    {
        None: Detail.ALLOC_CANCEL,
        Termination.STOPPED_BY_RM: Detail.ALLOC_CANCEL,
        Termination.TIMEOUT: Detail.ALLOC_TIMEOUT,
        Termination.PREEMPTED_BY_SCHEDULER: Detail.ALLOC_PREEMPT,
        Termination.PLACEHOLDER_REPLACED: Detail.ALLOC_REPLACED,
    }
)


def app_came(partition: Partition, app: Application) -> None:
    """A new application has its leaf queue."""
    partition.note(Notice.APPLICATION, app.id, change=Change.ADD, detail=Detail.APP_NEW)
    queue_entered(partition, app)


def queue_entered(partition: Partition, app: Application) -> None:
    """A queue has one more application."""
    partition.note(Notice.QUEUE, app.queue.path, change=Change.ADD, detail=Detail.QUEUE_APP, reference=app.id)


def app_moved(partition: Partition, app: Application, message: str = "") -> None:
    """An application has another state; one that was rejected never had another."""
    detail, name = _STATES[app.state], app.spec.shown_as
    partition.note(Notice.APPLICATION, app.id, change=Change.SET, detail=detail, message=message, app_name=name)


def app_left(partition: Partition, app: Application) -> None:
    """An application is out of its queue and its partition."""
    if app.linked:
        _link(partition, app, Change.REMOVE)
    partition.note(Notice.APPLICATION, app.id, change=Change.REMOVE, app_name=app.spec.shown_as)
    queue_left(partition, app)


def queue_left(partition: Partition, app: Application) -> None:
    """A queue has one application less."""
    queue, gone, name = app.queue.path, Change.REMOVE, app.spec.shown_as
    partition.note(Notice.QUEUE, queue, change=gone, detail=Detail.QUEUE_APP, reference=app.id, app_name=name)


def ask_came(partition: Partition, app: Application, ask: AskSpec) -> None:
    """An ask waits."""
    if partition.tracking:
        partition.outbox.note(AskRecorded(partition.rm, ask, Change.ADD, Detail.APP_REQUEST, app.spec.shown_as))


def ask_left(partition: Partition, app: Application, ask: AskSpec, why: Detail) -> None:
    """An ask ended unfulfilled: REQUEST_CANCEL, REQUEST_TIMEOUT, or APP_REQUEST where another replaced it."""
    if partition.tracking:
        partition.outbox.note(AskRecorded(partition.rm, ask, Change.REMOVE, why, app.spec.shown_as))


def places_came(partition: Partition, app: Application, places: Iterable[Allocation], *, asked: bool) -> None:
    """Allocations of one application were created at once; `asked`: each by an ask that has ended now."""
    if partition.tracking:
        if app.group and not app.linked:
            _link(partition, app, Change.SET)
        partition.outbox.note(_places(partition, app, places, Change.ADD, Detail.APP_ALLOC, asked=asked))


def place_left(partition: Partition, app: Application, place: Allocation, *, node_removed: bool) -> None:
    """An allocation ended, for the reason that it is being released, or with its node."""
    if partition.tracking:
        why = Detail.ALLOC_NODEREMOVED if node_removed else _GOING[place.releasing]
        partition.outbox.note(_places(partition, app, (place,), Change.REMOVE, why, asked=False))


def group_changed(partition: Partition, app: Application, before: str) -> None:
    """An application that counted for a group, empty = for none, counts for another now."""
    detail = Detail.UG_APP_LINK
    if before:
        partition.note(Notice.USER_GROUP, before, change=Change.REMOVE, detail=detail, reference=app.id)
    app.linked = False
    if app.group:
        _link(partition, app, Change.SET)


def _link(partition: Partition, app: Application, change: Change) -> None:
    """The application counts for its group from its first allocation on, until it goes."""
    app.linked = change is Change.SET
    detail, name = Detail.UG_APP_LINK, app.spec.shown_as
    partition.note(Notice.USER_GROUP, app.group or "", change=change, detail=detail, reference=app.id, app_name=name)


def _places(
    partition: Partition,
    app: Application,
    places: Iterable[Allocation],
    change: Change,
    detail: Detail,
    *,
    asked: bool,
) -> AllocationsRecorded:
    found = tuple([(place.spec.key, place.node, place.spec.resources) for place in places])
    spec, group = app.spec, app.group or ""
    return AllocationsRecorded(
        partition.rm, app.id, spec.user, group, app.queue.path, change, detail, found, asked, spec.shown_as
    )


def refused(partition: Partition, asks: Sequence[Ask], why: UnschedulableReason) -> None:
    """Report another reason than before (`Ask.said`), or the first, for asks of one class, the oldest last.

    Not recorded: the queue order, because no user can act on it, and placeholders, because the gang reports for them.
    """
    oldest = asks[-1]
    if why.kind is ReasonKind.QUEUE_ORDER or oldest.spec.placeholder:
        return
    had_no_quota = oldest.said in _QUOTAS and why.kind not in _QUOTAS
    fits = "the request fits the quota again; " if had_no_quota else ""
    more = f" (and {len(asks) - 1} more requests like it)" if len(asks) > 1 else ""
    message = f"{fits}{why.text()}{more}"
    partition.note(Notice.REQUEST, oldest.spec.key, reference=oldest.spec.application, message=message)


def reserved(partition: Partition, node: NodeId, ask: AskSpec, change: Change) -> None:
    """A node is reserved for an ask (`Change.ADD`), or no longer."""
    detail = Detail.NODE_RESERVATION
    partition.note(Notice.NODE, node, change=change, detail=detail, reference=ask.key, resource=ask.resources)


def broken(partition: Partition, queue: QueuePath, why: BrokenDecision) -> str:
    """A plan of this very moment does not hold: a bug, counted and reported; nothing was written. Returns the text."""
    partition.void_decisions += 1
    partition.note(Notice.QUEUE, queue, message=str(why))
    return str(why)


def limits_changed(
    partition: Partition, queue: QueuePath, old: tuple[QuotaLimit, ...], new: tuple[QuotaLimit, ...]
) -> None:
    """A queue's limits for users and groups were set, changed or removed."""
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
