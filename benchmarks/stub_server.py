"""An API server without a network, which replaces the operator's HTTP session.

The stub starts where the operator passes a request to HTTP and reads the bytes of a response. `StubSession` replaces
`aiohttp.ClientSession` as far as Muster and kopf use it, and `StubPool` the connection pool of writes. Lists are
bytes, watches return bytes in pieces like a socket, and every write is answered immediately from memory. A bind is
followed by the MODIFIED event of its pod. The bytes of pods come from a template, because the work of the stub counts
in the result.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import aiohttp
import orjson

from benchmarks.stand_in import INTRODUCTION, Objects
from muster_operator.kube.http import HttpConnectionPool, HttpResponse, Measure
from muster_operator.kube.session import Connections, KubeSession, LeadershipGuard
from muster_operator.kube.watch import PATHS
from muster_si.kubeconfig import Access, Credentials
from tests.unit.operator.kube.cluster import DISCOVERY

#: Maximal bytes per read of a watch, as from a busy socket.
PIECE: Final = 2**16
_SUCCESS: Final = orjson.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})
_EMPTY: Final = orjson.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})
_NOT_STREAMED: Final = orjson.dumps({"kind": "Status", "status": "Failure", "reason": "BadRequest", "code": 400})
_NOT_FOUND: Final = orjson.dumps({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})

#: Builds the event of a pod from its name, node (empty: created without a node) and version.
PodEvent = Callable[[str, str, int], bytes]


class StubBody:
    """The body of a response as a stream."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the complete body at once."""
        yield self._body


class StubRefusal(aiohttp.ClientResponseError):
    """The error that kopf expects of a refused request."""

    def __init__(self, status: int) -> None:
        Exception.__init__(self, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.status)


