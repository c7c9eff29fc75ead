"""A proxy between client and server that a test can interrupt or block."""

import asyncio
from contextlib import suppress
from pathlib import Path


class Proxy:
    """Listens on one unix socket and forwards bytes to another."""

    def __init__(self, path: Path, target: Path) -> None:
        self._path = path
        self._target = target
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def address(self) -> str:
        return f"unix://{self._path}"

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self._path)

    def cut(self) -> None:
        """Close every connection. New ones are forwarded."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def stop_forwarding(self) -> None:
        """Keep connections open without forwarding, like a failed machine."""
        self._flows.clear()

    async def aclose(self) -> None:
        self.cut()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._target)
        self._writers += [writer, back]
        for source, sink in ((reader, back), (there, writer)):
            self._pumps.add(asyncio.create_task(self._pump(source, sink)))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
