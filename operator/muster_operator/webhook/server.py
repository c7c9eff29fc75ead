"""The HTTPS server of the webhook.

It runs an event loop in its own thread, so that responses do not wait for the controller (docs/internals/adr, number
0013). Every pod of the cluster can connect. Connections and requests are therefore limited in
size, number and time, of each client address and in total, and they are shared fairly between the addresses. A request
that cannot be evaluated in time is rejected if the endpoint fails closed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import structlog
import uvloop
from aiohttp import web
from prometheus_client import Counter as prometheus_client_Counter
from prometheus_client import Histogram

from muster_operator.model.errors import LinkError
from muster_operator.runtime.health import listener
from muster_operator.runtime.metrics import Metrics
from muster_operator.webhook.certificates import Leaf
from muster_operator.webhook.context import AdmissionAnswer, Review
from muster_operator.webhook.reviews import UNAVAILABLE, BadReview, ReviewRequest, read_review, review_reply

log = structlog.get_logger("muster.admission")

T = TypeVar("T")


@asynccontextmanager
async def webhook_thread() -> AsyncIterator[asyncio.AbstractEventLoop]:
    """Runs an event loop in a thread until the end of the block."""
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="admission", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()


async def run_in_thread(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in another loop and returns its result. Cancellation is passed on."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


class TooManyRequests(Exception):
    """The address has too many waiting requests."""


class FairPlaces:
    """Fair semaphore: at most `total` requests at once, `per_source` of one address, and `waiting` more per address."""

    def __init__(self, total: int, per_source: int, waiting: int) -> None:
        self._free, self._per_source, self._limit = total, per_source, waiting
        self._held: Counter[str] = Counter()
        #: Addresses with waiting requests, in the order in which they are served.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, source: str) -> AsyncIterator[None]:
        """Holds a slot for one request of the address.

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
                self._leave(source)  # the slot was granted at the moment of the cancellation
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


#: Maximum bytes of a request. API servers accept objects of at most 3 MiB, and a request has an object and its old
#: version. Only an object with a megabyte of characters that Go escapes (`<` as `\u003c`) can need more.
BODY_LIMIT: Final = 7 * 2**20

#: Requests that are evaluated at once, of all addresses and of one.
ROOM: Final = 32
ROOM_OF_SOURCE: Final = 24

#: Requests whose body is in memory at once, of all addresses and of one. Each has at most SMALL bytes, except the large
#: ones.
READING: Final = 128
READING_OF_SOURCE: Final = 48

#: Timeout in seconds for reading a request, which API servers send without pauses.
READ_S: Final = 2.0

#: Waiting requests of one address. An API server handles at most 600 requests at once by default.
WAITING_OF_SOURCE: Final = 1024

#: Bytes above which a request is large, and how many large ones are handled at once, one per address. Each needs
#: several times its size in memory. WAITING_LARGE: those of one address that wait.
SMALL: Final = 2**17
LARGE: Final = 3
WAITING_LARGE: Final = 64

#: Connections at once, of all addresses and of one. An API server has one for each request that it handles at once, at
#: most 600 by default. Each takes 60 KB.
CONNECTIONS: Final = 1024
CONNECTIONS_OF_SOURCE: Final = 768

#: Bytes that all connections have sent before their request has a slot: headers and the beginning of bodies. Each takes
#: three to four bytes of memory. An API server sends 1,000 reviews of 20 KB at once.
AHEAD: Final = 20 * 2**20

#: Seconds until a new connection must have sent the headers of its first request, beginning with the TLS handshake.
FIRST_REQUEST_S: Final = 30.0

#: Headers of a request and maximum bytes of each. API servers send about eight, one of which may be a token.
HEADERS: Final = 32
HEADER_BYTES: Final = 4096

#: Bytes that a connection reads ahead before its request has a slot.
READ_AHEAD: Final = 2**14

#: Seconds before an idle connection is closed. API servers close theirs after 90. If the webhook closed it first, a
#: request in flight would fail, and with it a pod.
KEEPALIVE_S: Final = 180.0

#: Seconds until connections are accepted again after an error.
_ACCEPT_AGAIN_S: Final = 0.1

