"""How a connection handles a response, and when it is reused."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from muster_operator.kube.http import OPENINGS, HttpConnectionPool, HttpResponse, NoResponse

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
LATER = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nz"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
CUT = b""


@dataclass
class Server:
    """Sends these responses in order for any request; CUT closes the connection instead."""

    answers: list[bytes]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    pause: Callable[[], float] = lambda: 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with suppress(ConnectionError):
            while head := await reader.read(4096):
                self.requests.append(head)
                answer = self.answers.pop(0)
                for piece in (answer[:20], answer[20:]):
                    writer.write(piece)
                    await asyncio.sleep(self.pause())
                if answer in {CUT, HALF}:
                    break
        writer.close()


@asynccontextmanager
async def pool_to(server: Server, keepalive_s: float = 60.0, prefix: str = "") -> AsyncIterator[HttpConnectionPool]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = HttpConnectionPool(f"http://127.0.0.1:{port}{prefix}", None, keepalive_s, lambda made: None)
    try:
        yield pool
    finally:
        pool.retire()
        listening.close()
        await listening.wait_closed()
        for writer in server.writers:
            writer.close()
        await asyncio.sleep(0.01)  # they close with the loop's next turns


async def ask(
    pool: HttpConnectionPool, method: str = "POST", path: str = "/x", body: bytes = b"{}", *, may_wait: bool = True
) -> HttpResponse:
    async with asyncio.timeout(20):
        return await pool.exchange(method, path, pool.head([("Accept", "application/json")]), body, may_wait=may_wait)


async def test_a_response_has_its_status_body_and_retry_after() -> None:
    async with pool_to(Server([OK, CHUNKED, LATER])) as pool:
        assert await ask(pool) == HttpResponse(201, b"ok")
        assert await ask(pool) == HttpResponse(200, b"abcde")
        assert await ask(pool) == HttpResponse(429, b"", "7")


async def test_sequential_requests_share_one_connection() -> None:
    server = Server([OK, OK, OK])
    async with pool_to(server) as pool:
        for _ in range(3):
            await ask(pool)
    assert server.connections == 1


async def test_concurrent_requests_use_one_connection_each() -> None:
    server = Server([OK, OK, OK])
    async with pool_to(server) as pool:
        await asyncio.gather(*(ask(pool) for _ in range(3)))
    assert server.connections == 3


async def test_a_burst_of_requests_opens_few_connections_at_a_time() -> None:
    """Waiting requests reuse connections that become idle."""
    server = Server([OK] * 200)
    async with pool_to(server) as pool:
        responses = await asyncio.gather(*(ask(pool) for _ in range(200)))
    assert [response.status for response in responses] == [201] * 200
    assert server.connections < 100


async def test_a_refused_connection_fails_every_waiting_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    pool = HttpConnectionPool(f"http://127.0.0.1:{port}", None, 60.0, lambda made: None)
    failures = await asyncio.gather(*(ask(pool) for _ in range(3 * OPENINGS)), return_exceptions=True)
    assert {type(failure) for failure in failures} == {ConnectionRefusedError}


@dataclass
class HangingServer:
    """Accepts connections without a TLS handshake. `accepted` has an entry for each; `closed` for each that ended."""

    accepted: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    closed: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.accepted.put(None)
        with suppress(ConnectionError):
            await reader.read(-1)
        writer.close()
        await self.closed.put(None)


async def cancelled(*requests: asyncio.Task[HttpResponse]) -> None:
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)


@pytest.mark.parametrize("is_first_cancelled", [True, False])
async def test_openings_that_hang_delay_neither_urgent_requests_nor_those_after_a_timeout(
    is_first_cancelled: bool,  # noqa: FBT001
) -> None:
    """A timed-out request ends an opening. A request that may not wait opens a connection itself."""
    server = HangingServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    address = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    pool = HttpConnectionPool(address, ssl.create_default_context(), 60.0, lambda made: None)
    async with listening, asyncio.timeout(20):
        requests = [asyncio.create_task(ask(pool)) for _ in range(OPENINGS)]
        for _ in requests:
            await server.accepted.get()
        if is_first_cancelled:
            await cancelled(requests[0])
        later = asyncio.create_task(ask(pool, may_wait=is_first_cancelled))
        await server.accepted.get()
        await cancelled(later, *requests)
        for _ in range(OPENINGS + 1):
            await server.closed.get()


async def test_a_request_has_its_host_and_content_length() -> None:
    server = Server([OK])
    async with pool_to(server, prefix="/clusters/c1") as pool:
        await ask(pool, path="/api/v1/pods/p?fieldManager=muster", body=b"12345")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    start, host, *others = head.decode().split("\r\n")
    assert start == "POST /clusters/c1/api/v1/pods/p?fieldManager=muster HTTP/1.1"
    assert host.startswith("Host: 127.0.0.1:")
    assert others == ["Accept: application/json", "Content-Length: 5"]
    assert body == b"12345"


async def test_line_breaks_in_a_path_are_escaped() -> None:
    server = Server([OK])
    async with pool_to(server) as pool:
        await ask(pool, path="/p\r\nX: y z")
    assert server.requests[0].startswith(b"POST /p%0D%0AX:%20y%20z HTTP/1.1\r\n")


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
async def test_only_idempotent_requests_are_retried_on_a_closed_idle_connection(
    method: str,
) -> None:
    server = Server([OK, CUT, OK, CUT])
    async with pool_to(server) as pool:
        await ask(pool)
        assert await ask(pool, method) == HttpResponse(201, b"ok")
        with pytest.raises(NoResponse):
            await ask(pool, "POST")
    assert server.connections == 2


async def test_an_incomplete_response_is_no_response() -> None:
    async with pool_to(Server([HALF])) as pool:
        with pytest.raises(NoResponse):
            await ask(pool)


async def test_a_reply_that_is_not_http_is_no_response() -> None:
    async with pool_to(Server([b"SSH-2.0-OpenSSH_9.6 and more of this\r\n"])) as pool:
        with pytest.raises(NoResponse):
            await ask(pool)


async def test_a_connection_closed_by_the_server_is_not_reused() -> None:
    server = Server([LAST, OK])
    async with pool_to(server) as pool:
        await ask(pool)
        assert await ask(pool) == HttpResponse(201, b"ok")
    assert server.connections == 2


async def test_the_late_response_to_a_timed_out_request_is_discarded() -> None:
    pauses = iter([1.0, 1.0])
    server = Server([OK, LATER], pause=lambda: next(pauses, 0.0))
    async with pool_to(server) as pool:
        asking = asyncio.create_task(ask(pool))
        while not server.requests:  # noqa: ASYNC110 - the server has no signal
            await asyncio.sleep(0.001)
        asking.cancel()  # as a timeout does
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await ask(pool)).status == 429
    assert server.connections == 2


async def test_a_connection_idle_for_too_long_is_not_reused() -> None:
    server = Server([OK, OK])
    async with pool_to(server, keepalive_s=0.0) as pool:
        await ask(pool)
        await ask(pool)
    assert server.connections == 2


async def test_a_retired_connection_closes_after_its_response() -> None:
    server = Server([OK, OK], pause=lambda: 0.02)
    async with pool_to(server) as pool:
        under_way = asyncio.create_task(ask(pool))
        await asyncio.sleep(0.01)
        pool.retire()
        assert await under_way == HttpResponse(201, b"ok")
        await ask(pool)
    assert server.connections == 2
