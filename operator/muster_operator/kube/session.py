"""Requests to the API server: credentials, connections, timeouts.

`KubeSession` is used for all requests of the operator except those of kopf, which reads the ConfigMaps. The leadership
guard before each write closes before another replica may acquire the Lease, so that two leaders never write at the same
time (docs/internals/semantics.md, 27).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Protocol

import aiohttp
import orjson
from msgspec import Struct

from muster_operator.kube.http import (
    HttpConnectionPool,
    Measure,
    ServerClock,
    named,
    retry_after_seconds,
    unmeasured,
)
from muster_operator.model.errors import AnswerTooLarge, ApiRefused, NoCredentials, NotLeading, Unreachable
from muster_si.kubeconfig import Access, Credentials, NoAccess, fingerprint

#: Seconds before an idle connection is closed. Load balancers usually close idle connections after 60 or more.
KEEPALIVE_S: Final = 50.0

#: TCP keepalive: seconds until the first probe, seconds between probes, number of probes.
PROBES: Final[Sequence[tuple[str, int]]] = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))

#: Milliseconds that sent data can stay unacknowledged before the connection is closed.
UNACKNOWLEDGED_MS: Final = 30_000

#: Seconds that requests have to finish on connections with an old certificate.
CLOSE_AFTER_S: Final = 20.0

#: Maximum number of connections. It is above the number of writers, so that streams, Lease and reads never wait.
CONNECTIONS: Final = 100

JSON: Final = "application/json"
USER_AGENT: Final = f"muster-operator/{version('muster-scheduler')}"


#: Headers of a request. A name can occur several times.
Headers = tuple[tuple[str, str], ...]


class Connections:
    """Connections with the credentials of the last request, opened again if their TLS part changes.

    `instance` identifies this operator in the user agent.
    """

    def __init__(self, instance: str = "") -> None:
        self._agent = f"{USER_AGENT} ({instance})" if instance else USER_AGENT
        self._session: aiohttp.ClientSession | None = None
        self._access: Access | None = None
        self._tls: tuple[object, ...] = ()
        self._headers: dict[str, Headers] = {}
        self._heads: dict[str, str] = {}
        self.pool: HttpConnectionPool | None = None
        """Connections for writes, of the present session. None = there is a proxy, and writes use the session."""
        self._retiring: set[asyncio.Task[None]] = set()

    def session(self, access: Access) -> aiohttp.ClientSession:
        """The aiohttp session for requests with this access. Raises OSError if a certificate cannot be loaded."""
        if self._session is not None and access is self._access:
            return self._session
        tls = (access.server, access.proxy, access.tls, fingerprint(access.tls.files))  # everything except the token
        if self._session is None or tls != self._tls:
            context = access.tls_context()
            self._retire(self._session)
            self.pool = (
                None if access.proxy else HttpConnectionPool(access.server, context, KEEPALIVE_S, _enable_keepalive)
            )
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS, ssl=context or True, keepalive_timeout=KEEPALIVE_S, socket_factory=_socket
            )
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=2**18, proxy=access.proxy or None)
        self._headers.clear()
        self._heads.clear()
        self._access, self._tls = access, tls
        return self._session

    def url(self, path: str) -> str:
        """The URL of a path, for the session that was requested last."""
        return (self._access.server if self._access is not None else "") + path

    def headers(self, content_type: str) -> Headers:
        """The headers of a request with this content type."""
        headers = self._headers.get(content_type)
        if headers is None:
            own = {"User-Agent": self._agent, "Accept": JSON, "Content-Type": content_type}
            given = self._access.headers if self._access is not None else ()
            headers = self._headers[content_type] = (*own.items(), *given)
        return headers

    def head(self, pool: HttpConnectionPool, content_type: str) -> str:
        """The same headers as bytes for the connection pool."""
        head = self._heads.get(content_type)
        if head is None:
            head = self._heads[content_type] = pool.head(self.headers(content_type))
        return head

    async def close(self) -> None:
        """Closes all connections, including those of streams."""
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        if self.pool is not None:
            self.pool.retire()
            self.pool = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _retire(self, session: aiohttp.ClientSession | None) -> None:
        if self.pool is not None:
            self.pool.retire()
        if session is None:
            return
        task = asyncio.create_task(_close_later(session))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


async def _close_later(session: aiohttp.ClientSession) -> None:
    try:
        await asyncio.sleep(CLOSE_AFTER_S)
    finally:
        await session.close()


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that detects a lost peer, on systems that support it."""
    family, kind, protocol = address[:3]
    sock = socket.socket(family=family, type=kind, proto=protocol)
    _enable_keepalive(sock)
    return sock


