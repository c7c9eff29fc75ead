"""Applications that ended, or were rejected: kept for people to look at, for a time and up to a number.

One clock per partition rings when the oldest of them is old enough; the others
follow it. Called by lifecycle.py, applications.py and clocks.py.
Differs: the newest thousand are kept at the most; YuniKorn keeps all of three days.
"""

from __future__ import annotations

from typing import Final

from muster_core.engine import notes
from muster_core.model import limits
from muster_core.model.effects import ApplicationSummed, ClockSet
from muster_core.model.events import Clock, ClockKind
from muster_core.model.ids import ROOT, AllocationKey, ApplicationId, parent_path
from muster_core.model.states import APPLICATION, ApplicationEvent, ApplicationState, follow
from muster_core.world.applications import Application
from muster_core.world.world import Partition

#: What applications of a queue are counted by when they are over.
_ENDS: Final = tuple(ApplicationState)


def remember(partition: Partition, app: Application, now_ns: int) -> None:
    """Keep an application that is over."""
    app.ended_ns = now_ns
    partition.history.append(app)
    # What was rejected is counted of the root: it may have named any queue, and would be remembered for ever.
    ended = (ROOT if app.rejected_message else app.queue.path, app.state)
    partition.ended[ended] = partition.ended.get(ended, 0) + 1
    _fold_counts(partition)
    if not app.rejected_message:
        partition.outbox.put(_summary(partition, app))
    if not partition.expiring:
        _set_clock(partition)


def _fold_counts(partition: Partition) -> None:
    """Add the counts of queues that are gone to those above them, oldest first, where very many are kept."""
    there = partition.queues.by_path
    if len(partition.ended) <= limits.ENDED_COUNTS_OF_GONE_QUEUES + len(_ENDS) * len(there):
        return
    gone = [key for key in partition.ended if key[0] not in there]
    for key in gone[: limits.ENDED_COUNTS_OF_GONE_QUEUES // 2 + 1]:
        path, state = key
        while path not in there:
            path = parent_path(path)
        partition.ended[path, state] = partition.ended.get((path, state), 0) + partition.ended.pop(key)


def _summary(partition: Partition, app: Application) -> ApplicationSummed:
    return ApplicationSummed(
        rm=partition.rm,
        application=app.id,
        queue=app.queue.path,
        user=app.spec.user,
        state=app.state,
        times_ns=(app.submitted_ns, app.started_ns, app.ended_ns),
        used=app.used.seconds(),
        preempted=app.preempted.seconds(),
        placeholders=app.placeheld.seconds(),
    )


def expire(partition: Partition, clock: Clock, now_ns: int) -> None:
    """Let go of all that ended long enough ago; an ended one is Expired then (contract 6.3)."""
    if clock.generation != partition.expiring:
        return
    oldest_ns = now_ns - partition.timing.expiry_ns
    while partition.history and partition.history[0].ended_ns <= oldest_ns:
        app = partition.history.popleft()
        if (app.state, ApplicationEvent.EXPIRE) in APPLICATION:  # one that was taken away has not ended
            app.state = follow(APPLICATION, app.state, ApplicationEvent.EXPIRE)
            notes.app_moved(partition, app)
    partition.expiring = 0
    if partition.history:
        _set_clock(partition)


def _set_clock(partition: Partition) -> None:
    number = partition.next_number()
    nobody, no_key = ApplicationId(""), AllocationKey("")
    clock = Clock(ClockKind.EXPIRY, partition.rm, partition.id, nobody, no_key, number)
    partition.outbox.put(ClockSet(clock, partition.history[0].ended_ns + partition.timing.expiry_ns))
    partition.expiring = number
