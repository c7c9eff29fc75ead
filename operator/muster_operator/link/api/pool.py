"""Who writes next: bounded concurrency, urgency, and one write at a time for each pod.

Binds go before deletes, deletes before creates, creates before patches, patches before events (architecture 7): when a
thousand placeholders are to go, the real pod of the first one does not wait for the last one. Jobs of one pod run
in the order in which they came, never two at once; a job that waits behind a less urgent one of its pod lends it its
urgency. Events wait in a bounded buffer of their own and run only while nothing else waits; when it is full the least
important one is dropped and counted. With a rate limit (`kubernetes.qps`) jobs wait for their turn in that order too.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

from muster_operator.model.commands import (
    BindPod,
    Command,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    MarkDisrupted,
    MarkResumed,
    PostEvent,
    SetCondition,
)


class Urgency(IntEnum):
    """Smaller goes first."""

    BIND = 0
    DELETE = 1
    CREATE = 2
    PATCH = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """`writers`: requests in flight at once. `event_writers`: of those, for events. `events`: buffer of events.

    `qps` is the rate of writes a second (0 = unlimited), `burst` how many may go at once after a quiet time.
    """

    writers: int = 64
    event_writers: int = 8
    events: int = 2000
    qps: float = 0.0
    burst: int = 0


@dataclass(slots=True)
class _Job:
    """One command on its way. `started` jobs have left the queue for good."""

    command: Command
    key: str
    urgency: Urgency
    started: bool = False


@dataclass(slots=True)
class Pool:
    """Runs `execute` for each submitted command; `execute` must not raise. `on_drop`: an event was dropped."""

    execute: Callable[[Command], Awaitable[None]]
    limits: Limits = field(default_factory=Limits)
    on_drop: Callable[[], None] = lambda: None
    _in_flight: int = 0
    _queue: list[tuple[int, int, _Job]] = field(default_factory=list)
    _behind: dict[str, deque[_Job]] = field(default_factory=dict)
    _events: list[deque[PostEvent]] = field(default_factory=lambda: [deque(), deque(), deque()])
    _order: count[int] = field(default_factory=count)
    _events_in_flight: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def submit(self, command: Command) -> None:
        """Take a command over; it runs when its turn comes."""
        if isinstance(command, PostEvent):
            self._submit_event(command)
        else:
            self._submit_write(_Job(command, key_of(command), urgency_of(command)))
        self._wake.set()

    def depths(self) -> dict[str, int]:
        """How many commands wait, by kind of queue."""
        waiting = sum(1 for _, _, job in self._queue if not job.started)
        return {
            "writes": waiting + sum(len(jobs) for jobs in self._behind.values()),
            "events": sum(len(events) for events in self._events),
            "in_flight": self._in_flight,
        }

    async def run(self) -> None:
        """Start jobs for as long as this task lives."""
        rate = _Rate(self.limits.qps, self.limits.burst)
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._in_flight < self.limits.writers:
                job = self._next()
                if job is None:
                    break
                delay = rate.take(time.monotonic())
                if delay > 0:
                    await asyncio.sleep(delay)
                self._start(job)
            self._idle.set()

    async def drained(self) -> None:
        """Wait until nothing waits and nothing is in flight. New commands lengthen the wait."""
        while self._in_flight or self._queue or any(self._events):
            self._idle.clear()
            await self._idle.wait()

    def _submit_write(self, job: _Job) -> None:
        waiting = self._behind.get(job.key)
        if waiting is None:
            self._behind[job.key] = deque([job])
            self._push(job)
            return
        waiting.append(job)
        first = waiting[0]
        if not first.started and job.urgency < first.urgency:
            first.urgency = job.urgency
            self._push(first)

    def _submit_event(self, event: PostEvent) -> None:
        if event.series:
            for waiting in self._events:
                for place, other in enumerate(waiting):
                    if other.series == event.series:
                        waiting[place] = event
                        return
        self._events[event.importance].append(event)
        if sum(len(events) for events in self._events) > self.limits.events:
            next(events for events in self._events if events).popleft()
            self.on_drop()

    def _push(self, job: _Job) -> None:
        heapq.heappush(self._queue, (job.urgency, next(self._order), job))

    def _next(self) -> _Job | None:
        """The next job that may start: a write, else an event; None = nothing to do now."""
        while self._queue:
            _, _, job = heapq.heappop(self._queue)
            if not job.started:
                job.started = True
                return job
        if self._events_in_flight < self.limits.event_writers:
            for events in reversed(self._events):
                if events:
                    return _Job(events.popleft(), "", Urgency.PATCH, started=True)
        return None

    def _start(self, job: _Job) -> None:
        self._in_flight += 1
        self._events_in_flight += not job.key
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: _Job) -> None:
        try:
            await self.execute(job.command)
        finally:
            self._in_flight -= 1
            self._events_in_flight -= not job.key
            if job.key:
                self._release(job.key)
            self._wake.set()

    def _release(self, key: str) -> None:
        """The first job of a pod is done: the next one may queue, with the urgency of those behind it."""
        waiting = self._behind[key]
        waiting.popleft()
        if not waiting:
            del self._behind[key]
            return
        waiting[0].urgency = min(job.urgency for job in waiting)
        self._push(waiting[0])


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


def key_of(command: Command) -> str:
    """Which pod a command writes to, `namespace/name`; empty for events."""
    match command:
        case BindPod(pod=pod) | DeletePod(pod=pod) | FailPod(pod=pod) | SetCondition(pod=pod) | MarkDisrupted(pod=pod):
            return f"{pod.namespace}/{pod.name}"
        case MarkResumed(originator=pod):
            return f"{pod.namespace}/{pod.name}"
        case CreatePlaceholder(spec=spec):
            return f"{spec.namespace}/{spec.name}"
        case PostEvent():
            return ""


def urgency_of(command: Command) -> Urgency:
    """How soon a command has to go."""
    match command:
        case BindPod():
            return Urgency.BIND
        case DeletePod():
            return Urgency.DELETE
        case CreatePlaceholder():
            return Urgency.CREATE
        case FailPod() | SetCondition() | MarkResumed() | MarkDisrupted() | PostEvent():
            return Urgency.PATCH
