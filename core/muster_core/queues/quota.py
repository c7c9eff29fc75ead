"""Available quota of queues, users and groups for an application, and the fairness quantum between queues.

The headroom of a queue is its maximum minus what is allocated, reserved for gangs, or reserved for requests whose
victims are being released. The headroom of a path is the minimum of its queues, per resource. The limits of a queue for
the user and group of the application apply in the same way. Amounts are integers in the units of
`muster_core.model.resources`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from muster_core.model import messages
from muster_core.model.config import ApplicationOrder
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.ids import QueuePath
from muster_core.model.records import Detail
from muster_core.model.resources import NOTHING, UNLIMITED, Limit, Resources, is_of_devices
from muster_core.model.specs import ApplicationSpec
from muster_core.model.states import ApplicationState
from muster_core.state import ordering
from muster_core.state.applications import Application, lacking
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MaxApplicationsReached, QuotaExceeded
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind


@dataclass(frozen=True, slots=True)
class QuotaBound:
    """A maximum that applies to an application, and the usage that counts towards it."""

    holder: LimitSubject
    max: Limit
    taken: Queue | Account


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """The quota that an application exceeds, as a wake-up condition and as a reason for users."""

    blocking_reason: QuotaExceeded
    why: UnschedulableReason


def subject(app: Application) -> Hashable:
    """Which maximums apply to an application: the same ones to all of which this is equal."""
    return app.queue.path, app.spec.user, app.group, app.spec.groups


def bounds(partition: Partition, app: Application) -> Iterator[QuotaBound]:
    """Yields all maximums that apply: user and group first, then the queues from the leaf to root, as in YuniKorn."""
    for holder, limit, account in partition.users.limits(app):
        if limit.max:
            yield QuotaBound(holder, limit.max, account)
    for queue in app.queue.path_up:
        if queue.max is not UNLIMITED and queue.max:
            yield QuotaBound(LimitSubject(LimitSubjectKind.QUEUE, "", queue.path), queue.max, queue)


def room(partition: Partition, app: Application, back: Resources = NOTHING, given: Resources = NOTHING) -> Limit:
    """Returns what the application may still allocate.

    Its own quota reservation is available to it. `back`: the part of the resources reserved for requests that is
    available to it; all of its own for a gang that reserves. `given`: what this plan has used of `back`. Queues already
    count it as used, users and groups do not.
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
    """Returns the first maximum that `wanted` exceeds in addition to the `planned` resources. None = all fit.

    `given`: also planned, but only counted for users and groups.
    """
    back = app.node_reserved if app.is_reserving else NOTHING
    for bound in bounds(partition, app):
        is_counted = given is NOTHING or isinstance(bound.taken, Queue)
        left = left_of(bound, app, back).room(planned if is_counted else planned + given)
        excess = left.excess(wanted)
        if excess:
            owner = app.id if app.gang.quota_reservation or app.node_reserved else None
            return QuotaRefusal(
                QuotaExceeded(bound.holder, bound.max.limited(wanted), owner),
                quota_reason(bound, left, wanted, min(excess)),
            )
    return None


def is_beyond_limits(partition: Partition, app: Application, wanted: Resources) -> bool:
    """Whether a user or group limit is too low for the request. Preemption never helps against such a limit."""
    refused = quota_refusal(partition, app, wanted)
    return refused is not None and refused.why.kind is ReasonKind.USER_QUOTA


def quota_reason(bound: QuotaBound, left: Limit, wanted: Resources, name: str) -> UnschedulableReason:
    """Returns the reason that `wanted` exceeds what is left of a maximum. `name`: the resource that is reported."""
    has, most = max(left.get(name) or 0, 0), bound.max.get(name) or 0
    holder = bound.holder
    if holder.kind is LimitSubjectKind.QUEUE:
        text = messages.queue_quota_exceeded(holder.path, name, wanted[name], has, most)
        return UnschedulableReason(ReasonKind.QUOTA, text)
    text = messages.user_quota_exceeded(f"{holder.kind} {holder.name}", holder.path, name, wanted[name], has, most)
    return UnschedulableReason(ReasonKind.USER_QUOTA, text)


