"""The HTTPS server that the API server asks: bounded in size, number and time, and never without an answer.

What it cannot answer in time, or at all, is refused with a word where it is ours (`Endpoint.is_closed`); elsewhere the
answer is an error, upon which the API server lets the request go on (failurePolicy Ignore).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import Counter, Histogram

from muster_operator.admission.answering import wire
from muster_operator.admission.answering.fairness import FairPlaces, TooManyRequests
from muster_operator.admission.certifying.certificates import Leaf
from muster_operator.admission.review import Answer, Review
from muster_operator.link.errors import LinkError
from muster_operator.link.listening import listener
from muster_operator.link.metrics import Metrics

log = structlog.get_logger("muster.admission")

#: Bytes of a question: an object and its old self, each of at most 1.5 MiB (what etcd stores), every byte of which Go
#: may write as six (`<` is `\u003c`). What is larger could not be stored; what is smaller must not get by unasked.
BODY_LIMIT: Final = 20 * 2**20
#: Questions that are answered at once, of all addresses and of one; others wait.
ROOM: Final = 32
ROOM_OF_SOURCE: Final = 24
#: Questions of up to SMALL bytes that are read at once, of all addresses and of one. They bound the memory.
READING: Final = 128
READING_OF_SOURCE: Final = 48
#: Seconds in which a question has to be read: an API server sends it at once.
READ_S: Final = 2.0
#: Questions of one address that may wait; an API server handles at most 600 requests at once by default.
WAITING_OF_SOURCE: Final = 1024
#: Bytes of a question beyond which it is read and answered alone of its address: it takes its size a few times.
SMALL: Final = 2**20
LARGE: Final = 3
#: Seconds that an idle connection is kept. API servers let go after 90; if we did before, a question that is under way
#: just then would be lost, and with it a pod.
KEEPALIVE_S: Final = 180.0
#: Contract 7.
HEALTH: Final = "/health"
_TRY_AGAIN: Final = "Muster cannot answer just now ({}): try again"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path. `within_s`: less than the API server waits. `is_closed`: what is not answered is refused."""

    answer: Callable[[Review], Awaitable[Answer]]
    within_s: float
    is_closed: bool


class ReviewMetrics:
    """What is counted; a verdict is allowed, changed, refused, failed or bad."""

    def __init__(self, metrics: Metrics) -> None:
        self.reviews = Counter(
            "muster_operator_admission_reviews", "Questions of the API server, by path and verdict",
            ("path", "verdict"), registry=metrics.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "muster_operator_admission_seconds", "From the first byte of a question to its answer", ("path",),
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5), registry=metrics.registry,
        )  # fmt: skip


class TlsContexts:
    """The TLS context that listens, and the certificate that each handshake gets: the latest.

    A fresh context for each certificate, chosen per handshake: a context that is loaded again keeps the old certificate
    beside the new one where their keys are of different types.
    """

    def __init__(self) -> None:
        self.listening: Final = _context()
        self._present = self.listening
        self.listening.sni_callback = self._choose

    def serve(self, leaf: Leaf) -> None:
        """Every handshake from now on gets this; connections there are go on.

        Raises:
            ssl.SSLError: it cannot be served with.
        """
        context = _context()
        with _as_file(leaf.chain) as chain, _as_file(leaf.key) as key:
            context.load_cert_chain(chain, key)
        self._present = context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        connection.context = self._present


class AdmissionServer:
    """Serves until stopped. `missing`: what keeps it from answering well, for `/health`; empty = nothing."""

    def __init__(self, endpoints: Mapping[str, Endpoint], missing: Callable[[], str], metrics: ReviewMetrics) -> None:
        self._missing, self._metrics = missing, metrics
        self._room = FairPlaces(ROOM, ROOM_OF_SOURCE, WAITING_OF_SOURCE)
        self._reading = FairPlaces(READING, READING_OF_SOURCE, WAITING_OF_SOURCE)
        self._large = FairPlaces(LARGE, 1, WAITING_OF_SOURCE)
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_get(HEALTH, self._health)
        for path, endpoint in endpoints.items():
            app.router.add_post(path, self._handler(path, endpoint))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=KEEPALIVE_S)

    async def start(self, port: int, tls: TlsContexts) -> int:
        """Listen; returns the port (0 asked for any free one).

        Raises:
            StartupRefused: the port cannot be used.
        """
        socket = listener("--webhook-port", port)
        await self._runner.setup()
        await web.SockSite(self._runner, socket, ssl_context=tls.listening).start()
        address: tuple[str, int] = self._runner.addresses[0]
        return address[1]

    async def stop(self) -> None:
        """Answer what was asked, then close."""
        await self._runner.cleanup()

    async def _health(self, _: web.Request) -> web.Response:
        missing = self._missing()
        return web.Response(text=missing, status=503) if missing else web.Response(text="OK")

    def _handler(self, path: str, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began, verdict = time.monotonic(), "failed"
            try:
                verdict, response = await self._answered(request, endpoint)
                return response
            finally:
                self._metrics.reviews.labels(path, verdict).inc()
                self._metrics.seconds.labels(path).observe(time.monotonic() - began)

        return handle

    async def _answered(self, request: web.Request, endpoint: Endpoint) -> tuple[str, web.Response]:
        question = None
        source = request.remote or ""
        try:
            async with asyncio.timeout(endpoint.within_s), self._large_lane(request, source):
                async with self._reading.place(source), asyncio.timeout(READ_S):
                    body = await request.read()
                async with self._room.place(source):
                    question = wire.read(body)
                    if question.review is None:
                        return "allowed", _json(wire.reply(question, Answer()))
                    answer = await endpoint.answer(question.review)
        except wire.BadReview as error:
            return "bad", web.Response(status=400, text=str(error))
        except TimeoutError:
            return "failed", _failed(question, endpoint, f"no answer within {endpoint.within_s:g} s")
        except TooManyRequests:
            return "failed", _failed(
                question, endpoint, f"too many requests from {source}: limit {WAITING_OF_SOURCE} waiting"
            )
        except LinkError as error:
            return "failed", _failed(question, endpoint, str(error))
        _tell(question.review, answer)
        verdict = "refused" if not answer.is_allowed else "allowed" if answer.object is None else "changed"
        return verdict, _json(wire.reply(question, answer))

    def _large_lane(self, request: web.Request, source: str) -> AbstractAsyncContextManager[None]:
        """Hold a place among the large questions; small ones need none."""
        size = request.content_length
        return nullcontext() if size is not None and size <= SMALL else self._large.place(source)


def _failed(question: wire.Question | None, endpoint: Endpoint, reason: str) -> web.Response:
    """No answer: a refusal that says so where that is right, else an error, which leaves it to the failurePolicy."""
    log.warning("a question of the API server was not answered", reason=reason, refused=endpoint.is_closed)
    said = _TRY_AGAIN.format(reason)
    if question is None or not endpoint.is_closed:
        return web.Response(status=wire.UNAVAILABLE, text=said)
    return _json(wire.reply(question, Answer(said), wire.UNAVAILABLE))


def _tell(review: Review, answer: Answer) -> None:
    """A refusal is somebody's to know: who, what and why, and never the object."""
    if not answer.is_allowed:
        log.info(
            "refused", operation=review.operation.value, kind=review.kind, namespace=review.namespace, name=review.name,
            user=review.submitter.name, reason=answer.refusal,
        )  # fmt: skip


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path for who reads files only: in memory, for a key belongs on no disk, and a container may have none."""
    with os.fdopen(os.memfd_create("muster"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
