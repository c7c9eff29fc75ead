"""The responses of the benchmark's API server without a network."""

import asyncio

from benchmarks.stub_server import StubBody, StubResponse


def test_an_answer_is_read_as_a_stream() -> None:
    """The operator reads responses with a size limit in this way."""

    async def body() -> bytes:
        content = StubResponse(200, b"abc").content
        assert isinstance(content, StubBody)
        return b"".join([piece async for piece in content.iter_any()])

    assert asyncio.run(body()) == b"abc"
