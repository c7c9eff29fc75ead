"""The bounded queue before a stream: filled by callers, emptied by the one writer.

Nothing is held back for a timer. While the writer is idle a message leaves at once; what arrives while it is busy is
merged by the rule of `batching`. Order is the order of the calls, also among callers that had to wait for room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from muster_si.errors import SessionLost
from muster_si.transport.batching import Parcel

#: What a waiting parcel costs beside its bytes (object, queue slot), so that a million empty messages count too.
_OVERHEAD_BYTES: Final = 128


class Outbox:
    """Messages of one stream on their way out.

    limit_bytes: what may wait; one message always may, however large.
    """

    def __init__(self, limit_bytes: int, batch_items: int, batch_bytes: int) -> None:
        self._limit = limit_bytes
        self._batch_items = batch_items
        self._batch_bytes = batch_bytes
        self._waiting: deque[Parcel] = deque()
        self._closed: str | None = None
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._moved = asyncio.Event()
        self.bytes = 0  # waiting, overhead included
        self.taken = 0  # messages that left the queue
        self.batches = 0  # messages they became

    def try_put(self, parcel: Parcel) -> bool:
        """Queues the message unless there is no room; a closed outbox swallows it."""
        if self._closed is not None:
            return True
        cost = len(parcel.data) + _OVERHEAD_BYTES
        if self._waiting and self.bytes + cost > self._limit:
            return False
        self.bytes += cost
        self._waiting.append(parcel)
        self._news.set()
        return True

    async def put(self, parcel: Parcel) -> None:
        """Queues the message, waiting for room and for those who waited before.

        Raises SessionLost when the outbox is or gets closed.
        """
        if not self._turn.locked() and self._require_open() and self.try_put(parcel):
            return
        async with self._turn:
            while self._require_open() and not self.try_put(parcel):
                self._moved.clear()
                await self._moved.wait()

    async def take(self) -> bytes | None:
        """Waits for a message and returns it with all that may travel with it; None when closed and empty."""
        while not self._waiting:
            if self._closed is not None:
                return None
            self._news.clear()
            await self._news.wait()
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
        """Waits until that many messages left the queue, and says how many batches left it so far.

        Raises SessionLost when the outbox is or gets closed before.
        """
        while self.taken < messages and self._require_open():
            self._moved.clear()
            await self._moved.wait()
        return self.batches

    def close(self, reason: str) -> None:
        """Takes no more; what waits can still be taken. Who waits for room gets SessionLost with this reason."""
        if self._closed is None:
            self._closed = reason
        self._news.set()
        self._moved.set()

    def _require_open(self) -> bool:
        if self._closed is not None:
            raise SessionLost(self._closed)
        return True
