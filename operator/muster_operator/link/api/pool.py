"""Who writes next: bounded concurrency, urgency, and one write at a time for each pod.

Binds go before deletes, deletes before creates, creates before patches, patches before events (architecture 7): when a
thousand placeholders are to go, the real pod of the first one does not wait for the last one. Only binds may have every
place; five thousand creates in flight, or asleep before their next try, leave room for a bind that comes now. Jobs of
one pod run in the order in which they came, never two at once; a job that waits behind a less urgent one of its pod
lends it its urgency. A kind that the API server told to slow down waits (`brakes`) and the others go on. With a rate
limit (`kubernetes.qps`) jobs wait for their turn in that order too.

Events wait in a buffer of their own until no other write is under way, nor was a moment ago: one costs the API server
as much as half a bind, and in a burst it is the binds that people wait for. Ten seconds at most, for the events of who
is never done; they carry the time at which what they tell has happened.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from muster_operator.link.api.brakes import Brakes
from muster_operator.link.api.event_buffer import EventBuffer
from muster_operator.link.api.recall import Recall
from muster_operator.link.api.urgency import Urgency, is_of_session, key_of, urgency_of
from muster_operator.model.commands import Command, PostEvent

#: Which share of the places a kind may have at once.
SHARES: Final[Mapping[Urgency, float]] = {
    Urgency.BIND: 1.0,
    Urgency.DELETE: 0.75,
    Urgency.CREATE: 0.625,
    Urgency.PATCH: 0.25,
}
#: Seconds that events get at the end, when everything else is written.
LAST_EVENTS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """`writers`: requests in flight at once. `event_writers`: of those, for events. `events`: buffer of events.

    An event that waits is about 1 KB. `qps` is the rate of writes a second (0 = unlimited), `burst` how many may go at
    once after a quiet time. Events start when no other write was under way for `quiet_s` seconds, or when one of them
    has waited for `patience_s`.
    """

    writers: int = 64
    event_writers: int = 8
    events: int = 20_000
    qps: float = 0.0
    burst: int = 0
    quiet_s: float = 0.1
    patience_s: float = 10.0

    def of(self, kind: Urgency) -> int:
        """How many of a kind may be in flight."""
        share = SHARES.get(kind)
        return self.event_writers if share is None else max(1, round(self.writers * share))


class _Job(Struct, eq=False):
    """One command on its way. `started` jobs have left the queues for good."""

    command: Command
    key: str
    urgency: Urgency
    started: bool = False


class Pool:  # long: who waits, who runs and who is called back share the same queues
    """Runs `execute` for each submitted command; `execute` must not raise. `on_drop`: an event was dropped."""

    def __init__(
        self,
        execute: Callable[[Command], Awaitable[None]],
        limits: Limits | None = None,
        on_drop: Callable[[], None] = lambda: None,
        brakes: Brakes | None = None,
        recall: Recall | None = None,
    ) -> None:
        self._execute, self._limits, self._brakes = execute, limits or Limits(), brakes or Brakes()
        self._recall = recall or Recall()
        self._queues: dict[Urgency, deque[_Job]] = {kind: deque() for kind in SHARES}
        self._behind: dict[str, list[_Job]] = {}
        self._most = {kind: self._limits.of(kind) for kind in Urgency}
        self._events = EventBuffer(self._limits.events, on_drop)
        self._in_flight: Counter[Urgency] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._wrote = float("-inf")  # when the last write that is no event ended

    def submit(self, command: Command) -> None:
        """Take a command over; it runs when its turn comes."""
        if isinstance(command, PostEvent):
            self._events.put(command, time.time())
        else:
            self._submit_write(_Job(command, key_of(command), urgency_of(command)))
        self._wake.set()

    def recall_binds(self) -> None:
        """Binds that wait are dropped without a result; those in flight end with the try that they are at."""
        self._recall.now()
        for key, jobs in list(self._behind.items()):
            kept = [job for job in jobs if job.started or not is_of_session(job.command)]
            if len(kept) == len(jobs):
                continue
            for job in jobs:
                job.started = job.started or is_of_session(job.command)  # it leaves its queue
            is_next = bool(kept) and not kept[0].started
            self._behind[key] = kept
            if not kept:
                del self._behind[key]
            elif is_next:
                self._queues[kept[0].urgency].append(kept[0])

    @property
    def binds_in_flight(self) -> int:
        """How many binds may be being carried out just now."""
        return self._in_flight[Urgency.BIND]

    def depths(self) -> dict[str, int]:
        """How many commands wait, by kind of queue."""
        started = sum(1 for jobs in self._behind.values() if jobs[0].started)
        return {
            "writes": sum(len(jobs) for jobs in self._behind.values()) - started,
            "events": len(self._events),
            "in_flight": self._in_flight.total(),
        }

    async def run(self) -> None:
        """Start jobs for as long as this task lives."""
        rate = _Rate(self._limits.qps, self._limits.burst)
        pause_s = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            self._wake.clear()
            # Also before the look: what the clock lets go between the two would else be neither started nor waited for.
            before_s = self._pause_s()
            while self._in_flight.total() < self._limits.writers:
                job = self._next()
                if job is None:
                    break
                delay = rate.take(time.monotonic())
                if delay > 0 and not await self._is_wanted_after(delay, job):
                    self._release(job.key)
                    continue
                self._start(job)
            pause_s = min((one for one in (before_s, self._pause_s()) if one is not None), default=None)
            self._idle.set()

    async def _is_wanted_after(self, delay: float, job: _Job) -> bool:
        """Wait so long; False = it is a bind that was recalled meanwhile."""
        patience = self._recall.heard_by()
        await asyncio.sleep(delay)
        return await patience.lasts(0) or not is_of_session(job.command)

    async def drained(self) -> None:
        """Wait until nothing waits and nothing is in flight. New commands lengthen the wait; events do by a little."""
        while self._behind:
            await self._finished()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_EVENTS_S):
                while len(self._events) or self._in_flight.total():
                    await self._finished()

    async def _finished(self) -> None:
        self._idle.clear()
        await self._idle.wait()

    def _submit_write(self, job: _Job) -> None:
        waiting = self._behind.get(job.key)
        if waiting is None:
            self._behind[job.key] = [job]
            self._queues[job.urgency].append(job)
            return
        waiting.append(job)
        first = waiting[0]
        if not first.started and job.urgency < first.urgency:
            first.urgency = job.urgency
            self._queues[first.urgency].append(first)  # it stands in two queues now, and starts from one

    def _next(self) -> _Job | None:
        """The next job that may start: a write, else an event; None = nothing to do now."""
        is_full = False
        for kind, queue in self._queues.items():
            while queue and (queue[0].started or queue[0].urgency is not kind):
                queue.popleft()
            if queue and self._may_start(kind):
                job = queue.popleft()
                job.started = True
                return job
            is_full = is_full or (bool(queue) and self._brakes.left_s(kind) == 0)
        if is_full or not self._may_start(Urgency.EVENT) or self._events_wait_s() != 0:
            return None
        event = self._events.take()
        return None if event is None else _Job(event, "", Urgency.EVENT, started=True)

    def _events_wait_s(self) -> float:
        """Seconds until events may start, as far as other writes go."""
        are_alone = self._in_flight.total() == self._in_flight[Urgency.EVENT]
        quiet_in_s = self._wrote + self._limits.quiet_s - time.monotonic()
        if not len(self._events) or (are_alone and quiet_in_s <= 0):
            return 0.0
        patience_s = max(0.0, self._events.oldest() + self._limits.patience_s - time.time())
        return min(patience_s, quiet_in_s) if are_alone else patience_s

    def _may_start(self, kind: Urgency) -> bool:
        return self._in_flight[kind] < self._most[kind] and self._brakes.left_s(kind) == 0

    def _pause_s(self) -> float | None:
        """Seconds until something may go on that the clock alone holds back; None = there is no such thing."""
        waiting = [kind for kind, queue in self._queues.items() if queue]
        waiting += [Urgency.EVENT] if len(self._events) else []
        pauses = [self._brakes.left_s(kind) for kind in waiting]
        pauses += [self._events_wait_s()] if len(self._events) else []
        return min((pause for pause in pauses if pause > 0), default=None)

    def _start(self, job: _Job) -> None:
        self._in_flight[job.urgency] += 1
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: _Job) -> None:
        """One job, and while others wait the next one in the same task: a task each costs as much as the rest of it."""
        following: _Job | None = job
        try:
            while following is not None:
                await self._carry_out(following)
                following = None if self._limits.qps > 0 else self._next()
                if following is not None:
                    self._in_flight[following.urgency] += 1
        finally:
            self._wake.set()

    async def _carry_out(self, job: _Job) -> None:
        kind = job.urgency
        try:
            await self._execute(job.command)
        finally:
            self._in_flight[kind] -= 1
            if kind is not Urgency.EVENT:
                self._wrote = time.monotonic()
            if job.key:
                self._release(job.key)

    def _release(self, key: str) -> None:
        """The first job of a pod is done: the next one may queue, with the urgency of those behind it."""
        waiting = self._behind[key]
        del waiting[0]
        if not waiting:
            del self._behind[key]
            return
        waiting[0].urgency = min(job.urgency for job in waiting)
        self._queues[waiting[0].urgency].append(waiting[0])
        self._wake.set()  # it may start beside the one that takes the place of the one that is done


class _Rate:
    """A token bucket: how long the next write has to wait."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps, self._burst = qps, max(burst, 1)
        self._tokens, self._at = float(self._burst), float("-inf")

    def take(self, now_s: float) -> float:
        """Take one token; returns the seconds until it is there, 0 = now."""
        if self._qps <= 0:
            return 0.0
        grown = self._burst if self._at == float("-inf") else self._tokens + (now_s - self._at) * self._qps
        self._tokens, self._at = min(float(self._burst), grown) - 1, now_s
        return max(0.0, -self._tokens / self._qps)
