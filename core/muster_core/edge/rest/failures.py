"""A "no" of REST: its status and the words of contract 4."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aiohttp import web

from muster_core.edge.rest.shapes.base import Failure, encode

JSON_TYPE: Final = "application/json; charset=UTF-8"
NO_PARTITION: Final = "Partition not found"
NO_QUEUE: Final = "Queue not found"
NO_APPLICATION: Final = "Application not found"
NO_NODE: Final = "Node not found"
NO_USER: Final = "User not found"
NO_GROUP: Final = "Group not found"
INVALID_USER: Final = "Invalid user name"
INVALID_GROUP: Final = "Invalid group name"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class RestFailure(Exception):
    """Answered with `status` and `message`; `headers` go with it."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] = _NONE) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.headers = headers


def not_found(message: str) -> RestFailure:
    """404."""
    return RestFailure(404, message)


def bad_request(message: str) -> RestFailure:
    """400."""
    return RestFailure(400, message)


def answer(failure: RestFailure) -> web.Response:
    """The body of contract 4: message and description say the same."""
    body = encode(Failure(status_code=failure.status, message=failure.message, description=failure.message))
    return web.Response(body=body, status=failure.status, headers={"Content-Type": JSON_TYPE, **failure.headers})
