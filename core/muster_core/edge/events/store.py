"""Keeps what was noted, and gives it out: batches and streams for REST (contract 4, rows 24 and 25).

`instance` is the core's own name since its start: numbers of records begin
at 0 with each (it comes in from the composition root). One store per core;
outlet.py fills it between two turns, REST reads it in the same event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster_core.edge.events.ring import Record, Ring
from muster_core.edge.events.streams import LAG, Stream
from muster_core.model.notes import Noted

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

    def add(self, notes: Sequence[Noted], now_ns: int) -> None:
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
