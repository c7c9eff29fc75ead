"""The bounded queue of a stream: callers add messages, one task sends them.

Messages are not delayed by a timer. A message is sent immediately if the stream is idle; messages that arrive while it
is busy are merged by the rules of `batching`. Order is the order of the calls, also if callers had to wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from muster_si.errors import SessionLost
from muster_si.transport.batching import Parcel

#: Bytes of a queued message in addition to its data (object, queue slot), so that empty messages count too.
_OVERHEAD_BYTES: Final = 128


class Outbox:
    """Outgoing messages of one stream.

    limit_bytes: maximum of queued bytes. A single message is always accepted, whatever its size.
    """

    def __init__(self, limit_bytes: int, batch_items: int, batch_bytes: int) -> None:
        self._limit = limit_bytes
        self._batch_items = batch_items
        self._batch_bytes = batch_bytes
        self._waiting: deque[Parcel] = deque()
        self._closed: str | None = None
        self._sending = asyncio.Lock()
        self._available = asyncio.Event()
        self._moved = asyncio.Event()
        self.bytes = 0  # waiting, overhead included
        self.taken = 0  # messages that left the queue
        self.batches = 0  # messages they became

    def try_put(self, parcel: Parcel) -> bool:
        """Queues the message. Returns False if the queue is full. A closed outbox drops the message."""
        if self._closed is not None:
            return True
        cost = len(parcel.data) + _OVERHEAD_BYTES
        if self._waiting and self.bytes + cost > self._limit:
            return False
        self.bytes += cost
        self._waiting.append(parcel)
        self._available.set()
        return True

    async def put(self, parcel: Parcel) -> None:
        """Queues the message. Waits for space, and for callers that wait already.

        Raises:
            SessionLost: the outbox is closed.
        """
        if not self._sending.locked() and self._require_open() and self.try_put(parcel):
            return
        async with self._sending:
            while self._require_open() and not self.try_put(parcel):
                self._moved.clear()
                await self._moved.wait()

    async def take(self) -> bytes | None:
        """Waits for a message and returns it, merged with following ones if possible. None if closed and empty."""
        while not self._waiting:
            if self._closed is not None:
                return None
            self._available.clear()
            await self._available.wait()
        batch = self._next_batch()
        self._moved.set()
        return batch

    def _next_batch(self) -> bytes:
        head = self._waiting.popleft()
        parts, items, last = [head.data], head.items, head.last
        size = len(head.data)
        while self._waiting:
            after = self._waiting[0]
            if items + after.items > self._batch_items or size + len(after.data) > self._batch_bytes:
                break
            if not after.may_follow(head.lane, last):
                break
            self._waiting.popleft()
            parts.append(after.data)
            items, size, last = items + after.items, size + len(after.data), after.last
        self.taken += len(parts)
        self.batches += 1
        self.bytes -= size + len(parts) * _OVERHEAD_BYTES
        return b"".join(parts) if len(parts) > 1 else head.data

    async def batches_holding(self, messages: int) -> int:
        """Waits until that many messages were sent, and returns the number of merged messages so far.

        Raises:
            SessionLost: the outbox was closed before.
        """
        while self.taken < messages and self._require_open():
            self._moved.clear()
            await self._moved.wait()
        return self.batches

    def close(self, reason: str) -> None:
        """Accepts no more messages. Queued ones can still be taken; waiting callers get SessionLost with the reason."""
        if self._closed is None:
            self._closed = reason
        self._available.set()
        self._moved.set()

    def _require_open(self) -> bool:
        if self._closed is not None:
            raise SessionLost(self._closed)
        return True
