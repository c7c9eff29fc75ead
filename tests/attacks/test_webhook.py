"""Attacks on the port of the webhook, which every pod of the cluster can reach: memory, and pauses of the scheduler.

No cluster: the server runs in a process of its own, so that its memory is that of the webhook.
"""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import orjson
import pytest_asyncio

from tests.attacks.attack import sized
from tests.attacks.measured import MIB, Measured, many_open_files, running
from tests.unit.operator.webhook.test_server import a_question

ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Victim(Measured):
    """The process with the webhook."""

    async def connect(self, source: str) -> Connection:
        """A connection from an address."""
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=ANY, local_addr=(source, 0))

    async def post(self, body: bytes, source: str = "127.0.0.2", header: str = "") -> int:
        """Send a review on a new connection. Returns the status; 0 = the connection was closed."""
        with suppress(ConnectionError, ssl.SSLError):
            reader, writer = await self.connect(source)
            head = (
                f"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{header}\r\n"
            )
            writer.write(head.encode() + body)
            line = await reader.readline()
            writer.close()
            return int(line.split()[1]) if line else 0
        return 0


@pytest_asyncio.fixture(loop_scope="session")
async def victim() -> AsyncIterator[Victim]:
    """The process after a few reviews."""
    with many_open_files():
        async with running(Victim, "tests.attacks.webhook_process") as found:
            for _ in range(10):
                assert await found.post(orjson.dumps(a_question())) == 200
            found.idle_bytes = found.memory("VmRSS")
            yield found


async def test_encoded_and_large_bodies_take_little_memory_and_cause_no_pause(victim: Victim) -> None:
    """20 reviews of gzip (19 KB that become 20 MB), one of 20 MB, and some of the largest size that is read."""
    text = orjson.dumps(a_question(object={"data": "a" * (19 * MIB)}))
    packed = gzip.compress(text)
    tiny = b'{"request":{"uid":"1","operation":"CREATE","object":{"spec":[' + b"{}," * (2 * MIB) + b"{}]}}}"
    long = orjson.dumps(a_question(object={"data": "a" * (6 * MIB)}))
    sources = [f"127.0.0.{number}" for number in range(2, 8)]

    async def gzipped() -> None:
        posts = [victim.post(packed, header="Content-Encoding: gzip\r\n") for _ in range(20)]
        assert set(await asyncio.gather(*posts)) == {415}

    async def too_large() -> None:
        assert await victim.post(text) in {0, 413}
        assert await victim.post(b"{}" * 10 * MIB) in {0, 413}

    async def largest() -> None:
        for body, served in ((tiny, 400), (long, 200)):
            found = {*await asyncio.gather(*(victim.post(body, source) for source in sources))}
            assert {served} <= found <= {served, 503}

    await victim.withstands("20 bodies of gzip", gzipped)
    await victim.withstands("a body of 20 MB", too_large)
    await victim.withstands("6 bodies of 6 MiB from 6 addresses", largest)


async def test_a_thousand_reviews_at_once_are_all_answered(victim: Victim) -> None:
    """Of two addresses, each on a connection of its own."""
    count = sized(200, 1000)
    body = orjson.dumps(a_question(object={"spec": {"env": "a" * 16_384}}))
    sent = b"POST /mutate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def at_once() -> None:
        connections: list[Connection] = []
        for first in range(0, count, 50):
            sources = (f"127.0.0.{2 + number % 2}" for number in range(first, first + 50))
            connections += await asyncio.gather(*map(victim.connect, sources))
        for _, writer in connections:
            writer.write(sent)
        for reader, writer in connections:
            assert b" 200 " in await reader.readline()
            writer.close()

    await victim.withstands(f"{count} reviews at once", at_once)


async def test_idle_connections_take_little_memory_and_do_not_keep_others_out(victim: Victim) -> None:
    """10,000 of five addresses. Those beyond the limits are closed, and a review of another address is answered."""

    async def idle() -> None:
        kept: list[Connection] = []

        async def connect(number: int) -> None:
            with suppress(ConnectionError, ssl.SSLError):
                kept.append(await victim.connect(f"127.0.0.{2 + number % 5}"))

        for first in range(0, sized(1100, 10_000), 100):
            await asyncio.gather(*(connect(first + number) for number in range(100)))
        assert await victim.post(orjson.dumps(a_question()), "127.0.0.9") == 200
        for _, writer in kept:
            writer.transport.abort()

    await victim.withstands("idle connections", idle)


async def test_connections_that_are_closed_at_once_leave_no_memory(victim: Victim) -> None:
    """Of five addresses, opened and closed as fast as possible."""

    async def close(number: int) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            _, writer = await victim.connect(f"127.0.0.{2 + number % 5}")
            writer.transport.abort()

    async def churn() -> None:
        for first in range(0, sized(1000, 10_000), 100):
            await asyncio.gather(*(close(first + number) for number in range(100)))

    await victim.withstands("closed connections", churn)


async def test_requests_that_never_end_take_little_memory(victim: Victim) -> None:
    """Headers and bodies, with as much as the server reads of them."""
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\n"
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 3900) for number in range(24))
    body = b"Content-Length: 7000000\r\n\r\n" + b"a" * 500_000

    async def slow(text: bytes) -> None:
        held: list[Connection] = []
        for number in range(sized(150, 1000)):
            with suppress(ConnectionError, ssl.SSLError):
                held.append(await victim.connect(f"127.0.0.{2 + number % 5}"))
                held[-1][1].write(text)
        assert await victim.post(orjson.dumps(a_question()), "127.0.0.9") == 200
        for _, writer in held:
            writer.transport.abort()

    for text in (head + fields, head + body):
        await victim.withstands("requests that never end", partial(slow, text))
