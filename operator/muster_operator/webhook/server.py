"""The HTTPS server of the webhook.

It runs an event loop in its own thread, so responses do not wait for the controller (ADR 0013). Requests are bounded
in size, number and time, and slots are shared fairly between client addresses, because every pod of the cluster can
connect. A request that cannot be evaluated in time is rejected where the endpoint fails closed.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import jsonpatch
import orjson
import structlog
import uvloop
from aiohttp import web
from prometheus_client import Counter as prometheus_client_Counter
from prometheus_client import Histogram

from muster_operator.model.errors import LinkError
from muster_operator.runtime.health import listener
from muster_operator.runtime.metrics import Metrics
from muster_operator.translate.values import Raw, mapping, text
from muster_operator.webhook.certificates import Leaf
from muster_operator.webhook.context import AdmissionAnswer, Operation, Review, Submitter

log = structlog.get_logger("muster.admission")

T = TypeVar("T")


@asynccontextmanager
async def webhook_thread() -> AsyncIterator[asyncio.AbstractEventLoop]:
    """A loop that runs till the end of the block."""
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
    """The result of work that another loop does; cancelled there if it is cancelled here."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


#: Statuses of a refusal, as users see them: forbidden, or "try again".
FORBIDDEN: Final = 403
UNAVAILABLE: Final = 503

#: A message that kubectl prints whole.
MESSAGE_LIMIT: Final = 4096


class BadReview(ValueError):
    """What came is no AdmissionReview that we can answer."""


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A review and the id that its answer has to carry. `review` is None for an operation that we have no word in."""

    uid: str
    review: Review | None


def read_review(body: bytes) -> ReviewRequest:
    """Understand what the API server asks.

    Raises:
        BadReview: it cannot be understood.
    """
    try:
        request = mapping(mapping(orjson.loads(body)).get("request"))
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise BadReview(f"no JSON: {error}") from error
    uid = text(request.get("uid"))
    if not uid:
        raise BadReview("no AdmissionReview: request.uid is missing")
    operation = text(request.get("operation"))
    if operation not in set(Operation) or not isinstance(request.get("object"), dict):
        return ReviewRequest(uid, None)
    old = request.get("oldObject")
    review = Review(
        operation=Operation(operation),
        kind=text(mapping(request.get("kind")).get("kind")),
        namespace=text(request.get("namespace")),
        name=text(request.get("name")),
        submitter=_submitter(mapping(request.get("userInfo"))),
        object=mapping(request.get("object")),
        old=mapping(old) if isinstance(old, dict) else None,
    )
    return ReviewRequest(uid, review)


def review_reply(question: ReviewRequest, answer: AdmissionAnswer, status: int = FORBIDDEN) -> bytes:
    """The answer as the API server wants to receive it: what is to be changed as a JSON patch (RFC 6902)."""
    said: dict[str, Any] = {"uid": question.uid, "allowed": answer.is_allowed}
    if not answer.is_allowed:
        reason = "ServiceUnavailable" if status == UNAVAILABLE else "Forbidden"
        said["status"] = {"code": status, "reason": reason, "message": answer.refusal[:MESSAGE_LIMIT]}
    if answer.warnings:
        said["warnings"] = list(answer.warnings)
    if answer.is_allowed and answer.object is not None and question.review is not None:
        changes = patch(question.review.object, answer.object)
        if changes:
            said["patchType"] = "JSONPatch"
            said["patch"] = base64.b64encode(orjson.dumps(changes)).decode()
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said})


def patch(old: Raw, new: Raw) -> list[dict[str, Any]]:
    """The changes from one to the other."""
    return list(jsonpatch.make_patch(old, new))


def _submitter(info: Raw) -> Submitter:
    groups = info.get("groups")
    return Submitter(
        text(info.get("username")), tuple(text(group) for group in groups) if isinstance(groups, list) else ()
    )


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

    answer: Callable[[Review], Awaitable[AdmissionAnswer]]
    within_s: float
    is_closed: bool


class ReviewMetrics:
    """What is counted; a verdict is allowed, changed, refused, failed or bad."""

    def __init__(self, metrics: Metrics) -> None:
        self.reviews = prometheus_client_Counter(
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
        """Every handshake from now on gets this; connections there are continue.

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
                    question = read_review(body)
                    if question.review is None:
                        return "allowed", _json(review_reply(question, AdmissionAnswer()))
                    answer = await endpoint.answer(question.review)
        except BadReview as error:
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
        return verdict, _json(review_reply(question, answer))

    def _large_lane(self, request: web.Request, source: str) -> AbstractAsyncContextManager[None]:
        """Hold a place among the large questions; small ones need none."""
        size = request.content_length
        return nullcontext() if size is not None and size <= SMALL else self._large.place(source)


def _failed(question: ReviewRequest | None, endpoint: Endpoint, reason: str) -> web.Response:
    """No answer: a refusal that says so where that is right, else an error, which leaves it to the failurePolicy."""
    log.warning("a question of the API server was not answered", reason=reason, refused=endpoint.is_closed)
    said = _TRY_AGAIN.format(reason)
    if question is None or not endpoint.is_closed:
        return web.Response(status=UNAVAILABLE, text=said)
    return _json(review_reply(question, AdmissionAnswer(said), UNAVAILABLE))


def _tell(review: Review, answer: AdmissionAnswer) -> None:
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
