"""HTTP connections for writes, retry policies and the API server's clock."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, cast
from urllib.parse import quote, urlsplit

import httptools
from msgspec import Struct

#: Called for each request with verb, resource, status (0 = no answer) and seconds until the answer or its headers.
Measure = Callable[[str, str, int, float], None]


def named(method: str, path: str) -> tuple[str, str]:
    """Verb and resource of a request as in the metric `apiserver_request_total`, for example LIST and pods."""
    path, _, query = path.partition("?")
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if not rest:
        return method, "discovery"
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
    if method != "GET":
        return method, resource
    if "watch=true" in query:
        return "WATCH", resource
    return "GET" if len(rest) > 1 else "LIST", resource


def unmeasured(verb: str, resource: str, status: int, seconds: float) -> None:
    """Ignores the measurement."""


#: Number of answers of which the smallest clock difference counts. `Date` has whole seconds, and answers are delayed.
ANSWERS: Final = 32

#: Clock differences up to this many seconds can be the resolution of `Date` or a delay, and count as 0.
TOLERATED_S: Final = 2.0


class ServerClock:
    """Estimates the difference between the local clock and the API server's, from the `Date` header of answers."""

    def __init__(self) -> None:
        self._ahead_s: deque[float] = deque(maxlen=ANSWERS)

    def note(self, date: str | None, now: float) -> None:
        """Records an answer that arrived at `now` (epoch seconds of the local clock) with this `Date`."""
        try:
            self._ahead_s.append(now - parsedate_to_datetime(date or "").timestamp())
        except ValueError:
            return

    @property
    def ahead_s(self) -> float:
        """Seconds to add to a time of the API server to convert it to the local clock. 0 if equal or unknown."""
        ahead_s = min(self._ahead_s, default=0.0)
        return ahead_s if abs(ahead_s) > TOLERATED_S else 0.0


UNAVAILABLE: Final = 503

#: Temporary errors: throttled, or the server or its store has a problem.
PASSING: Final = frozenset({429, 500, 502, UNAVAILABLE, 504})

#: Statuses whose Retry-After applies to all requests of the client.
THROTTLED: Final = frozenset({429, UNAVAILABLE})

#: Pauses are longer by a random share up to this one.
JITTER: Final = 0.25

#: Maximum of Retry-After that is respected.
RETRY_AFTER_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry policy of a kind of command.

    `attempts` includes the first one. `statuses` are retried. `unanswered`: whether a missing answer is retried.
    """

    attempts: int
    first_s: float
    factor: float = 2.0
    longest_s: float = 5.0
    statuses: frozenset[int] = PASSING
    unanswered: bool = True

    def pause_s(
        self, attempt: int, status: int, retry_after_s: float | None = None, jitter: float = 0.0
    ) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1), or None to give up.

        `status` 0 means that there was no answer. `jitter`: a random number from 0 to 1.
        """
        is_retried = self.unanswered if status == 0 else status in self.statuses
        if not is_retried or attempt >= self.attempts:
            return None
        grown = min(self.longest_s, self.first_s * self.factor ** (attempt - 1))
        return max(grown, min(retry_after_s or 0.0, RETRY_AFTER_LIMIT_S)) * (1 + JITTER * jitter)


@dataclass(frozen=True, slots=True)
class Policies:
    """Retry policies by kind of request."""

    bind: Retry = Retry(attempts=8, first_s=0.1)
    """About 20 s: longer than a restart of the API server, and short enough to release the node for others."""

    delete: Retry = Retry(attempts=16, first_s=0.1)
    """About a minute, because a remaining placeholder uses resources. The controller then repeats the command."""

    create: Retry = Retry(attempts=8, first_s=0.1, statuses=PASSING | {409})
    """409 other than AlreadyExists means that two creates updated a ResourceQuota at the same time."""

    patch: Retry = Retry(attempts=8, first_s=0.2, statuses=PASSING | {409})
    """About 15 s for conditions and phases; then the controller repeats the command. 409 means that others changed the
    pod at the same time. The patch has no resource version, so that it is repeated unchanged."""

    event: Retry = Retry(attempts=3, first_s=0.5)
    """Three attempts for an event."""

    read: Retry = Retry(attempts=6, first_s=0.1)
    """Reads a pod to determine the result of a command."""


def retry_after_seconds(header: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date (RFC 9110, 10.2.3). None if invalid or missing.

    `now`: epoch seconds.
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)


#: Characters of a path that are not quoted.
_PLAIN: Final = "/?=&%:,-._~"
_RETRY_AFTER: Final = b"retry-after"

#: Methods that can be repeated on a new connection (RFC 9110, 9.2.2).
_IDEMPOTENT: Final = frozenset({"DELETE", "PUT"})

#: Maximum number of connections being opened at the same time. A TLS handshake takes as much CPU time as several
#: requests. Without this limit, a burst starts one handshake per request.
OPENINGS: Final = 4

#: Timeout for opening a connection, in seconds.
OPENING_S: Final = 10.0


class HttpResponse(Struct, gc=False):
    """A response. `retry_after` is the header as received."""

    status: int
    body: bytes
    retry_after: str | None = None


class NoResponse(ConnectionError):
    """The connection ended before the response, or the response is not valid HTTP."""