def left_of(bound: QuotaBound, app: Application, back: Resources) -> Limit:
    """Returns what the application may still use of one maximum. `back`: its own part of the reserved resources.

    Preemptions and takeovers leave granted quota reservations enough quota once their victims have ended. So for a gang
    with such a reservation, what is reserved for others does not count as long as victims of the same amount count.
    """
    holder = bound.taken
    taken = holder.allocated
    others = holder.reserved_quota.limited(bound.max)
    if app.gang.granted:
        others -= app.gang.quota_reservation
    if isinstance(holder, Queue) and holder.node_reserved:
        others += holder.node_reserved - back
    if app.gang.granted and holder.preempting:
        left = others - holder.preempting
        others = Resources({name: amount for name, amount in left.items() if amount > 0})
    if others:
        taken += others
    if not app.gang.granted and holder.requested_quota and not app.gang.quota_reservation:
        taken += holder.requested_quota.limited(bound.max)
    return bound.max.room(taken)


#: Path and maximum of a queue.
ConfiguredBound = tuple[QueuePath, Limit]


def gang_blocking_reason(
    spec: ApplicationSpec, order: ApplicationOrder, path: Iterable[ConfiguredBound], ordered_by: str = ""
) -> str:
    """Returns why a leaf with this order and these maximums, from the leaf to root, can never hold the gang.

    Empty = the gang may fit. `ordered_by`: what sets the order, if it is not the leaf itself.
    """
    bounds = tuple(path)
    if order is ApplicationOrder.FAIR:
        return messages.gang_in_fair_queue(bounds[0][0], ordered_by)
    return _over_quota(spec.placeholder_ask, bounds)


def gang_refusal(partition: Partition, app: Application) -> QuotaRefusal | None:
    """Returns why the gang can never be reserved with the present queues and limits. None = it may be.

    A leaf that was changed to fair ordering while the gang exists does not refuse it.
    """
    total = app.spec.placeholder_ask
    if app.spec.uses_virtual_placeholders:  # the pods of present members may request more than their task group
        total = total.widened(lacking(app) + app.gang.reserved)
    if reason := _over_quota(total, configured_bounds(app.queue)):
        holder = LimitSubject(LimitSubjectKind.QUEUE, "", app.queue.path)
        return _never(holder, app.queue.max, total, UnschedulableReason(ReasonKind.QUOTA, reason))
    for holder, limit, _ in partition.users.limits(app):
        excess = limit.max.excess(total)
        if excess:
            name, subject = min(excess), f"{holder.kind} {holder.name}"
            reason = messages.gang_exceeds_limit(subject, holder.path, name, total[name], limit.max.get(name) or 0)
            return _never(holder, limit.max, total, UnschedulableReason(ReasonKind.USER_QUOTA, reason))
    return None


def _never(holder: LimitSubject, limit: Limit, total: Resources, why: UnschedulableReason) -> QuotaRefusal:
    return QuotaRefusal(QuotaExceeded(holder, limit.limited(total)), why)


def configured_bounds(queue: Queue) -> Iterable[ConfiguredBound]:
    """Returns paths and maximums from this queue to root."""
    return ((above.path, above.max) for above in queue.path_up)


def _over_quota(asked: Resources, bounds: Iterable[ConfiguredBound]) -> str:
    for path, most in bounds:
        excess = most.excess(asked)
        if excess:
            name = min(excess)
            return messages.gang_exceeds_queue(path, name, asked[name], most.get(name) or 0)
    return ""


_WAITING = (ApplicationState.NEW, ApplicationState.ACCEPTED)


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """The limit that prevents the application from starting. `detail`: how the event of the REST API records it."""

    blocking_reason: MaxApplicationsReached
    why: UnschedulableReason
    detail: Detail


