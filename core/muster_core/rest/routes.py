"""Table of the routes: those that `endpoints` and `diagnostics` declare, and those about what would happen.

The server and the OpenAPI document are built from it.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from muster_core.rest import diagnostics, endpoints, what_if
from muster_core.rest.declarations import PARTITION, UNANSWERED, WS, Media, Query, Route
from muster_core.rest.http import Pieces, RequestContext, RestContext

_WITHIN: Final = Query("within", "seconds of virtual time after the configuration is applied", "integer", least=1)
_NEW_NAMESPACE: Final = Query("namespace", "namespace of objects without one")
_USER: Final = Query("user", "user of the pods; otherwise from their annotation")
_GROUP: Final = Query("group", "group of the user; may be repeated")

#: What would happen. The answers are those of the command line in JSON.
_WHAT_IF: Final = (
    Route(
        "GET",
        PARTITION + "/application/{application}/changes",
        0,
        "The smallest changes that would start an application. Muster extension.",
        what_if.changes,
        Media.JSON,
        query=(endpoints.NAMESPACE,),
        failures=UNANSWERED,
    ),
    Route(
        "GET",
        PARTITION + "/application/{application}/estimate",
        0,
        "When an application is expected to start. Muster extension.",
        what_if.estimate,
        Media.JSON,
        query=(endpoints.NAMESPACE,),
        failures=UNANSWERED,
    ),
    Route(
        "POST",
        PARTITION + "/dry-run",
        0,
        "Whether the manifests in the body would start now, and what would be preempted. Muster extension.",
        what_if.dry_run,
        Media.JSON,
        query=(_NEW_NAMESPACE, _USER, _GROUP),
        failures=(*UNANSWERED, 408, 413),
        takes=Media.YAML,
    ),
    Route(
        "POST",
        PARTITION + "/plan",
        0,
        "What the queue configuration in the body would change. Muster extension.",
        what_if.plan,
        Media.JSON,
        query=(_WITHIN,),
        failures=(*UNANSWERED, 408, 413),
        takes=Media.YAML,
    ),
)

ROUTES: Final[tuple[Route, ...]] = (*endpoints.ROUTES, *diagnostics.ROUTES, *_WHAT_IF)

#: Former paths, answered with status 301 as in YuniKorn.
MOVED: Final = {f"{WS}/fullstatedump": "/debug/fullstatedump", f"{WS}/stack": "/debug/stack"}


async def answer(route: Route, rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Calls the endpoint of a route, or writes the pieces of its view."""
    if route.endpoint is not None:
        return await route.endpoint(rest_context, request)
    if "at" in request.query:
        return await what_if.earlier(rest_context, request, route.path)
    context = RequestContext(rest_context, request.match_info, request.query, rest_context.now_ns())
    return await rest_context.writer.write(request, _pieces(route, context))


def _pieces(route: Route, context: RequestContext) -> Pieces:
    assert route.view is not None  # noqa: S101 # a route has an endpoint or a view
    yield from route.view(context)  # only when its turn has come, because a view can read many objects first