#: Path of the health check, as in YuniKorn.
HEALTH: Final = "/health"
_TRY_AGAIN: Final = "Muster cannot evaluate the request now ({}): try again"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path of the server. `within_s`: timeout below that of the API server. `is_closed`: whether it fails closed."""

    answer: Callable[[Review], Awaitable[AdmissionAnswer]]
    within_s: float
    is_closed: bool


class ReviewMetrics:
    """Metrics by path; a result is allowed, changed, refused, failed or bad."""

    def __init__(self, metrics: Metrics) -> None:
        self.reviews = prometheus_client_Counter(
            "muster_operator_admission_reviews", "Admission requests by path and result",
            ("path", "result"), registry=metrics.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "muster_operator_admission_seconds", "Time from the first byte of an admission request to the response",
            ("path",), registry=metrics.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
        )  # fmt: skip


class TlsContexts:
    """The TLS context of the listener, with the latest certificate for each handshake.

    Each certificate has a new context, which the SNI callback selects. Loading a second certificate into one context
    would keep the first one if the key types differ.
    """

    def __init__(self) -> None:
        self.listening: Final = _context()
        self._present = self.listening
        self.listening.sni_callback = self._choose

    def serve(self, leaf: Leaf) -> None:
        """Uses this certificate for all new connections. Existing connections continue.

        Raises:
            ssl.SSLError: the certificate cannot be used.
        """
        context = _context()
        with _as_file(leaf.chain) as chain, _as_file(leaf.key) as key:
            context.load_cert_chain(chain, key)
        self._present = context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        connection.context = self._present


@dataclass(slots=True, eq=False)
class Connection:
    """A connection of an address. `requests`: those that it has sent; `busy`: those without an answer yet.

    `ahead`: bytes that it has sent while its request has no slot; `is_read`: its request has one.
    `unused`: the timer that closes it if it sends none. The timer ends with the connection, whose memory it keeps.
    """

    source: str
    requests: int = 0
    busy: int = 0
    ahead: int = 0
    is_read: bool = False
    unused: asyncio.TimerHandle | None = None
    transport: asyncio.Transport | None = None
    handshake: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Closes it immediately."""
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


class OpenConnections:
    """The open connections. If there are too many, an idle one of the address with the most connections is closed.

    If all of them together have sent more than `ahead` bytes before their requests have slots, those that sent most of
    the address that sent most are closed.
    """

    def __init__(self, total: int, per_source: int, ahead: int) -> None:
        self._total, self._per_source, self._most_ahead = total, per_source, ahead
        self._count = 0
        self._ahead: Counter[str] = Counter()
        self._by_source: dict[str, dict[Connection, None]] = {}

    def admit(self, source: str) -> Connection | None:
        """Adds a connection. None = its address has too many, or the most of all if there are too many."""
        if len(self._by_source.get(source, ())) >= self._per_source:
            return None
        if self._count >= self._total and not self._make_room(source):
            return None
        added = Connection(source)
        self._by_source.setdefault(source, {})[added] = None
        self._count += 1
        return added

    def _make_room(self, source: str) -> bool:
        """Closes the oldest idle connection of the address with the most connections, unless that is the source."""
        largest = max(self._by_source, key=lambda one: len(self._by_source[one]))
        if len(self._by_source[largest]) <= len(self._by_source.get(source, ())) + 1:
            return False
        idle = next((one for one in self._by_source[largest] if not one.busy), None)
        if idle is not None:
            idle.close()
            self.remove(idle)
        return idle is not None

    def remove(self, closed: Connection) -> None:
        """Removes a connection that was closed, if it was not removed before."""
        own = self._by_source.get(closed.source, {})
        if closed in own:
            self.forget(closed)
            del own[closed]
            self._count -= 1
            if not own:
                del self._by_source[closed.source]

    def receive(self, connection: Connection, size: int) -> bool:
        """Counts bytes of a request without a slot. Returns whether the connection is still open."""
        connection.ahead += size
        self._ahead[connection.source] += size
        while self._ahead.total() > self._most_ahead:
            [(source, _)] = self._ahead.most_common(1)
            largest = max(self._by_source[source], key=lambda one: one.ahead)
            largest.close()
            self.remove(largest)
        return connection in self._by_source.get(connection.source, {})

    def forget(self, connection: Connection) -> None:
        """The request has a slot, or is over: its bytes do not count any more."""
        self._ahead[connection.source] -= connection.ahead
        if not self._ahead[connection.source]:
            del self._ahead[connection.source]
        connection.ahead = 0


