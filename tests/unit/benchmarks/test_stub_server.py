"""The benchmark's API server without a network can be read by kopf's own watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from kopf._cogs.clients.api import iter_jsonlines

from benchmarks.stub_server import Feed, StubBody, StubResponse


def _lines(feed: Feed) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", iter_jsonlines(cast("Any", feed)))


def test_a_watch_of_the_stub_is_read_by_kopf() -> None:
    async def first_line() -> bytes:
        feed = Feed(event=lambda name, node, version: f'{{"name":"{name}","version":{version}}}\n'.encode())
        feed.add("pod-1")
        async with asyncio.timeout(10), aclosing(_lines(feed)) as lines:
            async for line in lines:
                return line
        raise AssertionError("the watch ended")

    assert asyncio.run(first_line()) == b'{"name":"pod-1","version":1000001}'


def test_an_answer_is_read_as_a_stream() -> None:
    """The operator reads responses with a size limit in this way."""

    async def body() -> bytes:
        content = StubResponse(200, b"abc").content
        assert isinstance(content, StubBody)
        return b"".join([piece async for piece in content.iter_any()])

    assert asyncio.run(body()) == b"abc"
