"""Queue of writes: priorities, fairness between namespaces, throttling.

Binds precede other writes. Kubernetes events come last and can be dropped. Writes to one object stay in order. Writes
of equal priority are sent round-robin by namespace. A 429 response pauses the writes of its kind. With a rate limit,
patches and events leave a part of the burst to decisions, and each kind of write has a minimum share of the rate.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from muster_operator.model import limits
from muster_operator.model.commands import (
    BindPod,
    CancelCreations,
    ClaimVolume,
    Command,
    CreateClaim,
    CreatePlaceholder,
    DeletePod,
    FailPod,
    Importance,
    MarkDisrupted,
    MarkResumed,
    Order,
    PostEvent,
    Repeat,
    RequestNodes,
    ReserveClaim,
    SelectNode,
    SetCondition,
    SetGroupCondition,
    WithdrawNodes,
)
from muster_operator.model.ids import AppId, NumberEnum
from muster_operator.model.limits import Shares


class WritePriority(NumberEnum):
    """Smaller values go first."""

    BIND = 0
    DELETE = 1
    CREATE = 2
    PATCH = 3
    EVENT = 4


#: Compared for each write. Reading it from its class takes 60 ns in Python 3.11.
_EVENT: Final = WritePriority.EVENT


def write_priority_of(command: Command) -> WritePriority:
    """The priority of a command."""
    match command:
        case BindPod() | ClaimVolume(undo=False) | SelectNode(undo=False) | ReserveClaim(undo=False):
            return WritePriority.BIND
        case PostEvent():
            return WritePriority.EVENT
        case DeletePod():
            return WritePriority.DELETE
        case CreatePlaceholder() | CreateClaim():
            return WritePriority.CREATE
        case FailPod() | SetCondition() | MarkResumed() | MarkDisrupted():
            return WritePriority.PATCH
        case ClaimVolume() | SelectNode() | ReserveClaim() | RequestNodes() | WithdrawNodes() | SetGroupCondition():
            return WritePriority.PATCH


def is_of_session(command: Command) -> bool:
    """Whether the command is valid only in the session that decided it.

    This is true of binds, of the writes that precede a bind, and of creations, which the next session orders again if
    needed.
    """
    return write_priority_of(command) in {WritePriority.BIND, WritePriority.CREATE}


def namespace_of(command: Command) -> str:
    """Namespace of a write; empty for cluster-scoped objects."""
    match command:
        case BindPod(pod=pod) | MarkResumed(originator=pod) | WithdrawNodes(originator=pod):
            return pod.namespace
        case RequestNodes(request=request):
            return request.originator.namespace
        case PostEvent(namespace=namespace) | SetGroupCondition(namespace=namespace):
            return namespace
        case CreatePlaceholder(spec=spec):
            return spec.namespace
        case _:
            return command.pod.namespace


def key_of(command: Command) -> str:
    """The pod (`namespace/name`), volume, claim or request that a command changes; empty for events."""
    match command:
        case BindPod() | DeletePod() | FailPod() | SetCondition() | MarkDisrupted():
            return f"{command.pod.namespace}/{command.pod.name}"
        case MarkResumed(originator=one) | CreatePlaceholder(spec=one):
            return f"{one.namespace}/{one.name}"
        case ClaimVolume(volume=name):
            return f"volume {name}"
        case SelectNode(claim=claim) | ReserveClaim(claim=claim):
            return f"{'claim' if isinstance(command, SelectNode) else 'resourceclaim'} {claim.key}"
        case CreateClaim(pod=pod):
            return f"extended resources of {pod.namespace}/{pod.name}"
        case RequestNodes(request=request):
            return f"provisioningrequest {request.originator.namespace}/{request.name}"
        case WithdrawNodes(originator=pod, name=name):
            return f"provisioningrequest {pod.namespace}/{name}"
        case SetGroupCondition(namespace=namespace, name=name):
            return f"podgroup {namespace}/{name}"
        case PostEvent():
            return ""


def named_command(command: Command) -> dict[str, str]:
    """Fields of a command for log lines: its kind and object, never its content."""
    written = f"{command.namespace}/{command.name}" if isinstance(command, PostEvent) else key_of(command)
    return {"command": type(command).__name__, "object": written}


class Throttle:
    """Pauses per kind of write. Set by `Kube`, read by `Pool`. `applied` is called for each pause, for metrics.

    `clock`: seconds of a monotonic clock.
    """

    def __init__(
        self, applied: Callable[[str], None] = lambda kind: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._applied, self._clock = applied, clock
        #: End of each pause that was set.
        self.until: dict[WritePriority, float] = {}

    def pause(self, kind: WritePriority, seconds: float) -> None:
        """Pauses new writes of this kind. A longer pause that exists stays in effect."""
        self.until[kind] = max(self.until.get(kind, 0.0), self._clock() + seconds)
        self._applied(kind.name.lower())

    def left_s(self, kind: WritePriority) -> float:
        """Seconds until writes of this kind may continue; 0 = they may."""
        until = self.until.get(kind)
        return 0.0 if until is None else max(0.0, until - self._clock())


class Waiting(Protocol):
    """An item of a fair queue."""

    @property
    def namespace(self) -> str:
        """Namespace of the write."""


J = TypeVar("J", bound=Waiting)


class FairQueue(Generic[J]):
    """Round-robin by namespace, so that writes of one namespace delay those of another by one write each."""

    def __init__(self) -> None:
        #: The waiting writes. Empty namespaces are removed.
        self.by_namespace: OrderedDict[str, deque[J]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.by_namespace)

    def append(self, job: J) -> None:
        """Adds a write as the last one of its namespace."""
        jobs = self.by_namespace.get(job.namespace)
        if jobs is None:
            jobs = self.by_namespace[job.namespace] = deque()
        jobs.append(job)

    def first(self) -> J | None:
        """Return the next write without removing it, or None."""
        for jobs in self.by_namespace.values():
            return jobs[0]
        return None

    def drop_first(self) -> None:
        """Removes the first write. Its namespace keeps its position."""
        namespace, jobs = next(iter(self.by_namespace.items()))
        jobs.popleft()
        if not jobs:
            del self.by_namespace[namespace]

    def sweep(self, namespace: str, keep: Callable[[J], bool]) -> None:
        """Keeps only these writes of a namespace."""
        kept = deque(filter(keep, self.by_namespace.get(namespace, ())))
        if kept:
            self.by_namespace[namespace] = kept
        else:
            self.by_namespace.pop(namespace, None)

    def take(self) -> J:
        """Remove and return the next write, and move its namespace to the end."""
        namespace, jobs = next(iter(self.by_namespace.items()))
        job = jobs.popleft()
        if jobs:
            self.by_namespace.move_to_end(namespace)
        else:
            del self.by_namespace[namespace]
        return job


Key = tuple[str, str, str, str]
_BY_IMPORTANCE: Final = tuple(sorted(Importance, reverse=True))


class _Level:
    """Events of one importance. `entries`: in order of arrival, with event time and waiting start."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Key, tuple[PostEvent, float, float]] = OrderedDict()
        self._round_robin: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()
        self._shares: Shares | None = None  # counted from the first drop on

    def add(self, key: Key, event: PostEvent, at: float) -> None:
        self.entries[key] = (event, at, at)
        keys = self._round_robin.get(event.namespace)
        if keys is None:
            keys = self._round_robin[event.namespace] = OrderedDict()
        keys[key] = None
        if self._shares is not None:
            self._shares.add(event.namespace)

    def drop(self) -> None:
        """Drops the oldest event of the namespace with most events."""
        if self._shares is None:
            self._shares = Shares()
            for namespace, keys in self._round_robin.items():
                self._shares.add(namespace, len(keys))
        self._remove_oldest(self._shares.largest())

    def take(self) -> tuple[PostEvent, float]:
        """Removes and returns the oldest event of the next namespace, and its time."""
        namespace = next(iter(self._round_robin))
        event, at, _ = self._remove_oldest(namespace)
        if namespace in self._round_robin:
            self._round_robin.move_to_end(namespace)
        return event, at

    def _remove_oldest(self, namespace: str) -> tuple[PostEvent, float, float]:
        keys = self._round_robin[namespace]
        key = keys.popitem(last=False)[0]
        if not keys:
            del self._round_robin[namespace]
        if self._shares is not None:
            self._shares.remove(namespace)
        return self.entries.pop(key)


