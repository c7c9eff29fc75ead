"""A forwarding proxy in front of the API server, the base of ``Gate`` and of the faulty proxy.

It terminates TLS with a certificate of the cluster's authority, so the operator cannot distinguish it from the server.
A request of a killed client is never forwarded, as if the process had been killed just before sending it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from devcluster.api import Access
from devcluster.certificates import ServerFiles

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
"""Headers of one connection, which are not forwarded (RFC 9110, 7.6.1)."""

EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired","message":"proxy"}}\n'
)
"""The event of the API server for a watch with a compacted resource version."""


class Proxy:
    """``async with Proxy(access, files) as proxy``, then ``proxy.url`` in the operator's kubeconfig."""

    def __init__(self, upstream: Access, files: ServerFiles) -> None:
        self._upstream = upstream
        self._files = files
        self.url = ""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._upstream.tls)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        # Handlers are cancelled when their client disconnects, which drops a held request.
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._files.context())
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"https://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request; here: forward it and return the response."""
        async with self.forwarded(request) as answer:
            return await self.relay(request, answer)

    @asynccontextmanager
    async def forwarded(self, request: web.Request, query: str | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response of the API server to this request; ``query`` replaces that of the client."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read()
        path = request.path_qs if query is None else f"{request.path}?{query}"
        url = self._upstream.server + path
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            yield answer

    async def relay(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Return the response, in chunks if it is a watch."""
        if not is_watch(request):
            return web.Response(status=answer.status, headers=end_to_end_headers(answer), body=await answer.read())
        stream = web.StreamResponse(status=answer.status, headers=end_to_end_headers(answer))
        await stream.prepare(request)
        await self.stream(request, answer, stream)
        await stream.write_eof()
        return stream

    async def stream(self, request: web.Request, answer: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
        """Forward the events of a watch until one side ends it."""
        async for chunk in answer.content.iter_any():
            await stream.write(chunk)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self.handle(request)
        except aiohttp.ClientError:
            return cut(request)


def is_watch(request: web.Request) -> bool:
    """Whether the request is a watch."""
    return request.query.get("watch") in {"1", "true"}


def end_to_end_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The end-to-end headers of the response."""
    return {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}


def error_response(code: int, reason: str, message: str, retry_after_s: int | None = None) -> web.Response:
    """A failure in the format of the API server."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
    }
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return web.json_response(status, status=code, headers=headers)


def cut(request: web.Request) -> web.Response:
    """Close the connection. The client does not receive the response."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
