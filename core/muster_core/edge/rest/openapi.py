"""The description of the interface, made of the table of routes and the shapes.

Served at /openapi.json; docs/reference/openapi.json is the same (`make diagrams`), and a test compares.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from muster_core.edge.rest.access.guard import Door
from muster_core.edge.rest.routes import MOVED, ROUTES, Media, Query, Route
from muster_core.edge.rest.shapes.base import Failure

_PART: Final = re.compile(r"{(\w+)}")
_REF: Final = "#/components/schemas/{model}"
_SAID: Final = {
    400: "a parameter is wrong",
    401: "a token is needed, or is not accepted",
    403: "the token's owner may not",
    404: "there is no such thing",
    409: "another one is at work",
    413: "the body is too large",
    500: "it cannot be answered",
    501: "there is no such thing in this scheduler",
    503: "not now",
}

Json = dict[str, Any]


@cache
def document() -> Json:
    """OpenAPI 3.1; made once, and not to be changed."""
    paths: dict[str, Json] = {}
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
            "description": "The scheduler as people and their tools see it. Memory is in bytes, vcore in millicores, "
            "times in nanoseconds since the epoch unless it says otherwise. Unstable: everything below /debug.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> Json:
    found: Json = {
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
    guarded = (401, 403, 503) if route.door is not Door.OPEN else ()
    for status in sorted({*route.failures, *guarded}):
        content = {"text/plain": {}} if route.door is Door.OPEN else _content(Failure)
        found["responses"][str(status)] = {"description": _SAID[status], "content": content}
    if route.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(route.takes)}
    if route.door is Door.GUARDED:
        found["security"] = [{"bearer": []}]
    return found


def _answer(route: Route) -> Json:
    content = _content(route.shape)
    if route.path.endswith("/config"):
        content |= _content(Media.YAML)
    return {"description": "as asked", "content": content}


def _content(shape: object) -> Json:
    if isinstance(shape, Media):
        schema = {"schema": {"type": "string"}} if shape is Media.TEXT else {}
        return {shape.value: schema}
    [element] = get_args(shape) or (shape,)
    ref = {"$ref": _REF.format(model=element.__name__)}
    return {"application/json": {"schema": {"type": "array", "items": ref} if get_args(shape) else ref}}


def _part(name: str) -> Json:
    if name == "state":
        return {"type": "string", "enum": ["active", "rejected", "completed"]}
    return {"type": "string", "minLength": 1}


def _parameter(query: Query) -> Json:
    schema: Json = {"type": query.form}
    if query.form == "integer":
        schema |= {"minimum": query.least, "maximum": 10**18 - 1}
    if query.choices:
        schema["enum"] = list(query.choices)
    return {"name": query.name, "in": "query", "description": query.about, "schema": schema}


def _schemas() -> Json:
    shapes: dict[str, type[BaseModel]] = {"Failure": Failure}
    for route in ROUTES:
        for item in (route.shape, route.takes):
            element = (get_args(item) or (item,))[0]
            if isinstance(element, type) and issubclass(element, BaseModel):
                shapes[element.__name__] = element
    _, found = models_json_schema([(shape, "serialization") for shape in shapes.values()], ref_template=_REF)
    return dict(sorted(found["$defs"].items()))
