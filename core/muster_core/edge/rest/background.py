"""What REST does without being asked: history, health checks, silent connections, the certificate's files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Final

from aiohttp import web

from muster_core.edge.rest.access.tls import ServerContext
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.health import Counts, checks
from muster_core.edge.rest.history import EVERY_S

_SECOND: Final = 1_000_000_000
#: How long checks run before others do.
_SLICE_S: Final = 0.005
#: How often a switched off check looks whether it was switched on.
_OFF_S: Final = 5.0
_CERTIFICATE_S: Final = 10.0
_SWEEP_S: Final = 2.0


class Background:
    """Runs from `start` to `stop`."""

    def __init__(self, desk: Desk, runner: web.AppRunner, context: ServerContext | None) -> None:
        self._desk = desk
        self._runner = runner
        self._context = context
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        work: dict[str, Coroutine[None, None, None]] = {
            "history": _sample(self._desk),
            "health": _check(self._desk),
            "connections": _sweep(self._desk, self._runner),
        }
        if self._context is not None:
            work["certificate"] = _renew(self._context)
        self._tasks = [asyncio.create_task(each, name=f"muster-rest-{name}") for name, each in work.items()]

    async def stop(self) -> None:
        """End, and wait for the end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def check_health(desk: Desk) -> None:
    """One round of checks, letting others run every few milliseconds; its result is what is served from then on."""
    metrics = desk.core.metrics
    failures = int(metrics.registry.get_sample_value("muster_core_failures_total") or 0)
    until = time.perf_counter() + _SLICE_S
    for found in checks(desk.core.loop.world, Counts(failures, metrics.nodes_refused)):
        if found is not None:
            desk.health = found
            metrics.healthy = found.Healthy
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + _SLICE_S


async def _sample(desk: Desk) -> None:
    while True:
        desk.history.sample(desk.core.loop.world, desk.now_ns())
        await asyncio.sleep(EVERY_S)


async def _check(desk: Desk) -> None:
    while True:
        interval_ns = desk.core.outlet.settings.health_interval_ns
        if interval_ns:
            await check_health(desk)
        else:
            desk.health = None
        await asyncio.sleep(interval_ns / _SECOND or _OFF_S)


async def _sweep(desk: Desk, runner: web.AppRunner) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        if runner.server is not None:
            desk.connections.sweep(runner.server.connections, time.monotonic())


async def _renew(context: ServerContext) -> None:
    while True:
        await asyncio.sleep(_CERTIFICATE_S)
        context.renew()
