"""Moves applications along their life cycle, and ends them.

Every change of state goes through `move`, which follows the table and says so;
`settle` asks, after something went, whether that was the last thing a state
waited for. An application's end always follows its last confirmed release
(semantics 1, 13).
"""

from __future__ import annotations

from typing import Final

from muster_core.engine import affinity, contention, history, ledger, notes, queues, user_groups
from muster_core.model.effects import ApplicationUpdated, ClockSet
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import AllocationKey
from muster_core.model.states import APPLICATION, ApplicationEvent, ApplicationState, follow
from muster_core.world.applications import Application
from muster_core.world.world import Partition

_NO_KEY = AllocationKey("")
#: What follows in each state if nothing is left of an application.
_CONCLUDING: Final = {
    ApplicationState.NEW: ApplicationEvent.ACCEPT,
    ApplicationState.ACCEPTED: ApplicationEvent.COMPLETE,
    ApplicationState.RUNNING: ApplicationEvent.COMPLETE,
    ApplicationState.COMPLETING: ApplicationEvent.COMPLETE,
    ApplicationState.RESUMING: ApplicationEvent.ACCEPT,
    ApplicationState.FAILING: ApplicationEvent.FAIL,
}
_ACTIVE = (ApplicationState.ACCEPTED, ApplicationState.RUNNING)


def move(partition: Partition, app: Application, event: ApplicationEvent, now_ns: int, message: str = "") -> None:
    """Follow one row of the table and say so."""
    app.state = follow(APPLICATION, app.state, event)
    partition.outbox.put(ApplicationUpdated(partition.rm, app.id, app.state, now_ns, message))
    app.state_log.append((now_ns, app.state))
    ledger.count_running(partition, app)
    partition.stir_one(app)
    notes.app_moved(partition, app, message)


def set_clock(
    partition: Partition, app: Application, kind: ClockKind, number: int, at_ns: int, key: AllocationKey = _NO_KEY
) -> None:
    """One deadline of an application; it is heard while its subject still shows `number`."""
    partition.outbox.put(ClockSet(Clock(kind, partition.rm, partition.id, app.id, key, number), at_ns))


def set_wait_timer(partition: Partition, app: Application, since_ns: int) -> None:
    """The optional end of a gang that holds nothing at all, counted from then on."""
    wait_ns = app.spec.wait_timeout_ns or partition.timing.wait_timeout_ns
    if wait_ns:
        set_clock(partition, app, ClockKind.WAIT, app.sequence, since_ns + wait_ns)


def run(partition: Partition, app: Application, now_ns: int) -> None:
    """Accepted or Completing → Running, with the clock of its run time where it has one."""
    app.ending = False
    app.completing = 0
    app.started_ns = app.started_ns or now_ns
    move(partition, app, ApplicationEvent.RUN, now_ns)
    run_clock(partition, app, now_ns)


def run_clock(partition: Partition, app: Application, now_ns: int) -> None:
    """The limit of an application's run time, from when it first ran; a gang's time-out is another (semantics 2)."""
    if not app.spec.timeout_ns or app.spec.is_gang:
        return
    at_ns = max(app.started_ns + app.spec.timeout_ns, now_ns)
    set_clock(partition, app, ClockKind.RUN, app.sequence, at_ns)


def complete_if_done(partition: Partition, app: Application, now_ns: int) -> None:
    """After the last real ask or allocation went: → Completing, and its clock.

    Left-over placeholders do not keep an application from it; a pending
    placeholder ask, or a gang that is still reserving, does (semantics 13); not
    the core's own asks for a gang that ran already.
    """
    is_busy = bool(app.real_asks or app.real_allocations)
    if app.state is not ApplicationState.RUNNING or not app.spec.is_podless:
        is_busy = is_busy or bool(app.placeholder_asks) or app.is_reserving
    if is_busy or app.state not in _ACTIVE:
        return
    number = partition.next_number()
    set_clock(partition, app, ClockKind.COMPLETING, number, now_ns + partition.timing.completing_timeout_ns)
    app.completing = number
    move(partition, app, ApplicationEvent.COMPLETE, now_ns)


def settle(partition: Partition, app: Application, now_ns: int) -> None:
    """After an allocation went: the step, if any, that waited for the last of them."""
    has_placeholders = bool(app.gang.allocated)
    match app.state:
        case ApplicationState.RESUMING if not has_placeholders:
            move(partition, app, ApplicationEvent.ACCEPT, now_ns)
            _go_on(partition, app, now_ns)
        case ApplicationState.FAILING if not app.allocations:
            end(partition, app, ApplicationEvent.FAIL, now_ns)
        case ApplicationState.COMPLETING if app.ending and not has_placeholders:
            end(partition, app, ApplicationEvent.COMPLETE, now_ns)
        case _:
            pass


def _go_on(partition: Partition, app: Application, now_ns: int) -> None:
    """Accepted again: real pods may have got their places, or all have gone, while placeholders went."""
    if app.real_allocations:
        run(partition, app, now_ns)
    elif app.had_real:
        complete_if_done(partition, app, now_ns)


def accept(partition: Partition, app: Application, now_ns: int) -> None:
    """New → Accepted, with the clock of a gang that may starve: then it pledges first (semantics 11)."""
    move(partition, app, ApplicationEvent.ACCEPT, now_ns)
    if app.is_reserving:
        at_ns = max(app.submitted_ns + partition.timing.starvation_age_ns, now_ns)
        set_clock(partition, app, ClockKind.STARVATION, app.sequence, at_ns)


def end(partition: Partition, app: Application, event: ApplicationEvent, now_ns: int, message: str = "") -> None:
    """The last move: the application leaves its queue and its id is free again."""
    move(partition, app, event, now_ns, message)
    leave(partition, app)
    history.remember(partition, app, now_ns)


def conclude(partition: Partition, app: Application, now_ns: int) -> None:
    """Give an application that its resource manager removed the state in which it ends.

    The resource manager is not told: it may have submitted another application of the same ID already.
    """
    while (event := _CONCLUDING.get(app.state)) is not None:
        app.state = follow(APPLICATION, app.state, event)
        app.state_log.append((now_ns, app.state))
        ledger.count_running(partition, app)
        notes.app_moved(partition, app)


def leave(partition: Partition, app: Application) -> None:
    """Take an application without allocations out of its queue and partition."""
    for ask in list(app.asks.values()):
        ledger.unlink(partition, app, ask.spec.key)
        ledger.remove_ask(partition, app, ask)
    ledger.clear_pledge(partition, app)
    contention.leave(partition, app)
    ledger.set_counted(partition, app, counts=False)
    del app.queue.applications[app.id]
    del partition.applications[app.id]
    user_groups.forget(partition, app.spec.user, app.id)
    affinity.withdraw(partition, app.spec.members)
    notes.app_left(partition, app)
    queues.settle(partition, app.queue)