class StubResponse:
    """A response for the operator and for kopf."""

    __slots__ = ("_body", "content", "headers", "status")

    def __init__(self, status: int, body: bytes, content: Feed | None = None) -> None:
        self.status, self._body = status, body
        self.content: Feed | StubBody = content or StubBody(body)
        self.headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        """Return the body."""
        return self._body

    async def json(self) -> Any:
        """Return the decoded body."""
        return orjson.loads(self._body)

    def raise_for_status(self) -> None:
        """Raises StubRefusal for an error."""
        if self.status >= 400:
            raise StubRefusal(self.status)

    def release(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""

    def __await__(self) -> Generator[Any, Any, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


_BOUND: Final = StubResponse(201, _SUCCESS)


@dataclass(slots=True)
class Feed:
    """The bytes of one watch. Queued events are serialised when they are read."""

    version: int = 1_000_000
    _lines: deque[tuple[str, str]] = field(default_factory=deque)
    _wake_up: asyncio.Event = field(default_factory=asyncio.Event)
    event: PodEvent | None = None
    read: int = 0

    def add(self, name: str, node: str = "") -> None:
        """Queue the event of a pod that was created, or bound to ``node``."""
        self._lines.append((name, node))
        self._wake_up.set()

    def at_eof(self) -> bool:
        """Return False: the stream never ends."""
        return False

    async def readany(self) -> bytes:
        """Return queued bytes, or wait for the next event."""
        while not self._lines:
            self._wake_up.clear()
            await self._wake_up.wait()
        return self._piece(PIECE)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield pieces without an end, as kopf's own watch reads them."""
        while True:
            yield await self.readany()

    def _piece(self, size: int) -> bytes:
        made: list[bytes] = []
        while self._lines and size > 0 and self.event is not None:
            name, node = self._lines.popleft()
            self.version += 1
            line = self.event(name, node, self.version)
            made.append(line)
            size -= len(line)
            self.read += 1
        return b"".join(made)


@dataclass(slots=True)
class StubServer:
    """The objects of the server and the requests that it received. `bound`: the node of each bound pod."""

    lists: dict[str, Objects]
    kept: dict[str, Any]
    pods: Feed
    bound: dict[str, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def answer(self, method: str, url: str, body: bytes | None) -> StubResponse:
        """Respond immediately."""
        path = url.partition("?")[0]
        if method == "POST" and path.endswith("/binding"):
            return self._bind(path, orjson.loads(body or b"{}")["target"]["name"])
        if method == "GET":
            return self._get(url)
        self.seen[f"{method} {path.rpartition('/')[2] if method == 'POST' else ''}"] += 1
        if method == "POST" and path in INTRODUCTION:
            return StubResponse(201, orjson.dumps(INTRODUCTION[path]))
        if method == "POST" and path.endswith("/secrets"):
            secret = orjson.loads(body or b"{}")
            self.kept[f"{path}/{secret['metadata']['name']}"] = secret
        return StubResponse(201 if method == "POST" else 200, body or _SUCCESS)

    def _bind(self, path: str, node: str) -> StubResponse:
        name = path.split("/")[-2]
        if name in self.bound:
            self.twice.append(name)
        self.bound[name] = node
        self.pods.add(name, node)
        return _BOUND

    def _get(self, url: str) -> StubResponse:
        parts = urlsplit(url)
        query, path = {key: values[-1] for key, values in parse_qs(parts.query).items()}, parts.path
        if query.get("sendInitialEvents"):
            return StubResponse(400, _NOT_STREAMED)
        if query.get("watch"):
            return StubResponse(200, b"", self.pods if path == "/api/v1/pods" else Feed())
        if path in INTRODUCTION or path in DISCOVERY or path in self.kept:
            found = INTRODUCTION.get(path) or DISCOVERY.get(path) or self.kept[path]
            return StubResponse(200, orjson.dumps(found))
        objects = self.lists.get(path)
        if "labelSelector" not in query and objects is not None:
            page = objects.page(int(query.get("limit", "0")), int(query.get("continue", "0")))
            return StubResponse(200, page)
        is_list = path.rpartition("/")[2] in _PLURALS
        return StubResponse(200, _EMPTY) if is_list else StubResponse(404, _NOT_FOUND)


#: Resources whose list is empty.
_PLURALS: Final = PATHS.keys() | {"configmaps", "deployments", "leases"}


class StubSession:
    """The used part of `aiohttp.ClientSession`. `answer` replaces the network."""

    closed = False
    connector = None

    def __init__(self, server: StubServer) -> None:
        self._server = server
        self.headers: dict[str, str] = {"User-Agent": "stub"}

    def request(self, method: str, url: str, *, data: bytes | None = None, **_: object) -> StubResponse:
        """Return the response of the stub."""
        return self._server.answer(method.upper(), url.removeprefix("http://stub"), data)

    async def close(self) -> None:
        """Does nothing."""


STUB = Access("http://stub")


class StubPool(HttpConnectionPool):
    """The connection pool of writes, without connections."""

    def __init__(self, server: StubServer) -> None:
        super().__init__("http://stub", None, keepalive_s=0, prepare=lambda socket: None)
        self._server = server

    async def exchange(self, method: str, path: str, head: str, body: bytes, *, may_wait: bool = True) -> HttpResponse:
        """Return the response of the stub."""
        found = self._server.answer(method, path, body)
        return HttpResponse(found.status, await found.read())


class StubConnections(Connections):
    """The operator's connections, without a network."""

    def __init__(self, server: StubServer) -> None:
        super().__init__()
        self._stub: Any = StubSession(server)
        self.pool = StubPool(server)

    def session(self, access: Access) -> aiohttp.ClientSession:
        """Return the stub session with the headers of these credentials."""
        self._access = access
        stub: aiohttp.ClientSession = self._stub
        return stub

    async def close(self) -> None:
        """Does nothing."""


class StubKubeSession(KubeSession):
    """The operator's session with the stub. Nothing above it knows."""

    def __init__(self, server: StubServer, guard: LeadershipGuard, measure: Measure) -> None:
        super().__init__(Credentials(lambda: STUB), guard, measure=measure)
        self._connections = StubConnections(server)

    def separate(self, access: Access) -> aiohttp.ClientSession:
        """Return the stub session for kopf."""
        return self._connections.session(access)


def pod_event(bodies: Sequence[Mapping[str, Any]], which: Callable[[str], int]) -> PodEvent:
    """Return a builder of pod events from one body per class of pods. `which` returns the class by the pod's name.

    `_MARKS` are the placeholders of values that differ. A name ends in twelve digits, which determine other values.
    """
    added = [_template(body, "ADDED") for body in bodies]
    bound = [_template(_on_a_node(body), "MODIFIED") for body in bodies]

    def made(name: str, node: str, version: int) -> bytes:
        number = name[-12:].encode()
        values = (name.encode(), b"%d" % version, node.encode(), number, number[-5:])
        parts, marks = (bound if node else added)[which(name)]
        return parts % tuple([values[mark] for mark in marks])

    return made


_MARKS: Final = (b"@NAME@", b"@VERSION@", b"@NODE@", b"@UID@", b"@TOKEN@")


def _template(body: Mapping[str, Any], kind: str) -> tuple[bytes, tuple[int, ...]]:
    """Return a line with %b for values that differ, and the indexes of these values."""
    line = orjson.dumps({"type": kind, "object": body}).replace(b"%", b"%%") + b"\n"
    marks = tuple(_found(line))
    for mark in _MARKS:
        line = line.replace(mark, b"%b")
    return line, marks


def _found(line: bytes) -> Iterator[int]:
    places = sorted(
        (start, number)
        for number, mark in enumerate(_MARKS)
        for start in range(len(line))
        if line.startswith(mark, start)
    )
    return (number for _, number in places)


def _on_a_node(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod as the API server changes it after a bind."""
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "observedGeneration": 1,
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:01Z",
    }
    return {
        **body,
        "spec": {**body["spec"], "nodeName": "@NODE@"},
        "status": {**body["status"], "conditions": [condition]},
    }
