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
from typing import Final, NamedTuple

from muster_core.model.ids import RmId
from muster_core.model.records import Change, Detail, EventRecorded, Notice, Recorded, count_of, records_of
from muster_si import si_pb2


@dataclass(frozen=True, slots=True)
class Record:
    """One record with its number and its time (ns since 1970)."""

    id: int
    at_ns: int
    noted: EventRecorded


class _Entry(NamedTuple):
    """A note that is read as the records `first_id` to before the next entry's."""

    first_id: int
    at_ns: int
    noted: Recorded


class Ring:
    """Holds the newest `capacity` records; ids continue where older ones fell out."""

    def __init__(self, capacity: int) -> None:
        self._entries: deque[_Entry] = deque()
        self._capacity = capacity
        self._next = 0

    def __len__(self) -> int:
        return self._next - self.lowest_id

    def append(self, noted: Recorded, at_ns: int) -> int:
        """Add the newest; the oldest fall out of a full ring. Returns how many records it is."""
        count = count_of(noted)
        if not count:
            return 0
        self._entries.append(_Entry(self._next, at_ns, noted))
        self._next += count
        if self._next > self._capacity:
            self._shed()
        return count

    def resize(self, capacity: int) -> None:
        """Hold so many from now on; fewer drops the oldest."""
        self._capacity = capacity
        self._shed()

    @property
    def lowest_id(self) -> int:
        """Number of the oldest record that is still here; equal to the next where there is none."""
        oldest = self._entries[0].first_id if self._entries else self._next
        return max(oldest, self._next - self._capacity)

    @property
    def next_id(self) -> int:
        """Number that the next record gets."""
        return self._next

    def since(self, first_id: int, at_most: int) -> list[Record]:
        """Up to `at_most` records from `first_id` on; nothing where that number is not in the ring."""
        if not self.lowest_id <= first_id < self._next:
            return []
        return list(islice(self._from(first_id), at_most))

    def _from(self, first_id: int) -> Iterator[Record]:
        start = bisect_right(self._entries, first_id, key=_first_id) - 1
        for first, at_ns, noted in islice(self._entries, start, None):
            for number, record in enumerate(records_of(noted), start=first):
                if number >= first_id:
                    yield Record(number, at_ns, record)

    def _shed(self) -> None:
        """Drop entries that lie wholly before the oldest record that is to be kept."""
        keep = self._next - self._capacity
        entries = self._entries
        while len(entries) > 1 and entries[1].first_id <= keep:
            entries.popleft()


def _first_id(entry: _Entry) -> int:
    return entry.first_id


#: Longer messages are cut (contract 6.1).
TEXT_LIMIT: Final = 1024
TYPES: Final = {notice: si_pb2.EventRecord.Type.Value(notice.value) for notice in Notice}
CHANGES: Final = {change: si_pb2.EventRecord.ChangeType.Value(change.value) for change in Change}
DETAILS: Final = {detail: si_pb2.EventRecord.ChangeDetail.Value(detail.value) for detail in Detail}


def text(message: str) -> str:
    """The message as it is read: one that is too long is cut and ends in `...`."""
    return message if len(message) <= TEXT_LIMIT else message[: TEXT_LIMIT - 3] + "..."


def as_json(record: Record) -> dict[str, object]:
    """One record for REST."""
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


#: Records a reader may be behind.
LAG: Final = 20_000

#: Records handed to a reader at once.
_PORTION: Final = 500


class Stream:
    """`async for records in stream`: lists of records, oldest first, until `close` or until it is dropped."""

    def __init__(self, ring: Ring, first_id: int, ended: Callable[[Stream], None], lag: int = LAG) -> None:
        self._ring = ring
        self._next = first_id
        self._ended = ended
        self._lag = lag
        self._news = asyncio.Event()
        self._open = True
        #: It was too slow, and records were lost for it.
        self.dropped = False

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> list[Record]:
        """The next records, waiting for the first of them."""
        while self._open:
            records = self._ring.since(self._next, _PORTION)
            if records:
                self._next = records[-1].id + 1
                return records
            self._news.clear()
            await self._news.wait()
        raise StopAsyncIteration

    def tell(self) -> None:
        """There is something new. A reader that is too far behind is dropped here."""
        behind = self._ring.next_id - self._next
        if behind > self._lag or self._next < self._ring.lowest_id:
            self.dropped = True
            self.close()
        self._news.set()

    def close(self) -> None:
        """End the stream: the reader receives nothing more."""
        if self._open:
            self._open = False
            self._news.set()
            self._ended(self)


#: Records that are kept (contract 3, event.ringBufferCapacity).
RING_CAPACITY: Final = 100_000

#: Streams at a time, and of them of one host (contract 3, event.maxStreams, event.maxStreamsPerHost).
MOST_STREAMS: Final = 100
MOST_STREAMS_PER_HOST: Final = 15


