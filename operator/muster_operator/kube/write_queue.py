"""Queue of writes: priorities, fairness between namespaces, throttling.

Binds precede other writes; Kubernetes events come last and may be dropped. Writes to one object stay in order. Writes
of equal priority are sent in turn by namespace. A 429 response pauses the writes of its kind.
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
    CreatePlaceholder,
    DeletePod,
    FailPod,
    Importance,
    MarkDisrupted,
    MarkResumed,
    Order,
    PostEvent,
    SelectNode,
    SetCondition,
)
from muster_operator.model.ids import AppId, NumberEnum
from muster_operator.model.limits import Shares


class WritePriority(NumberEnum):
    """Smaller goes first."""

    BIND = 0
    DELETE = 1
    CREATE = 2
    PATCH = 3
    EVENT = 4


def write_priority_of(command: Command) -> WritePriority:
    """How soon a command has to go."""
    match command:
        case BindPod() | ClaimVolume(undo=False) | SelectNode(undo=False):
            return WritePriority.BIND
        case DeletePod():
            return WritePriority.DELETE
        case CreatePlaceholder():
            return WritePriority.CREATE
        case FailPod() | SetCondition() | MarkResumed() | MarkDisrupted() | ClaimVolume() | SelectNode():
            return WritePriority.PATCH
        case PostEvent():
            return WritePriority.EVENT


def is_of_session(command: Command) -> bool:
    """Whether it is in force only as long as the session that decided it: a bind and what has to come before it, and a
    placeholder, which the next session orders again where it is still missing.
    """
    return write_priority_of(command) in {WritePriority.BIND, WritePriority.CREATE}


def namespace_of(command: Command) -> str:
    """Whose write it is; empty for what is in no namespace."""
    match command:
        case CreatePlaceholder(spec=spec):
            return spec.namespace
        case MarkResumed(originator=pod):
            return pod.namespace
        case PostEvent(namespace=namespace):
            return namespace
        case _:
            return command.pod.namespace


def key_of(command: Command) -> str:
    """Which pod (`namespace/name`), volume or claim a command writes to; empty for events."""
    match command:
        case BindPod(pod=pod) | DeletePod(pod=pod) | FailPod(pod=pod) | SetCondition(pod=pod) | MarkDisrupted(pod=pod):
            return f"{pod.namespace}/{pod.name}"
        case MarkResumed(originator=pod):
            return f"{pod.namespace}/{pod.name}"
        case CreatePlaceholder(spec=spec):
            return f"{spec.namespace}/{spec.name}"
        case ClaimVolume(volume=name):
            return f"volume {name}"
        case SelectNode(claim=claim):
            return f"claim {claim.key}"
        case PostEvent():
            return ""


def named_command(command: Command) -> dict[str, str]:
    """What a log line says of a command: its kind and what it writes to, never what it writes."""
    written = f"{command.namespace}/{command.name}" if isinstance(command, PostEvent) else key_of(command)
    return {"command": type(command).__name__, "object": written}


class Throttle:
    """Shared by who hears the server (`Kube`) and who starts writes (`Pool`). `applied`: called each time, for metrics.

    `clock`: seconds of any steady clock.
    """

    def __init__(
        self, applied: Callable[[str], None] = lambda kind: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._applied, self._clock = applied, clock
        self._until: dict[WritePriority, float] = {}

    def hold(self, kind: WritePriority, seconds: float) -> None:
        """No new write of this kind for so long; a longer word stands."""
        self._until[kind] = max(self._until.get(kind, 0.0), self._clock() + seconds)
        self._applied(kind.name.lower())

    def left_s(self, kind: WritePriority) -> float:
        """Seconds until this kind may continue; 0 = it may."""
        until = self._until.get(kind)
        return 0.0 if until is None else max(0.0, until - self._clock())


class Cancellation:
    """One for all writers."""

    def __init__(self) -> None:
        self._recalled = asyncio.Event()

    def now(self) -> None:
        """Whatever is under way is not wanted any more; what begins later is."""
        self._recalled.set()
        self._recalled = asyncio.Event()

    def heard_by(self) -> CancellationToken:
        """For one bind that begins now."""
        return CancellationToken(self._recalled)


class CancellationToken:
    """How long one bind is worth another try."""

    def __init__(self, recalled: asyncio.Event) -> None:
        self._recalled = recalled

    async def lasts(self, pause_s: float) -> bool:
        """Wait for the next try; False, at once, if there is to be none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._recalled.wait()
        return not self._recalled.is_set()


class Waiting(Protocol):
    """What may wait here."""

    @property
    def namespace(self) -> str:
        """Namespace of the write."""


J = TypeVar("J", bound=Waiting)


