"""The HTTPS server of the webhook.

It runs an event loop in its own thread, so that responses do not wait for the controller (docs/internals/adr, number
0013). Every pod of the cluster can connect. Connections and requests are therefore limited in
size, number and time, of each client address and in total, and they are shared fairly between the addresses. A request
that cannot be evaluated in time is rejected if the endpoint fails closed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar

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
from muster_si.client_connections import KEEPALIVE_S, READ_AHEAD, ClientConnections, ConnectionLimits
from muster_si.fair_seats import FairSeats, TooManyRequests

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

#: Seconds until a new connection must have sent the headers of its first request, beginning with the TLS handshake.
FIRST_REQUEST_S: Final = 30.0

#: Headers of a request and maximum bytes of each. API servers send about eight, one of which may be a token.
HEADERS: Final = 32
HEADER_BYTES: Final = 4096

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


class AdmissionServer:
    """Serves until stopped. `missing` returns why it is not ready, for `/health`; empty = ready."""

    def __init__(self, endpoints: Mapping[str, Endpoint], missing: Callable[[], str], metrics: ReviewMetrics) -> None:
        self._missing, self._metrics = missing, metrics
        self._room = FairSeats(ROOM, ROOM_OF_SOURCE, WAITING_OF_SOURCE)
        self._reading = FairSeats(READING, READING_OF_SOURCE, WAITING_OF_SOURCE)
        self._large = FairSeats(LARGE, 1, WAITING_LARGE)
        self._connections = ClientConnections(ConnectionLimits(FIRST_REQUEST_S))
        app = web.Application(middlewares=[self._connections.count], client_max_size=BODY_LIMIT)
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
        await self._runner.setup()
        self._connections.accept(self._runner, [listening], tls.listening)
        address: tuple[str, int] = listening.getsockname()
        return address[1]

    async def stop(self) -> None:
        """Finishes requests in progress, then closes."""
        await self._connections.stop()
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        missing = self._missing()
        return web.Response(text=missing, status=503) if missing else web.Response(text="OK")

    def _handler(self, path: str, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began, result = time.monotonic(), "failed"
            try:
                result, response = await self._answered(request, endpoint)
                return response
            finally:
                self._metrics.reviews.labels(path, result).inc()
                self._metrics.seconds.labels(path).observe(time.monotonic() - began)

        return handle

    async def _answered(self, request: web.Request, endpoint: Endpoint) -> tuple[str, web.Response]:
        question = None
        source = request.remote or ""
        if problem := _unreadable(request):
            return "invalid", problem
        try:
            async with (
                asyncio.timeout(endpoint.within_s),
                self._large_lane(request, source),
                self._reading.taken(source),
            ):
                self._connections.read(request)
                async with asyncio.timeout(READ_S):
                    body = await request.read()
                async with self._room.taken(source):
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
        return nullcontext() if size is not None and size <= SMALL else self._large.taken(source)


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