class TooManyStreams(Exception):
    """There is no stream left for this reader; REST answers 503."""


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
    """Everything the core has to say of its past."""

    def __init__(self, instance: str, capacity: int = RING_CAPACITY, lag: int = LAG) -> None:
        self.instance = instance
        #: Whether new things are noted (event.trackingEnabled); what is kept stays.
        self.tracking = True
        #: Records since the start.
        self.stored = 0
        self._ring = Ring(capacity)
        self._lag = lag
        self._streams: dict[Stream, str] = {}
        self._hosts: Counter[str] = Counter()
        self._most = MOST_STREAMS
        self._most_per_host = MOST_STREAMS_PER_HOST

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, notes: Sequence[Recorded], now_ns: int) -> None:
        """Keep what was noted, and wake those who follow."""
        for noted in notes:
            self.stored += self._ring.append(noted, now_ns)
        for stream in list(self._streams):
            stream.tell()

    def configure(self, *, tracking: bool, capacity: int, most_streams: int, most_per_host: int) -> None:
        """Put settings in force; streams that are open stay, also where fewer are allowed now."""
        self.tracking = tracking
        self._ring.resize(capacity)
        self._most, self._most_per_host = most_streams, most_per_host

    def batch(self, start: int, count: int) -> Batch:
        """Up to `count` records from number `start` on."""
        lowest, after = self._ring.lowest_id, self._ring.next_id
        records = self._ring.since(start, count) if lowest <= start < after else None
        return Batch(self.instance, lowest, after - 1, records)

    def subscribe(self, host: str, count: int = 0) -> Stream:
        """Follow from `count` records ago on. The reader closes it. Raises TooManyStreams."""
        if len(self._streams) >= self._most:
            raise TooManyStreams(f"{self._most} streams of events are open, which is the most (event.maxStreams)")
        if self._hosts[host] >= self._most_per_host:
            most = f"{self._most_per_host} streams of events of host {host!r} are open"
            raise TooManyStreams(f"{most}, which is the most (event.maxStreamsPerHost)")
        first = max(self._ring.next_id - count, self._ring.lowest_id)
        # The past that was asked for is no lag of the reader's.
        stream = Stream(self._ring, first, self._forget, self._lag + self._ring.next_id - first)
        self._streams[stream] = host
        self._hosts[host] += 1
        return stream

    def close(self) -> None:
        """The core ends: every stream does."""
        for stream in list(self._streams):
            stream.close()

    @property
    def open_streams(self) -> int:
        """How many follow."""
        return len(self._streams)

    def _forget(self, stream: Stream) -> None:
        host = self._streams.pop(stream)
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]


#: Slots of a window (contract 3, event.requestCapacity).
REQUEST_CAPACITY: Final = 1_000
_WINDOW_NS: Final = 2_000_000_000
_SAME_NS: Final = 15_000_000_000

#: Subjects whose last words are remembered; beyond it the oldest are forgotten early.
_REMEMBERED: Final = 20_000

#: Whom, about what, in which words.
_Words = tuple[RmId, Notice, str, str]


@dataclass(slots=True)
class _Window:
    """What one resource manager received since `since_ns`, and what it did not receive, by kind."""

    since_ns: int
    told: dict[Notice, int] = field(default_factory=dict)
    held_back: dict[Notice, int] = field(default_factory=dict)


@dataclass(slots=True)
class _LastMessage:
    """When a message was sent last, and how often it would have been since."""

    at_ns: int
    again: int = 0


class PushFilter:
    """The memory of what was reported. Counts are since the start."""

    def __init__(self, capacity: int = REQUEST_CAPACITY) -> None:
        self.capacity = capacity
        self.told = 0
        self.held_back = 0
        self._windows: dict[RmId, _Window] = {}
        self._said: dict[_Words, _LastMessage] = {}

    def chosen(self, notes: Iterable[EventRecorded], now_ns: int) -> list[EventRecorded]:
        """The notes of one resource manager that it receives, with the count of withheld ones in them."""
        return [told for noted in notes if is_pushed(noted) and (told := self._admit(noted, now_ns)) is not None]

    def forget(self, rm: RmId) -> None:
        """The resource manager left, or starts again."""
        self._windows.pop(rm, None)
        self._said = {key: said for key, said in self._said.items() if key[0] != rm}

    def _admit(self, noted: EventRecorded, now_ns: int) -> EventRecorded | None:
        key = (noted.rm, noted.about, noted.subject, noted.message)
        said = self._said.get(key)
        if said is not None and now_ns < said.at_ns + _SAME_NS:
            said.again += 1
            self.held_back += 1
            return None
        window = self._window(noted.rm, now_ns)
        told = window.told.get(noted.about, 0)
        if told >= max(self.capacity // 2, 1) or sum(window.told.values()) >= self.capacity:
            window.held_back[noted.about] = window.held_back.get(noted.about, 0) + 1
            self.held_back += 1
            return None
        window.told[noted.about] = told + 1
        self.told += 1
        self._remember(key, now_ns)
        held_back = window.held_back.pop(noted.about, 0)
        return _with_count(noted, said.again if said else 0, held_back)

    def _window(self, rm: RmId, now_ns: int) -> _Window:
        window = self._windows.get(rm)
        if window is None:
            window = self._windows[rm] = _Window(now_ns)
        elif now_ns >= window.since_ns + _WINDOW_NS:
            window.since_ns = now_ns
            window.told.clear()
        return window

    def _remember(self, key: _Words, now_ns: int) -> None:
        """Newest last, so that what is old, or too much, is found at the front."""
        self._said.pop(key, None)
        self._said[key] = _LastMessage(now_ns)
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]


def is_pushed(noted: EventRecorded) -> bool:
    """Whether a resource manager receives it at all: messages for people, and nodes that come or go."""
    if noted.is_for_people:
        return True
    if noted.about is not Notice.NODE:
        return False
    came = noted.change is Change.ADD and noted.detail is Detail.NONE
    return came or noted.detail is Detail.NODE_DECOMISSION


def _with_count(noted: EventRecorded, again: int, held_back: int) -> EventRecorded:
    """The note, with what was not said before it."""
    said = [noted.message] if noted.message else []
    if again:
        said.append(f"(repeated {again} times since the last report)")
    if held_back:
        said.append(f"({held_back} other events of this kind were held back before it)")
    return replace(noted, message=" ".join(said)) if again or held_back else noted