def start_refusal(partition: Partition, app: Application) -> StartRefusal | None:
    """Returns what prevents the application from starting. None = it may start, or already has."""
    for holder, most, taken in full_limits(partition, app):
        if holder.kind is LimitSubjectKind.QUEUE:
            subject, detail = f"queue {holder.path}", Detail.APP_CANNOTRUN_QUEUE
        else:
            subject, detail = f"{holder.kind} {holder.name} in queue {holder.path}", Detail.APP_CANNOTRUN_QUOTA
        queue = partition.queues.get(holder.path) if holder.kind is LimitSubjectKind.QUEUE else None
        origin = "" if queue is None else queue.set_elsewhere("maxapplications")
        text = messages.too_many_applications(subject, taken, most, origin)
        why = UnschedulableReason(ReasonKind.APPLICATIONS, text)
        return StartRefusal(MaxApplicationsReached(holder), why, detail)
    return None


def full_limits(partition: Partition, app: Application) -> Iterator[tuple[LimitSubject, int, int]]:
    """Yields queues, users and groups without a free application slot, with `maxapplications` and the used slots.

    A gang that takes over a slot is counted before the losing gang has released it. Therefore a gang without
    allocations needs a slot that no application with allocations uses.
    """
    if app.state not in _WAITING or (app.counted and app.allocations):
        return
    own = 1 if app.counted else 0
    for queue in app.queue.path_up:
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
    """Number of slots that are only promised, if the application itself has only a promised slot; else 0."""
    if not app.counted:
        return 0
    gangs = map(partition.applications.get, partition.contention.holding)
    return sum(
        gang is not None and has_only_promised_slot(gang) and _counts_in(partition, gang, holder) for gang in gangs
    )


def has_only_promised_slot(app: Application) -> bool:
    """Whether the application has a slot but no allocation yet."""
    return app.counted and not app.allocations and app.state in _WAITING


def _counts_in(partition: Partition, app: Application, holder: LimitSubject) -> bool:
    """Whether the application counts towards the limit of this queue, user or group."""
    match holder.kind:
        case LimitSubjectKind.USER if app.spec.user != holder.name:
            return False
        case LimitSubjectKind.GROUP if partition.users.group_of(app) != holder.name:
            return False
    return any(queue.path == holder.path for queue in app.queue.path_up)


#: How far a scheduling attempt may exceed the share of the next queue, as a fraction of what is due. A smaller value
#: means more attempts with a plan each. With a larger value the unfairness becomes visible for small guarantees.
AHEAD: Final = 0.01


@dataclass(frozen=True, slots=True)
class CompetingQueue:
    """The next queue in order after the one being scheduled, which has used `used` of `due`. `share`: of the
    competitor.
    """

    used: Callable[[], Resources]
    due: Callable[[str], int]
    share: float


@dataclass(frozen=True, slots=True)
class FairnessQuantum:
    """The competing queues on all levels of a path."""

    rivals: tuple[CompetingQueue, ...] = ()

    def count(self, each: Resources, at_most: int, planned: Resources = NOTHING) -> int:
        """Returns how many allocations of `each` may follow the `planned` ones before a competing queue is due."""
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
        """Whether a competing queue is due."""
        return any(
            amount > (rival.share + AHEAD) * whole
            for rival in self.rivals
            for name, amount in rival.used().items()
            if (whole := rival.due(name)) or not is_of_devices(name)
        )


FREELY: Final = FairnessQuantum()


def quantum_of(partition: Partition, leaf: Queue) -> FairnessQuantum:
    """Returns how much the leaf may allocate before another queue is due on any level of its path."""
    rivals = [rival for queue in leaf.path_up if (rival := _rival(partition, queue)) is not None]
    return FairnessQuantum(tuple(rivals)) if rivals else FREELY


def _rival(partition: Partition, queue: Queue) -> CompetingQueue | None:
    """Returns the second queue in the order of the parent. The queue itself is the first."""
    parent = queue.parent
    path = partition.scheduling.active.first_two(parent)[1] if parent is not None else None
    if parent is None or path is None:
        return None
    other = partition.queues.by_path[QueuePath(path)]
    if parent.policies.sorts_by_priority and other.shown != queue.shown:
        return None  # a queue with a lower priority waits until this one has no requests
    return CompetingQueue(
        lambda: queue.allocated,
        lambda name: ordering.due(partition, queue, name),
        ordering.share(partition, other),
    )
