"""Reports of failure reasons to the resource manager, and which requests may be reported as waiting for nodes.

The scheduling cycle calls `report_unschedulable` for each plan, and `admit_demand` at its end. No plan depends on it.

An autoscaler adds nodes for every request that is reported as waiting for nodes. Requests without a feasible node are
therefore admitted in scheduling order, as far as each maximum has headroom after what is allocated, reserved, and
admitted before. The others are reported as waiting for quota. A class is admitted by number, a gang completely or not
at all. Admitted requests count until they are placed, end or wait for something else, or for `NODE_DEMAND_NS` after the
last placement, because an autoscaler may be unable to add nodes for them. Then they are still reported as waiting for
nodes, but refused requests are admitted as well.

Differs: a failure reason is recorded on the oldest request of a class, with the number of requests; YuniKorn records it
on each request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from muster_core.model import messages
from muster_core.model.decisions import ReasonKind, UnschedulableReason
from muster_core.model.effects import SchedulingState, SchedulingStateChanged
from muster_core.model.errors import caught
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import AllocationKey
from muster_core.model.limits import DEMANDS_PER_CYCLE, NODE_DEMAND_NS
from muster_core.model.records import Notice
from muster_core.model.resources import NOTHING, Resources
from muster_core.queues import quota
from muster_core.queues.quota import QuotaBound
from muster_core.scheduling import repair
from muster_core.state.applications import Application, Ask, lacking
from muster_core.state.node_demand import Demand, NodeDemand, demand_key
from muster_core.state.reported_texts import ALL_MEMBERS, ReportedText, TextKey, is_alike
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Failure, Partition
from muster_core.state.snapshot import Unplaced
from muster_core.state.users import LimitSubject

#: Shortest delay of the timer, in case that demands expire one after the other.
_LEAST_NS: Final = 1_000_000_000

_QUOTAS: Final = (ReasonKind.QUOTA, ReasonKind.USER_QUOTA)

#: Scheduling state that is sent for each kind of failure reason.
SCHEDULING_STATES: Final[Mapping[ReasonKind, SchedulingState]] = MappingProxyType(
    {
        ReasonKind.QUOTA: SchedulingState.SKIPPED,
        ReasonKind.USER_QUOTA: SchedulingState.SKIPPED,
        ReasonKind.APPLICATIONS: SchedulingState.SKIPPED,
        ReasonKind.QUEUE_ORDER: SchedulingState.SKIPPED,
        ReasonKind.ADMISSION: SchedulingState.SKIPPED,
        ReasonKind.NODES: SchedulingState.FAILED,
        ReasonKind.RESERVED: SchedulingState.RESERVED,
        ReasonKind.CLUSTER: SchedulingState.FAILED,
    }
)


def report_unschedulable(partition: Partition, app: Application, unplaced: list[Unplaced]) -> None:
    """Sends a scheduling state update for each request whose failure reason changed.

    The requests of a class keep their order, and a reason is always found for all of them. The walk therefore starts
    at the newest request and ends at the first one that already has the reason. The requests in `to_report` are checked
    as well.
    """
    demands: dict[Demand, None] = {}
    chosen: dict[TextKey, UnschedulableReason] = {}
    for entry in unplaced:
        why = _reason(app, entry)
        first = chosen.setdefault(_text_key(app, entry.kind), why)
        why = first if first.kind is why.kind else why
        if entry.room is not None:
            partition.unschedulable_classes.put(entry.kind, entry.room, entry.why)
        if entry.kind in app.waiting:
            app.refuse(entry.kind, why, partition.node_demand.now_ns)
            partition.texts.refused[app.id] = None
        asks = _unreported(app, entry.kind, why.kind)
        note_text(partition, app, entry.kind, why)
        if not asks:
            continue
        if app.gang.lost:
            repair.report_below_minimum(partition, app, entry.kind.group)
        fits_again = asks[-1].reported_kind in _QUOTAS and why.kind not in _QUOTAS
        needs_node = SCHEDULING_STATES[why.kind] is SchedulingState.FAILED
        for ask in asks:
            ask.reported_kind = why.kind
            ask.unschedulable_ns = (ask.unschedulable_ns or partition.node_demand.now_ns) if needs_node else 0
        _note_gang(partition, app, entry.kind, why.kind)
        if _needs_node(app, entry.kind, why):
            demand = _demand_of(partition, app, entry.kind)
            demand.fits_again = demand.fits_again or fits_again
            _add(demand, asks)
            demands[demand] = None
            continue
        for ask in asks:
            partition.node_demand.leave(app, ask)
        _send(partition, app, entry.kind, asks, why, fits_again=fits_again)
    if demands:
        _guarded(partition, partial(_decide_now, partition, list(demands)))


def _reason(app: Application, entry: Unplaced) -> UnschedulableReason:
    """Returns the reason to report. A gang that has lost members says so first, because it may do nothing until then.

    A member that cannot use its reservation says why. Texts about quotas begin with the quota, as in YuniKorn. A limit
    that kept preemption from helping comes last.
    """
    about = entry.about
    if app.gang.preemption_limit and app.is_reserving:
        detail = f"{entry.why.detail} {app.gang.preemption_limit}".strip()
        entry = replace(entry, why=replace(entry.why, detail=detail))
    if entry.why.kind not in _QUOTAS and not about and app.gang.without_reservation:
        different = (app.gang.without_reservation.get(key) for key in app.waiting.get(entry.kind, ()))
        about = next(filter(None, different), "")
    if entry.why.kind not in _QUOTAS and not about and app.gang.lost:
        about = repair.below_minimum(app, entry.kind.group)
    return replace(entry, about=about).reported_reason if about else entry.reported_reason


# -- one text at a time -----------------------------------------------------------


def _text_key(app: Application, kind: AskClass) -> TextKey:
    """Returns what shares one text with the class: in an Auto or Direct gang that reserves, all members."""
    return ALL_MEMBERS if kind.placeholder and app.is_reserving and app.spec.uses_virtual_placeholders else kind


def classes_of_text(app: Application, key: TextKey) -> list[AskClass]:
    """Returns the waiting classes that share a text."""
    if isinstance(key, AskClass):
        return [key] if key in app.waiting else []
    return [kind for kind in app.waiting if _text_key(app, kind) == key]


def note_text(partition: Partition, app: Application, kind: AskClass, why: UnschedulableReason) -> None:
    """Records the reason of a waiting class. If the reported one is out of date, the new one is sent by `refresh`."""
    if kind not in app.waiting:
        return
    key = _text_key(app, kind)
    known = app.texts.get(key)
    if known is None or known.why.kind is not why.kind:
        app.texts[key] = ReportedText(why, partition.node_demand.now_ns)
        return
    known.newer = None if is_alike(known.why, why) else why
    if known.newer is not None:
        partition.texts.stale[app.id, key] = None


def report_again(partition: Partition, app: Application, asks: Sequence[Ask], why: UnschedulableReason) -> int:
    """Sends the present reason for requests that were reported with an older one. Returns the number of messages."""
    state, text = SCHEDULING_STATES[why.kind], why.text()
    by_key: dict[AllocationKey, list[Ask]] = {}
    for ask in asks:
        by_key.setdefault(ask.spec.report_key, []).append(ask)
    sent = 0
    for key, same in by_key.items():  # the virtual placeholders of a task group share one report
        reported = [ask for ask in same if not partition.node_demand.is_refused(app, ask)]
        is_reserved = any(ask.reported_kind is ReasonKind.RESERVED for ask in same)
        if not reported or (is_reserved and same[0].spec.is_virtual):
            continue
        if is_reserved or any(ask.reported_kind is why.kind for ask in reported):
            partition.outbox.state(SchedulingStateChanged(partition.rm, app.id, key, state, text, why.kind))
            sent += 1
        if is_reserved:
            report_reservation(partition, app, reported[0])
    return sent


def _note_gang(partition: Partition, app: Application, kind: AskClass, reason: ReasonKind) -> None:
    """Records since when the members of an Auto gang fit on no node. Their requests change while members appear."""
    if not kind.placeholder or not app.spec.is_auto:
        return
    if SCHEDULING_STATES[reason] is SchedulingState.FAILED:
        app.gang.unschedulable_ns = app.gang.unschedulable_ns or partition.node_demand.now_ns
    elif reason is not ReasonKind.RESERVED:
        app.gang.unschedulable_ns = 0


def _unreported(app: Application, kind: AskClass, reason: ReasonKind) -> list[Ask]:
    """Returns the requests of the class for which this reason was not reported yet, newest first."""
    found: dict[AllocationKey, Ask] = {}
    for key in reversed(app.waiting.get(kind, {})):
        ask = app.asks[key]
        if ask.reported_kind is reason:
            break
        if ask.reported_kind is not ReasonKind.RESERVED:
            found[key] = ask
    for key in app.to_report.pop(kind, {}):
        if app.asks[key].reported_kind is None:
            found[key] = app.asks[key]
    return list(found.values())


def for_all_classes(app: Application, why: UnschedulableReason) -> list[Unplaced]:
    """Returns the reason for each class that cannot be scheduled because the application cannot.

    For a Direct or Auto gang that reserves, these are its placeholders; else all classes. The classes and requests are
    in the order of an attempt, whether or not there was one.
    """
    app.sort_waiting()
    is_virtual = app.spec.uses_virtual_placeholders and app.is_reserving
    return [Unplaced(kind, why) for kind in app.waiting if kind.placeholder or not is_virtual]


def _send(  # long: the fields of a report
    partition: Partition,
    app: Application,
    kind: AskClass,
    asks: Sequence[Ask],
    why: UnschedulableReason,
    *,
    fits_again: bool,
) -> None:
    """Sends the reason for these requests of a class, newest first. `fits_again`: they waited for quota before."""
    known = app.texts.get(_text_key(app, kind)) if app.is_reserving else None
    if known is not None and known.newer is why:
        why = known.why  # all members get the newer text together
    text, state = why.text(), SCHEDULING_STATES[why.kind]
    _record(partition, asks, why.kind, text, fits_again=fits_again)
    for one in _shown(app, kind, asks):
        partition.outbox.state(SchedulingStateChanged(partition.rm, app.id, one.spec.report_key, state, text, why.kind))


def _shown(app: Application, kind: AskClass, asks: Sequence[Ask]) -> Sequence[Ask]:
    """Returns the requests to report. The virtual placeholders of a task group share one report."""
    if not kind.placeholder or not app.spec.uses_virtual_placeholders:
        return asks
    first = next(iter(app.gang.asked_virtual.get(kind.group, ())), None)
    return [ask for ask in asks if not ask.spec.is_virtual or ask.spec.key == first]


def _record(partition: Partition, asks: Sequence[Ask], kind: ReasonKind, message: str, *, fits_again: bool) -> None:
    """Records a changed failure reason of requests of one class.

    The queue order is not recorded, because users cannot act on it. Placeholders are not recorded, because the gang
    reports its own reason.
    """
    oldest = min(reversed(asks), key=lambda ask: ask.asked_ns)
    if kind is ReasonKind.QUEUE_ORDER or oldest.spec.placeholder:
        return
    if fits_again:
        message = messages.quota_fits_again(message)
    if len(asks) > 1:
        message = messages.same_for_others(message, len(asks) - 1)
    partition.note(Notice.REQUEST, oldest.spec.key, reference=oldest.spec.application, message=message)


# -- demand for nodes -----------------------------------------------------------


def _needs_node(app: Application, kind: AskClass, why: UnschedulableReason) -> bool:
    """Whether an autoscaler would add nodes for the requests: no placeholder and no daemon pod waits for a node."""
    is_about_nodes = SCHEDULING_STATES[why.kind] is SchedulingState.FAILED
    return is_about_nodes and not kind.required_node and not app.has_placeholder(kind)


def _demand_of(partition: Partition, app: Application, kind: AskClass) -> Demand:
    mine, key = partition.node_demand.by_app.setdefault(app.id, {}), demand_key(app, kind)
    demand = mine.get(key)
    if demand is None:
        demand = mine[key] = Demand(app, key, _holders(partition, app))
    return demand


def _holders(partition: Partition, app: Application) -> tuple[LimitSubject, ...]:
    return tuple(bound.holder for bound in quota.bounds(partition, app))


def _add(demand: Demand, asks: Sequence[Ask]) -> None:
    """Adds requests, newest first, that are to be reported."""
    for ask in reversed(asks):
        demand.unreported[ask.spec.key] = None
        if ask.spec.key not in demand.admitted:
            demand.refused.setdefault(ask.spec.key)


def _guarded(partition: Partition, act: Callable[[], None]) -> None:
    """Runs a part of the admission. After an exception, all requests are reported as without it.

    Only reports depend on the admission, so its failure must not keep applications from being scheduled.
    """
    error = caught(act)
    if error is None:
        return
    partition.outbox.failures.append(Failure(f"demand for nodes of partition {partition.id}", error))
    known, partition.node_demand = partition.node_demand, NodeDemand(partition)
    partition.node_demand.now_ns = known.now_ns
    for demand in [one for mine in known.by_app.values() for one in mine.values()]:
        keys = {key: None for key in {**demand.refused, **demand.unreported} if key in demand.app.asks}
        error = caught(partial(_report, partition, demand, keys, fits_again=False))
        if error is not None:
            partition.outbox.failures.append(Failure(f"report of application {demand.app.id}", error))


def _decide_now(partition: Partition, demands: Iterable[Demand]) -> None:
    """Decides the demands, or queues them behind others that are to be decided before them."""
    for demand in demands:
        if partition.node_demand.is_due:
            partition.node_demand.undecide(demand)
        else:
            _decide(partition, demand)


def _decide(partition: Partition, demand: Demand) -> None:
    """Admits as many requests of the demand as its maximums have headroom for, oldest first, and reports changes."""
    known, app = partition.node_demand, demand.app
    known.take_out(demand)
    refusal = None
    admitted: list[AllocationKey] = []
    if demand.kind is None and app.gang.granted:  # the quota reservation of the gang counts already
        admitted = list(demand.refused)
        demand.admitted.update(dict.fromkeys(admitted, 0))
        demand.refused.clear()
    elif demand.refused:
        is_known = demand.kind is None and demand.admitted  # members of an admitted gang that arrive later
        count, refusal = (1, None) if is_known else _headroom(partition, demand)
        admitted = _admit(known, demand, count)
    again = [key for key in demand.unreported if key in demand.admitted]
    promoted = [key for key in admitted if key not in demand.unreported]
    if refusal is not None and demand.refused:
        bound, demand.why = refusal
        known.refuse(demand, bound.holder, bound.max, bound.taken, _needed(demand))
    if promoted:
        _report(partition, demand, promoted, fits_again=True)
    if again:
        _report(partition, demand, again, fits_again=demand.fits_again)
    refused = [key for key in demand.unreported if key in demand.refused] if demand.refused else ()
    if refused and demand.why is not None:
        for kind, asks in _by_class(demand, refused):
            _send(partition, app, kind, asks, demand.why, fits_again=False)
    demand.unreported.clear()
    demand.fits_again = False


def _needed(demand: Demand) -> Resources:
    """Returns what the oldest refused request needs, or all members of a gang, also those that will arrive later."""
    if demand.kind is None:
        return lacking(demand.app)
    first = demand.app.asks[next(iter(demand.refused))]
    return first.spec.resources.times(first.left)


def _by_class(demand: Demand, keys: Iterable[AllocationKey]) -> list[tuple[AskClass, list[Ask]]]:
    """Returns requests of the demand by class, newest first."""
    known = demand.app.asks
    if demand.kind is not None:
        return [(demand.kind, [known[key] for key in keys][::-1])]
    found: dict[AskClass, list[Ask]] = {}
    for key in keys:
        ask = known[key]
        found.setdefault(ask.kind, []).append(ask)
    return [(kind, asks[::-1]) for kind, asks in found.items()]


def _headroom(partition: Partition, demand: Demand) -> tuple[int, tuple[QuotaBound, UnschedulableReason] | None]:
    """Returns how many allocations, or gangs, may be admitted, and the maximum that does not allow more of them."""
    app, known = demand.app, partition.node_demand
    back = app.node_reserved if app.is_reserving else NOTHING
    if demand.kind is None:
        each, most = _needed(demand), 1
    else:
        each = demand.kind.resources
        most = sys.maxsize if app.has_multiple else len(demand.refused)
    refusal: tuple[QuotaBound, UnschedulableReason] | None = None
    for bound in quota.bounds(partition, app):
        left = known.left_of(quota.left_of(bound, app, back), bound.holder)
        count = left.count(each, most)
        if count < most:
            most, left = count, left.room(each.times(count))
            why = quota.quota_reason(bound, left, each, min(left.excess(each)))
            is_needed = bound.holder in known.counted
            refusal = bound, replace(why, message=messages.needed_by_others(why.message)) if is_needed or count else why
    return most, refusal


def _admit(known: NodeDemand, demand: Demand, count: int) -> list[AllocationKey]:
    """Admits the oldest requests of the demand that need no more than `count` allocations, or the gang."""
    asks, total = demand.app.asks, 0
    admitted: list[AllocationKey] = []
    for key in demand.refused if count else ():
        left = asks[key].left
        if demand.kind is not None:
            count -= left
            if count < 0:
                break
        demand.admitted[key] = left
        admitted.append(key)
        total += left
    for key in admitted:
        del demand.refused[key]
    if demand.kind is None:
        amount = NOTHING
        for kind, members in _by_class(demand, admitted):
            amount = amount.plus(kind.resources, sum(ask.left for ask in members))
        known.count(demand, amount, 1)
    elif total:
        known.count(demand, demand.kind.resources, total)
    return admitted


def _report(partition: Partition, demand: Demand, keys: Iterable[AllocationKey], *, fits_again: bool) -> None:
    """Reports admitted requests as waiting for nodes."""
    app = demand.app
    for kind, asks in _by_class(demand, keys):
        waiting = [ask for ask in asks if ask.reported_kind is not ReasonKind.RESERVED]
        why = app.refusals.get(kind)
        if waiting and why is not None:
            _send(partition, app, kind, waiting, why, fits_again=fits_again)
        for ask in asks:
            if ask.reported_kind is ReasonKind.RESERVED:
                report_reservation(partition, app, ask)


def report_reservation(partition: Partition, app: Application, ask: Ask) -> None:
    """Reports the node that is reserved for a request, unless the request waits for quota.

    A virtual placeholder has no pod, so its task group is reported, without a node. A preemption is for all missing
    members of a gang, so no node has to be added for the task group.
    """
    reservation = partition.reservations.by_ask[app.id, ask.spec.key]
    if partition.node_demand.is_refused(app, ask) or (ask.spec.is_virtual and not reservation.preempted):
        return
    state, kind = SchedulingState.RESERVED, ReasonKind.RESERVED
    if ask.spec.is_virtual:
        text, node = messages.waiting_for_preempted_pods(), None
    else:
        text, node = messages.node_reserved(reservation.node), reservation.node if reservation.preempted else None
    partition.outbox.state(SchedulingStateChanged(partition.rm, app.id, ask.spec.report_key, state, text, kind, node))


def waits_for_quota(partition: Partition, app: Application) -> bool:
    """Whether no node may be added for the gang yet."""
    demand = partition.node_demand.by_app.get(app.id, {}).get(None)
    return demand is not None and bool(demand.refused)


def admit_demand(partition: Partition, now_ns: int) -> bool:
    """Decides the demand that new requests and more headroom left undecided. Returns whether some is left.

    The scheduling cycle calls it at its end, so that requests that were placed do not count. The work is bounded.
    """
    _guarded(partition, partial(_admit_some, partition))
    known = partition.node_demand
    if known.needs_timer:
        at_ns = max(next(iter(known.by_age)).since_ns + NODE_DEMAND_NS, now_ns + _LEAST_NS)
        known.timer = partition.start_timer(TimerKind.NODE_DEMAND, at_ns)
    return known.is_due


def _admit_some(partition: Partition) -> None:
    """Half of the work is for refused demands, which come first, so that they do not delay the reports of others."""
    known = partition.node_demand
    for _ in range(DEMANDS_PER_CYCLE // 2):
        queue = known.next_queue()
        if queue is None:
            break
        app = partition.scheduling.first_of(queue.order) if known.may_fit(queue) else None
        demand = next(iter(queue.demands[app.id])) if app is not None else None
        if demand is not None:
            _decide(partition, demand)
        if demand is None or demand.queue is queue:  # refused, like all behind it
            known.to_try.popleft()
    for _ in range(DEMANDS_PER_CYCLE // 2):
        app = partition.scheduling.first_of(known.undecided.order)
        if app is None:
            break
        _decide(partition, next(iter(known.undecided.demands[app.id])))


def on_demand_timer(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Stops counting the demands that got no node in time, so that others are admitted."""
    known = partition.node_demand
    if timer.generation != known.timer:
        return
    known.timer = 0
    while known.refusing and known.by_age:
        oldest = next(iter(known.by_age))
        if now_ns < oldest.since_ns + NODE_DEMAND_NS:
            return
        known.expire(oldest)


def bounds_changed(partition: Partition, apps: Iterable[Application]) -> None:
    """Counts the admitted demand for the maximums that apply now, and has the refused demand decided again."""
    known = partition.node_demand
    applied: dict[Hashable, tuple[LimitSubject, ...]] = {}
    for demand in [one for app in apps for one in known.by_app.get(app.id, {}).values()]:
        app = demand.app
        subject = quota.subject(app)
        if (holders := applied.get(subject)) is None:
            holders = applied[subject] = _holders(partition, app)
        if holders == demand.holders and not demand.refused:
            continue
        known.take_out(demand)
        known.set_holders(demand, holders)
        if demand.refused:
            known.undecide(demand)
