"""The health and metrics port.

`/livez`: the loop responds. `/readyz`: the operator has recovered its session with the core, or it is a standby that
can take over. `/metrics` is for Prometheus. Every pod of the cluster can open connections to the port, so their number
is limited, and addresses share it.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from muster_operator.model.errors import StartupRefused
from muster_operator.runtime.metrics import CONTENT_TYPE, Metrics
from muster_si.client_connections import KEEPALIVE_S, READ_AHEAD, ClientConnections, ConnectionLimits, listeners

#: Connections of probes and scrapers.
LIMITS: Final = ConnectionLimits(first_request_s=10.0, total=64, ahead=2**20)


def listener(option: str, port: int) -> socket.socket:
    """Creates a socket on all interfaces; port 0 selects a free one. `option`: the option's name for messages.

    Raises:
        StartupRefused: the port cannot be used.
    """
    try:
        [found] = listeners("", port)
    except OSError as error:
        raise StartupRefused(f"{option} {port} cannot be used: {error.strerror or error}") from error
    return found


#: Returns why the operator is not ready; empty = ready.
Missing = Callable[[], str]


@asynccontextmanager
async def health_server(
    port: int, missing: Missing, metrics: Metrics, role: Callable[[], str] = str
) -> AsyncIterator[int]:
    """Serves on all interfaces and yields the port; 0 selects a free one. `role`: text to add while ready.

    Raises:
        StartupRefused: the port cannot be used.
    """
    connections = ClientConnections(LIMITS)
    app = web.Application(middlewares=[connections.count])

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        reason = missing()
        if reason:
            return web.Response(text=f"{reason}\n", status=503)
        return web.Response(text=f"ok, {text}\n" if (text := role()) else "ok\n")

    async def scrape(_: web.Request) -> web.Response:
        metrics.ready.set(not missing())
        return web.Response(body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get("/livez", live)
    app.router.add_get("/healthz", live)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=0.5, keepalive_timeout=KEEPALIVE_S, read_bufsize=READ_AHEAD
    )
    listening = listener("--health-port", port)
    await runner.setup()
    connections.accept(runner, [listening], None)
    try:
        yield int(listening.getsockname()[1])
    finally:
        await connections.stop()
        await runner.cleanup()
