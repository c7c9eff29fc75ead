"""Connections over real sockets, with limits of a few connections and bytes: the clients of a server are hostile."""

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import trustme
from aiohttp import web

from muster_si.client_connections import (
    READ_AHEAD,
    ClientConnections,
    Connection,
    ConnectionLimits,
    OpenConnections,
    listeners,
)

Opened = tuple[asyncio.StreamReader, asyncio.StreamWriter]
NEVER_S = 600.0
AUTHORITY = trustme.CA()


@dataclass
class Server:
    """A server under test. Requests of `/wait` are answered after the end of the test; `started`: one for each."""

    port: int
    tls: ssl.SSLContext | None = None
    started: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    opened: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, source: str, count: int = 1) -> list[Opened]:
        """Connections of an address that send nothing."""
        found = []
        for _ in range(count):
            found.append(await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, local_addr=(source, 0)))
            self.opened.append(found[-1][1])
        return found

    async def wait(self, source: str, count: int) -> list[Opened]:
        """Connections of an address with a request each that is not answered."""
        found = await self.connect(source, count)
        for _, writer in found:
            writer.write(request("/wait"))
            await self.started.get()
        return found

    async def answers(self, source: str) -> bool:
        """Whether a new connection of an address is answered."""
        [(reader, writer)] = await self.connect(source)
        writer.write(request("/"))
        return await line(reader) == b"HTTP/1.1 200 OK\r\n"


def request(path: str, header: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode()


async def line(reader: asyncio.StreamReader) -> bytes:
    """The first line of an answer; empty = the connection was closed."""
    with suppress(ConnectionError):
        return await reader.readline()
    return b""


@asynccontextmanager
async def serving(
    total: int = 100, first_request_s: float = NEVER_S, ahead: int = 2**20, *, has_tls: bool = False
) -> AsyncIterator[Server]:
    """A server with these limits."""
    connections = ClientConnections(ConnectionLimits(first_request_s, total, ahead))
    started, finish = asyncio.Queue[str](), asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/wait":
            started.put_nowait(request.path)
            await finish.wait()
        return web.Response(text="ok")

    app = web.Application(middlewares=[connections.count])
    app.router.add_get("/{name:.*}", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    client = server = None
    if has_tls:
        client, server = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        AUTHORITY.configure_trust(client)
        AUTHORITY.issue_cert("127.0.0.1").configure_cert(server)
    [listening] = listeners("127.0.0.1", 0)
    served = Server(listening.getsockname()[1], client, started)
    connections.accept(runner, [listening], server)
    try:
        async with asyncio.timeout(30):
            yield served
    finally:
        for writer in served.opened:
            writer.transport.abort()
        finish.set()
        await connections.stop()
        await runner.cleanup()


@pytest.mark.parametrize("has_tls", [False, True])
async def test_idle_connections_make_room_for_new_ones_of_all_addresses(*, has_tls: bool) -> None:
    """Users behind one proxy have one address: the oldest idle connection ends, and the next is answered."""
    async with serving(total=6, has_tls=has_tls) as server:
        idle = await server.connect("127.0.0.2", 5) + await server.connect("127.0.0.3", 1)
        assert await server.answers("127.0.0.2")
        assert await server.answers("127.0.0.4")
        for reader, _ in idle[:2]:
            assert await line(reader) == b"", "the two oldest ones of the address with the most are closed"
        for reader, writer in idle[2:]:
            writer.write(request("/"))
            assert (await line(reader)).endswith(b"200 OK\r\n")


async def test_an_answered_connection_that_sends_nothing_more_makes_room_too() -> None:
    async with serving(total=2) as server:
        for _ in range(5):
            assert await server.answers("127.0.0.2")
        assert await server.answers("127.0.0.3")


async def test_no_address_keeps_others_out_with_requests_that_take_long() -> None:
    """They are closed for an address that has fewer even with its new connection, and for no other one."""
    async with serving(total=4) as server:
        waiting = await server.wait("127.0.0.2", 4)
        [(refused, _)] = await server.connect("127.0.0.2")
        assert await line(refused) == b"", "an address does not get more at its own cost"
        await server.wait("127.0.0.3", 2)
        ends = [asyncio.create_task(line(reader)) for reader, _ in waiting]
        assert [await end for end in ends[2:]] == [b"", b""], "the newest ones are closed"
        [(refused, _)] = await server.connect("127.0.0.3")
        assert await line(refused) == b"", "each has half of all"
        assert not any(end.done() for end in ends[:2])
        assert await server.answers("127.0.0.4")
        for end in ends:
            end.cancel()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nX-Slow: "])
@pytest.mark.parametrize("has_tls", [False, True])
async def test_a_connection_without_a_first_request_is_closed(*, has_tls: bool, sent: bytes) -> None:
    async with serving(first_request_s=0.3, has_tls=has_tls) as server:
        [(reader, writer)] = await server.connect("127.0.0.2")
        writer.write(sent)
        assert await line(reader) == b""


async def test_a_connection_without_a_tls_handshake_is_closed() -> None:
    async with serving(first_request_s=0.3, has_tls=True) as server:
        server.tls = None
        [(reader, _)] = await server.connect("127.0.0.2")
        assert await line(reader) == b""


async def test_a_closed_connection_leaves_nothing_behind() -> None:
    """Every pod of the cluster can open and close thousands in a second."""

    def kept() -> int:
        gc.collect()
        return sum(type(one) is Connection for one in gc.get_objects())

    before = kept()
    async with serving() as server:
        for _, writer in await server.connect("127.0.0.2", 20):
            writer.transport.abort()
        while kept() > before + 1:  # noqa: ASYNC110 - nothing signals it. The server knows the last one that it accepted
            await asyncio.sleep(0)


async def test_connections_that_sent_most_without_a_slot_are_closed() -> None:
    """Headers that never end. Another address is answered."""
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 3900) for n in range(10))
    async with serving(ahead=100_000) as server:
        flooding = await server.connect("127.0.0.2", 10)
        for _, writer in flooding:
            writer.write(head)
        ends = [asyncio.create_task(line(reader)) for reader, _ in flooding]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        assert await server.answers("127.0.0.3")
        for end in ends:
            end.cancel()


