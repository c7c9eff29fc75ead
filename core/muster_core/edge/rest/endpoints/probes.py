"""Liveness, readiness, metrics."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from muster_core.edge.rest.answers import write
from muster_core.edge.rest.desk import Desk
from muster_core.model.limits import LONGEST_STALL_S
from muster_core.model.states import ManagerState


async def live(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Liveness: the loop runs and completes its iterations. A loop that waits for work is alive."""
    loop = desk.core.loop
    if not loop.is_running:
        return web.Response(text="the scheduling loop does not run", status=503)
    stalled_s = loop.stalled_s()
    if stalled_s > LONGEST_STALL_S:
        text = f"the scheduling loop has work but stalled for {stalled_s:.0f} s (limit {LONGEST_STALL_S} s)"
        return web.Response(text=text, status=503)
    return web.Response(text="ok")


async def ready(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Whether it schedules: the loop runs, and every resource manager that registered has told all it has."""
    if not desk.core.loop.is_running:
        return web.Response(text="the scheduling loop does not run", status=503)
    managers = desk.core.loop.world.managers.values()
    telling = sorted(item.id for item in managers if item.fence_up and item.state is ManagerState.RUNNING)
    if telling:
        return web.Response(text=f"still being told what exists by {', '.join(telling)}", status=503)
    return web.Response(text="ok")


async def metrics(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Row 2."""
    return await write(request, desk.core.metrics.pieces(), CONTENT_TYPE_LATEST)