class FairQueue(Generic[J]):
    """Round-robin by namespace, so that writes of one namespace delay those of another by one write each."""

    def __init__(self) -> None:
        self._by_namespace: OrderedDict[str, deque[J]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def append(self, job: J) -> None:
        """Last of its namespace."""
        self._by_namespace.setdefault(job.namespace, deque()).append(job)

    def first(self) -> J:
        """Return the next write without removing it. The queue must not be empty."""
        return next(iter(self._by_namespace.values()))[0]

    def drop_first(self) -> None:
        """Remove a waiting write; its namespace keeps its position."""
        namespace, jobs = next(iter(self._by_namespace.items()))
        jobs.popleft()
        if not jobs:
            del self._by_namespace[namespace]

    def sweep(self, namespace: str, keep: Callable[[J], bool]) -> None:
        """Only these of a namespace wait any longer."""
        kept = deque(filter(keep, self._by_namespace.get(namespace, ())))
        if kept:
            self._by_namespace[namespace] = kept
        else:
            self._by_namespace.pop(namespace, None)

    def take(self) -> J:
        """Remove and return the next write, and move its namespace to the end."""
        namespace, jobs = next(iter(self._by_namespace.items()))
        job = jobs.popleft()
        if jobs:
            self._by_namespace.move_to_end(namespace)
        else:
            del self._by_namespace[namespace]
        return job


Key = tuple[str, str, str, str]
_FIRST_TO_LAST: Final = tuple(sorted(Importance, reverse=True))


class _Level:
    """Events of one importance. `entries`: as they came, each with its time and since when it waits."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Key, tuple[PostEvent, float, float]] = OrderedDict()
        self._turns: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()
        self._shares = Shares()

    def add(self, key: Key, event: PostEvent, at: float) -> None:
        self.entries[key] = (event, at, at)
        self._turns.setdefault(event.namespace, OrderedDict())[key] = None
        self._shares.add(event.namespace)

    def drop(self) -> None:
        """The oldest of the namespace with most."""
        self._remove_oldest(self._shares.largest())

    def take(self) -> tuple[PostEvent, float]:
        """The oldest event of the next namespace, and its time."""
        namespace = next(iter(self._turns))
        event, at, _ = self._remove_oldest(namespace)
        if namespace in self._turns:
            self._turns.move_to_end(namespace)
        return event, at

    def _remove_oldest(self, namespace: str) -> tuple[PostEvent, float, float]:
        keys = self._turns[namespace]
        key = keys.popitem(last=False)[0]
        if not keys:
            del self._turns[namespace]
        self._shares.remove(namespace)
        return self.entries.pop(key)


class EventBuffer:
    """Holds at most `limit`; beyond that one of the least important goes, and `dropped` is called."""

    def __init__(self, limit: int, dropped: Callable[[], None]) -> None:
        self._limit, self._dropped = limit, dropped
        self._levels = {importance: _Level() for importance in Importance}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, event: PostEvent, at: float) -> None:
        """Take over an event that happened then, epoch seconds; where the same or an older word of its series waits, it
        takes that one's place, and has waited as long.
        """
        key = _key(event)
        for level in self._levels.values():
            if key in level.entries:
                level.entries[key] = (event, at, level.entries[key][2])
                return
        self._levels[event.importance].add(key, event, at)
        self._count += 1
        if self._count > self._limit:
            next(level for level in self._levels.values() if level.entries).drop()
            self._count -= 1
            self._dropped()

    def oldest(self) -> float:
        """Since when the one waits that waits longest, epoch seconds; infinity = nothing waits."""
        waiting = [next(iter(level.entries.values()))[2] for level in self._levels.values() if level.entries]
        return min(waiting, default=float("inf"))

    def take(self) -> PostEvent | None:
        """The oldest of the most important of the namespace whose turn it is, with its time; None = nothing waits."""
        for importance in _FIRST_TO_LAST:
            if self._levels[importance].entries:
                self._count -= 1
                event, at = self._levels[importance].take()
                return replace(event, at=at)
        return None


def _key(event: PostEvent) -> Key:
    said = ("", event.series) if event.series else (event.reason, event.note)
    return (event.namespace, event.uid or event.name, *said)


#: Which share of the places a kind may have at once.
SHARES: Final[Mapping[WritePriority, float]] = {
    WritePriority.BIND: 1.0,
    WritePriority.DELETE: 0.75,
    WritePriority.CREATE: 0.625,
    WritePriority.PATCH: 0.25,
}

#: What a scheduler decides; it waits while the state that it rests on is stale. Patches and events only report.
DECISIONS: Final = frozenset({WritePriority.BIND, WritePriority.DELETE, WritePriority.CREATE})

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

    def of(self, kind: WritePriority) -> int:
        """How many of a kind may be in flight."""
        share = SHARES.get(kind)
        return self.event_writers if share is None else max(1, round(self.writers * share))


class _Job(Struct, eq=False):
    """One command on its way. `started` jobs have left the queues for good."""

    command: Command
    key: str
    write_priority: WritePriority
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
        throttle: Throttle | None = None,
        recall: Cancellation | None = None,
        may_decide: Callable[[], bool] = lambda: True,
    ) -> None:
        self._execute, self._limits, self._throttle = execute, limits or Limits(), throttle or Throttle()
        self._recall, self._may_decide = recall or Cancellation(), may_decide
        self._queues: dict[WritePriority, FairQueue[_Job]] = {kind: FairQueue() for kind in SHARES}
        self._behind: dict[str, list[_Job]] = {}
        self._creations: dict[AppId, dict[_Job, None]] = {}  # that were not started
        self._most = {kind: self._limits.of(kind) for kind in WritePriority}
        self._events = EventBuffer(self._limits.events, on_drop)
        self._in_flight: Counter[WritePriority] = Counter()
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
            self._submit_write(_Job(order, key_of(order), write_priority_of(order), namespace_of(order)))
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
            self._queues[WritePriority.CREATE].sweep(namespace, lambda job: not job.started)

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
            kept[0].write_priority = min(job.write_priority for job in kept)
            self._queues[kept[0].write_priority].append(kept[0])

    @property
    def binds_in_flight(self) -> int:
        """How many binds may be being carried out just now."""
        return self._in_flight[WritePriority.BIND]

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
            self._queues[job.write_priority].append(job)
            return
        waiting.append(job)
        first = waiting[0]
        if not first.started and job.write_priority < first.write_priority:
            first.write_priority = job.write_priority
            self._queues[first.write_priority].append(first)  # it is in two queues now, and starts from one

    def _next(self) -> _Job | None:
        """The next job that may start: a write, else an event; None = nothing to do now."""
        is_full = False
        for kind, queue in self._queues.items():
            while queue and (queue.first().started or queue.first().write_priority is not kind):
                queue.drop_first()
            if queue and self._may_start(kind):
                job = queue.take()
                job.started = True
                self._forget_creation(job)
                return job
            is_full = is_full or (bool(queue) and not self._is_held(kind))
        if is_full or not self._may_start(WritePriority.EVENT) or self._events_wait_s() != 0:
            return None
        event = self._events.take()
        return None if event is None else _Job(event, "", WritePriority.EVENT, event.namespace, started=True)

    def _forget_creation(self, job: _Job) -> None:
        """It is under way and cannot be cancelled any more."""
        if isinstance(job.command, CreatePlaceholder) and (waiting := self._creations.get(job.command.spec.app)):
            waiting.pop(job, None)
            if not waiting:
                del self._creations[job.command.spec.app]

    def _events_wait_s(self) -> float:
        """Seconds until events may start, as far as other writes go."""
        are_alone = self._in_flight.total() == self._in_flight[WritePriority.EVENT]
        quiet_in_s = self._wrote + self._limits.quiet_s - time.monotonic()
        if not len(self._events) or (are_alone and quiet_in_s <= 0):
            return 0.0
        patience_s = max(0.0, self._events.oldest() + self._limits.patience_s - time.time())
        return min(patience_s, quiet_in_s) if are_alone else patience_s

    def _may_start(self, kind: WritePriority) -> bool:
        return self._in_flight[kind] < self._most[kind] and not self._is_held(kind)

    def _is_held(self, kind: WritePriority) -> bool:
        """Whether the API server told this kind to wait, or it is a decision and rests on an old state."""
        return self._throttle.left_s(kind) > 0 or (kind in DECISIONS and not self._may_decide())

    def _pause_s(self) -> float | None:
        """Seconds until something may continue that the clock alone holds back; None = there is no such thing."""
        waiting = [kind for kind, queue in self._queues.items() if queue]
        waiting += [WritePriority.EVENT] if len(self._events) else []
        pauses = [self._throttle.left_s(kind) for kind in waiting]
        pauses += [self._events_wait_s()] if len(self._events) else []
        return min((pause for pause in pauses if pause > 0), default=None)

    def _start(self, job: _Job) -> None:
        self._in_flight[job.write_priority] += 1
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
                    self._in_flight[following.write_priority] += 1
        finally:
            self._wake.set()

    async def _carry_out(self, job: _Job) -> None:
        kind = job.write_priority
        try:
            await self._execute(job.command)
        finally:
            self._in_flight[kind] -= 1
            if kind is not WritePriority.EVENT:
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
        waiting[0].write_priority = min(job.write_priority for job in waiting)
        self._queues[waiting[0].write_priority].append(waiting[0])
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
