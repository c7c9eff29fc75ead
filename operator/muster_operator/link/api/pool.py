"""Scheduling of writes: bounded concurrency, priorities, and one write at a time for each pod.

Binds go before deletes, deletes before creates, creates before patches, patches before events (architecture 7): when a
thousand placeholders are to go, the real pod of the first one does not wait for the last one. Only binds may have every
place; five thousand creates in flight, or asleep before their next try, leave room for a bind that comes now. Jobs of
one pod run in the order in which they came, never two at once; a job that waits behind a less urgent one of its pod
lends it its urgency. Namespaces take turns within an urgency: the writes of one delay those of another by one write
each. Placeholder creations of an application are cancelled together, as long as they wait. A kind that the API server
told to slow down waits (`brakes`) and the others go on. With a rate limit (`kubernetes.qps`) jobs wait for their turn
in that order too. While the watch of pods or nodes is stale, binds, deletes and creates wait (`link.freshness`).

Events wait in a buffer of their own until no other write is under way, nor was a moment ago: one costs the API server
as much as half a bind, and in a burst it is the binds that people wait for. Ten seconds at most, for the events of who
is never done; they carry the time at which what they tell has happened.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Final

from msgspec import Struct

from muster_operator.link.api.brakes import Brakes
from muster_operator.link.api.event_buffer import EventBuffer
from muster_operator.link.api.fair_queue import FairQueue
from muster_operator.link.api.recall import Recall
from muster_operator.link.api.urgency import Urgency, is_of_session, key_of, namespace_of, urgency_of
from muster_operator.model import limits
from muster_operator.model.commands import CancelCreations, Command, CreatePlaceholder, Order, PostEvent
from muster_operator.model.ids import AppId

#: Which share of the places a kind may have at once.
SHARES: Final[Mapping[Urgency, float]] = {
    Urgency.BIND: 1.0,
    Urgency.DELETE: 0.75,
    Urgency.CREATE: 0.625,
    Urgency.PATCH: 0.25,
}
#: What a scheduler decides; it waits while the state that it rests on is stale. Patches and events only report.
DECISIONS: Final = frozenset({Urgency.BIND, Urgency.DELETE, Urgency.CREATE})
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
    events: int = limits.WAITING_EVENTS
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
    namespace: str
    started: bool = False


class Pool:  # long: who waits, who runs and who is called back share the same queues
    """Runs `execute` for each submitted command; `execute` must not raise. `on_drop`: an event was dropped.

    `may_decide`: whether decisions may be carried out now; `wake` is called when that becomes true.
    """

    def __init__(
        self,
        execute: Callable[[Command], Awaitable[None]],
        limits: Limits | None = None,
        on_drop: Callable[[], None] = lambda: None,
        brakes: Brakes | None = None,
        recall: Recall | None = None,
        may_decide: Callable[[], bool] = lambda: True,
    ) -> None:
        self._execute, self._limits, self._brakes = execute, limits or Limits(), brakes or Brakes()
        self._recall, self._may_decide = recall or Recall(), may_decide
        self._queues: dict[Urgency, FairQueue[_Job]] = {kind: FairQueue() for kind in SHARES}
        self._behind: dict[str, list[_Job]] = {}
        self._creations: dict[AppId, dict[_Job, None]] = {}  # that were not started
        self._most = {kind: self._limits.of(kind) for kind in Urgency}
        self._events = EventBuffer(self._limits.events, on_drop)
        self._in_flight: Counter[Urgency] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._wrote = float("-inf")  # when the last write that is no event ended

    def submit(self, order: Order) -> None:
        """Take a command over; it runs when its turn comes."""
        if isinstance(order, PostEvent):
            self._events.put(order, time.time())
        elif isinstance(order, CancelCreations):
            self._cancel(self._creations.pop(order.app, {}))
        else:
            self._submit_write(_Job(order, key_of(order), urgency_of(order), namespace_of(order)))
        self._wake.set()

    def wake(self) -> None:
        """Look again what may start: decisions may be carried out again."""
        self._wake.set()

    def recall_binds(self) -> None:
        """Binds and creations that wait are dropped without a result; binds in flight end with their present try."""
        self._recall.now()
        self._creations.clear()
        for key in list(self._behind):
            self._drop(key, lambda job: is_of_session(job.command))

    def _cancel(self, creations: Iterable[_Job]) -> None:
        namespaces: set[str] = set()
        for job in creations:
            self._drop(job.key, partial(is_, job))
            namespaces.add(job.namespace)
        for namespace in namespaces:
            self._queues[Urgency.CREATE].sweep(namespace, lambda job: not job.started)

    def _drop(self, key: str, is_dropped: Callable[[_Job], bool]) -> None:
        """Let these jobs of a key, of those that were not started, not run."""
        jobs = self._behind[key]
        kept = [job for job in jobs if job.started or not is_dropped(job)]
        if len(kept) == len(jobs):
            return
        for job in jobs:
            job.started = job.started or is_dropped(job)  # it leaves its queue
        if not kept:
            del self._behind[key]
            return
        self._behind[key] = kept
        if not kept[0].started:
            kept[0].urgency = min(job.urgency for job in kept)
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
        if isinstance(job.command, CreatePlaceholder):
            self._creations.setdefault(job.command.spec.app, {})[job] = None
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
            while queue and (queue.first().started or queue.first().urgency is not kind):
                queue.drop_first()
            if queue and self._may_start(kind):
                job = queue.take()
                job.started = True
                self._forget_creation(job)
                return job
            is_full = is_full or (bool(queue) and not self._is_held(kind))
        if is_full or not self._may_start(Urgency.EVENT) or self._events_wait_s() != 0:
            return None
        event = self._events.take()
        return None if event is None else _Job(event, "", Urgency.EVENT, event.namespace, started=True)

    def _forget_creation(self, job: _Job) -> None:
        """It is under way and cannot be cancelled any more."""
        if isinstance(job.command, CreatePlaceholder) and (waiting := self._creations.get(job.command.spec.app)):
            waiting.pop(job, None)
            if not waiting:
                del self._creations[job.command.spec.app]

    def _events_wait_s(self) -> float:
        """Seconds until events may start, as far as other writes go."""
        are_alone = self._in_flight.total() == self._in_flight[Urgency.EVENT]
        quiet_in_s = self._wrote + self._limits.quiet_s - time.monotonic()
        if not len(self._events) or (are_alone and quiet_in_s <= 0):
            return 0.0
        patience_s = max(0.0, self._events.oldest() + self._limits.patience_s - time.time())
        return min(patience_s, quiet_in_s) if are_alone else patience_s

    def _may_start(self, kind: Urgency) -> bool:
        return self._in_flight[kind] < self._most[kind] and not self._is_held(kind)

    def _is_held(self, kind: Urgency) -> bool:
        """Whether the API server told this kind to wait, or it is a decision and rests on an old state."""
        return self._brakes.left_s(kind) > 0 or (kind in DECISIONS and not self._may_decide())

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
