"""The one task that owns the world: takes events, steps, cycles, says what is to be said, and lets others run.

A turn takes mail up to its time budget, hears the clocks that are due, then
schedules up to its budget; between two turns the event loop is free (streams,
REST). Nothing ticks: a turn happens when there is mail, a clock rang, or the
last cycle said there is more to do. Started by scheduler.py.

When something fails the event is counted and logged and the core goes on. If
the world no longer holds its invariants it is thrown away and every resource
manager is asked to register again: what a restart needs is theirs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from muster_core.edge import si_encode
from muster_core.edge.alarm import Alarm
from muster_core.edge.freezer import Freezer, size
from muster_core.edge.journal import Journal, Leave
from muster_core.edge.mailbox import Mail, Mailbox
from muster_core.edge.metrics.counted import Metrics
from muster_core.edge.metrics.laps import Laps
from muster_core.edge.outlet import Outlet
from muster_core.edge.pauses import Pauses
from muster_core.edge.session import Session
from muster_core.edge.steady_clock import SteadyClock
from muster_core.edge.supervisor import Supervisor
from muster_core.engine import invariants
from muster_core.engine.cycle import CycleResult, cycle
from muster_core.engine.step import step
from muster_core.model.effects import Effect
from muster_core.model.events import ClockKind, ClockRang, ConnectionLost, Event, FencePassed, ManagerRegistered
from muster_core.world.world import World

#: Clocks that make the engine look for victims.
_PREEMPTING: Final = (ClockKind.PREEMPTION, ClockKind.QUOTA)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop shares the process.

    budget_s: longest run of steps, and of planning, before others run. More makes
        big batches a little faster and everything else wait longer.
    mailbox: messages that wait for the world before senders wait (back-pressure).
    checks: check the invariants after every turn; for development, slow.
    freeze: keep what a recovery brought out of the garbage collector's sight (semantics 26);
        only where the process is the core's own.
    """

    budget_s: float = 0.010
    mailbox: int = 1024
    checks: bool = False
    freeze: bool = False


