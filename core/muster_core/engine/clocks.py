"""What happens when a deadline comes. A clock whose number is no longer its subject's is stale."""

from __future__ import annotations

from muster_core.engine import gangs, history, inquiries, ledger, lifecycle, preemption, quota, reservations, victims
from muster_core.model.effects import AllocationAnswer, Effect, Release
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationId
from muster_core.model.notes import EventNoted, Notice
from muster_core.model.release import Termination
from muster_core.model.states import ApplicationState
from muster_core.world.applications import Application
from muster_core.world.world import Partition

_EARLY = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def ring(partition: Partition, clock: Clock, now_ns: int) -> list[Effect]:
    """Take the deadline to its subject, if that still waits for it."""
    if clock.kind is ClockKind.EXPIRY:
        return history.expire(partition, clock, now_ns)
    if clock.kind is ClockKind.RESERVATION:
        return reservations.ring(partition, clock, now_ns)
    if clock.kind is ClockKind.RESERVED:
        return reservations.expire(partition, clock)
    if clock.kind is ClockKind.PREEMPTION:
        return preemption.ring(partition, clock, now_ns)
    if clock.kind is ClockKind.QUOTA:
        return quota.ring(partition, clock, now_ns)
    if clock.kind is ClockKind.VICTIMS:
        return victims.time_out(partition, clock)
    if clock.kind is ClockKind.INQUIRY:
        return inquiries.lose(partition, clock)
    if clock.kind is ClockKind.REFUSED:
        return inquiries.forget(partition)
    return _ring_application(partition, clock, now_ns)


def _ring_application(partition: Partition, clock: Clock, now_ns: int) -> list[Effect]:
    app = partition.applications.get(clock.application)
    if app is None:
        return []
    match clock.kind:
        case ClockKind.PLACEHOLDER:
            return gangs.time_out(partition, app, now_ns) if clock.generation == app.gang.clock else []
        case ClockKind.WAIT:
            return _wait(partition, app, now_ns) if clock.generation == app.sequence else []
        case ClockKind.STARVATION:
            partition.stir_one(app)
            return []
        case ClockKind.BACKOFF:
            return _wake(partition, app, clock, now_ns)
        case ClockKind.COMPLETING:
            return _complete(partition, app, now_ns) if clock.generation == app.completing else []
        case ClockKind.RUN:
            return _run_time(partition, app, now_ns) if clock.generation == app.sequence else []
        case ClockKind.ALLOCATION_RUN:
            return _allocation_run_time(partition, app, clock, now_ns) if clock.generation == app.sequence else []
        case ClockKind.RELEASE:
            return _release(partition, app, clock)
        case _:
            return []  # those of queues and of the partition went another way


def _wake(partition: Partition, app: Application, clock: Clock, now_ns: int) -> list[Effect]:
    """An application that slept because too much of it had no place looks again (contract 2.5)."""
    if clock.generation == app.sequence and now_ns >= app.asleep_until_ns:
        app.asleep_until_ns = 0
        partition.stir_one(app)
    return []


def _wait(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    """The optional end of a gang that holds nothing at all (semantics 10)."""
    if app.state not in _EARLY or not app.is_reserving or app.gang.allocated:
        return []
    return gangs.give_up(partition, app, now_ns, "the gang wait time-out ended before any of its places was found")


def _complete(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    """Left-over placeholders are released first; the end follows the last of them (seed 000, "Cleanup")."""
    if app.state is not ApplicationState.COMPLETING:
        return []
    app.ending = True
    why = "left-over placeholder of a completed application"
    effects = gangs.take_back_placeholders(partition, app, why, now_ns)
    return effects + lifecycle.settle(partition, app, now_ns)


def _run_time(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    if app.state is not ApplicationState.RUNNING or now_ns < app.started_ns + app.spec.timeout_ns:
        return []
    return gangs.fail(partition, app, now_ns, "the application ran longer than its execution time-out")


def _allocation_run_time(partition: Partition, app: Application, clock: Clock, now_ns: int) -> list[Effect]:
    allocation = app.allocations.get(AllocationId(clock.key))
    if allocation is None or allocation.releasing is not None:
        return []
    if now_ns < allocation.allocated_ns + allocation.spec.timeout_ns:
        return []  # the clock of an earlier allocation of this identity (semantics 5)
    ledger.mark_releasing(app, allocation, Termination.TIMEOUT)
    if app.is_reserving:
        partition.stir_one(app)  # it lacks one more of its places
    why = "the allocation ran longer than its execution time-out"
    release = Release(partition.id, app.id, allocation.spec.key, allocation.id, Termination.TIMEOUT, why)
    return [AllocationAnswer(partition.rm, released=(release,))]


def _release(partition: Partition, app: Application, clock: Clock) -> list[Effect]:
    """A placeholder was told to go and never confirmed: its successor is scheduled as usual (semantics 14)."""
    ask = app.asks.get(clock.key)
    if ask is None or ask.swap is None or ask.clock != clock.generation:
        return []
    placeholder = ask.swap.placeholder
    ledger.unlink(partition, app, clock.key)
    ledger.wait_again(partition, app, ask, as_usual=True)
    message = f"placeholder {placeholder} was not confirmed as released in time: the pod is scheduled as usual"
    return [EventNoted(partition.rm, Notice.REQUEST, clock.key, message, app.id)]
