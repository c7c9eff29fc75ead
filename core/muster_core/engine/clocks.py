"""What happens when a deadline comes. A clock whose number is no longer its subject's is stale."""

from __future__ import annotations

from muster_core.engine import (
    gangs,
    history,
    inquiries,
    ledger,
    lifecycle,
    preemption,
    quota,
    reservation_timer,
    reservations,
    takeovers,
    victims,
)
from muster_core.model.effects import Release
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationId
from muster_core.model.notes import Notice
from muster_core.model.release import Termination
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Application
from muster_core.world.world import Partition

_EARLY = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def ring(partition: Partition, clock: Clock, now_ns: int) -> None:
    """Take the deadline to its subject, if that still waits for it."""
    match clock.kind:
        case ClockKind.EXPIRY:
            history.expire(partition, clock, now_ns)
        case ClockKind.RESERVATION:
            reservation_timer.on_timeout(partition, clock, now_ns)
        case ClockKind.RESERVED:
            reservations.expire(partition, clock)
        case ClockKind.PREEMPTION:
            preemption.ring(partition, clock, now_ns)
        case ClockKind.QUOTA:
            quota.ring(partition, clock, now_ns)
        case ClockKind.VICTIMS:
            victims.time_out(partition, clock)
            queue = partition.queues.get(clock.queue)
            if queue is not None:  # what its victims did not give back counts again
                quota.went_over(partition, queue, now_ns)
        case ClockKind.INQUIRY:
            inquiries.lose(partition, clock)
        case ClockKind.REFUSED:
            inquiries.forget(partition)
        case _:
            _ring_application(partition, clock, now_ns)


def _ring_application(partition: Partition, clock: Clock, now_ns: int) -> None:
    app = partition.applications.get(clock.application)
    if app is None:
        return
    match clock.kind:
        case ClockKind.PLACEHOLDER if clock.generation == app.gang.clock:
            gangs.time_out(partition, app, now_ns)
        case ClockKind.WAIT if clock.generation == app.sequence:
            _wait(partition, app, now_ns)
        case ClockKind.STARVATION:
            partition.stir_one(app)
        case ClockKind.TAKE_OVER:
            takeovers.on_timer(partition, app, clock)
        case ClockKind.BACKOFF:
            _wake(partition, app, clock, now_ns)
        case ClockKind.COMPLETING if clock.generation == app.completing:
            _complete(partition, app, now_ns)
        case ClockKind.RUN if clock.generation == app.sequence:
            _run_time(partition, app, now_ns)
        case ClockKind.ALLOCATION_RUN if clock.generation == app.sequence:
            _allocation_run_time(partition, app, clock, now_ns)
        case ClockKind.RELEASE:
            _release(partition, app, clock)
        case _:
            pass  # stale, or of a queue or the partition, which went another way


def _wake(partition: Partition, app: Application, clock: Clock, now_ns: int) -> None:
    """An application that slept because too much of it had no place looks again (contract 2.5)."""
    if clock.generation == app.sequence and now_ns >= app.asleep_until_ns:
        app.asleep_until_ns = 0
        partition.stir_one(app)


def _wait(partition: Partition, app: Application, now_ns: int) -> None:
    """The optional end of a gang that holds nothing at all (semantics 10). The time begins again for one that holds
    nothing because of a take-over or a preemption.
    """
    if app.state not in _EARLY or not app.is_reserving or app.gang.allocated:
        return
    if app.gang.is_paused or app.gang.lost_to or app.id in partition.contention.open:
        lifecycle.set_wait_timer(partition, app, now_ns)
    else:
        gangs.give_up(partition, app, now_ns, "the gang wait time-out ended before any of its places was found")


def _complete(partition: Partition, app: Application, now_ns: int) -> None:
    """Left-over placeholders are released first; the end follows the last of them (seed 000, "Cleanup")."""
    if app.state is not ApplicationState.COMPLETING:
        return
    app.ending = True
    why = "left-over placeholder of a completed application"
    gangs.take_back_placeholders(partition, app, why, now_ns)
    lifecycle.settle(partition, app, now_ns)


def _run_time(partition: Partition, app: Application, now_ns: int) -> None:
    if app.state is ApplicationState.RUNNING and now_ns >= app.started_ns + app.spec.timeout_ns:
        gangs.fail(partition, app, now_ns, "the application ran longer than its execution time-out")


def _allocation_run_time(partition: Partition, app: Application, clock: Clock, now_ns: int) -> None:
    allocation = app.allocations.get(AllocationId(clock.key))
    if allocation is None or allocation.releasing is not None:
        return
    if now_ns < allocation.allocated_ns + allocation.spec.timeout_ns:
        return  # the clock of an earlier allocation of this identity (semantics 5)
    why = "the allocation ran longer than its execution time-out"
    answer = partition.outbox.answer(partition.rm)
    ledger.mark_releasing(app, allocation, Termination.TIMEOUT, now_ns)
    key = allocation.spec.key
    answer.released.append(Release(partition.id, app.id, key, allocation.id, Termination.TIMEOUT, why))
    if app.is_reserving:
        partition.stir_one(app)  # it lacks one more of its places


def _release(partition: Partition, app: Application, clock: Clock) -> None:
    """A placeholder was told to go and never confirmed: its successor is scheduled as usual (semantics 14)."""
    ask = app.asks.get(clock.key)
    if ask is None or ask.swap is None or ask.clock != clock.generation:
        return
    placeholder = ask.swap.placeholder
    ledger.unlink(partition, app, clock.key)
    ledger.wait_again(partition, app, ask, as_usual=True)
    message = f"placeholder {placeholder} was not confirmed as released in time: the pod is scheduled as usual"
    partition.note(Notice.REQUEST, clock.key, reference=app.id, message=message)
