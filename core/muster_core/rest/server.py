"""The HTTP server and its OpenAPI document.

Both are built from the table in `routes`. Requests are limited in size, time and number.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, BinaryIO, Final, get_args

import orjson
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from muster_core.config.document import MOST_CHARACTERS
from muster_core.rest import routes, web_ui
from muster_core.rest.answers import LEAST_MIB, MOST_MIB, AnswerProcess
from muster_core.rest.auth import (
    OPEN_READS,
    AccessLevel,
    AccessSettings,
    Authorizer,
    CompatibilityMode,
    Reviewer,
    ServerContext,
    ServerTls,
    TokenFile,
    is_loopback,
)
from muster_core.rest.declarations import Media, Query, Route
from muster_core.rest.health import Background
from muster_core.rest.http import JSON_TYPE, RestContext, RestFailure, answer, bad_request
from muster_core.rest.routes import MOVED, ROUTES
from muster_core.rest.schemas import FailureInfo
from muster_core.runtime.log_level import LevelControl
from muster_core.runtime.service import Scheduler
from muster_si.client_connections import KEEPALIVE_S, READ_AHEAD, listeners
from muster_si.kubeconfig import Credentials, NoAccess

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Settings of the REST server.

    address, port: where to listen; empty = all addresses, IPv4 and IPv6; port 0 = any free port. tls: None = plain
    HTTP. access: authorization. levels: controls the log level; None = the log is configured outside this process.
    has_ui: whether the web UI is served. journal: the file that the core writes; None = none. simulation_mib: memory of
    the process that answers what would happen; 0 = none.
    """

    address: str = "127.0.0.1"
    port: int = 9080
    tls: ServerTls | None = None
    access: AccessSettings = OPEN_READS
    levels: LevelControl | None = None
    has_ui: bool = True
    journal: BinaryIO | None = None
    simulation_mib: int = MOST_MIB


_PART: Final = re.compile(r"{(\w+)}")
_REF: Final = "#/components/schemas/{model}"

_PROTECTED: Final = (AccessLevel.GUARDED, AccessLevel.COMPATIBLE)

_DESCRIPTIONS: Final = {
    400: "invalid parameter",
    401: "a valid token is required",
    403: "the user of the token is not allowed to do this",
    404: "not found",
    408: "the body did not arrive in time",
    409: "another profile is running",
    413: "the body is too large",
    429: "too many requests of this address wait",
    500: "the request cannot be answered",
    501: "not available in this scheduler",
    503: "temporarily unavailable",
}

JsonObject = dict[str, Any]


@cache
def document() -> JsonObject:
    """Returns the OpenAPI 3.1 document. It is cached and must not be changed."""
    paths: dict[str, JsonObject] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for path, target in MOVED.items():
        moved = {"description": "moved", "headers": {"Location": {"schema": {"type": "string"}}}}
        paths[path] = {"get": {"summary": f"Moved to {target}.", "responses": {"301": moved}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": "1",
            "description": "State and configuration of the scheduler. Memory is in bytes, vcore in millicores, times "
            "in nanoseconds since the epoch unless stated otherwise. Everything below /debug may change.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> JsonObject:
    found: JsonObject = {
        "summary": route.about,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": _part(name)}
                for name in _PART.findall(route.path)
            ),
            *(_parameter(query) for query in route.query),
        ],
        "responses": {"200": _answer(route)},
    }
    guarded = (401, 403, 503) if route.access is not AccessLevel.OPEN else ()
    for status in sorted({*route.failures, *guarded}):
        content = {"text/plain": {}} if route.access is AccessLevel.OPEN else _content(FailureInfo)
        found["responses"][str(status)] = {"description": _DESCRIPTIONS[status], "content": content}
    if route.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(route.takes)}
    if route.access in _PROTECTED:
        found["security"] = [{"bearer": []}]
    return found


def _answer(route: Route) -> JsonObject:
    content = _content(route.shape)
    if route.path.endswith("/config"):
        content |= _content(Media.YAML)
    return {"description": "success", "content": content}


def _content(shape: object) -> JsonObject:
    if isinstance(shape, Media):
        schema = {"schema": {"type": "string"}} if shape is Media.TEXT else {}
        return {shape.value: schema}
    [element] = get_args(shape) or (shape,)
    ref = {"$ref": _REF.format(model=element.__name__)}
    return {"application/json": {"schema": {"type": "array", "items": ref} if get_args(shape) else ref}}


