"""The task that owns the controller's state, and its inbox.

All inputs arrive in the inbox in order: cluster events, core responses and command results. A list waits while the
inbox is full. A watch never waits, because the API server closes a watch that is not read. Its updates are coalesced
per object: a newer state replaces an unread older one, except a deletion or a completion.

A raw object is translated as soon as it is read and then dropped, because its value is many times smaller. A list runs
next to the watch, so that an object can arrive by both in any order. An older state never replaces a newer one, and a
deleted object is not added again by an older page.

The task takes inputs from the inbox, calls the controller, and passes requests to the core and commands to the write
queue after each turn. It sleeps until an input arrives or the next timer is due, and yields regularly so that streams
and probes stay responsive. An input that the controller fails on is logged and counted, and the loop continues.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, Protocol, TypeVar

import structlog

from muster_operator.controller import cluster_events, core_responses, state, timers
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import Ledger
from muster_operator.kube.watch import WatchFreshness, is_older, whole
from muster_operator.model.cluster_events import DELETIONS, ClusterEvent, KeysSeen, PodSeen
from muster_operator.model.commands import Failure, Order, Outcome, PostEvent, Result
from muster_operator.model.limits import CACHED_DELETIONS, LOGGED_DELETIONS
from muster_operator.model.settings import Settings
from muster_operator.runtime.garbage_collection import EVERY, GarbageCollectorFreezer
from muster_operator.runtime.inputs import (
    OF_SESSION,
    BarrierAck,
    CommandEnded,
    Compared,
    CoreMessage,
    EventReceived,
    Input,
    Listed,
    RecoveryStep,
    SessionLost,
    SessionUp,
    Unreadable,
    object_name,
)
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.session import PAUSE_S, Binds, Comparing, Current, Stage
from muster_operator.runtime.tracing import ApplicationTracer
from muster_operator.si.codec import decoded, decoded_callback
from muster_operator.si.session import FromCore, Session, is_state_dump
from muster_operator.translate.objects import read_deletion, read_object
from muster_operator.translate.pod_classes import PartialPod, PodClasses
from muster_operator.translate.pods import read_bound
from muster_operator.translate.values import Raw, mapping, text
from muster_si import muster_pb2, si_pb2
from muster_si.sent_items import count_items

inbox_log = structlog.get_logger("muster.inbox")
log = structlog.get_logger("muster.loop")

#: Kind of an object that was read individually, and can be older than the last watch event.
READ: Final = "READ"
DELETED: Final = "DELETED"

#: Maximum number of pending inputs before lists wait.
INBOX_LIMIT: Final = 2000

#: Missed deletions of a list that are handled before other tasks can run.
MISSED_PER_ITERATION: Final = 100

#: Maximum seconds of work before other tasks can run.
ITERATION_S: Final = 0.010

#: Compared with after each input. Reading it from its class takes 60 ns in Python 3.11.
_LIVE: Final = Stage.LIVE
M = TypeVar("M")


@dataclass(slots=True)
class _OpenList:
    """A list that is not complete. `is_reset`: the store was restored, so that earlier versions cannot be compared.

    `unconfirmed`: known objects that the list has not shown yet. `deleted`: objects that the watch reported as deleted
    since the list began, so that an older page does not add them again.
    """

    unconfirmed: dict[str, str]
    is_reset: bool
    deleted: dict[str, str] = field(default_factory=dict)


class Versions:
    """Resource versions by resource and key (`key_of`)."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, str]] = defaultdict(dict)
        self._lists: dict[str, _OpenList] = {}
        self._deleted: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._listed: dict[str, str] = {}  # version of the last complete list, by resource

    def __len__(self) -> int:
        known = sum(len(of_kind) for of_kind in self._seen.values())
        return known + sum(len(one.unconfirmed) for one in self._lists.values())

    def is_newer(self, plural: str, key: str, kind: str | None, version: str) -> bool:
        """Whether this state is new. Records it. `kind`: as in a watch event, READ, or None for a list."""
        if kind == READ:
            return self._is_newer_read(plural, key, version)
        known, before = self._seen[plural], None
        seen = known.get(key)
        if seen is None and self._lists and (one := self._lists.get(plural)) is not None:
            before = one.unconfirmed.pop(key, None)
            if before is not None and not one.is_reset:
                known[key] = seen = before
        if kind == "DELETED":
            if is_older(version, seen):
                return False  # the list has already shown a newer object with the same name
            known.pop(key, None)
            self._remember_deleted(plural, key, version)
            return True
        if seen is not None:
            if (version and version == seen) or is_older(version, seen):
                return False
        elif before is None and (self._deleted or self._lists) and self._is_deleted(plural, key, version):
            return False
        known[key] = version
        return True

    def _is_newer_read(self, plural: str, key: str, version: str) -> bool:
        """As `is_newer` for a single read. The object can have been deleted since; a running list confirms it later."""
        known, one = self._seen[plural], self._lists.get(plural)
        if one is not None and key not in known:
            known = one.unconfirmed
        seen = known.get(key)
        if seen is None and self._was_deleted(plural, key, version):
            return False
        if version == seen or is_older(version, seen):
            return False
        known[key] = version
        return True

    def _was_deleted(self, plural: str, key: str, version: str) -> bool:
        """Whether an unknown object, which was read at that version, was deleted since."""
        at = self._listed.get(plural, "")
        return (plural, key) in self._deleted or (bool(at) and not is_older(at, version))

    def begin_list(self, plural: str, *, is_reset: bool = False) -> None:
        """A list is about to be requested. An open list was abandoned. `is_reset`: the store was restored."""
        known = self._seen.pop(plural, {})
        if (open_list := self._lists.get(plural)) is not None:
            open_list.unconfirmed.update(known)
            known, is_reset = open_list.unconfirmed, is_reset or open_list.is_reset
        self._lists[plural] = _OpenList(known, is_reset)
        if is_reset:
            self._listed.pop(plural, None)
            for key in [one for one in self._deleted if one[0] == plural]:
                del self._deleted[key]

    def end_list(self, plural: str, version: str) -> Iterator[str]:
        """The list of that version is complete. Yields the keys of missed deletions; must be consumed completely."""
        one = self._lists[plural]
        while one.unconfirmed:
            key, seen = one.unconfirmed.popitem()
            if not one.is_reset and is_older(version, seen):
                self._seen[plural][key] = seen  # newer than the list
                continue
            self._remember_deleted(plural, key, version if version.isdecimal() else seen)
            yield key
        self._listed[plural] = version
        if self._lists.get(plural) is one:
            del self._lists[plural]

    def _is_deleted(self, plural: str, key: str, version: str) -> bool:
        """Whether the state is older than the object's deletion."""
        one = self._lists.get(plural)
        at = one.deleted.get(key) if one is not None else None
        if at is None:
            at = self._deleted.get((plural, key))
        return at is not None and (version == at or is_older(version, at))

    def _remember_deleted(self, plural: str, key: str, version: str) -> None:
        self._deleted[plural, key] = version
        if len(self._deleted) > CACHED_DELETIONS:
            self._deleted.popitem(last=False)
        if (one := self._lists.get(plural)) is not None:
            one.deleted[key] = version