async def test_a_connection_ends_with_the_response_if_it_sent_many_bytes_before() -> None:
    """They may be further requests, whose headers would not count any more."""
    async with serving() as server:
        for count, is_kept in ((2, True), (READ_AHEAD // len(request("/")) + 1, False)):
            [(reader, writer)] = await server.connect("127.0.0.2")
            writer.write(request("/") * count)
            answered = 0
            while answered < count and (read := await line(reader)):
                answered += b"200 OK" in read
            assert (answered == count) is is_kept


def test_bytes_of_requests_with_a_slot_do_not_count() -> None:
    open_connections = OpenConnections(10, 100)
    large, small = (open_connections.admit(source) for source in ("a", "b"))
    assert large is not None
    assert small is not None
    assert open_connections.receive(large, 90)
    open_connections.forget(large)
    assert open_connections.receive(small, 90)
    assert not open_connections.receive(large, 91), "the connection that sent most is closed"
    assert open_connections.receive(small, 10)


def test_bytes_of_a_closed_connection_count_for_nobody() -> None:
    open_connections = OpenConnections(10, 100)
    closed, other = (open_connections.admit(source) for source in ("a", "b"))
    assert closed is not None
    assert other is not None
    open_connections.remove(closed)
    assert not open_connections.receive(closed, 90)
    assert open_connections.receive(other, 90)


def test_half_of_the_open_files_of_the_process_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (8, 8))
    assert ClientConnections(ConnectionLimits(1.0))._total == 4


def test_a_name_is_served_on_all_its_addresses_and_one_port() -> None:
    found = listeners("localhost", 0)
    addresses = {place[0] for *_, place in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
    try:
        assert {each.getsockname()[0] for each in found} == addresses
        assert len({each.getsockname()[1] for each in found}) == 1
        with pytest.raises(OSError, match="in use"):
            listeners("127.0.0.1", found[0].getsockname()[1])
    finally:
        for each in found:
            each.close()
