"""The scheduler task: the only task that owns the scheduler state.

It takes events from its queue, fires timers, runs cycles and passes the effects to `sessions`. Cycles are spaced by
`CyclePacing`. It is not thread-safe, and no other task changes the state. An exception in one event or application is
logged and counted, and the task continues. Long-lived objects are frozen so that garbage collection does not pause the
task.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from muster_core.metrics.counters import CyclePhases, Metrics
from muster_core.model.effects import AllocationResponse, Effect
from muster_core.model.events import (
    ConnectionLost,
    Event,
    ManagerRegistered,
    RecoveryBarrierPassed,
    TimerFired,
    TimerKind,
)
from muster_core.runtime.journal import Journal
from muster_core.runtime.sessions import Dispatcher, MessageKind, RecoveryBarrier, Session, Supervisor
from muster_core.scheduling import invariants
from muster_core.scheduling.scheduler import CycleBudget, CycleResult, cycle, step_part
from muster_core.si import callbacks
from muster_core.state.scheduler_state import SchedulerState

_log = structlog.get_logger(__name__)

#: Longest sleep, so that a corrected wall clock is noticed.
_LONGEST_SLEEP_S: Final = 600.0


@dataclass(slots=True, eq=False)
class QueuedMessage:
    """One message, taken apart. `kind`: which stream it counts on; None = none.

    Mail of a session that is over by the time it is read is not read.
    """

    events: Sequence[Event]
    session: Session | None = None
    answers: Sequence[Effect] = ()
    kind: MessageKind | None = None
    barrier: RecoveryBarrier | None = None
    #: Time of arrival, set by the event queue.
    posted_s: float = 0.0
    #: A part of the first event has been applied.
    is_continued: bool = False


class EventQueue:
    """Bounded queue of messages for the scheduler task.

    `wake_up` is set when there may be something to read or to check.
    """

    def __init__(self, capacity: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.wake_up = asyncio.Event()
        self._capacity = capacity
        self._queued: deque[QueuedMessage] = deque()
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queued)

    def oldest_s(self) -> float:
        """Returns the waiting time of the oldest message in seconds; 0 = empty."""
        return self.clock() - self._queued[0].posted_s if self._queued else 0.0

    async def put(self, queued: QueuedMessage) -> None:
        """Adds a message. Waits while the queue is full."""
        while len(self._queued) >= self._capacity:
            self._room.clear()
            await self._room.wait()
        self.post(queued)

    def post(self, queued: QueuedMessage) -> None:
        """Adds a message that must not wait: the end of a session."""
        queued.posted_s = self.clock()
        self._queued.append(queued)
        self.wake_up.set()

    def take(self) -> QueuedMessage | None:
        """Returns the oldest message, or None."""
        if not self._queued:
            return None
        self._room.set()
        return self._queued.popleft()

    def put_back(self, queued: QueuedMessage) -> None:
        """Returns the message that was taken last, because its first event is not complete."""
        self._queued.appendleft(queued)


class SteadyClock:
    """Clock that never goes back and never jumps: the wall clock at the start plus the monotonic clock."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def __call__(self) -> int:
        """Returns nanoseconds since the epoch."""
        return self._offset_ns + self._monotonic_ns()