def key_of(plural: str, raw: Raw) -> str:
    """Identifies an object of a resource: a pod by its UID, others by name or `namespace/name`."""
    metadata = mapping(raw.get("metadata"))
    if plural == "pods":
        return text(metadata.get("uid"))
    namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
    return f"{namespace}/{name}" if namespace else name


def version_of(raw: Raw) -> str:
    """The resource version; empty if there is none."""
    return text(mapping(raw.get("metadata")).get("resourceVersion"))


class ObjectDecoder:
    """Translates watched objects to events. `settings` returns the present settings."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._versions, self._classes = Versions(), PodClasses()

    def fact(self, plural: str, key: str, kind: str | None, raw: Raw | PartialPod) -> ClusterEvent | None:
        """The event of an object. None if its state is not new, as for most objects of a list, or is not used."""
        version = raw.metadata.resource_version if isinstance(raw, PartialPod) else version_of(raw)
        if not self._versions.is_newer(plural, key, kind, version):
            return None
        if kind == DELETED:
            return read_deletion(plural, key)
        settings = self._settings()
        if not isinstance(raw, PartialPod):
            return read_object(plural, raw, settings)
        if (pod := self._classes.read(raw, settings)) is not None:
            return PodSeen(pod)
        return read_object(plural, whole(raw), settings)

    def begin_list(self, plural: str, *, is_reset: bool) -> None:
        """A list is about to be requested. `is_reset`: the store was restored, so that older versions can follow."""
        self._versions.begin_list(plural, is_reset=is_reset)

    def end_list(self, plural: str, version: str) -> Iterator[tuple[str, ClusterEvent | None]]:
        """The list is complete. Yields missed deletions by key; must be consumed completely."""
        for key in self._versions.end_list(plural, version):
            yield key, read_deletion(plural, key)


class PendingObjects(Generic[M]):
    """Pending events by object, oldest object first. Marks of type M are taken after everything that was put before.

    `coalesced` is called for each event that was replaced.
    """

    def __init__(self, coalesced: Callable[[], None] = lambda: None) -> None:
        self._coalesced = coalesced
        self._facts: dict[tuple[str, str], list[ClusterEvent]] = {}
        #: Number and key of each object, or number and mark, the oldest first. Read by the inbox for each input.
        self.order: deque[tuple[int, tuple[str, str] | M]] = deque()

    def __len__(self) -> int:
        return len(self.order)

    def put(self, number: int, plural: str, key: str, fact: ClusterEvent) -> None:
        """Adds a new state of an object. `number`: the increasing number of the input."""
        at = plural, key
        facts = self._facts.get(at)
        if facts is None:
            self._facts[at] = [fact]
            self.order.append((number, at))
            return
        if isinstance(fact, DELETIONS) and any(isinstance(one, DELETIONS) for one in facts):
            while not isinstance(facts[-1], DELETIONS):  # created and deleted again unread: one deletion is enough
                facts.pop()
                self._coalesced()
            return
        if _is_replaced_by(facts[-1], fact):
            facts.pop()
            self._coalesced()
        facts.append(fact)

    def mark(self, number: int, mark: M) -> None:
        """Adds a mark that is taken after everything that is pending now."""
        self.order.append((number, mark))

    def take(self) -> ClusterEvent | M:
        """Removes and returns the first event of the first object, or the next mark. There must be one."""
        _, at = self.order[0]
        if not isinstance(at, tuple):
            self.order.popleft()
            return at
        facts = self._facts[at]
        if len(facts) > 1:
            return facts.pop(0)
        del self._facts[at]
        self.order.popleft()
        return facts[0]


def _is_replaced_by(old: ClusterEvent, new: ClusterEvent) -> bool:
    """Whether the newer event alone is sufficient."""
    if isinstance(old, DELETIONS):
        return False
    if isinstance(old, PodSeen) and old.pod.has_ended:
        return isinstance(new, PodSeen) and new.pod.has_ended
    return True


class InboxObserver(Protocol):
    """Receives some watched objects in addition to the controller. The methods must not block."""

    def watched(self, plural: str, kind: str | None, raw: Raw) -> None:
        """Receives an object as reported by a watch."""

    def listed(self, plural: str) -> None:
        """A list is complete: all its objects, and all deletions, were reported."""


class Inbox:  # long: implements four listener protocols, most methods are one line
    """Receives the inputs of the watch streams, of the session and of the write queue."""

    def __init__(self, metrics: Metrics, settings: Callable[[], Settings] = Settings, limit: int = INBOX_LIMIT) -> None:
        self._metrics, self._limit = metrics, limit
        self._watched = metrics.watched.counts
        self._decoder = ObjectDecoder(settings)
        self.freshness = WatchFreshness()
        self._also: dict[str, InboxObserver] = {}
        self._suspected: dict[str, asyncio.Event] = {}
        self._inputs: deque[tuple[int, Input]] = deque()
        self._objects: PendingObjects[Listed] = PendingObjects(metrics.coalesced.inc)
        self._count = 0  # of all inputs so far
        self._is_core_slow = False
        #: Set if `something` waits and an input can be taken. `something` clears it, and waits only while no input can
        #: be taken. So it is enough that the first input, the first object and the end of a hold set it.
        self._available = asyncio.Event()
        self._room = asyncio.Event()
        self._is_full = False  # `_room` is not set, and lists wait for it

    def __len__(self) -> int:
        return len(self._inputs) + len(self._objects)

    def show_also(self, observer: InboxObserver, *plurals: str) -> None:
        """Reports these resources to another receiver too, which then needs no watch of its own."""
        self._also |= dict.fromkeys(plurals, observer)

    async def watched(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        """Adds an object. A list (None) waits while the inbox is full."""
        if kind is None and len(self) >= self._limit:
            self._is_full = True
            self._room.clear()
            await self._room.wait()
        self.changed(plural, kind, raw)

    def changed(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        """Adds an object without waiting. Updates that are not taken in time are coalesced."""
        self._watched[plural, kind or "LIST"] += 1
        if plural in self._also and not isinstance(raw, PartialPod):  # pods have no other receiver
            self._also[plural].watched(plural, kind, raw)
        self._take_in(plural, kind, raw)

    def list_begun(self, plural: str, *, is_reset: bool = False) -> None:
        """A list is about to be requested. `is_reset`: the API server's store was restored to an earlier state."""
        self._decoder.begin_list(plural, is_reset=is_reset)

    async def listed(self, plural: str, version: str = "") -> None:
        """The list is complete at this version. Objects that are missing in it are removed now."""
        for missed, (key, fact) in enumerate(self._decoder.end_list(plural, version), start=1):
            if missed <= LOGGED_DELETIONS:
                inbox_log.warning("list revealed a deletion that no watch event reported", resource=plural, key=key)
            self._metrics.repairs.labels(plural).inc()
            if plural in self._also:
                self._also[plural].watched(plural, DELETED, {"metadata": {"name": key}})
            if fact is not None:
                self._put_fact(plural, key, fact)
            if not missed % MISSED_PER_ITERATION:
                await asyncio.sleep(0)
        self._metrics.lists.labels(plural).inc()
        self.freshness.note(plural)
        if plural in self._also:
            self._also[plural].listed(plural)
        self._put_listed(plural)

    async def comparison_due(self, plural: str, within_s: float) -> None:
        """Returns when something contradicts the known state of these objects, or after that many seconds."""
        wanted = self._suspected.setdefault(plural, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await wanted.wait()
        wanted.clear()

    def suspect(self, *plurals: str) -> None:
        """Requests a comparison of these objects with a list, because something contradicts their known state."""
        for plural in plurals:
            self._suspected.setdefault(plural, asyncio.Event()).set()

    def stream_broke(self, plural: str, reason: str) -> None:
        """Counts a watch stream that had to be started again."""
        self._metrics.streams_broken.labels(plural).inc()

    def stream_expired(self, plural: str) -> None:
        """Counts a watch stream that needs a new list."""
        self._metrics.streams_expired.labels(plural).inc()

    def record_activity(self, plural: str) -> None:
        """Records that a watch stream delivered data."""
        self._metrics.record_activity(plural)
        self.freshness.note(plural)

    def bookmark(self, plural: str) -> None:
        """Counts a bookmark. Handlers do not receive it."""
        self._watched[plural, "BOOKMARK"] += 1

    def session_up(self, session: Session) -> None:
        """Adds the start of a session."""
        self.put(SessionUp(session))

    def session_lost(self, session: Session, reason: str) -> None:
        """Adds the end of a session."""
        self.put(SessionLost(session, reason))
        self._hold_objects(held=False)

    def core_is_slow(self, session: Session, *, is_slow: bool) -> None:
        """Stops or resumes taking objects, because of the number of messages that wait for the core."""
        self._hold_objects(held=is_slow and not session.over.done())

    def message_received(self, session: Session, message: FromCore) -> None:
        """Adds a message of the core."""
        self.put(CoreMessage(session, message))

    def result(self, result: Result) -> None:
        """Adds the result of a command. Results of Kubernetes events are ignored."""
        if not isinstance(result.command, PostEvent):
            self.put(CommandEnded(result))

    def object_read(self, plural: str, raw: Raw) -> None:
        """Adds an object that was read or written by a command."""
        self._take_in(plural, READ, raw)

    def put(self, item: Input) -> None:
        """Adds an input that is not an object. Never waits."""
        self._count += 1
        if not self._inputs:  # else `something` does not wait
            self._available.set()
        self._inputs.append((self._count, item))

    def _take_in(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        key = raw.metadata.uid if isinstance(raw, PartialPod) else key_of(plural, raw)
        try:
            fact = self._decoder.fact(plural, key, kind, raw)
        except Exception as error:  # noqa: BLE001 - the loop counts and logs it, as it does with its own
            self.put(Unreadable(plural, raw, error))
            return
        if fact is not None:
            self._put_fact(plural, key, fact)

    def _put_fact(self, plural: str, key: str, fact: ClusterEvent) -> None:
        self._count += 1
        if not self._is_core_slow and not self._objects.order:  # else `something` does not wait
            self._available.set()
        self._objects.put(self._count, plural, key, fact)

    def _put_listed(self, plural: str) -> None:
        self._count += 1
        self._objects.mark(self._count, Listed(plural))
        self._available.set()

    def _hold_objects(self, *, held: bool) -> None:
        self._is_core_slow = held
        if not held:
            self._available.set()

    def take(self) -> Input | None:
        """Removes and returns the oldest input, or None. Objects are skipped while the core is slow."""
        inputs, objects = self._inputs, self._objects
        oldest = inf if self._is_core_slow or not objects.order else objects.order[0][0]
        if oldest < (inputs[0][0] if inputs else inf):
            found = objects.take()
            item: Input = found if isinstance(found, Listed) else EventReceived(found)
        elif inputs:
            item = inputs.popleft()[1]
        else:
            self._available.clear()
            return None
        if self._is_full and len(self) < self._limit // 2:
            self._is_full = False
            self._room.set()
        return item

    async def something(self, within_s: float | None) -> None:
        """Returns when there is an input, or after that many seconds (None = no timeout)."""
        if self._inputs or (len(self._objects) and not self._is_core_slow):
            return
        self._available.clear()
        try:
            async with asyncio.timeout(within_s):
                await self._available.wait()
        except TimeoutError:
            return


class Loop:
    """Owns the controller's state. `submit` receives commands for Kubernetes; `binds` ends those of a lost session.

    `recovered` is set once a core has the complete state. `tracer` follows the applications; None = no tracing.
    """

    def __init__(
        self,
        ledger: Ledger,
        inbox: Inbox,
        submit: Callable[[Order], None],
        metrics: Metrics,
        compare_s: float = PAUSE_S,
        binds: Binds | None = None,
    ) -> None:
        self._ledger, self._inbox, self._submit, self._metrics = ledger, inbox, submit, metrics
        comparing = Comparing(ledger, inbox.put, metrics, compare_s, suspect=inbox.suspect)
        self._current = Current(ledger, inbox.put, comparing, binds)
        self.recovered = self._current.recovered
        self._freezer, self._events = GarbageCollectorFreezer(), 0
        self.tracer: ApplicationTracer | None = None

    @property
    def missing(self) -> str:
        """Why the operator is not ready; empty = ready."""
        return self._current.stage.value

    @property
    def unlisted(self) -> str:
        """Why a session could not be served immediately after becoming leader; empty if it could."""
        if not self._current.has_listed:
            return Stage.LISTING.value
        stale = self._inbox.freshness.stale
        return f"stale watches: {stale}" if stale else ""

    @property
    def held(self) -> str:
        """Why decisions are not sent although this replica leads; empty if they are."""
        freshness = self._inbox.freshness
        return "" if freshness.may_decide() else f"not binding, stale watches: {freshness.stale}"

    def use_clock(self, ahead_s: Callable[[], float]) -> None:
        """Sets the function for the clock difference: seconds to add to times of the API server, per session."""
        self._current.clock_ahead_s = ahead_s

    def drain(self) -> None:
        """Ignores the core from now on. Results of commands are still handled."""
        self._current.drain()

    async def run(self) -> None:
        """Runs until cancelled."""
        self._freezer.begin()
        while True:
            due = state.next_due(self._ledger)
            await self._inbox.something(None if due is None else max(0.0, due - time.monotonic()))
            self.iterate()
            await asyncio.sleep(0)

    def iterate(self) -> None:
        """Handles pending inputs for at most ITERATION_S, then timers, and sends the results."""
        out, now = Outcome(), time.monotonic()
        ends, take = now + ITERATION_S, self._inbox.take
        while now <= ends and (item := take()) is not None:
            self._supervised(item, out, now)
            now = time.monotonic()
        self._handle_timers(out)
        self._hand_out(out)

    def _handle_timers(self, out: Outcome) -> None:
        """Handles expired timers for at most ITERATION_S, so that many inputs do not delay them."""
        now = time.monotonic()
        ends = now + ITERATION_S
        while (due := state.next_due(self._ledger)) is not None and due <= now <= ends:
            self._supervised(None, out, now)
            now = time.monotonic()

    def _supervised(self, item: Input | None, out: Outcome, now: float) -> None:
        """Handles one input, or a timer (None)."""
        if type(item) in OF_SESSION:
            self._hand_out(out)  # the results so far belong to the present session
        is_handled = isolate(self._handle, self._ledger, out, item, now)
        if self._current.stage is not _LIVE:
            is_handled = isolate(self._go_on, self._ledger, out, item, now) and is_handled
        if not is_handled:
            self._current.failed()
        if self._ledger.is_suspect:
            self._ledger.is_suspect = False
            self._hand_out(out)
            self._current.end_session("the handling of an object failed: recovering all objects", now)

    def _handle(self, ledger: Ledger, out: Outcome, item: Input | None, now: float) -> None:
        match item:
            case EventReceived(fact=fact):
                self._events += 1
                if not self._events % EVERY:
                    self._freezer.freeze()
                if isinstance(fact, KeysSeen) and self._current.is_served_without_keys:
                    self._hand_out(out)  # the results so far belong to the present session
                    self._current.end_session("signing keys loaded: recovering signed pods", now)
                cluster_events.event_received(ledger, out, fact, now)
            case CommandEnded(result=result):
                if self.tracer is not None:
                    self._trace(lambda tracer: tracer.result(result))
                isolate(core_responses.handle_command_result, ledger, out, result, now)
            case CoreMessage():
                self._handle_message(item, out, now)
            case Unreadable():
                isolate(self._unreadable, ledger, out, item, now)
            case Listed():
                self._current.listed(item.plural)
            case SessionUp() | SessionLost() | RecoveryStep() | BarrierAck() | Compared():
                out.add(self._current.changed(item, now))
            case None:
                out.add(timers.on_timers(ledger, now))

    def _unreadable(self, ledger: Ledger, out: Outcome, item: Unreadable, now: float) -> None:
        """Reports an object that cannot be translated. If it is a bound pod, its resources count on its node."""
        name = object_name(item.raw)
        if item.plural == "pods":
            raw = whole(item.raw) if isinstance(item.raw, PartialPod) else item.raw
            if (pod := read_bound(raw)) is not None:
                cluster_events.unreadable_seen(ledger, out, pod, now)
        out.failures.append(Failure("Unreadable", name, item.error))

    def _go_on(self, _ledger: Ledger, out: Outcome, _item: object, now: float) -> None:
        """Sends the next step of a recovery if it can begin. Each step is sent before the next one is computed.

        See docs/internals/semantics.md, 19. A step with several messages is continued later, so that other inputs are
        handled in between.
        """
        if (step := self._current.next_step(now)) is not None:
            out.add(step)
            self._hand_out(out)
            self._current.sent()

    def _handle_message(self, item: CoreMessage, out: Outcome, now: float) -> None:
        if item.session is not self._current.session:
            return
        message = item.message
        if isinstance(message, muster_pb2.Callback):
            if is_state_dump(message):
                self._current.answer_dump(message)
            response = decoded_callback(message)
        else:
            response = decoded(message)
        if response is not None:
            core_responses.response_received(self._ledger, out, response, now)
            self._trace(lambda tracer: tracer.received(response))
        comparing = self._current.comparing
        if isinstance(message, si_pb2.AllocationResponse | si_pb2.ApplicationResponse):
            comparing.sent_items += count_items(message)
        if comparing.recent_names is not None and response is not None:
            comparing.record_received(response)

    def _trace(self, record: Callable[[ApplicationTracer], None]) -> None:
        """Lets the tracer record something. If it fails, scheduling continues without it."""
        if self.tracer is None:
            return
        try:
            record(self.tracer)
        except Exception:
            self.tracer = None
            self._metrics.failures.labels("Trace").inc()
            log.exception("tracing failed and is off until the operator restarts")

    def _hand_out(self, out: Outcome) -> None:
        """Sends requests to the core and commands for Kubernetes, logs failures, and clears `out`."""
        if self._current.session is not None and out.requests:
            self._current.session.send(out.requests)
            if self._current.comparing.recent_names is not None:
                self._current.comparing.record_sent(out.requests)
        self._trace(lambda tracer: tracer.sent(out.requests))
        for command in out.commands:
            self._submit(command)
        for failure in out.failures:
            self._metrics.failures.labels(failure.kind).inc()
            log.error(
                "internal error while processing an object, continuing without it",
                input=failure.kind,
                object=failure.name,
                exc_info=failure.error,
            )
        out.requests.clear()
        out.commands.clear()
        out.failures.clear()