class Loop:  # long: one method for each part of a turn
    """Owns the world from `run` to `close`. `now_ns` is in nanoseconds since the epoch and never goes back.
    `on_end` is called when `run` ends, for whatever reason.

    `world` is for reading between two turns; it is another one after `_start_anew`.
    """

    def __init__(
        self,
        outlet: Outlet,
        metrics: Metrics,
        supervisor: Supervisor,
        settings: LoopSettings,
        now_ns: Callable[[], int] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.world = World()
        self._outlet = outlet
        self._metrics = metrics
        self._supervisor = supervisor
        self._settings = settings
        self._now_ns = now_ns = now_ns or SteadyClock()
        self._journal = journal
        self.mailbox = Mailbox(settings.mailbox)
        self._alarm = Alarm(now_ns, self.mailbox.news.set)
        self._freezer = Freezer(is_on=settings.freeze)
        self._unfinished = False  # the last cycle said there is more, or something changed since
        self._heard = 0  # events of this turn
        self._decided = 0  # effects and allocations of this turn's cycle
        self._is_pressing = False  # the last cycle said there is more
        self._waiting_since_s: float | None = None  # when the first was heard that no cycle saw
        self._pauses = Pauses(self.mailbox.news.set)
        self._closed = False
        self.is_running = False
        self.on_end: Callable[[], None] = _nothing
        self._completed_s = time.perf_counter()  # when the last turn was over

    def close(self) -> None:
        """Ends `run` after the present turn; what waits is not read."""
        self._closed = True
        self.mailbox.news.set()

    async def run(self) -> None:
        """Until `close`. To be run as the one task that touches the world."""
        self.is_running = True
        try:
            while not self._closed:
                await self.mailbox.news.wait()
                self.mailbox.news.clear()
                more = True
                while more:
                    more = self._supervised_turn()
                    self._completed_s = time.perf_counter()
                    await asyncio.sleep(0)
        finally:
            self.is_running = False
            self.on_end()
            self._alarm.stop()
            self._pauses.stop()

    def stalled_s(self) -> float:
        """Seconds since the last completed turn, while there is something to do; 0 = it is idle, or not long busy."""
        next_ns = self._outlet.deadlines.next_ns()
        is_due = next_ns is not None and next_ns <= self._now_ns()
        if not is_due and not len(self.mailbox) and not (self._unfinished and not self._pauses.is_on):
            return 0.0
        waited_s = self.mailbox.oldest_s() if not is_due else (self._now_ns() - (next_ns or 0)) / 1e9
        return min(waited_s, time.perf_counter() - self._completed_s)

    def _supervised_turn(self) -> bool:
        """Run one iteration. An exception outside of the supervised steps may lose effects, so it starts a recovery."""
        ended = self._supervisor.attempt(self._turn, None, "an iteration of the scheduling loop")
        if ended is not None:
            return ended
        self._start_anew("the scheduler failed while delivering decisions")
        return True

    def _turn(self) -> bool:
        """One slice of work; whether there is more to do at once."""
        started = time.perf_counter()
        self._heard = self._decided = 0
        self._read_mail(started + self._settings.budget_s)
        self._hear_clocks()
        if self._unfinished and self._is_time(time.perf_counter()):
            self._schedule()
        self._doubt()
        self._end_broken()
        self._alarm.set(self._outlet.deadlines.next_ns())
        self._freezer.heard(self._heard + self._decided)
        self._metrics.turned(time.perf_counter() - started)
        return not self._closed and (len(self.mailbox) > 0 or (self._unfinished and not self._pauses.is_on))

    def _is_time(self, now_s: float) -> bool:
        """Whether to schedule now. What follows on the heels of what was just heard is waited for, one yield at a time
        and no longer than the budget, and so is the end of the pause after the last cycle: a burst is then planned in
        few passes, and a lone ask waits for nobody.
        """
        if self._is_pressing:
            return True
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        if self._pauses.holds(now_s):
            return False
        return not self._heard or now_s - self._waiting_since_s >= self._settings.budget_s

    def _read_mail(self, until: float) -> None:
        while (mail := self.mailbox.take()) is not None:
            self._metrics.waited(self.mailbox.clock() - mail.posted_s)
            if mail.session is None or mail.session.is_open:
                self._read(mail)
            else:
                self._metrics.unheard("mail of a session that is over")
            if time.perf_counter() >= until:
                return

    def _read(self, mail: Mail) -> None:
        if mail.session is not None and any(isinstance(event, ManagerRegistered) for event in mail.events):
            mail.session.is_in_force = True  # what was decided before was decided for the session before
        if mail.answers:
            self._outlet.carry(mail.answers, self._now_ns())
        if mail.events:
            self._hear(mail.events)
        session = mail.session
        if session is None:
            return
        if mail.kind is not None:
            session.taken[mail.kind] += 1
        if mail.fence is not None:
            session.fences.append(mail.fence)
        if session.fences:
            self._pass_fences(session)

    def _pass_fences(self, session: Session) -> None:
        passed = session.take_passed_fences()
        if not passed:
            return
        if any(fence.recovers for fence in passed):
            self._hear([FencePassed(session.rm)])
            self._freezer.recovered()
        for fence in passed:
            fence.open()

    def _hear(self, events: Sequence[Event]) -> None:
        """Take in what one message said, and say at once what is to be said to all of it."""
        now_ns = self._now_ns()
        self._heard += len(events)
        self._metrics.heard(events)
        effects = [effect for event in events for effect in self._step(now_ns, event)]
        self._unfinished = True
        if effects:
            self._outlet.carry(effects, now_ns)

    def _step(self, now_ns: int, event: Event) -> list[Effect]:
        taken = self._supervisor.attempt(partial(step, self.world, event, now_ns), None, event)
        effects = self.world.outbox.drain() if taken is None else taken  # an exception loses no effect
        self._report_failures()
        if self._journal is not None:
            write = partial(self._journal.stepped, now_ns, event, effects)
            self._supervisor.attempt(write, None, "the journal")
        return effects

    def _hear_clocks(self) -> None:
        now_ns = self._now_ns()
        due: ClockRang | None
        while (due := self._outlet.deadlines.due(now_ns)) is not None:
            started = time.perf_counter()
            self._hear([due])
            if due.clock.kind in _PREEMPTING:
                self._metrics.sought(time.perf_counter() - started)

    def _schedule(self) -> None:
        self._pauses.stop()
        now_ns = self._now_ns()
        started = time.perf_counter()
        until = started + self._settings.budget_s
        leave = Leave(lambda: time.perf_counter() < until)
        faulty_before = sum(partition.void_decisions for partition in self.world.partitions.values())
        laps = Laps()
        plan = partial(cycle, self.world, now_ns, leave, laps)
        result = self._supervisor.attempt(plan, None, "a scheduling cycle")
        if result is None:
            result = CycleResult(self.world.outbox.drain())
        self._report_failures()
        if self._journal is not None:
            write = partial(self._journal.cycled, now_ns, leave, result.effects)
            self._supervisor.attempt(write, None, "the journal")
        faulty = sum(partition.void_decisions for partition in self.world.partitions.values())
        self._metrics.cycled(time.perf_counter() - started, faulty - faulty_before, laps)
        self._unfinished = self._is_pressing = result.more
        self._waiting_since_s = None
        self._decided = size(result.effects)
        self._outlet.carry(result.effects, now_ns)
        self._pauses.cycled(started, time.perf_counter())

    def _report_failures(self) -> None:
        """Log the errors of applications and partitions that backed off, and count them."""
        for failure in self.world.outbox.take_failures():
            self._metrics.failures.inc()
            _log.error("scheduling attempt failed, retrying later", subject=failure.subject, exc_info=failure.error)

    def _doubt(self) -> None:
        """After a failure, or always where asked for: is the world still sound?"""
        failure = self._supervisor.take_failure()
        if failure is None and not self._settings.checks:
            return
        broken = self._supervisor.attempt(
            partial(invariants.check, self.world), ["the check itself failed"], "a check of the invariants"
        )
        self._supervisor.take_failure()
        if broken:
            _log.error("the world is unsound and is thrown away", broken=broken[:20])
            self._start_anew(f"the scheduler lost trust in what it knew: {broken[0]}")

    def _start_anew(self, reason: str) -> None:
        self.world = World()
        if self._journal is not None:
            self._supervisor.attempt(self._journal.started_anew, None, "the journal")
        self._outlet.deadlines.clear()
        self._unfinished = self._is_pressing = False
        self._waiting_since_s = None
        for session in self._outlet.sessions.values():
            if session.is_open:
                self._supervisor.attempt(partial(_ask_to_register, session, reason), None, "a request to register")
                session.end(reason)
        self._supervisor.take_failure()

    def _end_broken(self) -> None:
        """Sessions whose callback failed are lost like those whose connection broke."""
        while self._outlet.broken:
            session = self._outlet.broken.pop()
            if session.is_open:
                session.end("the resource manager's callback failed")
                self.mailbox.post(Mail([ConnectionLost(session.rm)]))


def _nothing() -> None:
    """Default of `on_end`: do nothing."""


def _ask_to_register(session: Session, reason: str) -> None:
    session.callback.call_back(si_encode.reregister(reason))
    session.callback.session_lost(reason)
