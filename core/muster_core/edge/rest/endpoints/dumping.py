"""Everything the core knows, in one document (contract 10.9), and what its tasks and threads do."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback
from typing import Final

import orjson
from aiohttp import web

from muster_core.edge.questions import state_dump
from muster_core.edge.rest import dump
from muster_core.edge.rest.answers import write
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.dump import Json
from muster_core.edge.rest.shapes.base import encode
from muster_core.edge.rest.views import clusters
from muster_core.edge.session import Session
from muster_core.edge.si_encode import partition_name
from muster_si.errors import SessionLost

#: How long the resource manager has for its part of a dump.
_DEADLINE_S: Final = 2.0


async def full_state_dump(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Row 26, one at a time. `invariants` in the query: check them all, however long it takes."""
    async with desk.dumping:
        outside = await _outside(desk)
        check = request.query.get("invariants") in ("1", "true")
        return await write(request, dump.pieces(desk.core.loop.world, desk.now_ns(), outside, check=check))


async def stack(desk: Desk, request: web.Request) -> web.StreamResponse:
    """Row 27: where every task and every thread is."""
    return web.Response(text=stacks())


def stacks() -> str:
    """The text: tasks first, then threads."""
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        text.write(f"task {task.get_name()}\n")
        task.print_stack(file=text)
        text.write("\n")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 # the only way to another thread's stack
        text.write(f"thread {names.get(ident, ident)}\n")
        text.writelines(traceback.format_stack(frame))
        text.write("\n")
    return text.getvalue()


async def _outside(desk: Desk) -> list[tuple[str, Json]]:
    """What the sessions know, the resource managers themselves (GetStateDump, semantics 7), and what REST keeps."""
    core = desk.core
    sessions = list(core.outlet.sessions.values())
    told = await asyncio.gather(*(_of_manager(session) for session in sessions))
    partitions = list(core.loop.world.partitions.values())
    rules: list[Json] = [
        {"partition": partition_name(item.id), "rules": [orjson.loads(encode(rule)) for rule in clusters.rules(item)]}
        for item in partitions
    ]
    return [
        ("clusterInfo", [{"rmId": session.rm, **session.build_info} for session in sessions]),
        ("rmDiagnostics", {session.rm: answer for session, answer in zip(sessions, told, strict=True)}),
        ("config", {s.rm: {"config": s.config_text, "extra": dict(s.extra_config)} for s in sessions}),
        ("placementRules", rules),
        ("containerHistory", [orjson.loads(encode(item)) for item in desk.history.containers()]),
        ("logLevel", desk.levels.level.value if desk.levels else ""),
        ("eventStreams", {"open": core.events.open_streams}),
    ]


async def _of_manager(session: Session) -> Json:
    try:
        found: Json = orjson.loads(await state_dump(session, _DEADLINE_S))
    except TimeoutError:
        return {"error": f"no answer within {_DEADLINE_S:g} s"}
    except orjson.JSONDecodeError as error:
        return {"error": f"its answer is not JSON: {error}"}
    except (LookupError, SessionLost) as error:
        return {"error": str(error)}
    return found
