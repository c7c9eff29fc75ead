"""The health port: `/livez`, `/readyz`, `/healthz` for the kubelet, `/metrics` for Prometheus.

Alive = this loop answers. Ready = in session with the core and recovered; the body says what is missing otherwise.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from muster_operator.link.errors import StartupRefused
from muster_operator.link.metrics import CONTENT_TYPE, Metrics

#: Returns what is missing, empty = ready.
Missing = Callable[[], str]


@asynccontextmanager
async def health_server(port: int, missing: Missing, metrics: Metrics) -> AsyncIterator[int]:
    """Serve on all interfaces; yields the port (0 asked for any free one).

    Raises:
        StartupRefused: the port is taken.
    """
    app = web.Application()

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        reason = missing()
        return web.Response(text=f"{reason}\n", status=503) if reason else web.Response(text="ok\n")

    async def scrape(_: web.Request) -> web.Response:
        metrics.ready.set(not missing())
        return web.Response(body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get("/livez", live)
    app.router.add_get("/healthz", live)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await _listen(runner, port)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> None:
    """On one socket for IPv4 and IPv6, where the machine has both: the kubelet may come by either."""
    try:
        if socket.has_dualstack_ipv6():
            listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            listener = socket.create_server(("", port))
    except OSError as error:
        raise StartupRefused(f"--health-port {port} cannot be used: {error.strerror or error}") from error
    await web.SockSite(runner, listener).start()
