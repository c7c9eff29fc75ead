"""The last events for people, numbered from 0, in a bounded ring: REST reads it, nothing waits for it."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Record = TypeVar("Record")


class Ring(Generic[Record]):
    """Holds the newest `capacity` records; ids go on where older ones fell out."""

    def __init__(self, capacity: int) -> None:
        self._records: deque[Record] = deque(maxlen=capacity)
        self._next = 0

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: Record) -> None:
        """Add the newest record; the oldest falls out of a full ring."""
        self._records.append(record)
        self._next += 1

    @property
    def lowest_id(self) -> int:
        """Id of the oldest record that is still here; equal to the next id where there is none."""
        return self._next - len(self._records)

    @property
    def next_id(self) -> int:
        """Id that the next record gets."""
        return self._next

    def since(self, first_id: int, at_most: int) -> list[Record]:
        """Up to `at_most` records from `first_id` on; nothing where that id is not in the ring."""
        start = first_id - self.lowest_id
        if not 0 <= start < len(self._records):
            return []
        return [self._records[i] for i in range(start, min(start + at_most, len(self._records)))]