def _enable_keepalive(sock: socket.socket) -> None:
    """Enables TCP keepalive and the user timeout of a socket."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*PROBES, ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


#: Timeout of a request in seconds, including the connection. The API server's own limit is 60.
REQUEST_S: Final = 15.0

#: Timeout in seconds of reads of one or a few objects. The start of the operator waits for them and retries.
READ_S: Final = 5.0
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class Request(Struct, frozen=True, gc=False):
    """A request. `path` starts with a slash and includes the query; `body` is JSON.

    `needs_leadership`: only the leader may send it, which is true of nearly all writes. `within_s`: a shorter timeout.
    `resource`: the resource in metrics, empty = taken from the path. `most_bytes`: maximum size of a GET's answer.
    `is_stream`: a GET whose body is read from the reply's `stream`, without a timeout.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    needs_leadership: bool = True
    within_s: float | None = None
    resource: str = ""
    most_bytes: int | None = None
    is_stream: bool = False

    @property
    def name(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


class Reply(Struct, frozen=True, gc=False):
    """A response. `retry_after_s` is None if the header is missing. `stream` must be closed after use."""

    status: int
    body: bytes
    retry_after_s: float | None = None
    stream: aiohttp.ClientResponse | None = None

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def json(self) -> dict[str, Any]:
        """The body as an object; empty if it is not one."""
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def message(self) -> str:
        """The API server's message, from its Status object or as text."""
        return str(self.json().get("message") or self.body[:200].decode(errors="replace") or self.status)

    @property
    def is_access_denied(self) -> bool:
        """Whether the permissions were rejected, not the request. An API server that starts does so temporarily."""
        return self.status == 401 or (
            self.status == 403 and "User " in (message_text := self.message()) and " cannot " in message_text
        )

    def reason(self) -> str:
        """The reason of the Status object ("AlreadyExists", "Conflict"); empty if there is none."""
        return str(self.json().get("reason") or "")


async def _body(response: aiohttp.ClientResponse, request: Request) -> bytes:
    if request.most_bytes is None:
        return await response.read()
    parts, remaining = [], request.most_bytes
    async for part in response.content.iter_any():
        remaining -= len(part)
        if remaining < 0:
            raise AnswerTooLarge(request.name, request.most_bytes)
        parts.append(part)
    return b"".join(parts)


#: Seconds of a clock that is never set and, on Linux, also counts while the machine sleeps.
running_s: Final = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Named(Protocol):
    """A write with a name for messages."""

    @property
    def name(self) -> str:
        """Built only if a message needs it."""


class GuardedWrite:
    """Context manager around a write and its response, used by the task that writes.

    It raises NotLeading if the guard is closed or closes before the response, TimeoutError after `within_s`.

    It has no timer of its own: the guard has one for all writes. Two timers per write, for the guard and for the
    timeout, would cost 5 us.
    """

    __slots__ = ("_cancelling", "_guard", "_task", "_what", "end", "late_at", "within_s")

    def __init__(self, guard: LeadershipGuard, what: Named, within_s: float) -> None:
        self._guard, self._what, self.within_s = guard, what, within_s
        self.late_at = 0.0
        self.end: type[NotLeading | TimeoutError] | None = None

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a write belongs to a task")
        self._task, self._cancelling = task, task.cancelling()
        self._guard.begin(self, loop.time())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.end(self)
        if self.end is None or self._task.uncancel() > self._cancelling:
            return
        if isinstance(error, asyncio.CancelledError | TimeoutError):
            raise (self.refused() if self.end is NotLeading else TimeoutError()) from error

    def cut(self, end: type[NotLeading | TimeoutError]) -> None:
        """Cancels the write with this result, unless it is cancelled already."""
        if self.end is None:
            self.end = end
            self._task.cancel()

    def refused(self) -> NotLeading:
        """The exception for a write that the guard stops."""
        return NotLeading(self._what.name)


class LeadershipGuard:
    """Allows writes until a time. Closed when created. `refused` is called for each stopped write."""

    def __init__(self, clock: Callable[[], float] = running_s, refused: Callable[[], None] = lambda: None) -> None:
        self._clock, self._refused = clock, refused
        self._until = float("-inf")
        self._in_flight: set[GuardedWrite] = set()
        self._empty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")  # when the timer expires, by the event loop's clock

    @property
    def left_s(self) -> float:
        """Seconds until it closes without a further renewal; 0 = it is closed."""
        return max(0.0, self._until - self._clock())

    def open_until(self, moment_s: float) -> None:
        """Opens it until a time of `running_s`. The time also applies to writes in flight."""
        self._until = moment_s
        if self._in_flight:
            self._check_writes()

    def close(self) -> None:
        """Stops all writes from now on."""
        self.open_until(float("-inf"))

    async def emptied(self) -> None:
        """Waits, after `close`, until all writes in flight have ended."""
        while self._in_flight:
            self._empty.clear()
            await self._empty.wait()

    def begin(self, write: GuardedWrite, now: float) -> None:
        """Registers a write that is about to be sent. `now`: time of the event loop.

        Raises:
            NotLeading: the guard is closed.
        """
        left_s = self._until - self._clock()
        if left_s <= 0:
            self._refused()
            raise write.refused()
        write.late_at = now + write.within_s
        self._in_flight.add(write)
        if (due := now + min(left_s, write.within_s)) < self._due:
            self._set_timer(due)

    def end(self, write: GuardedWrite) -> None:
        """Removes a write that has ended."""
        if write.end is NotLeading:
            self._refused()
        self._in_flight.discard(write)
        if not self._in_flight:
            self._empty.set()

    def _check_writes(self) -> None:
        """Cancels writes that may not continue, and sets the timer for the next one."""
        now, left_s = asyncio.get_running_loop().time(), self.left_s
        due = float("inf")
        for write in self._in_flight:
            if left_s <= 0:
                write.cut(NotLeading)
            elif write.late_at <= now:
                write.cut(TimeoutError)
            elif write.end is None:
                due = min(due, write.late_at, now + left_s)
        self._set_timer(due)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None if due == float("inf") else asyncio.get_running_loop().call_at(due, self._check_writes)


class KubeSession:
    """Sends requests to the API server. `instance` identifies this operator in the audit log."""

    def __init__(
        self,
        credentials: Credentials,
        guard: LeadershipGuard | None = None,
        *,
        instance: str = "",
        measure: Measure = unmeasured,
        request_s: float = REQUEST_S,
    ) -> None:
        self._credentials, self._guard, self._measure = credentials, guard, measure
        self._request_s = request_s
        self.clock = ServerClock()
        self._timeouts: dict[float | None, aiohttp.ClientTimeout] = {}
        self._connections = Connections(instance)

    def send(self, request: Request) -> Coroutine[Any, Any, Reply]:
        """Sends one request and reads the response, unless it is a stream.

        After a 401 reads the credentials again and retries once.

        Raises:
            Unreachable: no response (connection refused or closed, timeout).
            NotLeading: this replica may not write, or stopped being the leader before the response.
            AnswerTooLarge: the response has more than `most_bytes`.
            NoCredentials: there were none yet.
        """
        return self._send(request, is_retry=False)

    async def _send(self, request: Request, *, is_retry: bool) -> Reply:
        within_s = self._request_s if request.within_s is None else min(self._request_s, request.within_s)
        began, status = time.perf_counter(), 0
        try:
            access = self._credentials.ready()
            if access is None:
                async with asyncio.timeout(within_s):
                    access = await self._credentials.now()
            session = self._connections.session(access)  # loads changed certificates, which can be incomplete files
            if self._guard is None or not request.needs_leadership or request.method == "GET":
                async with asyncio.timeout(within_s):
                    reply = await self._exchange(session, request, within_s)
            else:
                with GuardedWrite(self._guard, request, within_s):
                    reply = await self._exchange(session, request, within_s)
            status, other = reply.status, access
            if status == 401 and not is_retry:
                async with asyncio.timeout(within_s):
                    other = await self._credentials.renewed(access)
        except TimeoutError as error:
            raise Unreachable(request.name, f"no answer in {within_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(request.name, f"{type(error).__name__}: {error}") from error
        except NoAccess as error:
            raise NoCredentials(str(error)) from error
        finally:
            resource = request.resource
            verb, resource = (request.method, resource) if resource else named(request.method, request.path)
            self._measure(verb, resource, status, time.perf_counter() - began)
        return reply if other is access else await self._send(request, is_retry=True)

    async def get(self, path: str) -> dict[str, Any]:
        """Reads one object or list.

        Raises:
            Unreachable: no response.
            ApiRefused: the API server answered with an error.
        """
        reply = await self.send(Request("GET", path, within_s=READ_S))
        if not reply.ok:
            raise ApiRefused(f"GET {path}", reply.status, reply.message())
        return reply.json()

    async def close(self) -> None:
        """Closes all connections."""
        await self._connections.close()

    async def access(self, rejected: Access | None = None) -> Access:
        """The present credentials, read again if these were rejected. Raises NoAccess if there are none."""
        return await (self._credentials.now() if rejected is None else self._credentials.renewed(rejected))

    def separate(self, access: Access) -> aiohttp.ClientSession:
        """A session with connections of its own, which the caller closes."""
        connector = aiohttp.TCPConnector(ssl=access.tls_context() or True, socket_factory=_socket)
        return aiohttp.ClientSession(connector=connector, headers=access.headers, proxy=access.proxy or None)

    def _exchange(
        self, session: aiohttp.ClientSession, request: Request, within_s: float
    ) -> Coroutine[Any, Any, Reply]:
        """Sends writes with the connection pool, which is faster. Reads, and all requests with a proxy, use aiohttp."""
        pool = self._connections.pool
        if pool is None or request.method == "GET":
            return self._exchange_by_aiohttp(session, request, within_s)
        return self._exchange_by_pool(pool, request)

    async def _exchange_by_pool(self, pool: HttpConnectionPool, request: Request) -> Reply:
        head = self._connections.head(pool, request.content_type)
        # Writes without leadership are few, and most renew a Lease, which must not wait behind a burst of binds.
        may_wait = request.needs_leadership
        answer = await pool.exchange(request.method, request.path, head, request.body, may_wait=may_wait)
        after = answer.retry_after
        return Reply(answer.status, answer.body, None if after is None else retry_after_seconds(after, time.time()))

    async def _exchange_by_aiohttp(self, session: aiohttp.ClientSession, request: Request, within_s: float) -> Reply:
        """Sends a request with aiohttp: reads, and everything if there is a proxy."""
        response = await session.request(
            request.method,
            self._connections.url(request.path),
            data=request.body or None,
            headers=self._connections.headers(request.content_type),
            timeout=self._timeout(None if request.is_stream else within_s),
        )
        if request.is_stream and response.status == 200:
            return Reply(response.status, b"", stream=response)
        async with response:
            body = await _body(response, request)
            self.clock.note(response.headers.get("Date"), time.time())
            return Reply(response.status, body, retry_after_seconds(response.headers.get("Retry-After"), time.time()))

    def _timeout(self, within_s: float | None) -> aiohttp.ClientTimeout:
        """Returns a shared object per timeout, because creating one takes 2 us."""
        found = self._timeouts.get(within_s)
        if found is None:
            found = self._timeouts[within_s] = aiohttp.ClientTimeout(total=within_s)
        return found
