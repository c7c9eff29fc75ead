"""Requests and responses of the REST interface.

A request has parameters, which refer to objects of the state. A response is JSON, written in pieces, or a failure.
"""

from __future__ import annotations

import asyncio
import gzip
import math
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple, TypeVar
from urllib.parse import unquote_plus

from aiohttp import hdrs, web

from muster_core.model.ids import ApplicationId, NodeId, PartitionId, QueuePath, partition_name
from muster_core.model.states import ApplicationState
from muster_core.rest.answers import AnswerProcess
from muster_core.rest.schemas import ApplicationCount, ContainerCount, FailureInfo, Health, Shape, encode
from muster_core.runtime.log_level import LevelControl
from muster_core.runtime.service import Scheduler
from muster_core.state.applications import Application
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_si.client_connections import ClientConnections, ConnectionLimits
from muster_si.fair_seats import FairSeats

JSON_TYPE: Final = "application/json; charset=UTF-8"
NO_PARTITION: Final = "Partition not found"
NO_QUEUE: Final = "Queue not found"
NO_APPLICATION: Final = "Application not found"
NO_NODE: Final = "Node not found"
NO_USER: Final = "User not found"
NO_GROUP: Final = "Group not found"
INVALID_USER: Final = "Invalid user name"
INVALID_GROUP: Final = "Invalid group name"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class RestFailure(Exception):
    """A request that is answered with `status` and `message`, and with these `headers`."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] = _NONE) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.headers = headers


def not_found(message: str) -> RestFailure:
    """Returns a failure with status 404."""
    return RestFailure(404, message)


def bad_request(message: str) -> RestFailure:
    """Returns a failure with status 400."""
    return RestFailure(400, message)


def answer(failure: RestFailure) -> web.Response:
    """Returns the response of a failure. As in YuniKorn, message and description are equal."""
    body = encode(FailureInfo(status_code=failure.status, message=failure.message, description=failure.message))
    return web.Response(body=body, status=failure.status, headers={"Content-Type": JSON_TYPE, **failure.headers})


#: Time that a large response is built before other work runs.
_SLICE_S: Final = 0.005

#: Size of the largest part of a response in memory.
_SLICE_BYTES: Final = 256 * 1024

#: Time for a reader to accept a part, and for a body to arrive. If others wait for the seat, the shorter time applies,
#: and a response that has taken `_WHOLE_S` ends, or a state dump `_WHOLE_DUMP_S`.
STALLED_S: Final = 30.0
_HURRIED_S: Final = 1.0
_WHOLE_S: Final = 10.0
_WHOLE_DUMP_S: Final = 30.0

#: Smaller responses are not compressed.
_PACKED_FROM: Final = 2_048
_PACKING: Final = 1  # of 9: takes half the time of the default 6 for 10 % more bytes

#: Responses that have begun and are not yet accepted by their readers. Further ones wait.
MOST_BEGUN: Final = 64

#: Large bodies in memory. Further ones wait, each in the buffer of its connection, which also holds small ones.
_MOST_BODIES: Final = 4
_SMALL_BODY: Final = 64 * 1024

#: Questions of one address that wait for their turn.
_MOST_QUESTIONS: Final = 16

T = TypeVar("T")

#: Parts of a response in order. Other work may run between two of them; an empty one only lets it run.
Pieces = Iterator[bytes]


def one(shape: Shape) -> Pieces:
    """Yields a JSON object."""
    yield encode(shape)


def array(elements: Iterable[Shape | Pieces | None]) -> Pieces:
    """Yields a JSON array. None adds no element and lets other work run."""
    before = b"["
    for element in elements:
        if element is None:
            yield b""
            continue
        if isinstance(element, Shape):
            yield before + encode(element)
        else:
            yield before
            yield from element
        before = b","
    yield b"[]" if before == b"[" else b"]"


def source_of(request: web.Request) -> str:
    """The address of the client, of which each has its turn."""
    return request.remote or ""


class Seats(FairSeats):
    """Seats of which few are taken at a time. Nobody keeps one for long while others wait for it."""

    def __init__(
        self,
        most: int,
        *,
        stalled_s: float = STALLED_S,
        hurried_s: float = _HURRIED_S,
        whole_s: float = _WHOLE_S,
        waiting: float = math.inf,  # requests are limited by their connections, too
    ) -> None:
        super().__init__(most, most, waiting)
        self._stalled_s = stalled_s
        self._hurried_s = hurried_s
        self.whole_s: Final = whole_s

    async def in_time(self, working: Coroutine[None, None, T]) -> T:
        """The result of what a client does in its seat. Raises TimeoutError if it takes too long."""
        task = asyncio.ensure_future(working)
        until = time.monotonic() + self._stalled_s
        try:
            while not (await asyncio.wait((task,), timeout=min(self._hurried_s, self._stalled_s)))[0]:
                if self.are_wanted or time.monotonic() >= until:
                    raise TimeoutError
            return task.result()
        finally:
            task.cancel()


class Writer:
    """Writes responses in pieces, however many clients ask at once and however slowly they read.

    One slice is built at a time, so that many requests delay other work by one slice and not by one for each request.
    Few responses begin at a time, because each holds its lists and its part in memory.
    """

    def __init__(self, seats: Seats | None = None) -> None:
        self._seats = seats or Seats(MOST_BEGUN)
        self._building = FairSeats(1, 1, math.inf)

    async def write(
        self,
        request: web.Request,
        pieces: Pieces | Callable[[], Awaitable[Pieces]],
        content_type: str = JSON_TYPE,
        seats: Seats | None = None,
    ) -> web.StreamResponse:
        """Writes the pieces and lets other work run after every slice. Disconnects a reader that is too slow.

        `pieces` may be a function that collects them once there is a seat. `seats`: others than those of the writer.
        """
        seats, source = seats or self._seats, source_of(request)
        async with seats.taken(source):
            if callable(pieces):
                pieces = await pieces()
            packs = "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower()
            gathered, is_whole = await self._gather(source, pieces)
            while not (gathered or is_whole):  # a failure is still a response of its own
                gathered, is_whole = await self._gather(source, pieces)
            response: web.StreamResponse
            if is_whole:
                is_packed = packs and len(gathered) >= _PACKED_FROM
                body = gzip.compress(gathered, _PACKING, mtime=0) if is_packed else gathered
                response = whole(request, body, content_type, is_packed=is_packed)
            else:
                response = web.StreamResponse(
                    headers={hdrs.CONTENT_TYPE: content_type, hdrs.VARY: hdrs.ACCEPT_ENCODING}
                )
                if packs:
                    response.enable_compression(web.ContentCoding.gzip)
            try:
                await response.prepare(request)
                if not isinstance(response, web.Response):
                    await self._send_parts(seats, source, response, gathered, pieces, is_whole=is_whole)
                await seats.in_time(response.write_eof())
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()  # closing it would wait until the reader accepts the rest
            except ConnectionError:
                pass  # the reader has gone
            return response

    async def _send_parts(
        self,
        seats: Seats,
        source: str,
        response: web.StreamResponse,
        gathered: bytes,
        pieces: Pieces,
        *,
        is_whole: bool,
    ) -> None:
        """Sends the first part and all others. Raises TimeoutError if the reader is too slow."""
        taken_s = 0.0  # by the reader: the parts may wait for those of other responses
        while True:
            began_s = time.monotonic()
            await seats.in_time(response.write(gathered))
            taken_s += time.monotonic() - began_s
            if is_whole:
                return
            if seats.are_wanted and taken_s >= seats.whole_s:
                raise TimeoutError
            gathered, is_whole = await self._gather(source, pieces)

    async def parts(self, source: str, pieces: Pieces) -> AsyncIterator[bytes]:
        """What the pieces yield, for a reader in this process. Other work runs after every slice."""
        is_whole = False
        while not is_whole:
            gathered, is_whole = await self._gather(source, pieces)
            yield gathered

    async def _gather(self, source: str, pieces: Pieces) -> tuple[bytes, bool]:
        """Returns what one slice of time yields, and whether that was the end. Other work has run since."""
        async with self._building.taken(source):
            gathered = _slice(pieces)
            await asyncio.sleep(0)
        return gathered


def _slice(pieces: Pieces) -> tuple[bytes, bool]:
    until = time.perf_counter() + _SLICE_S
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= _SLICE_BYTES or time.perf_counter() >= until:
            return b"".join(gathered), False
    return b"".join(gathered), True


def whole(request: web.Request, body: bytes, content_type: str, *, is_packed: bool, etag: str = "") -> web.Response:
    """Returns a response with an ETag of its bytes, or status 304 if the client has them. `is_packed`: with gzip."""
    headers = {
        hdrs.ETAG: f'"{etag or etag_of(body)}"',
        hdrs.VARY: hdrs.ACCEPT_ENCODING,
        hdrs.CACHE_CONTROL: "private, no-cache",  # a browser asks again each time, and shares it with nobody
    }
    if any(f'"{tag.value}"' == headers[hdrs.ETAG] for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    if is_packed:
        headers[hdrs.CONTENT_ENCODING] = "gzip"
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type, **headers})


def etag_of(body: bytes) -> str:
    """Returns the hash of a body that identifies it."""
    return sha256(body).hexdigest()[:32]


#: Seconds until a new connection must have sent the headers of its first request, beginning with the TLS handshake.
_FIRST_REQUEST_S: Final = 10.0

#: Seconds between two samples.
EVERY_S: Final = 60.0
_KEPT: Final = 1440


class Sample(NamedTuple):
    """Sample of one minute."""

    at_ns: int
    applications: int
    containers: int


class History:
    """The newest samples, oldest first."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    def sample(self, scheduler_state: SchedulerState, now_ns: int) -> None:
        """Adds a sample."""
        apps = [app for partition in scheduler_state.partitions.values() for app in partition.applications.values()]
        running = sum(app.state is ApplicationState.RUNNING for app in apps)
        self._samples.append(Sample(now_ns, running, sum(len(app.allocations) for app in apps)))

    def applications(self) -> Iterator[ApplicationCount]:
        """Yields the numbers of running applications."""
        for sample in list(self._samples):
            yield ApplicationCount(timestamp=sample.at_ns, totalApplications=str(sample.applications))

    def containers(self) -> Iterator[ContainerCount]:
        """Yields the numbers of allocations, including placeholders."""
        for sample in list(self._samples):
            yield ContainerCount(timestamp=sample.at_ns, totalContainers=str(sample.containers))


