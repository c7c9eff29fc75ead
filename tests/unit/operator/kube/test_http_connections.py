"""What a line does with an answer, and when it is used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from muster_operator.kube.http import HttpConnectionPool, HttpResponse, NoResponse

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
LATER = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nz"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
CUT = b""


@dataclass
class Server:
    """Gives these answers in order, whatever is asked; CUT closes the connection instead."""

    answers: list[bytes]
    asked: list[bytes] = field(default_factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    pause: Callable[[], float] = lambda: 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with suppress(ConnectionError):
            while head := await reader.read(4096):
                self.asked.append(head)
                answer = self.answers.pop(0)
                for piece in (answer[:20], answer[20:]):
                    writer.write(piece)
                    await asyncio.sleep(self.pause())
                if answer in {CUT, HALF}:
                    break
        writer.close()


@asynccontextmanager
async def lines_to(server: Server, keepalive_s: float = 60.0, prefix: str = "") -> AsyncIterator[HttpConnectionPool]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    lines = HttpConnectionPool(f"http://127.0.0.1:{port}{prefix}", None, keepalive_s, lambda made: None)
    try:
        yield lines
    finally:
        lines.retire()
        listening.close()
        await listening.wait_closed()
        for writer in server.writers:
            writer.close()
        await asyncio.sleep(0.01)  # they close with the loop's next turns


async def ask(lines: HttpConnectionPool, method: str = "POST", path: str = "/x", body: bytes = b"{}") -> HttpResponse:
    async with asyncio.timeout(2):
        return await lines.exchange(method, path, lines.head({"Accept": "application/json"}), body)


async def test_an_answer_has_its_status_its_body_and_what_the_server_says_of_patience() -> None:
    async with lines_to(Server([OK, CHUNKED, LATER])) as lines:
        assert await ask(lines) == HttpResponse(201, b"ok")
        assert await ask(lines) == HttpResponse(200, b"abcde")
        assert await ask(lines) == HttpResponse(429, b"", "7")


async def test_requests_one_after_the_other_go_over_one_connection() -> None:
    server = Server([OK, OK, OK])
    async with lines_to(server) as lines:
        for _ in range(3):
            await ask(lines)
    assert server.connections == 1


async def test_requests_at_once_have_a_connection_each() -> None:
    server = Server([OK, OK, OK])
    async with lines_to(server) as lines:
        await asyncio.gather(*(ask(lines) for _ in range(3)))
    assert server.connections == 3


async def test_a_request_says_whom_it_is_for_and_how_long_it_is() -> None:
    server = Server([OK])
    async with lines_to(server, prefix="/clusters/c1") as lines:
        await ask(lines, path="/api/v1/pods/p?fieldManager=muster", body=b"12345")
    head, _, body = server.asked[0].partition(b"\r\n\r\n")
    start, host, *others = head.decode().split("\r\n")
    assert start == "POST /clusters/c1/api/v1/pods/p?fieldManager=muster HTTP/1.1"
    assert host.startswith("Host: 127.0.0.1:")
    assert others == ["Accept: application/json", "Content-Length: 5"]
    assert body == b"12345"


async def test_a_path_cannot_end_the_head() -> None:
    server = Server([OK])
    async with lines_to(server) as lines:
        await ask(lines, path="/p\r\nX: y z")
    assert server.asked[0].startswith(b"POST /p%0D%0AX:%20y%20z HTTP/1.1\r\n")


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
async def test_what_may_be_done_twice_and_met_the_end_of_an_idle_line_is_sent_again_and_nothing_else_is(
    method: str,
) -> None:
    server = Server([OK, CUT, OK, CUT])
    async with lines_to(server) as lines:
        await ask(lines)
        assert await ask(lines, method) == HttpResponse(201, b"ok")
        with pytest.raises(NoResponse):
            await ask(lines, "POST")
    assert server.connections == 2


async def test_half_an_answer_is_none() -> None:
    async with lines_to(Server([HALF])) as lines:
        with pytest.raises(NoResponse):
            await ask(lines)


async def test_what_is_no_http_is_no_answer() -> None:
    async with lines_to(Server([b"SSH-2.0-OpenSSH_9.6 and more of this\r\n"])) as lines:
        with pytest.raises(NoResponse):
            await ask(lines)


async def test_a_line_that_the_server_ends_is_not_used_again() -> None:
    server = Server([LAST, OK])
    async with lines_to(server) as lines:
        await ask(lines)
        assert await ask(lines) == HttpResponse(201, b"ok")
    assert server.connections == 2


async def test_the_late_answer_to_a_request_that_was_given_up_is_nobodys() -> None:
    server = Server([OK, LATER], pause=lambda: 0.05)
    async with lines_to(server) as lines:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await ask(lines)
        assert (await ask(lines)).status == 429
    assert server.connections == 2


async def test_a_line_that_was_idle_for_long_is_not_used_again() -> None:
    server = Server([OK, OK])
    async with lines_to(server, keepalive_s=0.0) as lines:
        await ask(lines)
        await ask(lines)
    assert server.connections == 2


async def test_a_line_of_an_old_certificate_ends_with_its_answer() -> None:
    server = Server([OK, OK], pause=lambda: 0.02)
    async with lines_to(server) as lines:
        under_way = asyncio.create_task(ask(lines))
        await asyncio.sleep(0.01)
        lines.retire()
        assert await under_way == HttpResponse(201, b"ok")
        await ask(lines)
    assert server.connections == 2
