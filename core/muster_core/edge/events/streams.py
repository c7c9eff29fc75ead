"""Readers that follow the records as they come: each is a place in the ring, so following costs the scheduler nothing.

A reader that falls behind by more than LAG, or out of the ring, is dropped.
Differs: YuniKorn drops a reader 1,000 events behind; here one decision about
a gang is more than that at once, so a reader may be 20,000 behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from muster_core.edge.events.ring import Record, Ring

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
        """End the stream: the reader is told nothing more."""
        if self._open:
            self._open = False
            self._news.set()
            self._ended(self)