@dataclass(slots=True, eq=False)
class RestContext:
    """State of one REST server. `levels`: None if the log is configured outside this process."""

    core: Scheduler
    now_ns: Callable[[], int] = time.time_ns
    levels: LevelControl | None = None
    history: History = field(default_factory=History)
    #: Result of the last health checks; None = not run yet.
    health: Health | None = None
    #: Allows one dump at a time, as in YuniKorn, and one profile at a time.
    dumps: Seats = field(default_factory=lambda: Seats(1, whole_s=_WHOLE_DUMP_S))
    profiling: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Responses about the state, and the metrics, which Prometheus reads in time whatever others read.
    writer: Writer = field(default_factory=Writer)
    metrics_writer: Writer = field(default_factory=Writer)
    #: Large bodies of requests that are read or checked.
    bodies: Seats = field(default_factory=lambda: Seats(_MOST_BODIES))
    #: Allows one validation at a time, because a large configuration takes about a second of CPU time.
    checking: Seats = field(default_factory=lambda: Seats(1))
    #: Questions about what would happen, and what answers them.
    questions: Seats = field(default_factory=lambda: Seats(1, waiting=_MOST_QUESTIONS))
    answers: AnswerProcess = field(default_factory=AnswerProcess)
    connections: ClientConnections = field(
        default_factory=lambda: ClientConnections(ConnectionLimits(_FIRST_REQUEST_S))
    )
    #: The journal, which earlier states are read from; None = the core keeps none.
    journal: BinaryIO | None = None
    started_ns: int = 0

    def __post_init__(self) -> None:
        """Sets the start time."""
        self.started_ns = self.now_ns()


