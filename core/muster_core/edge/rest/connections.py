"""Connections on which nobody asks anything: a caller has so long to send a first request (contract 4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiohttp.web_protocol import RequestHandler

#: For the first request's line and headers.
HEADER_S: Final = 10.0


class Connections:
    """Which of a server's connections have asked, and since when the others were seen."""

    def __init__(self) -> None:
        self._heard: set[RequestHandler] = set()
        self._since: dict[RequestHandler, float] = {}

    def heard(self, connection: RequestHandler) -> None:
        """It sent a request."""
        self._heard.add(connection)

    def sweep(self, connections: Collection[RequestHandler], now_s: float) -> int:
        """Close those that were silent for too long, and forget those that are gone; returns how many were closed."""
        self._heard.intersection_update(connections)
        silent = [each for each in connections if each not in self._heard]
        self._since = {each: self._since.get(each, now_s) for each in silent}
        late = [each for each in silent if now_s - self._since[each] >= HEADER_S]
        for connection in late:
            if connection.transport is not None:
                connection.transport.abort()
        return len(late)