def _part(name: str) -> JsonObject:
    if name == "state":
        return {"type": "string", "enum": ["active", "rejected", "completed"]}
    return {"type": "string", "minLength": 1}


def _parameter(query: Query) -> JsonObject:
    schema: JsonObject = {"type": query.form}
    if query.form == "integer":
        schema |= {"minimum": query.least, "maximum": 10**18 - 1}
    if query.choices:
        schema["enum"] = list(query.choices)
    return {"name": query.name, "in": "query", "description": query.about, "schema": schema}


def _schemas() -> JsonObject:
    shapes: dict[str, type[BaseModel]] = {"Failure": FailureInfo}
    for route in ROUTES:
        for item in (route.shape, route.takes):
            element = (get_args(item) or (item,))[0]
            if isinstance(element, type) and issubclass(element, BaseModel):
                shapes[element.__name__] = element
    _, found = models_json_schema([(shape, "serialization") for shape in shapes.values()], ref_template=_REF)
    return dict(sorted(found["$defs"].items()))


#: Seconds to wait at shutdown for responses that are being written.
_SHUTDOWN_S: Final = 1.0
_ALLOWED_HEADERS: Final = "X-Requested-With,Content-Type,Accept,Origin"
_MOST_BYTES: Final = MOST_CHARACTERS
_OPENAPI: Final = "/openapi.json"

#: Headers that a failure keeps.
_KEPT: Final = (hdrs.ALLOW, hdrs.LOCATION)


class RestServer:
    """HTTP server on one address. The constructor raises StartFailure if the settings cannot be applied."""

    def __init__(self, scheduler: Scheduler, settings: RestSettings) -> None:
        _check_access(settings.access)
        if 0 < settings.simulation_mib < LEAST_MIB:
            raise StartFailure(
                f"{settings.simulation_mib} MiB for simulations are too few: use 0 or {LEAST_MIB} and more"
            )
        self._settings = settings
        answers = AnswerProcess(settings.simulation_mib)
        self._rest_context = RestContext(scheduler, levels=settings.levels, answers=answers, journal=settings.journal)
        self._reviewer = _reviewer(settings)
        self._context = _context(settings)
        self._runner = web.AppRunner(
            application(
                self._rest_context,
                Authorizer(settings.access, self._reviewer, on_loopback=_is_on_loopback(settings)),
                has_ui=settings.has_ui,
            ),
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,  # frees the event stream of a reader that disconnects
            shutdown_timeout=_SHUTDOWN_S,
            keepalive_timeout=KEEPALIVE_S,
            read_bufsize=READ_AHEAD,
        )
        self._background = Background(self._rest_context, self._context)

    async def start(self) -> int:
        """Starts to listen. Returns the port, which the system selects if the setting is 0. Raises OSError."""
        settings = self._settings
        listening = await asyncio.to_thread(listeners, settings.address, settings.port)
        await self._runner.setup()
        context = self._context.context if self._context else None
        self._rest_context.connections.accept(self._runner, listening, context)
        self._background.start()
        takes_tokens = settings.access.token_file or settings.access.kubernetes
        is_beyond = not _is_on_loopback(settings)
        if takes_tokens and context is None and is_beyond:
            _log.warning("bearer tokens are sent unencrypted: the REST server listens beyond loopback without TLS")
        if settings.access.mode is CompatibilityMode.OPEN and is_beyond:
            _log.warning("every client may dump the state and change the log level: the compatibility mode is open")
        return int(listening[0].getsockname()[1])

    async def stop(self) -> None:
        """Stops the server."""
        await self._rest_context.connections.stop()
        self._rest_context.answers.close()
        await self._background.stop()
        await self._runner.cleanup()
        if self._reviewer is not None:
            await self._reviewer.close()


class StartFailure(Exception):
    """The REST server cannot start with these settings; the message is for users."""


