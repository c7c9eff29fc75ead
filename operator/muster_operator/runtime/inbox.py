"""The inbox of the controller.

All inputs arrive here in order: cluster events, core responses and command results. A list waits when the inbox is
full. A watch never waits, because the API server ends a watch that is not read. Updates of one object are coalesced
instead: a newer state replaces an unread older one, but never a deletion or a completion.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import structlog
from msgspec import Struct

from muster_operator.kube.watch import WatchFreshness
from muster_operator.model.cluster_events import (
    AttachmentGone,
    ClaimGone,
    ClusterEvent,
    NamespaceGone,
    NodeGone,
    PodGone,
    PodSeen,
    VolumeGone,
)
from muster_operator.model.commands import PostEvent, Result
from muster_operator.model.core_responses import Inventory
from muster_operator.model.limits import LOGGED_DELETIONS
from muster_operator.model.settings import Settings
from muster_operator.runtime.metrics import Metrics
from muster_operator.runtime.objects import DELETED, READ, ObjectDecoder, key_of
from muster_operator.si.session import FromCore, Session
from muster_operator.translate.pod_classes import PartialPod
from muster_operator.translate.values import Raw

log = structlog.get_logger("muster.inbox")

M = TypeVar("M")
_GONE: Final = (PodGone, NodeGone, NamespaceGone, VolumeGone, ClaimGone, AttachmentGone)


class PendingObjects(Generic[M]):
    """Facts by object, oldest object first, and marks of type M between them that are taken after what was put before.

    `coalesced`: called for each fact that was replaced.
    """

    def __init__(self, coalesced: Callable[[], None] = lambda: None) -> None:
        self._coalesced = coalesced
        self._facts: dict[tuple[str, str], list[ClusterEvent]] = {}
        self._order: deque[tuple[int, tuple[str, str] | M]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    @property
    def oldest(self) -> int:
        """The number under which the first object was put; there is one."""
        return self._order[0][0]

    def put(self, number: int, plural: str, key: str, fact: ClusterEvent) -> None:
        """A new state of an object. `number`: of the input, growing."""
        at = plural, key
        facts = self._facts.get(at)
        if facts is None:
            self._facts[at] = [fact]
            self._order.append((number, at))
            return
        if isinstance(fact, _GONE) and any(isinstance(one, _GONE) for one in facts):
            while not isinstance(facts[-1], _GONE):  # made and deleted again unread: the first deletion says it all
                facts.pop()
                self._coalesced()
            return
        if _is_replaced_by(facts[-1], fact):
            facts.pop()
            self._coalesced()
        facts.append(fact)

    def mark(self, number: int, mark: M) -> None:
        """Something that is to be taken after all that waits now."""
        self._order.append((number, mark))

    def take(self) -> ClusterEvent | M:
        """The first fact of the first object, or the mark that is next; there is one."""
        _, at = self._order[0]
        if not isinstance(at, tuple):
            self._order.popleft()
            return at
        facts = self._facts[at]
        if len(facts) > 1:
            return facts.pop(0)
        del self._facts[at]
        self._order.popleft()
        return facts[0]


def _is_replaced_by(old: ClusterEvent, new: ClusterEvent) -> bool:
    """Whether nothing is lost if only the newer fact is read."""
    if isinstance(old, _GONE):
        return False
    if isinstance(old, PodSeen) and old.pod.has_ended:
        return isinstance(new, PodSeen) and new.pod.has_ended
    return True


#: Missed deletions of a list that are handled before others run.
TURN: Final = 100

#: Inputs that may wait before lists are held back.
LIMIT: Final = 2000


class EventReceived(Struct, frozen=True, gc=False):
    """What a watch stream, a list or a read shows of an object, where that is new."""

    fact: ClusterEvent


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be read: a fault of ours, for objects that are merely odd are no fact."""

    plural: str
    raw: Raw | PartialPod
    error: Exception


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of these objects is complete, and all that follows from it is in the inbox before this."""

    plural: str


@dataclass(frozen=True, slots=True)
class SessionUp:
    """A session with the core was opened."""

    session: Session


@dataclass(frozen=True, slots=True)
class SessionLost:
    """A session with the core is over."""

    session: Session
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """A turn of the recovery is over, and the next one may begin."""

    session: Session


@dataclass(frozen=True, slots=True)
class BarrierAck:
    """The core has taken in all of the recovery."""

    session: Session


@dataclass(frozen=True, slots=True)
class Compared:
    """The core showed a part of what it holds, and all that this rests on was received."""

    session: Session
    inventory: Inventory


class CoreMessage(Struct, frozen=True, gc=False):
    """The core said something."""

    session: Session
    message: FromCore


class CommandEnded(Struct, frozen=True, gc=False):
    """A command ended."""

    result: Result


#: What becomes of a session, or of what was asked in one.
OfSession = SessionUp | SessionLost | RecoveryStep | BarrierAck | Compared
Input = EventReceived | Unreadable | Listed | OfSession | CoreMessage | CommandEnded


class InboxObserver(Protocol):
    """Which parts other than the agent see some of the watched objects; none of these may block."""

    def watched(self, plural: str, kind: str | None, raw: Raw) -> None:
        """Take an object as a watch stream shows it."""

    def listed(self, plural: str) -> None:
        """A list is complete: all objects that it shows, and all deletions, were reported."""


class Inbox:  # long: what four protocols tell ends here, and each word of them is one line
    """Implements what kopf's handlers, the fast path, the session and the writers tell to."""

    def __init__(self, metrics: Metrics, settings: Callable[[], Settings] = Settings, limit: int = LIMIT) -> None:
        self._metrics, self._limit = metrics, limit
        self._decoder = ObjectDecoder(settings)
        self.freshness = WatchFreshness()
        self._also: dict[str, InboxObserver] = {}
        self._suspected: dict[str, asyncio.Event] = {}
        self._inputs: deque[tuple[int, Input]] = deque()
        self._objects: PendingObjects[Listed] = PendingObjects(metrics.coalesced.inc)
        self._count = 0  # of all inputs so far
        self._is_core_slow = False
        self._something, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._inputs) + len(self._objects)

    def show_also(self, onlooker: InboxObserver, *plurals: str) -> None:
        """From now on another receiver sees these objects too, at once and without a watch of its own."""
        self._also |= dict.fromkeys(plurals, onlooker)

    async def watched(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        """Take an object. A list waits while the inbox is full, a watch never: its updates are coalesced."""
        self._metrics.count_watched(plural, kind or "LIST")
        if kind is None and len(self) >= self._limit:
            self._room.clear()
            await self._room.wait()
        if plural in self._also and not isinstance(raw, PartialPod):  # which is of a pod, and nobody else sees pods
            self._also[plural].watched(plural, kind, raw)
        self._take_in(plural, kind, raw)

    def list_begun(self, plural: str, *, is_reset: bool = False) -> None:
        """A list is about to be requested; its objects are taken as `watched`. `is_reset`: the store was set back."""
        self._decoder.begin_list(plural, is_reset=is_reset)

    async def listed(self, plural: str, version: str = "") -> None:
        """The list is complete, and of that version; objects that were deleted unseen are removed now."""
        for missed, (key, fact) in enumerate(self._decoder.end_list(plural, version), start=1):
            if missed <= LOGGED_DELETIONS:
                log.warning("list revealed a deletion that no watch event reported", resource=plural, key=key)
            self._metrics.repairs.labels(plural).inc()
            if plural in self._also:
                self._also[plural].watched(plural, DELETED, {"metadata": {"name": key}})
            if fact is not None:
                self._put_fact(plural, key, fact)
            if not missed % TURN:
                await asyncio.sleep(0)
        self._metrics.lists.labels(plural).inc()
        self.freshness.note(plural)
        if plural in self._also:
            self._also[plural].listed(plural)
        self._put_listed(plural)

    async def comparison_due(self, plural: str, within_s: float) -> None:
        """Return when something contradicts what is known of these objects, or after that many seconds."""
        wanted = self._suspected.setdefault(plural, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await wanted.wait()
        wanted.clear()

    def suspect(self, *plurals: str) -> None:
        """Something contradicts what is known of these objects: compare it with a list soon."""
        for plural in plurals:
            self._suspected.setdefault(plural, asyncio.Event()).set()

    def not_served(self, plural: str) -> None:
        """Take note that there is nothing of this kind, nor will be: the list of it is complete."""
        self._put_listed(plural)

    def stream_broke(self, plural: str, reason: str) -> None:
        """Count a watch stream that had to be started over."""
        self._metrics.streams_broken.labels(plural).inc()

    def stream_expired(self, plural: str) -> None:
        """Count a watch stream that only a new list could continue with."""
        self._metrics.streams_expired.labels(plural).inc()

    def heard(self, plural: str) -> None:
        """Note that a watch stream lives."""
        self._metrics.heard(plural)
        self.freshness.note(plural)

    def bookmark(self, plural: str) -> None:
        """Count a bookmark, which no handler takes."""
        self._metrics.count_watched(plural, "BOOKMARK")

    def session_up(self, session: Session) -> None:
        """Take a new session."""
        self.put(SessionUp(session))

    def session_lost(self, session: Session, reason: str) -> None:
        """Take the end of a session."""
        self.put(SessionLost(session, reason))
        self._hold_objects(held=False)

    def core_is_slow(self, session: Session, *, is_slow: bool) -> None:
        """So much waits for the core that objects are left here, or does no more."""
        self._hold_objects(held=is_slow and not session.over.done())

    def said(self, session: Session, message: FromCore) -> None:
        """Take a word of the core."""
        self.put(CoreMessage(session, message))

    def result(self, result: Result) -> None:
        """Take the end of a command; that of an event changes nothing."""
        if not isinstance(result.command, PostEvent):
            self.put(CommandEnded(result))

    def read_pod(self, raw: Raw) -> None:
        """Take a pod that was read to settle a command."""
        self._take_in("pods", READ, raw)

    def put(self, item: Input) -> None:
        """Take any input but an object; never waits."""
        self._count += 1
        self._inputs.append((self._count, item))
        self._something.set()

    def _take_in(self, plural: str, kind: str | None, raw: Raw | PartialPod) -> None:
        key = key_of(plural, raw)
        try:
            fact = self._decoder.fact(plural, key, kind, raw)
        except Exception as error:  # noqa: BLE001 - the loop counts and logs it, as it does with its own
            self.put(Unreadable(plural, raw, error))
            return
        if fact is not None:
            self._put_fact(plural, key, fact)

    def _put_fact(self, plural: str, key: str, fact: ClusterEvent) -> None:
        self._count += 1
        self._objects.put(self._count, plural, key, fact)
        if not self._is_core_slow:
            self._something.set()

    def _put_listed(self, plural: str) -> None:
        self._count += 1
        self._objects.mark(self._count, Listed(plural))
        self._something.set()

    def _hold_objects(self, *, held: bool) -> None:
        self._is_core_slow = held
        if not held:
            self._something.set()

    def take(self) -> Input | None:
        """The oldest input, None = nothing waits. While the core is slow, objects are passed over."""
        inputs, objects = self._inputs, self._objects
        if len(objects) and not self._is_core_slow and not (inputs and inputs[0][0] < objects.oldest):
            found = objects.take()
            item: Input = found if isinstance(found, Listed) else EventReceived(found)
        elif inputs:
            item = inputs.popleft()[1]
        else:
            self._something.clear()
            return None
        if len(self) < self._limit // 2:
            self._room.set()
        return item

    async def something(self, within_s: float | None) -> None:
        """Return when there is an input, or after that many seconds (None = however long it takes)."""
        if self._inputs or (len(self._objects) and not self._is_core_slow):
            return
        self._something.clear()
        try:
            async with asyncio.timeout(within_s):
                await self._something.wait()
        except TimeoutError:
            return