@asynccontextmanager
async def body_of(rest_context: RestContext, request: web.Request) -> AsyncIterator[bytes]:
    """The body of a request. Large ones wait for each other. Raises RestFailure if it does not arrive in time."""
    is_small = request.content_length is not None and request.content_length <= _SMALL_BODY
    seats = Seats(1) if is_small else rest_context.bodies
    async with seats.taken(source_of(request)):
        if not is_small:
            rest_context.connections.read(request)
        try:
            body = await seats.in_time(request.read())
        except TimeoutError as error:
            raise RestFailure(408, "the body did not arrive in time; send it again") from error
        yield body


_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_QUEUE: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}(\.[a-zA-Z0-9_:#/@-]{1,64})*")
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*|\*")
#: States of live applications that a query can select.
STATUSES: Final = ("new", "accepted", "running", "completing", "failing", "resuming")
_MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request. `path` and `query` are as the client sent them, unescaped once."""

    rest_context: RestContext
    path: Mapping[str, str]
    query: Mapping[str, str]
    now_ns: int

    @property
    def scheduler_state(self) -> SchedulerState:
        """The present state. The object may be replaced later."""
        return self.rest_context.core.loop.scheduler_state

    def text(self, name: str) -> str:
        """Returns a part of the path, unescaped a second time as a query, as YuniKorn does."""
        raw = self.path[name]
        if _BROKEN_ESCAPE.search(raw):
            raise bad_request(f"invalid URL escape in {name}")
        return unquote_plus(raw)

    def partition(self) -> Partition:
        """Finds the partition by name, or by `[rm]name` if several resource managers have one of that name."""
        wanted = self.path["partition"]
        found = self.scheduler_state.partitions.get(PartitionId(wanted))
        if found is None:
            partitions = self.scheduler_state.partitions.values()
            found = next((item for item in partitions if partition_name(item.id) == wanted), None)
        if found is None:
            raise not_found(NO_PARTITION)
        return found

    def queue(self) -> Queue:
        """Finds the queue by its full path. The recovery queue is found while it exists, as in YuniKorn."""
        path = self.text("queue").lower()
        if not _QUEUE.fullmatch(path):
            raise bad_request("Invalid queue name")
        found = self.partition().queues.get(QueuePath(path))
        if found is None:
            raise not_found(NO_QUEUE)
        return found

    def application(self, queue: Queue | None = None) -> Application:
        """Finds the newest live application, else the newest ended one, in this queue and the namespace of the query.

        The ID is the one that users see, which several namespaces and runs may use, or the one on the Scheduler
        Interface, with or without the number of the run.
        """
        partition, name = self.partition(), self.text("application")
        namespace = self.query.get("namespace", "")
        for apps in (reversed(partition.applications.values()), reversed(partition.history)):
            found: dict[str, Application] = {}
            for app in apps:
                if (
                    (name in (app.name, app.id) or ("#" in app.id and name == _without_run(app.id)))
                    and queue in (None, app.queue)
                    and _is_in(app, namespace)
                ):
                    found.setdefault(app.spec.namespace, app)
            if len(found) > 1:
                namespaces = ", ".join(sorted(found))
                raise bad_request(f"application {name} exists in namespaces {namespaces}: add ?namespace=<one of them>")
            if found:
                return next(iter(found.values()))
        raise not_found(NO_APPLICATION)

    def node(self) -> NodeId:
        """Returns the ID of a node in the partition."""
        name = NodeId(self.text("node"))
        if name not in self.partition().nodes:
            raise not_found(NO_NODE)
        return name

    def user(self) -> str:
        """Returns a valid user name."""
        return self._name("user", _USER, INVALID_USER)

    def group(self) -> str:
        """Returns a valid group name or the wildcard."""
        return self._name("group", _GROUP, INVALID_GROUP)

    def _name(self, part: str, form: re.Pattern[str], otherwise: str) -> str:
        name = self.text(part)
        if not form.fullmatch(name):
            raise bad_request(otherwise)
        return name

    def number(self, name: str, default: int) -> int:
        """Returns an integer of at least 0 from the query."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise bad_request(f"{name} must be an integer of 0 or more")
        return int(text)

    def portion(self, items: Iterable[T]) -> Iterator[T]:
        """Applies `offset` and `limit` of the query to a list. None, where other work may run, is not counted."""
        offset = self.number("offset", 0)
        limit = self.number("limit", -1)
        return _portion(items, offset, math.inf if limit < 0 else offset + limit)

    def with_status(self, apps: Iterable[Application]) -> list[Application]:
        """Applies `status` of the query to applications."""
        status = self.query.get("status", "").lower()
        if status and status not in STATUSES:
            raise bad_request(f"Only following active statuses are allowed: {', '.join(STATUSES)}")
        return [app for app in apps if not status or app.state.value.lower() == status]


def _portion(items: Iterable[T], start: int, end: float) -> Iterator[T]:
    index = 0
    for item in items:
        if item is None or start <= index < end:
            yield item
        index += item is not None
        if index >= end:
            return


def _without_run(app: ApplicationId) -> str:
    """The ID without the number that the operator gives to a further run: `<namespace>#<number>/<name>`."""
    space, slash, name = app.partition("/")
    return f"{space.partition('#')[0]}{slash}{name}"


def _is_in(app: Application, namespace: str) -> bool:
    """Whether the application began in the namespace or has a pod there. Always true for an empty namespace."""
    if namespace in ("", app.spec.namespace):
        return True
    specs = chain((ask.spec for ask in app.asks.values()), (item.spec for item in app.allocations.values()))
    return any(spec.namespace == namespace for spec in specs)
