"""Handlers of timers.

The scheduler task passes each timer that fired to `on_timer`, with the time as an argument. A timer whose subject has
changed since it was set has no effect.
"""

from __future__ import annotations

from typing import Final

from muster_core.model import messages
from muster_core.model.effects import Release
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import AllocationId, Termination
from muster_core.model.records import Notice
from muster_core.model.states import ApplicationState
from muster_core.placement import node_reservations
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.scheduling import (
    commit,
    gangs,
    ledger,
    lifecycle,
    preemption,
    refresh,
    reporting,
    reservations,
    slots,
    takeovers,
    victims,
)
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass
from muster_core.state.scheduler_state import Partition

#: Classes without a reservable node after which the rest of the leaf is postponed. Each class costs one check of all
#: nodes.
_HOPELESS: Final = 16


def on_reservation_delay(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Creates node reservations for the leaf after its reservation delay."""
    leaf = partition.queues.get(timer.queue)
    if leaf is None or leaf.reservation_timer != timer.generation:
        return
    leaf.reservation_timer = 0
    try:
        _reserve(partition, leaf, now_ns)
    except Exception:
        leaf.reservation_timer = timer.generation  # it fires again
        raise


def _reserve(partition: Partition, leaf: Queue, now_ns: int) -> None:
    hopeless: set[AskClass] = set()
    for ask in node_reservations.candidates(partition, leaf):
        due_ns = ask.asked_ns + partition.timing.reservation_delay_ns
        if now_ns < due_ns:
            reservations.look_again(partition, leaf, due_ns)
            return
        if ask.kind in hopeless:
            continue
        decision = node_reservations.choose(partition, ask)
        if decision is None:
            hopeless.add(ask.kind)
            _wait_for_nodes(partition, leaf)
            if len(hopeless) == _HOPELESS:
                return
            continue
        commit.attempt(partition, decision, leaf.path, now_ns)
        if leaf.node_reservations >= node_reservations.allowed(partition):
            return


def _wait_for_nodes(partition: Partition, leaf: Queue) -> None:
    known = partition.reservations
    if not known.without_node:
        known.without_node_since = partition.nodes.facts_epoch
    known.without_node[leaf.path] = None


def watch(partition: Partition, now_ns: int) -> bool:
    """Sets timers for requests that may become schedulable later. Returns whether the next cycle continues.

    The cycle calls it when it has tried all active applications.
    """
    _watch_woken(partition, now_ns)
    preemptions, more = partition.preemptions, False
    if partition.shrunk or preemptions.idle or preemptions.to_watch or preemptions.to_retry:
        more = preemption.watch_shrunk(partition, now_ns)
    _watch_nodes(partition, now_ns)
    if partition.timing.empty_node_interval_ns and HOOKS.recommendations is not None:
        HOOKS.recommendations.node_to_empty(partition, now_ns)
    return more


def _watch_nodes(partition: Partition, now_ns: int) -> None:
    """Sets the reservation timers of leaves without a reservable node, because nodes were added or changed."""
    known = partition.reservations
    if not known.without_node or known.without_node_since == partition.nodes.facts_epoch:
        return
    leaves, known.without_node = known.without_node, {}
    for path in leaves:
        leaf = partition.queues.get(path)
        if leaf is not None and leaf.waiting and not leaf.reservation_timer:
            reservations.look_again(partition, leaf, now_ns + partition.timing.reservation_delay_ns)


def _watch_woken(partition: Partition, now_ns: int) -> None:
    """Sets the timer of the next attempts of applications that were woken and have not been tried."""
    at_ns = partition.scheduling.next_ns()
    if not at_ns or now_ns < partition.retry_ns <= at_ns:
        return
    partition.retry_ns = at_ns
    partition.start_timer(TimerKind.RETRY, at_ns)


_EARLY = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def on_timer(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Calls the handler of the timer."""
    match timer.kind:
        case TimerKind.EXPIRY:
            lifecycle.expire_history(partition, timer, now_ns)
        case TimerKind.RESERVATION:
            on_reservation_delay(partition, timer, now_ns)
        case TimerKind.NODE_DEMAND:
            reporting.on_demand_timer(partition, timer, now_ns)
        case TimerKind.REFRESH:
            refresh.on_timer(partition, timer)
        case TimerKind.RESERVED:
            reservations.expire(partition, timer, now_ns)
        case TimerKind.PREEMPTION:
            preemption.on_preemption_timer(partition, timer, now_ns)
        case TimerKind.QUOTA:
            preemption.on_quota_timer(partition, timer, now_ns)
        case TimerKind.VICTIMS:
            victims.victims_timed_out(partition, timer, now_ns)
            queue = partition.queues.get(timer.queue)
            if queue is not None:  # victims that did not end count as usage again
                preemption.note_excess(partition, queue, now_ns)
        case TimerKind.INQUIRY | TimerKind.REFUSED:
            if HOOKS.predicate_callbacks is not None:
                HOOKS.predicate_callbacks.on_timer(partition, timer)
        case _:
            _on_application_timer(partition, timer, now_ns)


def _on_application_timer(partition: Partition, timer: Timer, now_ns: int) -> None:
    app = partition.applications.get(timer.application)
    if app is None:
        return
    match timer.kind:
        case TimerKind.PLACEHOLDER if timer.generation == app.gang.timer:
            gangs.time_out(partition, app, now_ns)
        case TimerKind.WAIT if timer.generation == app.sequence:
            _wait(partition, app, now_ns)
        case TimerKind.STARVATION:
            partition.scheduling.requeue(app)
        case TimerKind.TAKE_OVER:
            takeovers.on_takeover_timer(partition, app, timer)
        case TimerKind.BACKOFF:
            _wake(partition, app, timer, now_ns)
        case TimerKind.COMPLETING if timer.generation == app.completing:
            _complete(partition, app, now_ns)
        case TimerKind.RUN if timer.generation == app.sequence:
            _run_time(partition, app, now_ns)
        case TimerKind.ALLOCATION_RUN if timer.generation == app.sequence:
            _allocation_run_time(partition, app, timer, now_ns)
        case TimerKind.RELEASE:
            _release(partition, app, timer)
        case _:
            pass  # stale, or handled in `on_timer`


def _wake(partition: Partition, app: Application, timer: Timer, now_ns: int) -> None:
    """Tries an application again after its backoff."""
    if timer.generation == app.sequence and now_ns >= app.backoff_until_ns:
        app.backoff_until_ns = 0
        partition.scheduling.requeue(app)


def _wait(partition: Partition, app: Application, now_ns: int) -> None:
    """Ends a gang that holds nothing after the wait timeout (docs/internals/semantics.md, rule 10).

    The time starts again for a gang that lost its reservations to a takeover or a preemption.
    """
    if app.state not in _EARLY or not app.is_reserving or app.gang.allocated:
        return
    if app.gang.is_paused or app.gang.lost_to or app.id in partition.contention.open:
        lifecycle.set_wait_timer(partition, app, now_ns)
    else:
        gangs.give_up(partition, app, now_ns, app.gang.members_missing or messages.gang_wait_timed_out())


def _complete(partition: Partition, app: Application, now_ns: int) -> None:
    """Releases the remaining placeholders of a Completing application. It is Completed when the last one has ended.

    An application that was accepted again without its gang becomes Completing if no request has arrived.
    """
    if app.state is ApplicationState.ACCEPTED:
        lifecycle.complete_if_done(partition, app, now_ns)
        return
    if app.state is not ApplicationState.COMPLETING:
        return
    app.ending = True
    why = "unused placeholder of a completed application"
    gangs.release_placeholders(partition, app, why, now_ns)
    lifecycle.settle(partition, app, now_ns)


def _run_time(partition: Partition, app: Application, now_ns: int) -> None:
    if app.state is ApplicationState.RUNNING and now_ns >= app.started_ns + app.spec.timeout_ns:
        gangs.fail(partition, app, now_ns, messages.application_timed_out())


def _allocation_run_time(partition: Partition, app: Application, timer: Timer, now_ns: int) -> None:
    allocation = app.allocations.get(AllocationId(timer.key))
    if allocation is None or allocation.releasing is not None:
        return
    if now_ns < allocation.allocated_ns + allocation.spec.timeout_ns:
        return  # the timer of an earlier allocation of this ID (docs/internals/semantics.md, rule 5)
    why = messages.allocation_timed_out()
    answer = partition.outbox.answer(partition.rm)
    ledger.mark_releasing(partition, app, allocation, Termination.TIMEOUT, now_ns)
    key = allocation.spec.key
    answer.released.append(Release(partition.id, app.id, key, allocation.id, Termination.TIMEOUT, why))
    if app.is_reserving:
        partition.scheduling.requeue(app)  # one more of its members is missing


def _release(partition: Partition, app: Application, timer: Timer) -> None:
    """Handles a placeholder release that was not confirmed in time: its request is scheduled like any other.

    See docs/internals/semantics.md, rule 14.
    """
    ask = app.asks.get(timer.key)
    if ask is None or ask.replacement is None or ask.timer != timer.generation:
        return
    placeholder = ask.replacement.placeholder
    slots.schedule_individually(partition, app, ask)
    message = messages.placeholder_not_released(placeholder)
    partition.note(Notice.REQUEST, timer.key, reference=app.id, message=message)
