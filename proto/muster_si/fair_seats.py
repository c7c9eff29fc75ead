"""Seats of a web server for requests, which clients get in turn by address, as in Kubernetes.

`rest` of the core and `webhook` of the operator use them, so that no address delays the requests of others for long.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TooManyRequests(Exception):
    """The address has too many waiting requests."""


class FairSeats:
    """Fair semaphore: at most `total` requests at once, `per_source` of one address, and `waiting` more per address."""

    def __init__(self, total: int, per_source: int, waiting: float) -> None:
        self._free, self._per_source, self._limit = total, per_source, waiting
        self._held: Counter[str] = Counter()
        #: Addresses with waiting requests, in the order in which they are served.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def are_wanted(self) -> bool:
        """Whether a request waits for a seat."""
        return bool(self._waiting)

    @asynccontextmanager
    async def taken(self, source: str) -> AsyncIterator[None]:
        """Holds a seat for one request of the address.

        Raises:
            TooManyRequests: the address has too many waiting requests.
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
                self._leave(source)  # the seat was granted at the moment of the cancellation
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
        """The next waiting address. Addresses with a full share are skipped, of which there are at most `total`."""
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