class WakeUpTimer:
    """Calls `on_time` once per `set`, at the given time or soon after."""

    def __init__(self, now_ns: Callable[[], int], on_time: Callable[[], None]) -> None:
        self._now_ns = now_ns
        self._on_time = on_time
        self._at_ns: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ns: int | None) -> None:
        """Replaces the time, in nanoseconds since the epoch; None = never."""
        if at_ns == self._at_ns and self._timer is not None:
            return
        self.stop()
        self._at_ns = at_ns
        if at_ns is not None:
            delay = min(max((at_ns - self._now_ns()) / 1e9, 0.0), _LONGEST_SLEEP_S)
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def stop(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._on_time()


#: Shortest time from the start of a cycle to the start of the next. It bounds the delay of a request that arrives right
#: after another. It does not apply after a cycle that had no application to try.
_LEAST_S: Final = 0.004

#: Longest pause after a cycle, however long the cycle took.
_MOST_S: Final = 0.040

#: Cycles use at most 1/_PARTS of the time, unless `_MOST_S` shortens the pause.
_PARTS: Final = 5


class CyclePacing:
    """Keeps a pause between cycles. Times are seconds of any steady clock.

    `on_time` is called at the end of a pause that delayed a cycle.
    """

    def __init__(self, on_time: Callable[[], None]) -> None:
        self._on_time = on_time
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Whether a cycle is delayed until the end of the pause."""
        return self._timer is not None

    def cycled(self, began_s: float, ended_s: float, *, has_tried: bool = True) -> None:
        """Starts the pause after a cycle. `has_tried`: see `CycleResult`."""
        took_s = ended_s - began_s
        least_s = _LEAST_S if has_tried else 0.0
        self.begin(ended_s + min(max(least_s - took_s, (_PARTS - 1) * took_s), _MOST_S))

    def begin(self, until_s: float) -> None:
        """Starts a pause: no cycle starts before `until_s`."""
        self._until_s = until_s

    def left_s(self, now_s: float) -> float:
        """Returns the seconds until the next cycle may start; 0 = now."""
        return max(0.0, self._until_s - now_s)

    def holds(self, now_s: float) -> bool:
        """Whether a cycle has to wait. If so, `on_time` is called at the end of the pause."""
        left_s = self.left_s(now_s)
        if left_s and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._over)
        return left_s > 0

    def stop(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer = None
        self._on_time()


#: Passes of the event loop without a new message after which the scheduler task continues. gRPC takes several passes to
#: deliver a message.
_QUIET_PASSES: Final = 6

#: Events, effects and allocations between two freezes. Objects that replace others do not count towards the thresholds
#: of the collector, so this number also bounds the young objects that one collection has to visit.
_EVENTS: Final = 1_000


def size(effects: Sequence[Effect]) -> int:
    """Returns the number of effects and allocations of a cycle."""
    return len(effects) + sum([len(one.new) for one in effects if isinstance(one, AllocationResponse)])


class GarbageCollectorFreezer:
    """Moves long-lived objects out of garbage collection.

    It does nothing unless `is_on`, because the collector belongs to the process, which may embed the core.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._registrations = 0
        self._events = 0

    def started(self) -> None:
        """Freezes the objects that exist before the first event, most of them modules."""
        if self._is_on:
            gc.freeze()

    def registered(self) -> None:
        """Counts a registration. A recovery that was interrupted leaves frozen objects too."""
        self._registrations += 1

    def recovered(self) -> None:
        """Freezes all objects after a recovery, and frees those of an earlier recovery.

        That takes a full collection: 0.8 s with 15,000 nodes and 200,000 pods. The first recovery needs none.
        """
        if self._is_on:
            is_first = self._registrations <= 1
            if not is_first:
                gc.unfreeze()
            gc.collect(1 if is_first else 2)
            gc.freeze()
            self._events = 0

    def count(self, events: int) -> None:
        """Counts the events and decisions of an iteration. After enough of them, freezes the objects that are left."""
        self._events += events
        if self._is_on and self._events >= _EVENTS:
            gc.collect(1)
            gc.freeze()
            self._events = 0


#: Timers whose handlers search for preemption victims.
_PREEMPTING: Final = (TimerKind.PREEMPTION, TimerKind.QUOTA)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of the scheduler task.

    budget_s: longest time for events, and for a cycle, before other tasks run. A higher value makes large batches a
    little faster and delays everything else.

    event_queue_length: number of waiting messages above which senders are blocked (back-pressure).

    checks: check the invariants after every iteration, but not between the parts of an event; slow, for development.

    freeze: exclude recovered objects from garbage collection (docs/internals/semantics.md, rule 26); only if the core
    has its own process.
    """

    budget_s: float = 0.010
    event_queue_length: int = 1024
    checks: bool = False
    freeze: bool = False


class Loop:  # long: one method for each part of an iteration
    """Owns the scheduler state from `run` to `close`.

    `now_ns` returns nanoseconds since the epoch and never goes back. `on_end` is called when `run` ends, for whatever
    reason. Other tasks may read `scheduler_state` between two iterations. `_start_recovery` replaces it.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        metrics: Metrics,
        supervisor: Supervisor,
        settings: LoopSettings,
        now_ns: Callable[[], int] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.scheduler_state = SchedulerState()
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._supervisor = supervisor
        self._settings = settings
        self._now_ns = now_ns = now_ns or SteadyClock()
        self._journal = journal
        self.event_queue = EventQueue(settings.event_queue_length)
        self._wake_up_timer = WakeUpTimer(now_ns, self.event_queue.wake_up.set)
        self._freezer = GarbageCollectorFreezer(is_on=settings.freeze)
        self._unfinished = False  # the last cycle did not finish, or something has changed since
        self._received = 0  # events of this iteration
        self._decided = 0  # effects and allocations of this iteration
        self.changes = 0  # grows when the state may have changed
        self._is_unfinished = False  # the last cycle did not finish
        self._waiting_since_s: float | None = None  # arrival of the first event since the last cycle
        self._pauses = CyclePacing(self.event_queue.wake_up.set)
        self._closed = False
        self.is_running = False
        self.on_end: Callable[[], None] = _nothing
        self._completed_s = time.perf_counter()  # end of the last iteration

    def close(self) -> None:
        """Ends `run` after the current iteration. Waiting messages are not read."""
        self._closed = True
        self.event_queue.wake_up.set()

    async def run(self) -> None:
        """Runs until `close`. Only this task may change the state."""
        self.is_running = True
        self._freezer.started()
        try:
            while not self._closed:
                await self.event_queue.wake_up.wait()
                self.event_queue.wake_up.clear()
                more = True
                while more:
                    more = self._supervised_iteration()
                    self._completed_s = time.perf_counter()
                    await (self._let_messages_arrive() if more else asyncio.sleep(0))
        finally:
            self.is_running = False
            self.on_end()
            self._wake_up_timer.stop()
            self._pauses.stop()

    async def _let_messages_arrive(self) -> None:
        """Lets other tasks run, and continues when no more messages arrive, or after the time budget.

        With a single pass of the event loop between two cycles, an unfinished cycle would run several times per
        message. Work that messages of a burst share would then be done for each of them.
        """
        until, quiet = self._completed_s + self._settings.budget_s, 0
        while quiet < _QUIET_PASSES:
            known = len(self.event_queue)
            await asyncio.sleep(0)
            quiet = 0 if len(self.event_queue) > known else quiet + 1
            if time.perf_counter() >= until:
                return

    def stalled_s(self) -> float:
        """Returns the seconds since the last completed iteration while there is work; 0 = idle or not busy for long."""
        next_ns = self._dispatcher.deadlines.next_ns()
        is_due = next_ns is not None and next_ns <= self._now_ns()
        if not is_due and not len(self.event_queue) and not (self._unfinished and not self._pauses.is_on):
            return 0.0
        waited_s = self.event_queue.oldest_s() if not is_due else (self._now_ns() - (next_ns or 0)) / 1e9
        return min(waited_s, time.perf_counter() - self._completed_s)

    def _supervised_iteration(self) -> bool:
        """Runs one iteration.

        An exception outside of the supervised steps may lose effects, so it starts a recovery.
        """
        ended = self._supervisor.attempt(self._iterate, None, "an iteration of the scheduling loop")
        if ended is not None:
            return ended
        self._start_recovery("the scheduler failed while delivering decisions")
        return True

    def _iterate(self) -> bool:
        """Runs one iteration. Returns whether there is more work now."""
        started = time.perf_counter()
        self._received = self._decided = 0
        self._read_events(started + self._settings.budget_s)
        if self.scheduler_state.unfinished is None:
            self._fire_due_timers(time.perf_counter() + self._settings.budget_s)
            if self._unfinished and self._is_time(time.perf_counter()):
                self._schedule()
        self._check_invariants()
        self._end_broken()
        self._wake_up_timer.set(self._dispatcher.deadlines.next_ns())
        self._freezer.count(self._received + self._decided)
        self.changes += self._received + self._decided
        self._metrics.iterated(time.perf_counter() - started)
        return not self._closed and (len(self.event_queue) > 0 or (self._unfinished and not self._pauses.is_on))

    def _is_time(self, now_s: float) -> bool:
        """Whether to run a cycle now.

        A cycle waits for messages that directly follow the last one, up to the time budget, and for the end of the
        pause. A burst is then planned in few cycles, and a single request does not wait for others. An unfinished cycle
        continues at once unless messages wait.
        """
        if self._is_unfinished and not len(self.event_queue):
            return True
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        if self._pauses.holds(now_s):
            return False
        return not self._received or now_s - self._waiting_since_s >= self._settings.budget_s

    def _read_events(self, until: float) -> None:
        while (queued := self.event_queue.take()) is not None:
            if not queued.is_continued:
                self._metrics.waited(self.event_queue.clock() - queued.posted_s)
            if queued.session is None or queued.session.is_open or queued.is_continued:
                self._read(queued)
            else:
                self._metrics.dropped("mail of a session that is over")
                if queued.barrier is not None:
                    queued.barrier.end(queued.session.ended)
            if time.perf_counter() >= until:
                return

    def _read(self, queued: QueuedMessage) -> None:
        if queued.session is not None and any(isinstance(event, ManagerRegistered) for event in queued.events):
            queued.session.is_in_force = True  # effects of earlier decisions belong to the session before
            self._freezer.registered()
        if queued.answers:
            self._dispatcher.carry(queued.answers, self._now_ns())
        if queued.events:
            if not queued.is_continued:
                self._metrics.received(queued.events)
            if left := self._receive(queued.events):
                queued.events, queued.answers, queued.is_continued = left, (), True
                self.event_queue.put_back(queued)
                return
        session = queued.session
        if session is None:
            return
        if queued.kind is not None:
            session.taken[queued.kind] += 1
        if queued.barrier is not None:
            session.barriers.append(queued.barrier)
        if session.barriers:
            self._pass_barriers(session)

    def _pass_barriers(self, session: Session) -> None:
        passed = session.take_passed_barriers()
        if not passed:
            return
        if any(barrier.recovers for barrier in passed):
            self._apply(RecoveryBarrierPassed(session.rm))
            self._freezer.recovered()
        for barrier in passed:
            barrier.open()

    def _receive(self, events: Sequence[Event]) -> Sequence[Event]:
        """Applies the events of one message, and sends the effects of all of them together.

        Stops after a part of an event about many pods. Returns this event and the ones behind it.
        """
        now_ns = self._now_ns()
        effects: list[Effect] = []
        left: Sequence[Event] = ()
        for index, event in enumerate(events):
            effects += self._step(now_ns, event)
            if self.scheduler_state.unfinished is not None:
                left = events[index:]
                break
        self._received += len(events) - len(left) + bool(left)
        self._decided += size(effects)
        self._unfinished = True
        if effects:
            self._dispatcher.carry(effects, now_ns)
        return left

    def _apply(self, event: Event) -> None:
        """Applies an event of the core itself."""
        self._metrics.received([event])
        self._receive([event])

    def _step(self, now_ns: int, event: Event) -> list[Effect]:
        is_continued = self._journal is not None and self.scheduler_state.has_begun(event)
        taken = self._supervisor.attempt(partial(step_part, self.scheduler_state, event, now_ns), None, event)
        effects = self.scheduler_state.outbox.drain() if taken is None else taken  # effects before an exception
        if self.scheduler_state.outbox.failures:
            self._report_failures()
        if self._journal is not None:
            write = partial(self._journal.stepped, now_ns, event, effects, is_continued=is_continued)
            self._supervisor.attempt(write, None, "the journal")
        return effects

    def _fire_due_timers(self, until: float) -> None:
        """Fires timers that are due, at least one. The wake-up timer fires at once for the rest."""
        now_ns = self._now_ns()
        due: TimerFired | None
        while (due := self._dispatcher.deadlines.due(now_ns)) is not None:
            started = time.perf_counter()
            self._apply(due)
            if due.timer.kind in _PREEMPTING:
                self._metrics.searched_for_victims(time.perf_counter() - started)
            if time.perf_counter() >= until:
                return

    def _schedule(self) -> None:
        self._pauses.stop()
        now_ns = self._now_ns()
        started = time.perf_counter()
        until = started + self._settings.budget_s
        budget = CycleBudget(lambda: time.perf_counter() < until)
        faulty_before = sum(partition.void_decisions for partition in self.scheduler_state.partitions.values())
        phases = CyclePhases()
        plan = partial(cycle, self.scheduler_state, now_ns, budget, phases)
        result = self._supervisor.attempt(plan, None, "a scheduling cycle")
        if result is None:
            result = CycleResult(self.scheduler_state.outbox.drain(), has_tried=True)
        self._report_failures()
        if self._journal is not None:
            write = partial(self._journal.cycled, now_ns, budget, result.effects)
            self._supervisor.attempt(write, None, "the journal")
        faulty = sum(partition.void_decisions for partition in self.scheduler_state.partitions.values())
        self._metrics.cycled(time.perf_counter() - started, faulty - faulty_before, phases)
        self._unfinished = self._is_unfinished = result.more
        self._waiting_since_s = None
        self._decided += size(result.effects)
        self._dispatcher.carry(result.effects, now_ns)
        self._pauses.cycled(started, time.perf_counter(), has_tried=result.has_tried)

    def _report_failures(self) -> None:
        """Logs and counts the exceptions of applications and partitions that backed off."""
        for failure in self.scheduler_state.outbox.take_failures():
            self._metrics.failures.inc()
            _log.error(
                "scheduling attempt failed, retrying later",
                subject=failure.subject,
                story=self._dispatcher.events.last(failure.application),
                exc_info=failure.error,
            )

    def _check_invariants(self) -> None:
        """Checks the invariants after a failure, or always if `checks` is set. Starts a recovery if one is broken.

        Between the parts of an event they may not hold, so the check waits for the last part.
        """
        if self.scheduler_state.unfinished is not None:
            return
        failure = self._supervisor.take_failure()
        if failure is None and not self._settings.checks:
            return
        broken = self._supervisor.attempt(
            partial(invariants.check, self.scheduler_state),
            ["the check itself failed"],
            "a check of the invariants",
            changes_state=False,
        )
        if broken:
            story = self._dispatcher.events.last()
            _log.error("inconsistent scheduler state, starting a recovery", broken=broken[:20], story=story)
            self._start_recovery(f"the scheduler state is inconsistent: {broken[0]}")

    def _start_recovery(self, reason: str) -> None:
        self.scheduler_state = SchedulerState()
        if self._journal is not None:
            self._supervisor.attempt(self._journal.recovery_started, None, "the journal")
        self._dispatcher.deadlines.clear()
        self._unfinished = self._is_unfinished = False
        self._waiting_since_s = None
        for session in self._dispatcher.sessions.values():
            if session.is_open:
                self._supervisor.attempt(partial(_ask_to_register, session, reason), None, "a request to register")
                session.end(reason)
        self._supervisor.take_failure()

    def _end_broken(self) -> None:
        """Ends sessions whose callback failed, like sessions with a lost connection."""
        while self._dispatcher.broken:
            session = self._dispatcher.broken.pop()
            if session.is_open:
                session.end("the resource manager's callback failed")
                self.event_queue.post(QueuedMessage([ConnectionLost(session.rm)]))


def _nothing() -> None:
    """Default of `on_end`: does nothing."""


def _ask_to_register(session: Session, reason: str) -> None:
    session.callback.call_back(callbacks.reregister(reason))
    session.callback.session_lost(reason)
