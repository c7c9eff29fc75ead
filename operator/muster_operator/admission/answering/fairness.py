"""Places for requests that are shared fairly between the addresses they come from.

The webhook's port is open to every pod of the cluster, and the API server's address is not known in advance. So no
address may hold more than its share of the places, and addresses that wait are served in turn.
Used by `answering.server`; runs on the webhook's event loop, not thread-safe.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TooManyRequests(Exception):
    """The address has as many requests waiting as it may have."""


class FairPlaces:
    """At most `total` requests at once and `per_source` of one address; `waiting` more of each address may wait."""

    def __init__(self, total: int, per_source: int, waiting: int) -> None:
        self._free, self._per_source, self._limit = total, per_source, waiting
        self._held: Counter[str] = Counter()
        #: Addresses with waiting requests, the next one to be served first.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, source: str) -> AsyncIterator[None]:
        """Hold a place for one request of the address.

        Raises:
            TooManyRequests: too many requests of the address wait already.
        """
        await self._enter(source)
        try:
            yield
        finally:
            self._leave(source)

    async def _enter(self, source: str) -> None:
        if self._free and source not in self._waiting and self._held[source] < self._per_source:
            self._take(source)
            return
        queue = self._waiting.setdefault(source, deque())
        if len(queue) >= self._limit:
            raise TooManyRequests(source)
        granted = asyncio.get_running_loop().create_future()
        queue.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._leave(source)  # the place was given at the moment of the cancellation
            elif granted in queue:
                queue.remove(granted)
                if not queue and self._waiting.get(source) is queue:
                    del self._waiting[source]
            raise

    def _take(self, source: str) -> None:
        self._free -= 1
        self._held[source] += 1

    def _leave(self, source: str) -> None:
        self._free += 1
        self._held[source] -= 1
        if not self._held[source]:
            del self._held[source]
        while self._free and (following := self._next()) is not None:
            self._give(following)

    def _next(self) -> str | None:
        """Return the waiting address to serve next; at most `total` others are passed over, which hold their share."""
        return next((source for source in self._waiting if self._held[source] < self._per_source), None)

    def _give(self, source: str) -> None:
        queue = self._waiting[source]
        granted = queue.popleft()
        if queue:
            self._waiting.move_to_end(source)
        else:
            del self._waiting[source]
        if not granted.cancelled():
            self._take(source)
            granted.set_result(None)
