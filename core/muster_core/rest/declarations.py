"""How a module declares its routes: the methods of `RouteTable` decorate a view or an endpoint.

The first paragraph of its docstring describes the route in the OpenAPI document. `row`: number of the endpoint among
those of YuniKorn; 0 = not in YuniKorn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from aiohttp import web

from muster_core.rest.auth import AccessLevel
from muster_core.rest.http import Pieces, RequestContext, RestContext

View = Callable[[RequestContext], Pieces]
Endpoint = Callable[[RestContext, web.Request], Awaitable[web.StreamResponse]]


class Media(Enum):
    """Content type of a body that is not one of the JSON objects in `schemas`."""

    TEXT = "text/plain"
    YAML = "application/x-yaml"
    JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter."""

    name: str
    about: str
    form: str = "string"
    least: int = 0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path with its endpoint, or with the view that it shows of a state.

    `shape`: the body of a response with status 200. `takes`: the body of the request, a model or text.
    """

    method: str
    path: str
    row: int
    about: str
    endpoint: Endpoint | None = None
    shape: object = Media.TEXT
    query: tuple[Query, ...] = ()
    failures: tuple[int, ...] = ()
    access: AccessLevel = AccessLevel.READ
    takes: object = None
    view: View | None = None

    @property
    def has_past(self) -> bool:
        """Whether an earlier state can be shown."""
        return AT in self.query


WS: Final = "/ws/v1"
PARTITION: Final = f"{WS}/partition/{{partition}}"

#: Statuses when a question, such as one about an earlier time, has no answer.
UNANSWERED: Final = (400, 404, 429, 501, 503)
AT: Final = Query("at", "an earlier time, milliseconds since the epoch; needs a journal; Muster extension", "integer")


class RouteTable(list[Route]):
    """The routes of one module. Its methods are decorators, which add a function and return it unchanged."""

    def view(
        self,
        path: str,
        shape: object,
        *query: Query,
        row: int = 0,
        failures: tuple[int, ...] = (),
        has_past: bool = True,
    ) -> Callable[[View], View]:
        """Declares a view of the state. `has_past`: earlier states have it, too."""
        if has_past:
            query, failures = (*query, AT), UNANSWERED

        def declare(shown: View) -> View:
            self.append(Route("GET", path, row, _about(shown), None, shape, query, failures, view=shown))
            return shown

        return declare

    def endpoint(  # noqa: PLR0913 # the columns of the table
        self,
        path: str,
        shape: object = Media.TEXT,
        *query: Query,
        row: int = 0,
        method: str = "GET",
        failures: tuple[int, ...] = (),
        access: AccessLevel = AccessLevel.READ,
        takes: object = None,
    ) -> Callable[[Endpoint], Endpoint]:
        """Declares an endpoint that writes its response itself."""

        def declare(called: Endpoint) -> Endpoint:
            self.append(Route(method, path, row, _about(called), called, shape, query, failures, access, takes))
            return called

        return declare


def _about(declared: Callable[..., object]) -> str:
    return " ".join((declared.__doc__ or "").partition("\n\n")[0].split())