class _CountedProtocol(asyncio.Protocol):
    """Passes everything to aiohttp's protocol, and reports when the connection is open and closed."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        connection: Connection,
        connections: OpenConnections,
        on_closed: Callable[[], None],
    ) -> None:
        self._inner, self._connection, self._connections, self._on_closed = inner, connection, connections, on_closed

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        if self._connection.is_read or self._connections.receive(self._connection, len(data)):
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The client sends nothing more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client has read enough."""
        self._inner.resume_writing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """After the TLS handshake."""
        self._connection.transport = cast(asyncio.Transport, transport)
        if (limit := getattr(transport, "set_read_buffer_limits", None)) is not None:
            limit(high=READ_AHEAD)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._on_closed()
        self._inner.connection_lost(exc)


class AdmissionServer:
    """Serves until stopped. `missing` returns why it is not ready, for `/health`; empty = ready."""

    def __init__(self, endpoints: Mapping[str, Endpoint], missing: Callable[[], str], metrics: ReviewMetrics) -> None:
        self._missing, self._metrics = missing, metrics
        self._room = FairPlaces(ROOM, ROOM_OF_SOURCE, WAITING_OF_SOURCE)
        self._reading = FairPlaces(READING, READING_OF_SOURCE, WAITING_OF_SOURCE)
        self._large = FairPlaces(LARGE, 1, WAITING_LARGE)
        self._connections = OpenConnections(CONNECTIONS, CONNECTIONS_OF_SOURCE, AHEAD)
        #: By aiohttp's protocol.
        self._open: dict[asyncio.BaseProtocol, Connection] = {}
        self._accepting: asyncio.Task[None] | None = None
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_get(HEALTH, self._health)
        for path, endpoint in endpoints.items():
            app.router.add_post(path, self._handler(path, endpoint))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=1.0,
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=0.0,
            read_bufsize=READ_AHEAD,
            max_headers=HEADERS,
            max_field_size=HEADER_BYTES,
            max_line_size=HEADER_BYTES,
            auto_decompress=False,
            handler_cancellation=True,
        )

    async def start(self, port: int, tls: TlsContexts) -> int:
        """Listens on the port and returns it; 0 selects a free port.

        Raises:
            StartupRefused: the port cannot be used.
        """
        listening = listener("--webhook-port", port)
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * READ_AHEAD)
        listening.listen(CONNECTIONS)
        await self._runner.setup()
        self._accepting = asyncio.create_task(self._accept(listening, tls.listening))
        address: tuple[str, int] = listening.getsockname()
        return address[1]

    async def stop(self) -> None:
        """Finishes requests in progress, then closes."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        await self._runner.cleanup()

    async def _accept(self, listening: socket.socket, tls: ssl.SSLContext) -> None:
        """Accepts connections. Those that exceed the limits are closed before the TLS handshake."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:  # too many open files, for example
                    log.warning("webhook connection not accepted", reason=str(error))
                    await asyncio.sleep(_ACCEPT_AGAIN_S)
                    continue
                connection = self._connections.admit(address[0])
                if connection is None:
                    accepted.close()
                    continue
                connection.handshake = loop.create_task(self._open_connection(accepted, connection, tls))
                connection.unused = loop.call_later(FIRST_REQUEST_S, self._close_unused, connection)

    async def _open_connection(self, accepted: socket.socket, connection: Connection, tls: ssl.SSLContext) -> None:
        protocol = cast(web.Server, self._runner.server)()

        def closed() -> None:
            self._connections.remove(connection)
            self._open.pop(protocol, None)
            if connection.unused is not None:
                connection.unused.cancel()

        self._open[protocol] = connection
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _CountedProtocol(protocol, connection, self._connections, closed),
                accepted,
                ssl=tls,
                ssl_handshake_timeout=FIRST_REQUEST_S,
                ssl_shutdown_timeout=1.0,
            )
        except (OSError, asyncio.CancelledError):  # ssl.SSLError is an OSError
            accepted.close()
            closed()

    @staticmethod
    def _close_unused(connection: Connection) -> None:
        if not connection.requests:
            connection.close()

    async def _health(self, _: web.Request) -> web.Response:
        missing = self._missing()
        return web.Response(text=missing, status=503) if missing else web.Response(text="OK")

    def _handler(self, path: str, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began, result = time.monotonic(), "failed"
            connection = self._open.get(request.protocol, Connection(""))
            connection.requests += 1
            connection.busy += 1
            try:
                result, response = await self._answered(request, endpoint, connection)
                return response
            finally:
                connection.busy -= 1
                connection.is_read = False
                self._connections.forget(connection)
                self._metrics.reviews.labels(path, result).inc()
                self._metrics.seconds.labels(path).observe(time.monotonic() - began)

        return handle

    async def _answered(
        self, request: web.Request, endpoint: Endpoint, connection: Connection
    ) -> tuple[str, web.Response]:
        question = None
        source = request.remote or ""
        if problem := _unreadable(request):
            return "invalid", problem
        try:
            async with (
                asyncio.timeout(endpoint.within_s),
                self._large_lane(request, source),
                self._reading.place(source),
            ):
                connection.is_read = True
                self._connections.forget(connection)
                async with asyncio.timeout(READ_S):
                    body = await request.read()
                async with self._room.place(source):
                    question = read_review(body)
                    if question.review is None:
                        return "allowed", _json(review_reply(question, AdmissionAnswer()))
                    answer = await endpoint.answer(question.review)
        except (BadReview, ConnectionError) as error:  # the client closed the connection
            return "invalid", web.Response(status=400, text=str(error))
        except TimeoutError:
            return "failed", _failed(question, endpoint, f"no answer within {endpoint.within_s:g} s")
        except TooManyRequests:
            return "failed", _failed(
                question, endpoint, f"too many requests from {source}: limit {WAITING_OF_SOURCE} waiting"
            )
        except LinkError as error:
            return "failed", _failed(question, endpoint, str(error))
        _log_rejection(question.review, answer)
        result = "rejected" if not answer.is_allowed else "allowed" if answer.object is None else "changed"
        return result, _json(review_reply(question, answer))

    def _large_lane(self, request: web.Request, source: str) -> AbstractAsyncContextManager[None]:
        """Holds one of the slots for large requests if needed."""
        size = request.content_length
        return nullcontext() if size is not None and size <= SMALL else self._large.place(source)


def _unreadable(request: web.Request) -> web.Response | None:
    """The response to a body that is not read: an encoded one, whose real size is unknown, or one that is too large."""
    if "Content-Encoding" in request.headers:
        return web.Response(status=415, text="send the review without Content-Encoding")
    size = request.content_length
    if size is not None and size > BODY_LIMIT:
        return web.Response(status=413, text=f"the review has {size} bytes, more than {BODY_LIMIT}")
    return None


def _failed(question: ReviewRequest | None, endpoint: Endpoint, reason: str) -> web.Response:
    """The response without a decision: a rejection if the endpoint fails closed, else an HTTP error."""
    log.warning("admission request not evaluated", reason=reason, rejected=endpoint.is_closed)
    message = _TRY_AGAIN.format(reason)
    if question is None or not endpoint.is_closed:
        return web.Response(status=UNAVAILABLE, text=message)
    return _json(review_reply(question, AdmissionAnswer(message), UNAVAILABLE))


def _log_rejection(review: Review, answer: AdmissionAnswer) -> None:
    """Logs a rejection with user, object name and reason, but never the object."""
    if not answer.is_allowed:
        log.info(
            "rejected", operation=review.operation.value, kind=review.kind, namespace=review.namespace,
            name=review.name, user=review.submitter.name, reason=answer.refusal,
        )  # fmt: skip


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Path of a file in memory with this content. Keys must not be on disk, and a disk may be read-only."""
    with os.fdopen(os.memfd_create("muster"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
