"""The agent's inbox: everything that happens anywhere ends here, in order, and one task takes it out (`link.loop`).

Objects of watch streams become facts at its door (`link.door`). Streams wait when too much waits already; the core's
callbacks and the results of commands never wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct

from muster_operator.link.door import Door
from muster_operator.link.hearing import Hearing
from muster_operator.link.metrics import Metrics
from muster_operator.link.si.core import FromCore, Session
from muster_operator.link.versions import READ
from muster_operator.model.commands import PostEvent
from muster_operator.model.facts import Fact
from muster_operator.model.inventory import Inventory
from muster_operator.model.results import Result
from muster_operator.model.settings import Settings
from muster_operator.translate.raw import Raw
from muster_operator.translate.sketch import Sketch

#: Inputs that may wait before the watch streams are held back.
LIMIT: Final = 2000


class Seen(Struct, frozen=True, gc=False):
    """What a watch stream, a list or a read shows of an object, where that is new."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be read: a fault of ours, for objects that are merely odd are no fact."""

    plural: str
    raw: Raw | Sketch
    error: Exception


@dataclass(frozen=True, slots=True)
class ListBegun:
    """A list of these objects is about to be asked for."""

    plural: str


@dataclass(frozen=True, slots=True)
class Listed:
    """That list is complete and these are in it: uids of pods, names of others, `namespace/name` in namespaces."""

    plural: str
    keys: frozenset[str]


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
class Went:
    """A turn of the recovery is over, and the next one may begin."""

    session: Session


@dataclass(frozen=True, slots=True)
class Fenced:
    """The core has taken in all of the recovery."""

    session: Session


@dataclass(frozen=True, slots=True)
class Compared:
    """The core showed a part of what it holds, and all that this rests on was heard."""

    session: Session
    inventory: Inventory


class Said(Struct, frozen=True, gc=False):
    """The core said something."""

    session: Session
    message: FromCore


class Ended(Struct, frozen=True, gc=False):
    """A command ended."""

    result: Result


#: What becomes of a session, or of what was asked in one.
OfSession = SessionUp | SessionLost | Went | Fenced | Compared
Input = Seen | Unreadable | ListBegun | Listed | OfSession | Said | Ended


class Onlooker(Protocol):
    """Who sees some of the watched objects beside the agent; none of these may block."""

    def watched(self, plural: str, kind: str | None, raw: Raw) -> None:
        """Take an object as a watch stream shows it."""

    def listed(self, plural: str, names: frozenset[str]) -> None:
        """Take a complete list of cluster-wide objects."""


class Inbox:  # long: what four protocols tell ends here, and each word of them is one line
    """Implements what kopf's handlers, the fast lane, the session and the writers tell to."""

    def __init__(self, metrics: Metrics, settings: Callable[[], Settings] = Settings, limit: int = LIMIT) -> None:
        self._metrics, self._limit = metrics, limit
        self._door = Door(settings)
        self.hearing = Hearing()
        self._also: dict[str, Onlooker] = {}
        self._waiting: deque[Input] = deque()
        self._something, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def show_also(self, onlooker: Onlooker, *plurals: str) -> None:
        """From now on somebody else sees these objects too, at once and without a watch of their own."""
        self._also |= dict.fromkeys(plurals, onlooker)

    async def watched(self, plural: str, kind: str | None, raw: Raw | Sketch) -> None:
        """Take an object from a watch stream; waits while the inbox is full."""
        self._metrics.count_watched(plural, kind or "LIST")
        if len(self._waiting) >= self._limit:
            self._room.clear()
            await self._room.wait()
        if plural in self._also and not isinstance(raw, Sketch):  # which is of a pod, and nobody else sees pods
            self._also[plural].watched(plural, kind, raw)
        self._take_in(plural, kind, raw)

    async def list_begun(self, plural: str) -> None:
        """Take note that a list is about to be asked for."""
        self.put(ListBegun(plural))

    async def listed(self, plural: str, keys: frozenset[str]) -> None:
        """Take a complete list."""
        self._metrics.lists.labels(plural).inc()
        self.hearing.note(plural)
        if plural in self._also:
            self._also[plural].listed(plural, keys)
        self.put(Listed(plural, keys))

    def not_served(self, plural: str) -> None:
        """Take note that there is nothing of this kind, nor will be: the list of it is complete."""
        self.put(ListBegun(plural))
        self.put(Listed(plural, frozenset()))

    def stream_broke(self, plural: str, reason: str) -> None:
        """Count a watch stream that had to be started over."""
        self._metrics.streams_broken.labels(plural).inc()

    def stream_expired(self, plural: str) -> None:
        """Count a watch stream that only a new list could go on with."""
        self._metrics.streams_expired.labels(plural).inc()

    def heard(self, plural: str) -> None:
        """Note that a watch stream lives."""
        self._metrics.heard(plural)
        self.hearing.note(plural)

    def bookmark(self, plural: str) -> None:
        """Count a bookmark, which nobody takes."""
        self._metrics.count_watched(plural, "BOOKMARK")

    def session_up(self, session: Session) -> None:
        """Take a new session."""
        self.put(SessionUp(session))

    def session_lost(self, session: Session, reason: str) -> None:
        """Take the end of a session."""
        self.put(SessionLost(session, reason))

    def said(self, session: Session, message: FromCore) -> None:
        """Take a word of the core."""
        self.put(Said(session, message))

    def result(self, result: Result) -> None:
        """Take the end of a command; that of an event changes nothing."""
        if not isinstance(result.command, PostEvent):
            self.put(Ended(result))

    def read_pod(self, raw: Raw) -> None:
        """Take a pod that was read to settle a command."""
        self._take_in("pods", READ, raw)

    def put(self, item: Input) -> None:
        """Take any input; never waits."""
        self._waiting.append(item)
        self._something.set()

    def _take_in(self, plural: str, kind: str | None, raw: Raw | Sketch) -> None:
        try:
            fact = self._door.fact(plural, kind, raw)
        except Exception as error:  # noqa: BLE001 - the loop counts and logs it, as it does with its own
            self.put(Unreadable(plural, raw, error))
            return
        if fact is not None:
            self.put(Seen(fact))

    def take(self) -> Input | None:
        """The oldest input, None = nothing waits."""
        if not self._waiting:
            self._something.clear()
            return None
        item = self._waiting.popleft()
        if len(self._waiting) < self._limit // 2:
            self._room.set()
        return item

    async def something(self, within_s: float | None) -> None:
        """Return when there is an input, or after that many seconds (None = however long it takes)."""
        if self._waiting:
            return
        self._something.clear()
        try:
            async with asyncio.timeout(within_s):
                await self._something.wait()
        except TimeoutError:
            return
