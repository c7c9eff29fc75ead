"""The connections of a web server's clients, limited in number, bytes and time, and fair between their addresses.

`rest` of the core and `webhook` of the operator accept connections with it. Their clients may be anybody: every pod of
the cluster can open connections and send nothing, send slowly, or send headers that never end.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

_log = structlog.get_logger(__name__)

#: Bytes that a connection reads ahead before its request has a slot.
READ_AHEAD: Final = 2**14

#: Seconds before an idle connection is closed. API servers and proxies close theirs after 60 to 90. If the server
#: closed it first, a request in flight would fail, and with it a pod.
KEEPALIVE_S: Final = 180.0

#: Seconds until connections are accepted again after an error.
_ACCEPT_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server.

    first_request_s: time for a new connection to send the headers of its first request, beginning with the TLS
    handshake. total: open connections. An API server has one for each request that it handles at once, at most 600 by
    default. Each takes 20 KB, with TLS 60 KB. ahead: bytes that all connections have sent before their requests have
    slots: headers and the beginning of bodies. Each takes three to four bytes of memory. An API server sends 1,000
    reviews of 20 KB at once.
    """

    first_request_s: float
    total: int = 1024
    ahead: int = 20 * 2**20


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
    opening: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Closes it immediately."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class OpenConnections:
    """The open connections. If there are too many, one of the address with the most connections is closed.

    If all of them together have sent more than `ahead` bytes before their requests have slots, those that sent most of
    the address that sent most are closed.
    """

    def __init__(self, total: int, ahead: int) -> None:
        self._total, self._most_ahead = total, ahead
        self._count = 0
        self._ahead: Counter[str] = Counter()
        self._by_source: dict[str, dict[Connection, None]] = {}

    def admit(self, source: str) -> Connection | None:
        """Adds a connection. None = there are too many, and none of them may be closed for this address."""
        if self._count >= self._total and not self._make_room(source):
            return None
        added = Connection(source)
        self._by_source.setdefault(source, {})[added] = None
        self._count += 1
        return added

    def _make_room(self, source: str) -> bool:
        """Closes a connection of the address with the most: the oldest idle one, which may be of the source itself.

        Without an idle one, it closes the newest if the source has fewer even with one more: no address keeps the
        others out.
        """
        largest = self._by_source[max(self._by_source, key=lambda one: len(self._by_source[one]))]
        closed = next((one for one in largest if not one.busy), None)
        if closed is None and len(largest) > len(self._by_source.get(source, ())) + 1:
            closed = next(reversed(largest))
        if closed is not None:
            closed.close()
            self.remove(closed)
        return closed is not None

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
        if connection not in self._by_source.get(connection.source, {}):  # its handshake ended while it was closed
            return False
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


class ClientConnections:
    """Accepts connections for a web server. The application has `count` as its first middleware."""

    def __init__(self, limits: ConnectionLimits) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._total = min(limits.total, files // 2)  # the process needs the others
        self._first_request_s = limits.first_request_s
        self._connections = OpenConnections(self._total, limits.ahead)
        #: By aiohttp's protocol.
        self._open: dict[asyncio.BaseProtocol, Connection] = {}
        self._listening: Sequence[socket.socket] = ()
        self._accepting: list[asyncio.Task[None]] = []

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Counts a request as in progress until it is answered, whatever its path."""
        connection = self._of(request)
        connection.requests += 1
        connection.busy += 1
        try:
            return await handler(request)
        finally:
            connection.busy -= 1
            if connection.ahead > READ_AHEAD:
                request.protocol.close()  # after this response: further requests may be in these bytes
            connection.is_read = False
            self._connections.forget(connection)

    def read(self, request: web.Request) -> None:
        """The request has a slot, which limits its bytes from now on."""
        connection = self._of(request)
        connection.is_read = True
        self._connections.forget(connection)

    def _of(self, request: web.Request) -> Connection:
        return self._open.get(request.protocol, Connection(""))

    def accept(self, runner: web.AppRunner, listening: Sequence[socket.socket], tls: ssl.SSLContext | None) -> None:
        """Accepts connections of these sockets until `stop`. The runner has been set up."""
        for each in listening:
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * READ_AHEAD)
            each.listen(self._total)
        server = cast(web.Server, runner.server)
        self._listening = listening
        self._accepting = [asyncio.create_task(self._accept(server, each, tls)) for each in listening]

    async def stop(self) -> None:
        """Accepts no more connections. The runner closes those that are open, at its cleanup."""
        for task in self._accepting:
            task.cancel()
        if self._accepting:
            await asyncio.wait(self._accepting)
        for each in self._listening:
            each.close()
        for connection in list(self._open.values()):
            if connection.transport is None:
                connection.close()

    async def _accept(self, server: web.Server, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accepts connections. Those that exceed the limits are closed before the TLS handshake."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # other work runs between two connections of a flood
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:  # too many open files, for example
                _log.warning("connection not accepted", reason=str(error))
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            connection = self._connections.admit(address[0])
            if connection is None:
                accepted.close()
                continue
            connection.opening = loop.create_task(self._open_connection(server, accepted, connection, tls))
            connection.unused = loop.call_later(self._first_request_s, _close_unused, connection)

    async def _open_connection(
        self, server: web.Server, accepted: socket.socket, connection: Connection, tls: ssl.SSLContext | None
    ) -> None:
        protocol = server()

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
                ssl_handshake_timeout=self._first_request_s if tls else None,
                ssl_shutdown_timeout=1.0 if tls else None,
            )
        except (OSError, asyncio.CancelledError):  # ssl.SSLError is an OSError
            accepted.close()
            closed()


def _close_unused(connection: Connection) -> None:
    if not connection.requests:
        connection.close()


def listeners(address: str, port: int) -> list[socket.socket]:
    """Sockets of an address, or of all addresses of a name; empty = all, IPv4 and IPv6. Port 0 selects a free one.

    Raises:
        OSError: the address or port cannot be used.
    """
    if not address:
        if socket.has_dualstack_ipv6():
            return [socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)]
        return [socket.create_server(("", port))]
    places = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    found: list[socket.socket] = []
    try:
        for family, place in dict.fromkeys((family, place) for family, _, _, _, place in places):
            taken = found[0].getsockname()[1] if found else port
            found.append(socket.create_server((place[0], taken, *place[2:]), family=family))
    except OSError:
        for each in found:
            each.close()
        raise
    return found
