"""What people and probes ask over HTTP: liveness, metrics, the state dump.

Reads the world between two turns of the loop and lets go of the event loop
every few milliseconds while it writes a big answer. No endpoint changes
anything. Errors have the body of contract 4. Started by muster_core.main.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST

from muster_core.edge import dump
from muster_core.edge.questions import state_dump
from muster_core.edge.scheduler import Scheduler
from muster_core.edge.session import Session
from muster_core.edge.views import Json
from muster_si.errors import SessionLost

#: How long a big answer is written before others run.
_SLICE_S: Final = 0.010
#: How long the resource manager has for its part of a dump.
_STATE_DUMP_DEADLINE_S: Final = 2.0
#: How long answers that are being written are waited for at the end.
_SHUTDOWN_S: Final = 1.0
_HEADERS: Final = {
    "Content-Type": "application/json; charset=UTF-8",
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, OPTIONS",
    "Access-Control-Allow-Headers": "X-Requested-With,Content-Type,Accept,Origin",
}


class RestServer:
    """One address, from `start` to `stop`."""

    def __init__(self, scheduler: Scheduler, address: str, port: int) -> None:
        self._scheduler = scheduler
        self._address = address
        self._port = port
        self._dumping = asyncio.Lock()  # one at a time (contract 4)
        self._runner = web.AppRunner(
            self._application(), access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_S
        )

    async def start(self) -> int:
        """Listen; returns the port, chosen by the system where 0 was asked for. Raises OSError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address, self._port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Listen no longer."""
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_errors_as_json])
        application.router.add_get("/livez", self._live)
        application.router.add_get("/readyz", self._ready)
        application.router.add_get("/ws/v1/metrics", self._metrics)
        application.router.add_get("/debug/fullstatedump", self._full_state_dump)
        return application

    async def _live(self, request: web.Request) -> web.Response:
        """Answering is being alive: the loop of this answer is the loop that schedules."""
        return web.Response(text="ok")

    async def _ready(self, request: web.Request) -> web.Response:
        if self._scheduler.loop.is_running:
            return web.Response(text="ok")
        return web.Response(text="the scheduling loop does not run", status=503)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._scheduler.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _full_state_dump(self, request: web.Request) -> web.StreamResponse:
        async with self._dumping:
            outside = await self._outside()
            check = request.query.get("invariants") in ("1", "true")
            response = web.StreamResponse(headers=_HEADERS)
            response.enable_compression()
            await response.prepare(request)
            await _write(response, dump.pieces(self._scheduler.loop.world, time.time_ns(), outside, check=check))
            await response.write_eof()
            return response

    async def _outside(self) -> list[tuple[str, Json]]:
        """What the sessions know, and the resource managers themselves (GetStateDump, semantics 7)."""
        sessions = list(self._scheduler.outlet.sessions.values())
        told = await asyncio.gather(*(self._of_manager(session) for session in sessions))
        return [
            ("clusterInfo", [{"rmId": session.rm, **session.build_info} for session in sessions]),
            ("rmDiagnostics", {session.rm: answer for session, answer in zip(sessions, told, strict=True)}),
            ("config", {s.rm: {"config": s.config_text, "extra": dict(s.extra_config)} for s in sessions}),
        ]

    async def _of_manager(self, session: Session) -> Json:
        try:
            found: Json = orjson.loads(await state_dump(session, _STATE_DUMP_DEADLINE_S))
        except TimeoutError:
            return {"error": f"no answer within {_STATE_DUMP_DEADLINE_S:g} s"}
        except orjson.JSONDecodeError as error:
            return {"error": f"its answer is not JSON: {error}"}
        except (LookupError, SessionLost) as error:
            return {"error": str(error)}
        return found


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        body = {"status_code": error.status, "message": error.reason, "description": error.text}
        return web.Response(body=orjson.dumps(body), status=error.status, headers=_HEADERS)


async def _write(response: web.StreamResponse, pieces: Iterator[bytes]) -> None:
    """Write what comes, letting others run every slice."""
    until = time.perf_counter() + _SLICE_S
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if time.perf_counter() >= until:
            await response.write(bytes(gathered))
            gathered.clear()
            await asyncio.sleep(0)
            until = time.perf_counter() + _SLICE_S
    await response.write(bytes(gathered))
