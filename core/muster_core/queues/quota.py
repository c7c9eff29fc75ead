"""Available quota of queues, users and groups for an application, and the fairness between queues.

The headroom of a queue is its maximum minus what is allocated, reserved for gangs, or kept for requests whose victims
are being released. The headroom of a path is the smallest of its queues, per resource. The limits of a queue for the
user and group of the application apply in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from muster_core.model.config import ApplicationOrder
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.ids import QueuePath
from muster_core.model.records import Detail
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources
from muster_core.model.specs import ApplicationSpec
from muster_core.model.states import ApplicationState
from muster_core.state import ordering
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MaxApplicationsReached, QuotaExceeded
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind


@dataclass(frozen=True, slots=True)
class QuotaBound:
    """A maximum that binds an application, and what is taken of it."""

    holder: LimitSubject
    max: Limit
    taken: Queue | Account


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """Whose maximum is in the way, and the "no" for people."""

    blocking_reason: QuotaExceeded
    why: UnschedulableReason


def bounds(partition: Partition, app: Application) -> Iterator[QuotaBound]:
    """All that bind it: user and group first, as behaviour C.3 asks them, then the queues, leaf first."""
    for holder, limit, account in partition.users.limits(app):
        if limit.max:
            yield QuotaBound(holder, limit.max, account)
    for queue in app.queue.path_up():
        if queue.max:
            yield QuotaBound(LimitSubject(LimitSubjectKind.QUEUE, "", queue.path), queue.max, queue)


def room(partition: Partition, app: Application, back: Resources = NOTHING, given: Resources = NOTHING) -> Limit:
    """What the application may still take; its own pledge is its own to use, and so is what of the room that is
    held for asks is meant: `back`, or all that is held for a gang that reserves. `given`: what this plan used of
    such room; queues counted it before, users and groups did not.
    """
    left = UNLIMITED
    if app.is_reserving:
        back = app.node_reserved
    for bound in bounds(partition, app):
        mine = left_of(bound, app, back)
        left = left.narrowed(mine if not given or isinstance(bound.taken, Queue) else mine.room(given))
    return left


def quota_refusal(
    partition: Partition,
    app: Application,
    wanted: Resources,
    planned: Resources = NOTHING,
    given: Resources = NOTHING,
) -> QuotaRefusal | None:
    """Who has too little for `wanted` in addition to what is `planned` already, of what, and how much; None = nobody.
    `given` is planned too, where users and groups are asked.
    """
    back = app.node_reserved if app.is_reserving else NOTHING
    for bound in bounds(partition, app):
        left = left_of(bound, app, back).room(planned if isinstance(bound.taken, Queue) else planned + given)
        excess = left.excess(wanted)
        if excess:
            owner = app.id if app.gang.quota_reservation or app.node_reserved else None
            return QuotaRefusal(
                QuotaExceeded(bound.holder, wanted, owner), _quota_reason(bound, left, wanted, min(excess))
            )
    return None


def is_beyond_limits(partition: Partition, app: Application, wanted: Resources) -> bool:
    """Whether a limit of its user or group leaves the application too little: nobody goes for that (contract 10.1)."""
    refused = quota_refusal(partition, app, wanted)
    return refused is not None and refused.why.lack is ReasonKind.USER_QUOTA


def _quota_reason(bound: QuotaBound, left: Limit, wanted: Resources, name: str) -> UnschedulableReason:
    has = max(left.get(name) or 0, 0)
    holder = bound.holder
    asked = f"{name}={wanted[name]} is asked for"
    if holder.kind is LimitSubjectKind.QUEUE:
        return UnschedulableReason(
            ReasonKind.QUOTA,
            f"Not enough queue quota: queue {holder.path} has {name}={has} left of its maximum "
            f"{bound.max.get(name)}, {asked}",
        )
    return UnschedulableReason(
        ReasonKind.USER_QUOTA,
        f"Not enough user quota: {holder.kind} {holder.name} has {name}={has} left of the limit "
        f"{bound.max.get(name)} in queue {holder.path}, {asked}",
    )


def left_of(bound: QuotaBound, app: Application, back: Resources) -> Limit:
    """What the application may still take of one maximum; `back`: of the room held for asks, what is its own."""
    holder = bound.taken
    taken = holder.allocated
    if holder.reserved_quota:
        taken += holder.reserved_quota
    if isinstance(holder, Queue) and holder.node_reserved:
        taken += holder.node_reserved - back
    if app.gang.granted:
        taken -= app.gang.quota_reservation
    elif holder.requested_quota and not app.gang.quota_reservation:
        taken += holder.requested_quota
    return bound.max.room(taken)


#: A queue's path and its maximum.
ConfiguredBound = tuple[QueuePath, Limit]


def gang_blocking_reason(spec: ApplicationSpec, order: ApplicationOrder, path: Iterable[ConfiguredBound]) -> str:
    """Why a leaf of that order, with these maximums from it up, never holds the gang; empty = it may."""
    bounds = tuple(path)
    if order is ApplicationOrder.FAIR:
        return (
            f"queue {bounds[0][0]} sorts its applications by fair share: "
            "a gang needs a leaf with application.sort.policy fifo"
        )
    return _over_quota(spec.placeholder_ask, bounds)


def gang_refusal(partition: Partition, app: Application) -> QuotaRefusal | None:
    """Why the gang can never be reserved under the present queues and limits; None = it may be.

    A leaf that became a fair one while the gang was there reserves for it like any other.
    """
    if reason := _over_quota(app.spec.placeholder_ask, configured_bounds(app.queue)):
        holder = LimitSubject(LimitSubjectKind.QUEUE, "", app.queue.path)
        return QuotaRefusal(
            QuotaExceeded(holder, app.spec.placeholder_ask), UnschedulableReason(ReasonKind.QUOTA, reason)
        )
    for holder, limit, _ in partition.users.limits(app):
        excess = limit.max.excess(app.spec.placeholder_ask)
        if excess:
            reason = (
                f"{_request(app.spec.placeholder_ask, excess)}, the limit of {holder.kind} {holder.name} in queue "
                f"{holder.path} is {_amounts(limit.max, excess)}: it can never be reserved; lower minMember or "
                "minResource, or raise the limit"
            )
            return QuotaRefusal(
                QuotaExceeded(holder, app.spec.placeholder_ask), UnschedulableReason(ReasonKind.USER_QUOTA, reason)
            )
    return None


def configured_bounds(queue: Queue) -> Iterable[ConfiguredBound]:
    """The maximums from this queue up."""
    return ((above.path, above.max) for above in queue.path_up())


def _over_quota(asked: Resources, bounds: Iterable[ConfiguredBound]) -> str:
    for path, most in bounds:
        excess = most.excess(asked)
        if excess:
            return (
                f"{_request(asked, excess)}, the maximum of queue {path} is {_amounts(most, excess)}: it could never "
                "be scheduled; lower minMember or minResource, or raise the maximum"
            )
    return ""


def _request(asked: Resources, excess: Resources) -> str:
    name = min(excess)
    return f"the gang asks for {name}={asked[name]} in all (placeholderAsk)"


def _amounts(most: Limit, excess: Resources) -> str:
    name = min(excess)
    return f"{name}={most.get(name)}"


_WAITING = (ApplicationState.NEW, ApplicationState.ACCEPTED)


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """Whose limit keeps the application from starting; `detail`: how that is noted (contract 6.1)."""

    blocking_reason: MaxApplicationsReached
    why: UnschedulableReason
    detail: Detail


def start_refusal(partition: Partition, app: Application) -> StartRefusal | None:
    """What keeps the application from starting; None = it may, or it has."""
    for holder, most, taken in full_limits(partition, app):
        if holder.kind is LimitSubjectKind.QUEUE:
            text, detail = (
                f"queue {holder.path} runs {_applications(taken)} of at most {most}",
                Detail.APP_CANNOTRUN_QUEUE,
            )
        else:
            who = f"{holder.kind} {holder.name}"
            text = f"{who} runs {_applications(taken)} of at most {most} in queue {holder.path}"
            detail = Detail.APP_CANNOTRUN_QUOTA
        why = UnschedulableReason(ReasonKind.APPLICATIONS, text)
        return StartRefusal(MaxApplicationsReached(holder), why, detail)
    return None


def full_limits(partition: Partition, app: Application) -> Iterator[tuple[LimitSubject, int, int]]:
    """Queues, users and groups without a free slot for the application, with `maxapplications` and the slots taken.

    A gang that takes over a slot is counted before the gang that loses it has gone. So one that holds nothing yet needs
    a slot that none of those uses who hold something.
    """
    if app.state not in _WAITING or (app.counted and app.allocations):
        return
    own = 1 if app.counted else 0
    for queue in app.queue.path_up():
        if 0 < queue.max_applications <= queue.running - own:
            holder = LimitSubject(LimitSubjectKind.QUEUE, "", queue.path)
            taken = queue.running - _promised_slots(partition, app, holder)
            if taken >= queue.max_applications:
                yield holder, queue.max_applications, taken
    for holder, limit, account in partition.users.limits(app):
        if 0 < limit.max_applications <= account.running - own:
            taken = account.running - _promised_slots(partition, app, holder)
            if taken >= limit.max_applications:
                yield holder, limit.max_applications, taken


def _promised_slots(partition: Partition, app: Application, holder: LimitSubject) -> int:
    """Slots that keep the application from starting no more than its own does: only promised, as its own is."""
    if not app.counted:
        return 0
    gangs = map(partition.applications.get, partition.contention.holding)
    return sum(
        gang is not None and has_only_promised_slot(gang) and _counts_in(partition, gang, holder) for gang in gangs
    )


def has_only_promised_slot(app: Application) -> bool:
    """Whether it is counted and holds nothing yet."""
    return app.counted and not app.allocations and app.state in _WAITING


def _counts_in(partition: Partition, app: Application, holder: LimitSubject) -> bool:
    """Whether the application is one of the queue's, user's or group's."""
    match holder.kind:
        case LimitSubjectKind.USER if app.spec.user != holder.name:
            return False
        case LimitSubjectKind.GROUP if partition.users.group_of(app) != holder.name:
            return False
    return any(queue.path == holder.path for queue in app.queue.path_up())


