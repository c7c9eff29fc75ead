"""Backoff: after an exception in one application or partition, and after too many unschedulable requests.

The callers catch the exception (`model.errors.caught`), and the others continue. Nothing here is called while
scheduling succeeds, except `attempt_timer` and `back_off_unschedulable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster_core.model import messages
from muster_core.model.effects import TimerSet
from muster_core.model.errors import CommitFailed, InconsistentState
from muster_core.model.events import Timer, TimerKind
from muster_core.model.limits import FAILURE_BACKOFF_FIRST_NS, FAILURE_BACKOFF_MOST_NS, MESSAGE_CHARACTERS
from muster_core.model.records import Notice
from muster_core.scheduling import invariants, requeue
from muster_core.state.applications import Application
from muster_core.state.scheduler_state import Failure, Partition, SchedulerState
from muster_core.state.scheduling_queue import NoNodeFits
from muster_core.state.snapshot import AllocationPlan, wanted

_SECOND_NS: Final = 1_000_000_000


def application_failed(partition: Partition, app: Application, error: Exception, now_ns: int) -> None:
    """Lets the application back off. Raises InconsistentState."""
    partition.outbox.failures.append(Failure(f"application {app.id}", error, app.id))
    if isinstance(error, CommitFailed):
        _check(partition)
    if partition.applications.get(app.id) is not app:
        return
    app.failures += 1
    delay_ns = _delay_ns(app.failures)
    app.backoff_until_ns = now_ns + delay_ns
    partition.set_timer(TimerKind.BACKOFF, app.sequence, app.backoff_until_ns, app.id)
    message = messages.not_scheduled(f"application {app.id}", _text(error), delay_ns // _SECOND_NS)
    partition.note(Notice.APPLICATION, app.id, message=message)
    app.unplanned = app.restarts = 0
    requeue.set_blocking(partition, app, blocks=False)
    partition.scheduling.dequeue(app)
    partition.scheduling.mark_unschedulable(app, [])


def partition_failed(partition: Partition, error: Exception, now_ns: int) -> None:
    """Lets the partition back off. Raises InconsistentState.

    Exceptions of a single application do not reach this function.
    """
    partition.failures += 1
    delay_ns = _delay_ns(partition.failures)
    partition.backoff_until_ns = now_ns + delay_ns
    partition.set_timer(TimerKind.PARTITION_BACKOFF, partition.failures, partition.backoff_until_ns)
    partition.outbox.failures.append(Failure(f"partition {partition.id}", error))
    message = messages.not_scheduled(f"partition {partition.id}", _text(error), delay_ns // _SECOND_NS)
    partition.note(Notice.QUEUE, partition.queues.root.path, message=message)
    _check(partition)


def attempt_timer(scheduler_state: SchedulerState, timer: Timer, now_ns: int, act: Callable[[], None]) -> None:
    """Handles a timer that fired. If the handler raises, the timer fires again after a backoff.

    Otherwise its subject would wait forever. Raises the exception of the handler.
    """
    try:
        act()
    except Exception:
        failures = scheduler_state.failed_timers[timer] = scheduler_state.failed_timers.get(timer, 0) + 1
        scheduler_state.outbox.put(TimerSet(timer, now_ns + _delay_ns(failures)))
        raise
    scheduler_state.failed_timers.pop(timer, None)


def describe(error: Exception) -> str:
    """Returns the error as a reason for a rejection."""
    return messages.internal_error(_text(error))


def _check(partition: Partition) -> None:
    broken = invariants.check_partition(partition)
    if broken:
        raise InconsistentState(broken)
    partition.unschedulable_classes.clear()
    partition.scheduling.requeue_all()
    partition.shrunk.update(dict.fromkeys(partition.waiting))


def _delay_ns(failures: int) -> int:
    """Returns the backoff: 1 s, doubled with each failure up to a bound."""
    doublings = min(failures - 1, (FAILURE_BACKOFF_MOST_NS // FAILURE_BACKOFF_FIRST_NS).bit_length())
    return min(FAILURE_BACKOFF_FIRST_NS << doublings, FAILURE_BACKOFF_MOST_NS)


def _text(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, CommitFailed) and error.__cause__ is not None else error
    return f"{type(cause).__name__}: {cause}"[:MESSAGE_CHARACTERS]


def back_off_unschedulable(partition: Partition, app: Application, plan: AllocationPlan, now_ns: int) -> None:
    """Starts a backoff if no node fits `application.unschedasks.backoff` or more of the requests in one attempt.

    Called only if the queue sets it.
    """
    policies = app.queue.policies
    refused = dict.fromkeys(one.kind for one in plan.blocking_reasons if isinstance(one, NoNodeFits))
    most = policies.backoff_after
    if sum(wanted(app, kind, most) for kind in refused if kind in app.waiting) < most:
        return
    app.backoff_until_ns = now_ns + policies.backoff_delay_ns
    partition.set_timer(TimerKind.BACKOFF, app.sequence, app.backoff_until_ns, app.id)
