"""The level of the log, read and set while the core runs; ours."""

from __future__ import annotations

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from muster_core.edge.log_level import LevelControl, LogLevel
from muster_core.edge.rest.answers import one, write
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.failures import RestFailure, bad_request
from muster_core.edge.rest.shapes import settings as shapes


class Wanted(BaseModel):
    """The body of a change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: LogLevel


async def read(desk: Desk, request: web.Request) -> web.StreamResponse:
    """The level in force."""
    return await write(request, one(shapes.LogLevel(level=_control(desk).level.value)))


async def change(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Another from now on, until the next change or start."""
    control = _control(desk)
    try:
        wanted = Wanted.model_validate_json(await request.read())
    except ValidationError as error:
        raise bad_request('write {"level": "debug"}, or info, warning or error') from error
    control.set(wanted.level)
    return await write(request, one(shapes.LogLevel(level=control.level.value)))


def _control(desk: Desk) -> LevelControl:
    if desk.levels is None:
        raise RestFailure(501, "the log belongs to the process that this core is embedded in")
    return desk.levels