class EventBuffer:
    """Buffer of at most `limit` events. If it is full, an event of the lowest importance is dropped (`dropped`)."""

    def __init__(self, limit: int, dropped: Callable[[], None]) -> None:
        self._limit, self._dropped = limit, dropped
        self._levels: dict[Importance, _Level] = {}
        self._count = 0
        self._oldest: float | None = None  # None = not known, because an event was removed
        self.clear()

    def __len__(self) -> int:
        return self._count

    def put(self, event: PostEvent, at: float) -> None:
        """Adds an event that happened at `at`, epoch seconds.

        If the same event or an earlier one of its series is in the buffer, the event replaces it at the same position.
        """
        series = event.series
        reason, note = ("", series) if series else (event.reason, event.note)
        key = (event.namespace, event.uid or event.name, reason, note)
        for level in self._levels.values():
            if level.entries and (known := level.entries.get(key)) is not None:
                level.entries[key] = (event, at, known[2])
                return
        self._levels[event.importance].add(key, event, at)
        self._count += 1
        if self._oldest is not None:
            self._oldest = min(self._oldest, at)
        if self._count > self._limit:
            next(level for level in self._levels.values() if level.entries).drop()
            self._count -= 1
            self._oldest = None
            self._dropped()

    def clear(self) -> None:
        """Removes all events."""
        self._levels = {importance: _Level() for importance in Importance}
        self._count, self._oldest = 0, None

    def oldest(self) -> float:
        """Time since which the oldest event waits, epoch seconds; infinity = the buffer is empty."""
        if self._oldest is None:
            waiting = [next(iter(level.entries.values()))[2] for level in self._levels.values() if level.entries]
            self._oldest = min(waiting, default=float("inf"))
        return self._oldest

    def take(self) -> PostEvent | None:
        """Removes and returns the next event: most important first, round-robin by namespace, oldest first. Or None."""
        for importance in _BY_IMPORTANCE:
            if self._levels[importance].entries:
                self._count -= 1
                self._oldest = None
                event, at = self._levels[importance].take()
                return replace(event, at=at)
        return None


