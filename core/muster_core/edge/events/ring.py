"""The last records for people, numbered from 0, in a bounded ring: REST reads it, nothing waits for it.

What was noted is kept as it came and made into records when somebody reads
it: keeping costs the scheduler one entry per note, not one message per record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from muster_core.model.notes import EventNoted, Noted, count_of, records_of


@dataclass(frozen=True, slots=True)
class Record:
    """One record with its number and its time (ns since 1970)."""

    id: int
    at_ns: int
    noted: EventNoted


class _Entry(NamedTuple):
    """A note that is read as the records `first_id` to before the next entry's."""

    first_id: int
    at_ns: int
    noted: Noted


class Ring:
    """Holds the newest `capacity` records; ids go on where older ones fell out."""

    def __init__(self, capacity: int) -> None:
        self._entries: deque[_Entry] = deque()
        self._capacity = capacity
        self._next = 0

    def __len__(self) -> int:
        return self._next - self.lowest_id

    def append(self, noted: Noted, at_ns: int) -> int:
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