def application(rest_context: RestContext, guard: Authorizer, *, has_ui: bool = False) -> web.Application:
    """Builds the web application with authorization on every route, except the static files of the web UI."""
    made = web.Application(middlewares=[rest_context.connections.count, _failures_as_json], client_max_size=_MOST_BYTES)
    methods: dict[str, list[str]] = {path: ["GET"] for path in (_OPENAPI, *MOVED)}
    for route in ROUTES:
        methods.setdefault(route.path, []).append(route.method)
    #: CORS headers per handler. Guarded routes have none, so pages of other sites cannot use them.
    shared: dict[object, Mapping[str, str]] = {}
    for route in ROUTES:
        handler = partial(_admitted, route, rest_context, guard)
        if route.access not in _PROTECTED:
            shared[handler] = _sharing(methods[route.path])
        made.router.add_route(route.method, route.path, handler)
        if route.method == "GET":
            made.router.add_route("HEAD", route.path, handler)
    described = partial(_described, guard)
    shared[described] = _sharing(["GET"])
    made.router.add_get(_OPENAPI, described)
    for path, target in MOVED.items():
        made.router.add_get(path, partial(_moved, target))
    if has_ui:
        web_ui.add_routes(made)
    for path, names in methods.items():
        made.router.add_route("OPTIONS", path, partial(_options, _sharing(names)))
    made.on_response_prepare.append(partial(_add_headers, shared))
    return made


async def _admitted(
    route: Route, rest_context: RestContext, guard: Authorizer, request: web.Request
) -> web.StreamResponse:
    """Authorizes the request and calls its endpoint."""
    await guard.admit(request, route.access)
    if "at" in request.query and not route.has_past:
        raise bad_request("only the present is known here; leave out the parameter at to see it")
    return await routes.answer(route, rest_context, request)


def _sharing(methods: list[str]) -> Mapping[str, str]:
    """Returns the CORS headers. As in YuniKorn, any page may read with these methods."""
    allowed = "OPTIONS, POST" if methods == ["POST"] else ", ".join([*methods, "OPTIONS"])
    return {
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: allowed,
        hdrs.ACCESS_CONTROL_ALLOW_HEADERS: _ALLOWED_HEADERS,
    }


async def _described(guard: Authorizer, request: web.Request) -> web.StreamResponse:
    await guard.admit(request, AccessLevel.READ)
    body = await asyncio.to_thread(_encoded_document)  # the first time takes most of what a start of the core takes
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: JSON_TYPE})


@cache
def _encoded_document() -> bytes:
    return orjson.dumps(document())


async def _moved(target: str, request: web.Request) -> web.StreamResponse:
    asked = request.rel_url.raw_query_string  # still escaped, because unescaped text could break the header
    query = f"?{asked}" if asked else ""
    return web.Response(status=301, headers={hdrs.LOCATION: target + query})


async def _options(headers: Mapping[str, str], request: web.Request) -> web.StreamResponse:
    return web.Response(headers={hdrs.ALLOW: headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS], **headers})


async def _add_headers(
    shared: Mapping[object, Mapping[str, str]], request: web.Request, response: web.StreamResponse
) -> None:
    """Adds headers to every response before its first byte is sent."""
    for name, value in shared.get(request.match_info.handler, {}).items():
        response.headers.setdefault(name, value)
    response.headers.update(web_ui.HEADERS)


@web.middleware
async def _failures_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RestFailure as failure:
        return answer(failure)
    except web.HTTPException as error:
        kept: dict[str, str] = {name: error.headers[name] for name in _KEPT if name in error.headers}
        return answer(RestFailure(error.status, error.reason, kept))


def _reviewer(settings: RestSettings) -> Reviewer | None:
    if not settings.access.kubernetes:
        return None
    credentials = Credentials(warn=partial(_log.warning, "credentials could not be read again, using the old ones"))
    try:
        credentials.current()
    except NoAccess as error:
        raise StartFailure(f"tokens of the cluster: {error}") from error
    return Reviewer(credentials)


def _is_on_loopback(settings: RestSettings) -> bool:
    return settings.address == "localhost" or is_loopback(settings.address)


def _check_access(access: AccessSettings) -> None:
    if access.closed and access.mode is CompatibilityMode.OPEN:
        raise StartFailure("reads cannot be closed in the compatibility mode open: use only one of them")
    if access.token_file is not None and (problem := TokenFile(access.token_file).problem()):
        raise StartFailure(problem)


def _context(settings: RestSettings) -> ServerContext | None:
    if settings.tls is None:
        return None
    try:
        return ServerContext(settings.tls)
    except (OSError, ssl.SSLError) as error:
        raise StartFailure(f"TLS: {settings.tls.certificate} and {settings.tls.key}: {error}") from error