#: Maximum share of the writers per kind.
SHARES: Final[Mapping[WritePriority, float]] = {
    WritePriority.BIND: 1.0,
    WritePriority.DELETE: 0.75,
    WritePriority.CREATE: 0.625,
    WritePriority.PATCH: 0.25,
}

#: Scheduling decisions. They wait while the watches are stale. Patches and events only report.
DECISIONS: Final = frozenset({WritePriority.BIND, WritePriority.DELETE, WritePriority.CREATE})

#: Seconds for the remaining events at shutdown, after all other writes.
LAST_EVENTS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """`writers`: maximum requests in flight. `event_writers`: of these, for events. `events`: size of the event buffer.

    A buffered event is about 1 KB. `qps`: maximum rate of writes per second (0 = unlimited). `burst`: writes that can
    exceed it after an idle time. Events are sent after `quiet_s` seconds without another write in flight, or when an
    event has waited for `max_event_delay_s`.
    """

    writers: int = 64
    event_writers: int = 8
    events: int = limits.WAITING_EVENTS
    qps: float = 0.0
    burst: int = 0
    quiet_s: float = 0.1
    max_event_delay_s: float = 10.0

    def of(self, kind: WritePriority) -> int:
        """Maximum requests in flight of a kind."""
        share = SHARES.get(kind)
        return self.event_writers if share is None else max(1, round(self.writers * share))


class _Job(Struct, eq=False):
    """A command in the queue. `started` jobs have left the queues."""

    command: Command
    key: str
    write_priority: WritePriority
    namespace: str
    started: bool = False


def _job(command: Command) -> _Job:
    if isinstance(command, BindPod):  # the most frequent command; a test compares it with the functions below
        pod = command.pod
        return _Job(command, f"{pod.namespace}/{pod.name}", WritePriority.BIND, pod.namespace)
    return _Job(command, key_of(command), write_priority_of(command), namespace_of(command))


