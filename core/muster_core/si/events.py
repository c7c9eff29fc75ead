"""Event records: ring buffer, streams, and what is pushed to resource managers.

Differs: YuniKorn drops a reader 1,000 events behind; here one decision about
a gang is more than that at once, so a reader may be 20,000 behind.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from muster_core.model.ids import ApplicationId, RmId
from muster_core.model.records import (
    Change,
    Detail,
    EventRecorded,
    Notice,
    Recorded,
    application_of,
    count_of,
    records_of,
)
from muster_core.si.allocations import resource
from muster_si import si_pb2


@dataclass(frozen=True, slots=True)
class Record:
    """One event record with its number and its time in nanoseconds since the epoch."""

    id: int
    at_ns: int
    noted: EventRecorded


#: Number of the first record, time, and the note that stands for the records up to those of the next entry.
#: A plain tuple takes a tenth of the time of a NamedTuple.
_Entry = tuple[int, int, Recorded]


class Ring:
    """Holds the newest `capacity` records. Numbers continue after old records are dropped."""

    def __init__(self, capacity: int) -> None:
        self._entries: deque[_Entry] = deque()
        self._capacity = capacity
        self._next = 0

    def __len__(self) -> int:
        return self._next - self.lowest_id

    def extend(self, notes: Iterable[Recorded], at_ns: int) -> int:
        """Adds notes. A full ring drops the oldest records. Returns the number of new records."""
        first = following = self._next
        for noted in notes:
            count = count_of(noted)
            if count:
                self._entries.append((following, at_ns, noted))
                following += count
        self._next = following
        if following > self._capacity:
            self._shed()
        return following - first

    def resize(self, capacity: int) -> None:
        """Changes the capacity. With a smaller one the oldest records are dropped."""
        self._capacity = capacity
        self._shed()

    @property
    def lowest_id(self) -> int:
        """Number of the oldest stored record; the next number if there is none."""
        oldest = self._entries[0][0] if self._entries else self._next
        return max(oldest, self._next - self._capacity)

    @property
    def next_id(self) -> int:
        """Number of the next record."""
        return self._next

    def since(self, first_id: int, at_most: int) -> list[Record]:
        """Returns up to `at_most` records from `first_id`; none if that number is not stored."""
        if not self.lowest_id <= first_id < self._next:
            return []
        return list(islice(self._from(first_id), at_most))

    def story(self, app: ApplicationId) -> Iterator[Record | None]:
        """Yields the records of an application and its requests, oldest first, and None for others."""
        for first, at_ns, noted in tuple(self._entries):
            if application_of(noted) != app:
                yield None
                continue
            for number, record in enumerate(records_of(noted), start=first):
                if record.about in _STORY:
                    yield Record(number, at_ns, record)

    def last(self, app: str) -> list[Record]:
        """Returns a few of the newest records of an application, of everything if `app` is empty; oldest first."""
        found: deque[Record] = deque()
        for first, at_ns, noted in islice(reversed(self._entries), _VISITED):
            if not app or application_of(noted) == app:
                records = [Record(number, at_ns, one) for number, one in enumerate(records_of(noted), start=first)]
                found.extendleft(reversed([one for one in records if one.noted.about in _STORY or not app][-_LAST:]))
            if len(found) >= _LAST:
                break
        return list(found)[-_LAST:]

    def _from(self, first_id: int) -> Iterator[Record]:
        start = bisect_right(self._entries, first_id, key=_first_id) - 1
        for first, at_ns, noted in islice(self._entries, start, None):
            for number, record in enumerate(records_of(noted), start=first):
                if number >= first_id:
                    yield Record(number, at_ns, record)

    def _shed(self) -> None:
        """Drops entries that are entirely older than the oldest record to keep."""
        keep = self._next - self._capacity
        entries = self._entries
        while len(entries) > 1 and entries[1][0] <= keep:
            entries.popleft()


#: Entries that a search for the last records of an application visits.
_VISITED: Final = 2_000
_LAST: Final = 20

#: An allocation is also recorded on its node, queue and user.
_STORY: Final = (Notice.APPLICATION, Notice.REQUEST)


def _first_id(entry: _Entry) -> int:
    return entry[0]


#: Longer messages are truncated.
TEXT_LIMIT: Final = 1024
TYPES: Final = {notice: si_pb2.EventRecord.Type.Value(notice.value) for notice in Notice}
CHANGES: Final = {change: si_pb2.EventRecord.ChangeType.Value(change.value) for change in Change}
DETAILS: Final = {detail: si_pb2.EventRecord.ChangeDetail.Value(detail.value) for detail in Detail}


def text(message: str) -> str:
    """Returns the message, truncated with `...` if it is too long."""
    return message if len(message) <= TEXT_LIMIT else message[: TEXT_LIMIT - 3] + "..."


def event_record(noted: EventRecorded, now_ns: int) -> si_pb2.EventRecord:
    """Encodes an event for users with its time."""
    return si_pb2.EventRecord(
        type=TYPES[noted.about],
        objectID=noted.subject,
        referenceID=noted.reference,
        message=text(noted.message),
        timestampNano=now_ns,
        eventChangeType=CHANGES[noted.change],
        eventChangeDetail=DETAILS[noted.detail],
        resource=resource(noted.resource) if noted.resource else None,
    )


def as_text(record: Record) -> str:
    """Returns one record as a line of a log: seconds since the epoch, object, change and message."""
    noted = record.noted
    change = noted.change if noted.detail is Detail.NONE else noted.detail
    words = (noted.about, noted.subject, "" if noted.is_for_people else change, noted.reference, noted.message)
    return text(" ".join([f"{record.at_ns / 1e9:.3f}", *filter(None, words)]))


def as_json(record: Record) -> dict[str, object]:
    """Returns one record as JSON for the REST API."""
    noted = record.noted
    subject, reference = noted.subject, noted.reference
    if noted.app_name and noted.about is Notice.APPLICATION:
        subject = noted.app_name
    elif noted.app_name:
        reference = noted.app_name
    found: dict[str, object] = {"type": TYPES[noted.about], "objectID": subject}
    if reference:
        found["referenceID"] = reference
    if noted.message:
        found["message"] = text(noted.message)
    found["timestampNano"] = record.at_ns
    found["eventChangeType"] = CHANGES[noted.change]
    if noted.detail is not Detail.NONE:
        found["eventChangeDetail"] = DETAILS[noted.detail]
    amounts: dict[str, object] = {name: {"value": amount} for name, amount in noted.resource.items()}
    found["resource"] = {"resources": amounts}
    return found


#: Records by which a reader may lag behind.
LAG: Final = 20_000

#: Records that a reader receives at once.
_PORTION: Final = 500


class Stream:
    """`async for records in stream`: lists of records, oldest first, until it is closed or dropped."""

    def __init__(self, ring: Ring, first_id: int, ended: Callable[[Stream], None], lag: int = LAG) -> None:
        self._ring = ring
        self._next = first_id
        self._ended = ended
        self._lag = lag
        self._available = asyncio.Event()
        self._open = True
        #: The reader was too slow and has lost records.
        self.dropped = False

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> list[Record]:
        """Returns the next records. Waits for the first one."""
        while self._open:
            records = self._ring.since(self._next, _PORTION)
            if records:
                self._next = records[-1].id + 1
                return records
            self._available.clear()
            await self._available.wait()
        raise StopAsyncIteration

    def notify(self) -> None:
        """Signals new records. Drops a reader that lags too far behind."""
        behind = self._ring.next_id - self._next
        if behind > self._lag or self._next < self._ring.lowest_id:
            self.dropped = True
            self.close()
        self._available.set()

    def close(self) -> None:
        """Ends the stream."""
        if self._open:
            self._open = False
            self._available.set()
            self._ended(self)


#: Records that are kept (event.ringBufferCapacity).
RING_CAPACITY: Final = 100_000

#: Streams at a time, and of them of one host (event.maxStreams, event.maxStreamsPerHost).
MOST_STREAMS: Final = 100
MOST_STREAMS_PER_HOST: Final = 15


class TooManyStreams(Exception):
    """The maximum number of streams is open; REST returns status 503."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one answer; `records` is None where the first one asked for is not kept.

    `highest_id` is -1 while nothing was ever kept.
    """

    instance: str
    lowest_id: int
    highest_id: int
    records: Sequence[Record] | None


class EventStore:
    """Stored event records of the core and their readers."""

    def __init__(self, instance: str, capacity: int = RING_CAPACITY, lag: int = LAG) -> None:
        self.instance = instance
        #: Whether new records are stored (`event.trackingEnabled`). Existing ones stay.
        self.tracking = True
        #: Number of records since the start.
        self.stored = 0
        self._ring = Ring(capacity)
        self._lag = lag
        #: Open streams with the host of the reader and the time at which it connected.
        self._streams: dict[Stream, tuple[str, int]] = {}
        self._hosts: Counter[str] = Counter()
        self._most = MOST_STREAMS
        self._most_per_host = MOST_STREAMS_PER_HOST

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, notes: Sequence[Recorded], now_ns: int) -> None:
        """Stores the notes and wakes the readers."""
        self.stored += self._ring.extend(notes, now_ns)
        for stream in list(self._streams):
            stream.notify()

    def configure(self, *, tracking: bool, capacity: int, most_streams: int, most_per_host: int) -> None:
        """Applies settings. Open streams stay, even if fewer are allowed now."""
        self.tracking = tracking
        self._ring.resize(capacity)
        self._most, self._most_per_host = most_streams, most_per_host

    def batch(self, start: int, count: int) -> Batch:
        """Returns up to `count` records from number `start`."""
        lowest, after = self._ring.lowest_id, self._ring.next_id
        records = self._ring.since(start, count) if lowest <= start < after else None
        return Batch(self.instance, lowest, after - 1, records)

    def story(self, app: ApplicationId) -> Iterator[Record | None]:
        """Yields what happened to an application and its requests, oldest first. None lets other work run."""
        return self._ring.story(app)

    def last(self, app: str = "") -> list[str]:
        """Returns the last records of an application as text for logs, oldest first. Empty = of everything."""
        return [as_text(record) for record in self._ring.last(app)]

    def subscribe(self, host: str, count: int = 0, now_ns: int = 0) -> Stream:
        """Opens a stream that starts `count` records ago. The reader closes it. Raises TooManyStreams."""
        if len(self._streams) >= self._most:
            raise TooManyStreams(f"{self._most} streams of events are open, which is the maximum (event.maxStreams)")
        if self._hosts[host] >= self._most_per_host:
            most = f"{self._most_per_host} streams of events of host {host!r} are open"
            raise TooManyStreams(f"{most}, which is the maximum (event.maxStreamsPerHost)")
        first = max(self._ring.next_id - count, self._ring.lowest_id)
        # Requested past records do not count as lag.
        stream = Stream(self._ring, first, self._forget, self._lag + self._ring.next_id - first)
        self._streams[stream] = (host, now_ns)
        self._hosts[host] += 1
        return stream

    def close(self) -> None:
        """Ends every stream."""
        for stream in list(self._streams):
            stream.close()

    def readers(self) -> list[tuple[str, int]]:
        """Returns the hosts of the open streams, and when they connected."""
        return list(self._streams.values())

    @property
    def open_streams(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    def _forget(self, stream: Stream) -> None:
        host, _ = self._streams.pop(stream)
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


#: Slots of a window (event.requestCapacity).
REQUEST_CAPACITY: Final = 1_000
_WINDOW_NS: Final = 2_000_000_000
_SAME_NS: Final = 15_000_000_000

#: Number of subjects whose last message is stored. If it is exceeded, the oldest are dropped.
_CACHED_MESSAGES: Final = 20_000

#: Receiver, subject and text.
_MessageKey = tuple[RmId, Notice, str, str]


@dataclass(slots=True)
class _Window:
    """Messages that one resource manager received since `since_ns`, and messages that were withheld, by kind."""

    since_ns: int
    sent: dict[Notice, int] = field(default_factory=dict)
    held_back: dict[Notice, int] = field(default_factory=dict)


@dataclass(slots=True)
class _LastMessage:
    """Time of the last message, and how often it was repeated since."""

    at_ns: int
    again: int = 0


class PushFilter:
    """Limits and deduplicates the messages that are sent to resource managers. Counts are since the start."""

    def __init__(self, capacity: int = REQUEST_CAPACITY) -> None:
        self.capacity = capacity
        self.sent = 0
        self.held_back = 0
        self._windows: dict[RmId, _Window] = {}
        self._last: dict[_MessageKey, _LastMessage] = {}

    def chosen(self, notes: Iterable[EventRecorded], now_ns: int) -> list[EventRecorded]:
        """Returns the notes that the resource manager receives, with the number of withheld ones in their text."""
        return [sent for noted in notes if is_pushed(noted) and (sent := self._admit(noted, now_ns)) is not None]

    def forget(self, rm: RmId) -> None:
        """Forgets a resource manager that left or registers again."""
        self._windows.pop(rm, None)
        self._last = {key: last for key, last in self._last.items() if key[0] != rm}

    def _admit(self, noted: EventRecorded, now_ns: int) -> EventRecorded | None:
        key = (noted.rm, noted.about, noted.subject, noted.message)
        last = self._last.get(key)
        if last is not None and now_ns < last.at_ns + _SAME_NS:
            last.again += 1
            self.held_back += 1
            return None
        window = self._window(noted.rm, now_ns)
        sent = window.sent.get(noted.about, 0)
        if sent >= max(self.capacity // 2, 1) or sum(window.sent.values()) >= self.capacity:
            window.held_back[noted.about] = window.held_back.get(noted.about, 0) + 1
            self.held_back += 1
            return None
        window.sent[noted.about] = sent + 1
        self.sent += 1
        self._remember(key, now_ns)
        held_back = window.held_back.pop(noted.about, 0)
        return _with_count(noted, last.again if last else 0, held_back)

    def _window(self, rm: RmId, now_ns: int) -> _Window:
        window = self._windows.get(rm)
        if window is None:
            window = self._windows[rm] = _Window(now_ns)
        elif now_ns >= window.since_ns + _WINDOW_NS:
            window.since_ns = now_ns
            window.sent.clear()
        return window

    def _remember(self, key: _MessageKey, now_ns: int) -> None:
        """Newest last, so that old entries are at the front."""
        self._last.pop(key, None)
        self._last[key] = _LastMessage(now_ns)
        while len(self._last) > _CACHED_MESSAGES:
            del self._last[next(iter(self._last))]


def is_pushed(noted: EventRecorded) -> bool:
    """Whether a resource manager receives the note at all: messages for users, and added or removed nodes."""
    if noted.is_for_people:
        return True
    if noted.about is not Notice.NODE:
        return False
    came = noted.change is Change.ADD and noted.detail is Detail.NONE
    return came or noted.detail is Detail.NODE_DECOMISSION


def _with_count(noted: EventRecorded, again: int, held_back: int) -> EventRecorded:
    """Returns the note with the number of messages that were withheld before it."""
    parts = [noted.message] if noted.message else []
    if again:
        parts.append(f"(repeated {again} times since the last report)")
    if held_back:
        parts.append(f"({held_back} earlier events of this kind were suppressed)")
    return replace(noted, message=" ".join(parts)) if again or held_back else noted
