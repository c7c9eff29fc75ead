"""The operator's connections to the API server: one pool for reads and for kopf's streams, and lines for writes.

A connection is kept while it is idle, so a TLS handshake is rare (asyncio cannot take up an earlier TLS session, and
here it need not). One whose other end is gone without a word is noticed in about 30 s. A new token goes out with the
next request on the same connections. A new certificate, key or authority, also under the same path, means new
connections; what is under way on the old ones may finish, and a stream is taken up where it was.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

import aiohttp
import kopf
from aiohttp.client_middlewares import ClientHandlerType

from muster_operator.link.api.credentials import Credentials, fingerprint
from muster_operator.link.api.lines import Lines
from muster_operator.link.api.measuring import Measure, named
from muster_operator.link.api.retry import JITTER, RETRY_AFTER_LIMIT_S, THROTTLED, told_pause_s

#: Seconds an idle connection is kept; load balancers in front of API servers usually cut after 60 or more.
KEEPALIVE_S: Final = 50.0
#: A silent connection is asked after so many seconds, so often, so many times before it counts as gone.
PROBES: Final[Sequence[tuple[str, int]]] = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
#: Milliseconds that what was sent may stay unacknowledged.
UNACKNOWLEDGED_MS: Final = 30_000
#: Seconds that requests on connections of an old certificate get to finish.
LAST_WORDS_S: Final = 20.0
#: Connections at once: all writers of the pool, and streams, lease and reads beside them never wait for one.
CONNECTIONS: Final = 100
#: Times a request of kopf is sent again because the server asked for patience.
PATIENCE: Final = 3
JSON: Final = "application/json"
USER_AGENT: Final = f"muster-operator/{version('muster-scheduler')}"


class Connections:
    """Made for the present credentials, and again when their TLS half changes. `instance`: which of several we are."""

    def __init__(self, credentials: Credentials, measure: Measure, instance: str = "") -> None:
        self._credentials, self._measure = credentials, measure
        self._agent = f"{USER_AGENT} ({instance})" if instance else USER_AGENT
        self._session: aiohttp.ClientSession | None = None
        self._info: kopf.ConnectionInfo | None = None
        self._tls: tuple[object, ...] = ()
        self._headers: dict[str, dict[str, str]] = {}
        self._heads: dict[str, str] = {}
        self.lines: Lines | None = None
        """For writes, of the session that was asked for last; None = they go through it, for they need a proxy."""
        self._retiring: set[asyncio.Task[None]] = set()
        self._watches: dict[str, aiohttp.ClientResponse] = {}

    async def session(self) -> aiohttp.ClientSession:
        """The session for our own requests.

        Raises:
            NoCredentials: there are none.
        """
        info = self._credentials.current()
        if self._session is not None and info is self._info:
            return self._session
        tls = _tls(info)
        if self._session is None or tls != self._tls:
            self._retire(self._session)
            context = _context(info)
            self.lines = None if info.proxy_url else Lines(info.server, context, KEEPALIVE_S, _watch_over)
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS, ssl=context or True, keepalive_timeout=KEEPALIVE_S, socket_factory=_socket
            )
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=2**18, proxy=info.proxy_url)
        self._headers.clear()
        self._heads.clear()
        self._info, self._tls = info, tls
        return self._session

    def url(self, path: str) -> str:
        """Where a path is, for the session that was asked for last."""
        return (self._info.server.rstrip("/") if self._info is not None else "") + path

    def headers(self, content_type: str) -> dict[str, str]:
        """Who we are, and what we send."""
        headers = self._headers.get(content_type)
        if headers is None:
            headers = {"User-Agent": self._agent, "Accept": JSON, "Content-Type": content_type}
            headers |= self._info.as_http_headers() if self._info is not None else {}
            self._headers[content_type] = headers
        return headers

    def head(self, lines: Lines, content_type: str) -> str:
        """The same for a line."""
        head = self._heads.get(content_type)
        if head is None:
            head = self._heads[content_type] = lines.head(self.headers(content_type))
        return head

    async def for_streams(self) -> kopf.AiohttpSession:
        """The same connections in a session that kopf may close; its manners are the ones of our own requests.

        Raises:
            NoCredentials: there are none.
        """
        ours = await self.session()
        session = aiohttp.ClientSession(
            connector=ours.connector,
            connector_owner=False,
            headers={"User-Agent": self._agent},
            middlewares=(self._measured, self._patient, self._identified),
            proxy=self._info.proxy_url if self._info is not None else None,
        )
        return kopf.AiohttpSession(server=self.url(""), aiohttp_session=session)

    def watched_bytes(self) -> dict[str, int]:
        """How many bytes the newest watch of each resource has brought, told apart from the one before it."""
        return {plural: id(response) + response.content.total_bytes for plural, response in self._watches.items()}

    async def close(self) -> None:
        """Close all connections, also those of streams."""
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        if self.lines is not None:
            self.lines.retire()
            self.lines = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _retire(self, session: aiohttp.ClientSession | None) -> None:
        if self.lines is not None:
            self.lines.retire()
        if session is None:
            return
        task = asyncio.create_task(_close_later(session))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _measured(self, request: aiohttp.ClientRequest, send: ClientHandlerType) -> aiohttp.ClientResponse:
        verb, resource = named(request.method, request.url.path_qs)
        began, status = time.perf_counter(), 0
        try:
            response = await send(request)
            status = response.status
            if verb == "WATCH" and status == 200:
                self._watches[resource] = response
            return response
        finally:
            self._measure(verb, resource, status, time.perf_counter() - began)

    async def _patient(self, request: aiohttp.ClientRequest, send: ClientHandlerType) -> aiohttp.ClientResponse:
        """What kopf does not do: it waits after 429 only, and stumbles over a Retry-After that is a date."""
        for _ in range(PATIENCE):
            response = await send(request)
            pause_s = told_pause_s(response.headers.get("Retry-After"), time.time())
            if response.status not in THROTTLED or pause_s is None:
                return response
            response.release()
            await asyncio.sleep(min(pause_s, RETRY_AFTER_LIMIT_S) * (1 + JITTER * random.random()))  # noqa: S311
        raise aiohttp.ClientConnectionError(f"{request.method} {request.url.path}: told to wait again and again")

    async def _identified(self, request: aiohttp.ClientRequest, send: ClientHandlerType) -> aiohttp.ClientResponse:
        """With the token of now. A 401 is tried once more with credentials read anew, and is then no answer at all.

        To kopf it would be the end: it stops where the credentials that are refused are the only ones.
        """
        for read_anew in (False, True):
            info = self._credentials.reread() if read_anew else self._credentials.current()
            request.headers.update(info.as_http_headers())
            response = await send(request)
            if response.status != 401:
                return response
            response.release()
        raise aiohttp.ClientConnectionError(f"{request.method} {request.url.path}: 401 with every token there is")


async def _close_later(session: aiohttp.ClientSession) -> None:
    try:
        await asyncio.sleep(LAST_WORDS_S)
    finally:
        await session.close()


def _tls(info: kopf.ConnectionInfo) -> tuple[object, ...]:
    """What of the credentials is bound to the connections: everything but the token."""
    paths = (info.ca_path, info.certificate_path, info.private_key_path)
    data = (info.ca_data, info.certificate_data, info.private_key_data)
    return (info.server, info.insecure, info.proxy_url, *paths, *data, fingerprint(paths))


def _context(info: kopf.ConnectionInfo) -> ssl.SSLContext | None:
    return info.as_ssl_context() if info.server.startswith("https") else None


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices when its other end is gone, where the system can do that."""
    family, kind, protocol = address[:3]
    made = socket.socket(family=family, type=kind, proto=protocol)
    _watch_over(made)
    return made


def _watch_over(made: socket.socket) -> None:
    """Let a socket notice that."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*PROBES, ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