class Pool:  # long: queueing, execution and cancellation share the same queues
    """Runs `execute` for each submitted command; `execute` must not raise.

    `on_drop`: an event was dropped. `on_repair`: a command was lost and is repeated.

    `cancel_attempts` ends the further attempts of binds in flight. `may_decide`: whether decisions may be sent now.
    Call `wake` when it becomes true.
    """

    def __init__(
        self,
        execute: Callable[[Command], Awaitable[None]],
        limits: Limits | None = None,
        on_drop: Callable[[], None] = lambda: None,
        throttle: Throttle | None = None,
        cancel_attempts: Callable[[], None] = lambda: None,
        may_decide: Callable[[], bool] = lambda: True,
    ) -> None:
        self._execute, self._limits, self._throttle = execute, limits or Limits(), throttle or Throttle()
        self._cancel_attempts, self._may_decide = cancel_attempts, may_decide
        self.on_repair: Callable[[Command], None] = lambda command: None
        self._rate = _Rate(self._limits.qps, self._limits.burst)
        self._queues: dict[WritePriority, FairQueue[_Job]] = {kind: FairQueue() for kind in SHARES}
        self._by_key: dict[str, list[_Job]] = {}
        self._creations: dict[AppId, dict[_Job, None]] = {}  # that were not started
        self._most = {kind: self._limits.of(kind) for kind in WritePriority}
        self._events = EventBuffer(self._limits.events, on_drop)
        self._in_flight: Counter[WritePriority] = Counter()
        self._count = 0  # of all in flight
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._wrote = float("-inf")  # when the last write that is no event ended

    def submit(self, order: Order) -> None:
        """Adds a command to the queue."""
        if isinstance(order, PostEvent):
            self._events.put(order, time.time())
        elif isinstance(order, CancelCreations):
            self._cancel(self._creations.pop(order.app, {}))
        elif isinstance(order, Repeat):
            self._repeat(order.command)
        else:
            self._submit_write(_job(order))
        self._wake.set()

    def _repeat(self, command: Command) -> None:
        """Adds a command whose result was lost, unless one of its kind for the object still has to end."""
        if not any(type(job.command) is type(command) for job in self._by_key.get(key_of(command), ())):
            self.on_repair(command)
            self._submit_write(_job(command))

    def wake(self) -> None:
        """Checks again which writes may start."""
        self._wake.set()

    def cancel_binds(self) -> None:
        """Drops queued binds and creations without a result. Binds in flight end after their present attempt."""
        self._cancel_attempts()
        self._creations.clear()
        for key in list(self._by_key):
            self._drop(key, lambda job: is_of_session(job.command))

    def _cancel(self, creations: Iterable[_Job]) -> None:
        namespaces: set[str] = set()
        for job in creations:
            self._drop(job.key, partial(is_, job))
            namespaces.add(job.namespace)
        for namespace in namespaces:
            self._queues[WritePriority.CREATE].sweep(namespace, lambda job: not job.started)

    def _drop(self, key: str, is_dropped: Callable[[_Job], bool]) -> None:
        """Removes these jobs of a key from the queue, except started ones. A key without jobs has none to remove."""
        jobs = self._by_key.get(key, ())
        kept = [job for job in jobs if job.started or not is_dropped(job)]
        if len(kept) == len(jobs):
            return
        for job in jobs:
            job.started = job.started or is_dropped(job)  # the queues skip started jobs
        if not kept:
            del self._by_key[key]
            return
        self._by_key[key] = kept
        if not kept[0].started:
            kept[0].write_priority = min(job.write_priority for job in kept)
            self._queues[kept[0].write_priority].append(kept[0])

    @property
    def binds_in_flight(self) -> int:
        """Number of binds in flight."""
        return self._in_flight[WritePriority.BIND]

    def depths(self) -> dict[str, int]:
        """Number of commands by queue, for metrics."""
        started = sum(1 for jobs in self._by_key.values() if jobs[0].started)
        return {
            "writes": sum(len(jobs) for jobs in self._by_key.values()) - started,
            "events": len(self._events),
            "in_flight": self._count,
        }

    async def run(self, first: Iterable[PostEvent] = ()) -> None:
        """Starts jobs until cancelled. Then cancels those in flight, because their session is closed next.

        Drops the events of the time before, when another replica led, and begins with these events.
        """
        self._events.clear()
        for event in first:
            self.submit(event)
        try:
            await self._start_jobs()
        finally:
            unfinished = [*self._tasks]
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    async def _start_jobs(self) -> None:
        pause_s = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            self._wake.clear()
            # Measured before and after starting jobs: the second measurement would miss a pause that ends in between.
            before_s = self._pause_s()
            while self._count < self._limits.writers:
                job = self._next()
                if job is None:
                    break
                if self._limits.qps > 0:
                    self._rate.take(time.monotonic(), job.write_priority, self._waiting())
                self._start(job)
            pause_s = min((one for one in (before_s, self._pause_s()) if one is not None), default=None)
            self._idle.set()

    async def drained(self) -> None:
        """Waits until nothing is queued or in flight. Events extend the wait by LAST_EVENTS_S at most."""
        while self._by_key:
            await self._finished()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_EVENTS_S):
                while len(self._events) or self._count:
                    await self._finished()

    async def _finished(self) -> None:
        self._idle.clear()
        await self._idle.wait()

    def _submit_write(self, job: _Job) -> None:
        if isinstance(job.command, CreatePlaceholder):
            self._creations.setdefault(job.command.spec.app, {})[job] = None
        waiting = self._by_key.get(job.key)
        if waiting is None:
            self._by_key[job.key] = [job]
            self._queues[job.write_priority].append(job)
            return
        waiting.append(job)
        first = waiting[0]
        if not first.started and job.write_priority < first.write_priority:
            first.write_priority = job.write_priority
            self._queues[first.write_priority].append(first)  # the job is in two queues and starts from one of them

    def _next(self) -> _Job | None:
        """Returns the next job that may start: a write, else an event. None if there is none."""
        for kind in self._rate.next_kinds() if self._limits.qps > 0 else ():
            job = self._next_event() if kind is _EVENT else self._next_write(kind)
            if job is not None:
                return job
        is_full = False
        for kind, queue in self._queues.items():
            if not queue.by_namespace:
                continue
            job = self._next_write(kind)
            if job is not None:
                return job
            is_full = is_full or (bool(queue.by_namespace) and not self._is_held(kind))
        return None if is_full else self._next_event()

    def _next_write(self, kind: WritePriority) -> _Job | None:
        """Takes the next job of this kind. None if there is none, or it may not start."""
        queue = self._queues[kind]
        while (first := queue.first()) is not None and (first.started or first.write_priority is not kind):
            queue.drop_first()
        if first is None or not self._may_start(kind):
            return None
        job = queue.take()
        job.started = True
        if isinstance(job.command, CreatePlaceholder):
            self._forget_creation(job)
        return job

    def _next_event(self) -> _Job | None:
        """Takes the next event. None if there is none, or it may not start."""
        if not len(self._events) or self._events_wait_s() != 0 or not self._may_start(_EVENT):
            return None
        event = self._events.take()
        return None if event is None else _Job(event, "", _EVENT, event.namespace, started=True)

    def _waiting(self) -> list[WritePriority]:
        """The kinds of the queued writes. Some of these writes may have been cancelled."""
        kinds = [kind for kind, queue in self._queues.items() if queue]
        return [*kinds, _EVENT] if len(self._events) else kinds

    def _forget_creation(self, job: _Job) -> None:
        """Forgets a creation that has started and cannot be cancelled any more."""
        if isinstance(job.command, CreatePlaceholder) and (waiting := self._creations.get(job.command.spec.app)):
            waiting.pop(job, None)
            if not waiting:
                del self._creations[job.command.spec.app]

    def _events_wait_s(self) -> float:
        """Seconds until events may start, with regard to other writes."""
        if not len(self._events):
            return 0.0
        if self._count != self._in_flight[_EVENT]:
            return self._event_delay_s()
        idle_in_s = self._wrote + self._limits.quiet_s - time.monotonic()
        return 0.0 if idle_in_s <= 0 else min(self._event_delay_s(), idle_in_s)

    def _event_delay_s(self) -> float:
        """Seconds until an event has waited for as long as it may."""
        return max(0.0, self._events.oldest() + self._limits.max_event_delay_s - time.time())

    def _may_start(self, kind: WritePriority) -> bool:
        return self._in_flight[kind] < self._most[kind] and not self._is_held(kind)

    def _is_held(self, kind: WritePriority) -> bool:
        """Whether writes of this kind have to wait for time, or they are decisions and the watches are stale."""
        if (self._throttle.until or self._limits.qps > 0) and self._held_s(kind) > 0:
            return True
        return kind in DECISIONS and not self._may_decide()

    def _held_s(self, kind: WritePriority) -> float:
        """Seconds until the API server and the rate limit allow writes of this kind; 0 = now."""
        paused_s = self._throttle.left_s(kind) if self._throttle.until else 0.0
        return max(paused_s, self._rate.wait_s(time.monotonic(), kind))

    def _pause_s(self) -> float | None:
        """Seconds until a write may start that waits only for time. None if there is none."""
        pauses = [self._held_s(kind) for kind in self._waiting()]
        pauses += [self._events_wait_s()] if len(self._events) else []
        return min((pause for pause in pauses if pause > 0), default=None)

    def _start(self, job: _Job) -> None:
        self._in_flight[job.write_priority] += 1
        self._count += 1
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: _Job) -> None:
        """Runs a job and then further jobs in the same task, because a task costs as much as the rest of a job."""
        following: _Job | None = job
        try:
            while following is not None:
                try:
                    await self._execute(following.command)
                finally:
                    self._ended(following)
                following = None if self._limits.qps > 0 else self._next()
                if following is not None:
                    self._in_flight[following.write_priority] += 1
                    self._count += 1
        finally:
            self._wake.set()

    def _ended(self, job: _Job) -> None:
        kind = job.write_priority
        self._in_flight[kind] -= 1
        self._count -= 1
        if kind is not _EVENT:
            self._wrote = time.monotonic()
        if job.key:
            self._release(job.key)

    def _release(self, key: str) -> None:
        """Removes the finished job of an object. Queues the next one with the highest priority of the remaining."""
        waiting = self._by_key[key]
        del waiting[0]
        if not waiting:
            del self._by_key[key]
            return
        waiting[0].write_priority = min(job.write_priority for job in waiting)
        self._queues[waiting[0].write_priority].append(waiting[0])
        self._wake.set()  # the queued job can start next to the one that this task continues with