def _applications(number: int) -> str:
    return f"{number} application" if number == 1 else f"{number} applications"


#: How far a turn may run ahead of the next in order, as a part of what is due. Less means more turns, each
#: with a plan of its own; more is seen where guarantees are small.
AHEAD: Final = 0.01


@dataclass(frozen=True, slots=True)
class CompetingQueue:
    """The next in order beside one that has its turn: `used` by the latter so far, of `due`; `share` is the rival's."""

    used: Callable[[], Resources]
    due: Callable[[str], int]
    share: float


@dataclass(frozen=True, slots=True)
class FairnessQuantum:
    """All rivals of a turn, on every level."""

    rivals: tuple[CompetingQueue, ...] = ()

    def count(self, each: Resources, at_most: int, planned: Resources = NOTHING) -> int:
        """How many of `each` may be given, in addition to what is `planned`, before a rival is due."""
        count = at_most
        if at_most <= 1 and not planned:
            return at_most
        for rival in self.rivals:
            used = rival.used()
            for name, amount in each.items():
                whole = rival.due(name)
                if amount > 0 and whole > 0:
                    left = (rival.share + AHEAD) * whole - used[name] - planned[name]
                    count = min(count, int(left // amount))
        return max(count, 0 if planned else min(at_most, 1))

    def is_over(self) -> bool:
        """Whether a rival is due."""
        return any(
            amount > (rival.share + AHEAD) * rival.due(name)
            for rival in self.rivals
            for name, amount in rival.used().items()
        )


FREELY: Final = FairnessQuantum()


def quantum_of(partition: Partition, leaf: Queue) -> FairnessQuantum:
    """How much the leaf of the next attempt may get before another is due, on any level of its path."""
    rivals = [rival for queue in leaf.path_up() if (rival := _rival(partition, queue)) is not None]
    return FairnessQuantum(tuple(rivals)) if rivals else FREELY


def _rival(partition: Partition, queue: Queue) -> CompetingQueue | None:
    """The next in order beside the queue, which is the first of its parent."""
    parent = queue.parent
    other = partition.scheduling.second_queue(parent) if parent is not None else None
    if parent is None or other is None:
        return None
    if parent.policies.sorts_by_priority and other.shown != queue.shown:
        return None  # of a lower priority: it waits for as long as there is anything
    return CompetingQueue(
        lambda: queue.allocated,
        lambda name: ordering.due(partition, queue, name),
        ordering.share(partition, other),
    )
