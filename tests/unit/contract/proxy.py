"""A wire that a test can cut or jam: it forwards bytes between a client and a server."""

import asyncio
from contextlib import suppress
from pathlib import Path


class Proxy:
    """Listens on one unix socket and forwards to another."""

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
        """Breaks every connection; new ones are let through."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def stop_forwarding(self) -> None:
        """Keeps connections open and lets nothing through: what a dead machine looks like."""
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