#: Share of the burst that patches and events leave to decisions.
_RESERVE: Final = 0.25

#: If this number of other writes starts while a kind of write waits, that kind is next. So each kind gets a share.
_PASSED_OVER: Final = 8


class _Rate:
    """A token bucket. `qps`: tokens that are added per second, 0 = unlimited; `burst`: the most that it holds."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps, self._burst = qps, max(burst, 1)
        self._tokens, self._at = float(self._burst), 0.0
        #: Number of other writes that started while this kind waited.
        self._passed_over: Counter[WritePriority] = Counter()

    def take(self, now_s: float, kind: WritePriority, waiting: Iterable[WritePriority]) -> None:
        """Takes a token for a write of this kind. Call `wait_s` before. `waiting`: kinds of which writes are queued."""
        self._tokens, self._at = self._level(now_s) - 1, now_s
        self._passed_over.update(waiting)
        del self._passed_over[kind]

    def next_kinds(self) -> list[WritePriority]:
        """The kinds that were passed over too often. The first one has waited for the largest number of writes."""
        return [kind for kind, writes in self._passed_over.most_common() if writes >= _PASSED_OVER]

    def wait_s(self, now_s: float, kind: WritePriority) -> float:
        """Seconds until a token is available for this kind of write; 0 = now."""
        if self._qps <= 0:
            return 0.0
        leaves_reserve = kind not in DECISIONS and self._passed_over[kind] < _PASSED_OVER
        needed = min(float(self._burst), 1 + self._burst * _RESERVE) if leaves_reserve else 1.0
        return max(0.0, (needed - self._level(now_s)) / self._qps)

    def _level(self, now_s: float) -> float:
        return min(float(self._burst), self._tokens + max(0.0, now_s - self._at) * self._qps)
