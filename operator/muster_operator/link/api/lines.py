"""Connections for writes: one request at a time on each, HTTP/1.1, the answer read by a parser in C.

A general HTTP client spends more time on a bind than everything else in the operator does (aiohttp: 100 us of 170).
What a write needs of it is little: a head that is the same but for its path, a body of known length, and of the answer
the status, the body and Retry-After. Whatever else there is (streams, lists, proxies) goes aiohttp's way.

A line whose request was given up, or whose answer is no HTTP, is closed and not used again. What may be done
twice and met the end of a line which had been idle is sent once more, on a new one; all else is for who asks to settle.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import quote, urlsplit

import httptools

#: What a path of ours is made of; anything else in it is quoted.
_PLAIN: Final = "/?=&%:,-._~"
_RETRY_AFTER: Final = b"retry-after"
#: What may be done twice (RFC 9110, 9.2.2).
_IDEMPOTENT: Final = frozenset({"DELETE", "PUT"})


@dataclass(slots=True)
class Answer:
    """What came back; `retry_after` as the server wrote it."""

    status: int
    body: bytes
    retry_after: str | None = None


class NoAnswer(ConnectionError):
    """The connection ended before the answer did, or what came is no HTTP."""


class _Line(asyncio.Protocol):
    """One connection. httptools calls the `on_` methods."""

    def __init__(self) -> None:
        self.is_open, self.idle_since = False, 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._retry_after: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._waiter: asyncio.Future[Answer] | None = None
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # an answer to nothing
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(NoAnswer(f"what came is no answer: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(NoAnswer(f"the connection was closed{f': {exc}' if exc else ''}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            waiter.set_result(Answer(self._parser.get_status_code(), body, self._retry_after))
        if not self._parser.should_keep_alive():
            self.close()

    async def exchange(self, message: bytes) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            NoAnswer: none came.
        """
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        self._parts, self._retry_after = [], None
        self._transport.write(message)
        try:
            return await waiter
        except BaseException:
            self.close()  # its answer may come yet, and would be taken for the next one's
            raise

    def close(self) -> None:
        """Not used again."""
        self.is_open = False
        self._transport.abort()

    def _end(self, error: NoAnswer) -> None:
        if self.is_open:
            self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._waiter = None


class Lines:
    """Connections to one server with one set of certificates. `prepare`: called with each new socket.

    There are as many as writes are in flight at once. An idle one is kept for `keepalive_s`; the one that was used last
    is used first.
    """

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None,
        keepalive_s: float,
        prepare: Callable[[socket.socket], None],
    ) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "", parts.port or (443 if tls is not None else 80)
        self._tls, self._keepalive_s, self._prepare = tls, keepalive_s, prepare
        self._prefix, self._authority = parts.path.rstrip("/"), parts.netloc
        self._idle: list[_Line] = []
        self._is_retired = False

    def head(self, headers: Mapping[str, str]) -> str:
        """The headers that are the same for many requests."""
        return f"Host: {self._authority}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())

    async def exchange(self, method: str, path: str, head: str, body: bytes) -> Answer:
        """One request and its answer.

        Raises:
            OSError: no connection, or none that lasted until the answer (`NoAnswer`).
        """
        target = quote(self._prefix + path, safe=_PLAIN)
        start = f"{method} {target} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        message = start.encode("latin-1") + body
        line = self._take()
        if line is not None:
            try:
                return await self._through(line, message)
            except NoAnswer:
                if method not in _IDEMPOTENT:
                    raise
        return await self._through(await self._open(), message)

    def retire(self) -> None:
        """Close what is idle now, and the others when their answers are there."""
        self._is_retired = True
        while self._idle:
            self._idle.pop().close()

    async def _through(self, line: _Line, message: bytes) -> Answer:
        answer = await line.exchange(message)
        if self._is_retired:
            line.close()
        elif line.is_open:
            line.idle_since = time.monotonic()
            self._idle.append(line)
        return answer

    def _take(self) -> _Line | None:
        """The line that was used last, if it may still be good; the others have waited for longer."""
        while self._idle:
            line = self._idle.pop()
            if line.is_open and time.monotonic() - line.idle_since < self._keepalive_s:
                return line
            if line.is_open:
                line.close()
        return None

    async def _open(self) -> _Line:
        loop = asyncio.get_running_loop()
        name = self._host if self._tls is not None else None
        transport, line = await loop.create_connection(
            _Line, self._host, self._port, ssl=self._tls, server_hostname=name
        )
        if (made := transport.get_extra_info("socket")) is not None:
            self._prepare(made)
        return line
