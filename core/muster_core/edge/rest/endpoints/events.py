"""Batches and streams of events (contract 4, rows 24 and 25)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import orjson
from aiohttp import hdrs, web

from muster_core.edge.events.form import as_json
from muster_core.edge.events.ring import Record
from muster_core.edge.events.store import Batch, TooManyStreams
from muster_core.edge.rest.answers import Pieces
from muster_core.edge.rest.asked import Asked
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.failures import JSON_TYPE, RestFailure, bad_request

#: A reader that takes nothing for so long is dropped (contract 4, row 25).
_WRITE_S: Final = 5.0


def batch(asked: Asked) -> Pieces:
    """Row 24."""
    core = asked.desk.core
    _require_tracking(asked.desk)
    most = core.outlet.settings.response_size
    count = asked.number("count", most)
    if not count:
        raise bad_request('0 is not a valid value for "count"')
    return _pieces(core.events.batch(asked.number("start", 0), min(count, most)))


async def stream(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Row 25: the instance first, then events as they come, one JSON object a line, until either side has enough."""
    _require_tracking(desk)
    asked = Asked(desk, request.match_info, request.query, desk.now_ns())
    try:
        records = desk.core.events.subscribe(request.host, asked.number("count", 0))
    except TooManyStreams as error:
        raise RestFailure(503, str(error)) from error
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: JSON_TYPE})
    try:
        await response.prepare(request)
        await _write(response, orjson.dumps({"InstanceUUID": desk.core.events.instance}) + b"\n")
        async for portion in records:
            await _write(response, _lines(portion))
    except (TimeoutError, ConnectionError):
        request.protocol.force_close()  # it takes nothing any more
    finally:
        records.close()
    return response


async def _write(response: web.StreamResponse, lines: bytes) -> None:
    await asyncio.wait_for(response.write(lines), _WRITE_S)


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(orjson.dumps(as_json(record)) + b"\n" for record in records)


def _require_tracking(desk: Desk) -> None:
    if not desk.core.events.tracking:
        raise RestFailure(500, "Event tracking is disabled")


def _pieces(found: Batch) -> Pieces:
    head = {"InstanceUUID": found.instance, "LowestID": found.lowest_id, "HighestID": found.highest_id}
    yield orjson.dumps(head)[:-1] + b',"EventRecords":'
    if found.records is None:
        yield b"null}"
        return
    before = b"["
    for record in found.records:
        yield before + orjson.dumps(as_json(record))
        before = b","
    yield b"[]}" if before == b"[" else b"]}"