class _HttpConnection(asyncio.Protocol):
    """One connection. httptools calls the `on_` methods."""

    def __init__(self) -> None:
        self.is_open, self.idle_since = False, 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._retry_after: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # data without a request
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(NoResponse(f"invalid response: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(NoResponse(f"the connection was closed{f': {exc}' if exc else ''}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            waiter.set_result(HttpResponse(self._parser.get_status_code(), body, self._retry_after))
        if not self._parser.should_keep_alive():
            self.close()

    async def exchange(self, message: bytes) -> HttpResponse:
        """Sends a request and waits for its response.

        Raises:
            NoResponse: the connection ended before the response.
        """
        if not self.is_open:
            raise NoResponse("the connection was closed before the request")
        waiter: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        self._parts, self._retry_after = [], None
        self._transport.write(message)
        try:
            return await waiter
        except BaseException:
            self.close()  # a late response would be taken for that of the next request
            raise

    def close(self) -> None:
        """Closes the connection."""
        self.is_open = False
        self._transport.abort()

    def _end(self, error: NoResponse) -> None:
        if self.is_open:
            self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._waiter = None


class HttpConnectionPool:
    """Connections to one server with one TLS configuration. `prepare` is called with each new socket.

    A request uses an idle connection, or else the next one that becomes idle or is opened. Idle connections are closed
    after `keepalive_s`; the most recently used one is used first.
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
        self._idle: list[_HttpConnection] = []
        self._waiting: dict[asyncio.Future[_HttpConnection], None] = {}  # requests without a connection, oldest first
        self._opening: dict[asyncio.Task[_HttpConnection], None] = {}  # oldest first
        self._is_retired = False

    def head(self, headers: Iterable[tuple[str, str]]) -> str:
        """The part of the request head that many requests share."""
        return f"Host: {self._authority}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers)

    async def exchange(self, method: str, path: str, head: str, body: bytes, *, may_wait: bool = True) -> HttpResponse:
        """Sends a request and waits for its response.

        `may_wait`: False if the request must not wait for a connection behind others. Without an idle connection, it
        then opens one itself.

        Raises:
            OSError: no connection, or it ended before the response (`NoResponse`).
        """
        target = quote(self._prefix + path, safe=_PLAIN)
        start = f"{method} {target} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        message = start.encode("latin-1") + body
        while True:
            connection = self._take() or await (self._next() if may_wait else self._open())
            is_new = not connection.idle_since
            if not connection.is_open and not is_new:
                continue
            try:
                return await self._exchange_on(connection, message)
            except NoResponse:
                if is_new or method not in _IDEMPOTENT:
                    raise

    def retire(self) -> None:
        """Closes idle connections now, and others when no request waits for them."""
        self._is_retired = True
        while self._idle:
            self._idle.pop().close()

    async def _exchange_on(self, connection: _HttpConnection, message: bytes) -> HttpResponse:
        response = await connection.exchange(message)
        connection.idle_since = time.monotonic()
        self._put(connection)
        return response

    def _put(self, connection: _HttpConnection) -> None:
        """Passes the connection to the longest-waiting request.

        Without one, the connection becomes idle, or is closed if the pool is retired.
        """
        if not connection.is_open:
            return
        if (waiter := self._first_waiting()) is not None:
            waiter.set_result(connection)
        elif self._is_retired:
            connection.close()
        else:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)

    def _take(self) -> _HttpConnection | None:
        """Returns the most recently used idle connection that has not expired, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and time.monotonic() - connection.idle_since < self._keepalive_s:
                return connection
            if connection.is_open:
                connection.close()
        return None

    async def _next(self) -> _HttpConnection:
        """Waits for the next connection that becomes idle or is opened. Raises OSError if opening one fails."""
        waiter: asyncio.Future[_HttpConnection] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        self._open_more()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.pop(waiter, None)
                self._replace_opening()
            elif waiter.exception() is None:
                self._put(waiter.result())
            raise

    def _replace_opening(self) -> None:
        """Stops the oldest opening, because a request timed out while waiting for it. Others may wait for a new one."""
        for task in self._opening:
            del self._opening[task]
            task.cancel()
            break
        self._open_more()

    def _open_more(self) -> None:
        """Opens connections until there is one for each waiting request, or `OPENINGS` of them are being opened."""
        while len(self._opening) < min(OPENINGS, len(self._waiting)):
            task = asyncio.create_task(self._open())
            self._opening[task] = None
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[_HttpConnection]) -> None:
        self._opening.pop(task, None)
        if task.cancelled():
            return  # its request timed out, or the event loop is shutting down
        error = task.exception()
        if error is None:
            self._put(task.result())
        elif (waiter := self._first_waiting()) is not None:
            waiter.set_exception(error)
        self._open_more()

    def _first_waiting(self) -> asyncio.Future[_HttpConnection] | None:
        """Removes and returns the longest-waiting request. Cancelled requests are skipped."""
        while self._waiting:
            waiter = next(iter(self._waiting))
            del self._waiting[waiter]
            if not waiter.done():
                return waiter
        return None

    async def _open(self) -> _HttpConnection:
        loop = asyncio.get_running_loop()
        name = self._host if self._tls is not None else None
        try:
            async with asyncio.timeout(OPENING_S):
                transport, connection = await loop.create_connection(
                    _HttpConnection, self._host, self._port, ssl=self._tls, server_hostname=name
                )
        except TimeoutError as error:
            raise ConnectionError(f"no connection to {self._authority} in {OPENING_S:g} s") from error
        if (sock := transport.get_extra_info("socket")) is not None:
            self._prepare(sock)
        return connection
