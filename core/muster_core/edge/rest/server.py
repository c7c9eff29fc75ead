"""The HTTP server: makes an application of the table of routes and keeps it at one address.

Reads the world between two turns of the loop and lets go of the event loop
every few milliseconds while it writes a big answer. No view changes anything.
Errors have the body of contract 4. Started by muster_core.main.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import partial
from typing import Final

import orjson
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from muster_core.edge.config.document import MOST_CHARACTERS
from muster_core.edge.rest import failures, openapi
from muster_core.edge.rest.access import apiserver
from muster_core.edge.rest.access.guard import Door, Guard
from muster_core.edge.rest.access.kubernetes import Reviewer
from muster_core.edge.rest.access.loopback import is_loopback
from muster_core.edge.rest.access.tls import ServerContext
from muster_core.edge.rest.access.tokens import TokenFile
from muster_core.edge.rest.background import Background
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.failures import JSON_TYPE, RestFailure
from muster_core.edge.rest.routes import MOVED, ROUTES, Route
from muster_core.edge.rest.settings import RestSettings
from muster_core.edge.scheduler import Scheduler

_log = structlog.get_logger(__name__)

#: How long answers that are being written are waited for at the end.
_SHUTDOWN_S: Final = 1.0
_ALLOWED_HEADERS: Final = "X-Requested-With,Content-Type,Accept,Origin"
_MOST_BYTES: Final = MOST_CHARACTERS
_OPENAPI: Final = "/openapi.json"
#: Of the headers of a no.
_KEPT: Final = (hdrs.ALLOW, hdrs.LOCATION)


class RestServer:
    """One address, from `start` to `stop`. Raises StartFailure where it cannot be what the settings say."""

    def __init__(self, scheduler: Scheduler, settings: RestSettings) -> None:
        _check_token(settings)
        self._settings = settings
        self._desk = Desk(scheduler, levels=settings.levels)
        self._reviewer = _reviewer(settings)
        self._context = _context(settings)
        self._runner = web.AppRunner(
            application(self._desk, Guard(settings.access, self._reviewer)),
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,  # a reader of events that goes gives its place to another
            shutdown_timeout=_SHUTDOWN_S,
        )
        self._background = Background(self._desk, self._runner, self._context)

    async def start(self) -> int:
        """Listen; returns the port, chosen by the system where 0 was asked for. Raises OSError."""
        settings = self._settings
        await self._runner.setup()
        context = self._context.context if self._context else None
        await web.TCPSite(self._runner, settings.address, settings.port, ssl_context=context).start()
        self._background.start()
        takes_tokens = settings.access.token_file or settings.access.kubernetes
        if takes_tokens and context is None and not is_loopback(settings.address):
            _log.warning("bearer tokens come in the clear: REST listens beyond loopback without TLS")
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Listen no longer."""
        await self._background.stop()
        await self._runner.cleanup()
        if self._reviewer is not None:
            await self._reviewer.close()


class StartFailure(Exception):
    """REST cannot be served as it is configured; the message is for people."""


def application(desk: Desk, guard: Guard) -> web.Application:
    """All routes, guarded."""
    made = web.Application(middlewares=[_failures_as_json], client_max_size=_MOST_BYTES)
    methods: dict[str, list[str]] = {path: ["GET"] for path in (_OPENAPI, *MOVED)}
    for route in ROUTES:
        methods.setdefault(route.path, []).append(route.method)
    #: What is guarded is not shared with other sites' pages.
    shared: dict[object, Mapping[str, str]] = {}
    for route in ROUTES:
        handler = partial(_admitted, route, desk, guard)
        if route.door is not Door.GUARDED:
            shared[handler] = _sharing(methods[route.path])
        made.router.add_route(route.method, route.path, handler)
        if route.method == "GET":
            made.router.add_route("HEAD", route.path, handler)
    described = partial(_described, guard, orjson.dumps(openapi.document()))
    shared[described] = _sharing(["GET"])
    made.router.add_get(_OPENAPI, described)
    for path, target in MOVED.items():
        made.router.add_get(path, partial(_moved, target))
    for path, names in methods.items():
        made.router.add_route("OPTIONS", path, partial(_options, _sharing(names)))
    made.on_response_prepare.append(partial(_add_headers, shared))
    return made


async def _admitted(route: Route, desk: Desk, guard: Guard, request: web.Request) -> web.StreamResponse:
    """Guard first, then the answer."""
    desk.connections.heard(request.protocol)
    await guard.admit(request, route.door)
    return await route.endpoint(desk, request)


def _sharing(methods: list[str]) -> Mapping[str, str]:
    """Contract 4: any page may read, with these methods."""
    allowed = "OPTIONS, POST" if methods == ["POST"] else ", ".join([*methods, "OPTIONS"])
    return {
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: allowed,
        hdrs.ACCESS_CONTROL_ALLOW_HEADERS: _ALLOWED_HEADERS,
    }


async def _described(guard: Guard, body: bytes, request: web.Request) -> web.StreamResponse:
    await guard.admit(request, Door.READ)
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: JSON_TYPE})


async def _moved(target: str, request: web.Request) -> web.StreamResponse:
    asked = request.rel_url.raw_query_string  # as it came: unescaped it could break the header
    query = f"?{asked}" if asked else ""
    return web.Response(status=301, headers={hdrs.LOCATION: target + query})


async def _options(headers: Mapping[str, str], request: web.Request) -> web.StreamResponse:
    return web.Response(headers={hdrs.ALLOW: headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS], **headers})


async def _add_headers(
    shared: Mapping[object, Mapping[str, str]], request: web.Request, response: web.StreamResponse
) -> None:
    """Before the first byte goes out, of whatever answer."""
    for name, value in shared.get(request.match_info.handler, {}).items():
        response.headers.setdefault(name, value)
    response.headers[hdrs.X_CONTENT_TYPE_OPTIONS] = "nosniff"


@web.middleware
async def _failures_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RestFailure as failure:
        return failures.answer(failure)
    except web.HTTPException as error:
        kept: dict[str, str] = {name: error.headers[name] for name in _KEPT if name in error.headers}
        return failures.answer(RestFailure(error.status, error.reason, kept))


def _reviewer(settings: RestSettings) -> Reviewer | None:
    if not settings.access.kubernetes:
        return None
    try:
        return Reviewer(apiserver.found())
    except apiserver.NoApiServer as error:
        raise StartFailure(f"tokens of the cluster: {error}") from error


def _check_token(settings: RestSettings) -> None:
    if settings.access.token_file is None:
        return
    if problem := TokenFile(settings.access.token_file).problem():
        raise StartFailure(problem)


def _context(settings: RestSettings) -> ServerContext | None:
    if settings.tls is None:
        return None
    try:
        return ServerContext(settings.tls)
    except (OSError, ssl.SSLError) as error:
        raise StartFailure(f"TLS: {settings.tls.certificate} and {settings.tls.key}: {error}") from error
