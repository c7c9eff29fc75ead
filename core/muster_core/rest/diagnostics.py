"""State dump, stacks and profiles: the endpoints below /debug.

Differs: profiles are those of Python, as text. `profile` is the cProfile table of the scheduling thread. `heap` and
`allocs` are the allocations that grew, from tracemalloc. `goroutine` and `threadcreate` are the stacks of tasks and
threads. `block`, `mutex`, `symbol` and `trace` do not exist, because the scheduler is one thread without locks.

Differs: the state dump has the ended applications in `endedApplications`, so that `applications` agrees with the
queues and nodes of the dump; YuniKorn adds them to `applications`. Its nodes have the keys of their allocations,
because the applications have the allocations.
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import sys
import threading
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import orjson
from aiohttp import web

from muster_core.model.ids import partition_name
from muster_core.rest import views
from muster_core.rest.auth import AccessLevel
from muster_core.rest.declarations import Media, Query, RouteTable
from muster_core.rest.endpoints import active_config
from muster_core.rest.http import (
    Pieces,
    RequestContext,
    RestContext,
    RestFailure,
    array,
    bad_request,
    not_found,
    source_of,
)
from muster_core.rest.schemas import Shape, encode
from muster_core.rest.views import Steps, amounts
from muster_core.runtime.sessions import Session, state_dump
from muster_core.scheduling import invariants
from muster_core.state.applications import Allocation, Application, Ask
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_si.errors import SessionLost

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]

ROUTES: Final = RouteTable()

#: With more objects than this, the invariants are checked only on request: the check is one step of 30 us per object.
CHECKED_UP_TO: Final = 500

#: Objects that are read before other work may run.
_STEPS: Final = 500


def _ledgers(scheduler_state: SchedulerState) -> Steps[int]:
    """Yields the JSON of `ledgers`: counts and amounts of the state. Returns the number of objects.

    Everything is 0 or empty after all applications have ended. `pledges`, `queues`, `users` and `nodes` have only
    entries that are not 0.
    """
    partitions = list(scheduler_state.partitions.values())
    counts = Counter(foreign=sum(len(partition.foreign) for partition in partitions))
    for number, item in enumerate(_objects(partitions), 1):
        if number % _STEPS == 0:
            yield b""
        match item:
            case Application():
                counts["applications"] += 1
            case Ask():
                counts["asks"] += 1
                counts["replacements"] += item.replacement is not None
            case Allocation():
                counts["allocations"] += 1
                counts["placeholders"] += item.spec.placeholder
                counts["releasing"] += item.releasing is not None
    yield orjson.dumps({name: counts[name] for name in _COUNTS})[:-1]
    for name, entries in (
        ("pledges", _pledges(partitions)),
        ("queues", _held_by_queues(partitions)),
        ("users", _held_by_users(partitions)),
        ("nodes", _held_by_nodes(partitions)),
    ):
        yield _key(name)
        yield from _mapping(entries)
    yield _key("ignored") + orjson.dumps(dict(scheduler_state.ignored)) + b"}"
    pods = counts["applications"] + counts["asks"] + counts["allocations"]
    return pods + sum(len(partition.nodes) + len(partition.queues.by_path) for partition in partitions)


_COUNTS: Final = ("applications", "asks", "allocations", "placeholders", "releasing", "replacements", "foreign")

#: Entries of a JSON object. An empty one is omitted.
_Entries = Iterator[tuple[str, Mapping[str, Json]]]


def _mapping(entries: _Entries) -> Pieces:
    """Yields a JSON object, and lets other work run after a number of omitted entries."""
    before = b"{"
    for number, (name, value) in enumerate(entries, 1):
        if value:
            yield before + orjson.dumps(name) + b":" + orjson.dumps(value)
            before = b","
        elif number % _STEPS == 0:
            yield b""
    yield b"{}" if before == b"{" else b"}"


def _objects(partitions: Iterable[Partition]) -> Iterator[Application | Ask | Allocation]:
    """Yields the live applications with their requests and allocations. The state may change meanwhile."""
    for partition in partitions:
        for app in list(partition.applications.values()):
            yield app
            yield from list(app.asks.values())
            yield from list(app.allocations.values())


def _pledges(partitions: Iterable[Partition]) -> _Entries:
    for partition in partitions:
        for app in list(partition.applications.values()):
            yield app.id, amounts(app.gang.quota_reservation)


def _held_by_queues(partitions: Iterable[Partition]) -> _Entries:
    for partition in partitions:
        for queue in list(partition.queues.by_path.values()):
            pending = partition.shown_pending(queue)
            is_used = queue.allocated or pending or queue.reserved_quota or queue.requested_quota
            held: dict[str, Json] = {
                "allocated": amounts(queue.allocated),
                "pending": amounts(pending),
                "reserved_quota": amounts(partition.shown_reserved(queue)),
            }
            yield queue.path, held if is_used else {}


def _held_by_users(partitions: Iterable[Partition]) -> _Entries:
    for partition in partitions:
        for user, accounts in list(partition.users.users.items()):
            yield user, {path: amounts(one.allocated) for path, one in accounts.items() if one.allocated}


def _held_by_nodes(partitions: Iterable[Partition]) -> _Entries:
    for partition in partitions:
        for node in list(partition.nodes):
            yield node, amounts(partition.nodes.allocated(node)) if node in partition.nodes else {}


def state_dump_pieces(
    scheduler_state: SchedulerState, now_ns: int, outside: Iterable[tuple[str, Json]], *, check: bool = False
) -> Pieces:
    """Yields the JSON document. `outside`: entries that are not part of the state. `check`: check the invariants of a
    state of any size. Between the parts of an event they are not checked, because they may not hold.
    """
    yield b'{"timestamp":' + orjson.dumps(now_ns)
    for name, value in outside:
        yield _key(name) + orjson.dumps(value)
    yield _key("ledgers")
    size = yield from _ledgers(scheduler_state)
    yield _key("invariants")
    is_checked = scheduler_state.unfinished is None and (check or size <= CHECKED_UP_TO)
    yield orjson.dumps(invariants.check(scheduler_state)) if is_checked else b"null"
    yield _key("resourceManagers")
    yield orjson.dumps(
        [
            {"rmId": rm.id, "state": rm.state.value, "recovering": rm.is_recovering}
            for rm in scheduler_state.managers.values()
        ]
    )
    yield _key("partitions")
    yield from array(found for p in list(scheduler_state.partitions.values()) for found in views.partition(p))
    yield _key("queues")
    yield from array(views.tree(p.queues.root, p) for p in list(scheduler_state.partitions.values()))
    yield _key("applications")
    yield from array(_applications(scheduler_state, now_ns))
    yield _key("endedApplications")
    yield from array(
        app for p in list(scheduler_state.partitions.values()) for app in views.all_of(p.history, p, now_ns)
    )
    yield _key("nodes")
    yield b"["
    for count, partition in enumerate(list(scheduler_state.partitions.values())):
        yield b"," if count else b""
        yield b'{"partitionName":' + orjson.dumps(partition_name(partition.id))
        yield _key("nodesInfo")
        yield from array(_nodes(partition))
        yield _key("foreignAllocations")
        yield from array(views.foreign(item) for item in list(partition.foreign.values()))
        yield b"}"
    yield b"]}"


def _applications(scheduler_state: SchedulerState, now_ns: int) -> Iterator[Pieces]:
    for partition in list(scheduler_state.partitions.values()):
        yield from views.all_of(partition.applications.values(), partition, now_ns)


def _nodes(partition: Partition) -> Iterator[Shape]:
    """Nodes with their allocations by key, so that a dump has each allocation once."""
    for name in list(partition.nodes):
        if name in partition.nodes:
            yield views.node(partition, name, keys_only=True)


def _key(name: str) -> bytes:
    return b"," + orjson.dumps(name) + b":"


_INVARIANTS: Final = Query(
    "invariants",
    "check the invariants of a state of any size; null while an event is being applied in parts; Muster extension",
    choices=("1", "true"),
)
_DURATION: Final = Query("seconds", "duration of the measurement", "integer")

#: Timeout for the resource manager's part of a dump.
_DEADLINE_S: Final = 2.0


@ROUTES.endpoint("/debug/fullstatedump", Media.JSON, _INVARIANTS, row=26, access=AccessLevel.COMPATIBLE)
async def full_state_dump(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Complete state of the core.

    One dump is written at a time. The query parameter `invariants` forces the check of the invariants.
    """
    check = request.query.get("invariants") in ("1", "true")

    async def collected() -> Pieces:
        outside, now_ns = await _outside(rest_context, source_of(request)), rest_context.now_ns()
        return state_dump_pieces(rest_context.core.loop.scheduler_state, now_ns, outside, check=check)

    return await rest_context.writer.write(request, collected, seats=rest_context.dumps)


@ROUTES.endpoint("/debug/stack", row=27, access=AccessLevel.GUARDED)
async def stack(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """Stacks of tasks and threads."""
    return web.Response(text=stacks())


def stacks() -> str:
    """Formats the stacks: tasks first, then threads."""
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        text.write(f"task {task.get_name()}\n")
        # Not `print_stack`, which fails if a frame of compiled code has no line number.
        text.writelines(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in task.get_stack()).format())
        text.write("\n")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 # the only way to another thread's stack
        text.write(f"thread {names.get(ident, ident)}\n")
        text.writelines(traceback.format_stack(frame))
        text.write("\n")
    return text.getvalue()


async def _outside(rest_context: RestContext, source: str) -> list[tuple[str, Json]]:
    """Returns data of the sessions, of the resource managers (`GetStateDump`) and of the REST interface."""
    core = rest_context.core
    sessions = list(core.dispatcher.sessions.values())
    reported = await asyncio.gather(*(_of_manager(session) for session in sessions))
    partitions = list(core.loop.scheduler_state.partitions.values())
    rules: list[Json] = [
        {
            "partition": partition_name(item.id),
            "rules": [orjson.loads(encode(rule)) for rule in views.rules(item)],
        }
        for item in partitions
    ]
    clusters = [views.cluster(item, sessions, rest_context.started_ns) for item in partitions]
    return [
        ("clusterInfo", [orjson.loads(encode(item)) for item in clusters]),
        ("rmDiagnostics", {session.rm: answer for session, answer in zip(sessions, reported, strict=True)}),
        ("config", orjson.loads(encode(await active_config(rest_context, source)))),
        ("placementRules", rules),
        ("appHistory", [orjson.loads(encode(item)) for item in rest_context.history.applications()]),
        ("containerHistory", [orjson.loads(encode(item)) for item in rest_context.history.containers()]),
        ("logLevel", rest_context.levels.level.value if rest_context.levels else ""),
        ("eventStreams", [{"Name": host, "CreatedAt": _rfc3339(at_ns)} for host, at_ns in core.events.readers()]),
    ]


def _rfc3339(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat()


async def _of_manager(session: Session) -> Json:
    try:
        found: Json = orjson.loads(await state_dump(session, _DEADLINE_S))
    except TimeoutError:
        return {"error": f"no response within {_DEADLINE_S:g} s"}
    except orjson.JSONDecodeError as error:
        return {"error": f"the response is not JSON: {error}"}
    except (LookupError, SessionLost) as error:
        return {"error": str(error)}
    return found


_SECONDS: Final = 30
_MOST_SECONDS: Final = 300
_LINES: Final = 60
_NOT_HERE: Final = ("block", "mutex", "symbol", "trace")


@ROUTES.endpoint("/debug/pprof/", row=28, access=AccessLevel.GUARDED)
async def index(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """List of profiles."""
    lines = [f"/debug/pprof/{name}" for name in _PROFILES]
    return web.Response(text="\n".join([*lines, "seconds=N: duration of the measurement (profile, heap, allocs)", ""]))


@ROUTES.endpoint(
    "/debug/pprof/{name}", Media.TEXT, _DURATION, row=28, failures=(400, 404, 409, 501), access=AccessLevel.GUARDED
)
async def profile(rest_context: RestContext, request: web.Request) -> web.StreamResponse:
    """One profile."""
    name = request.match_info["name"]
    if name in _NOT_HERE:
        raise RestFailure(501, f"profile {name} is not available in this scheduler")
    if name not in _PROFILES:
        raise not_found(f"Unknown profile {name}")
    seconds = RequestContext(rest_context, request.match_info, request.query, 0).number("seconds", _SECONDS)
    if seconds > _MOST_SECONDS:
        raise bad_request(f"seconds must be at most {_MOST_SECONDS}")
    if rest_context.profiling.locked():
        raise RestFailure(409, "another profile is running: try again later")
    async with rest_context.profiling:
        return web.Response(text=await _PROFILES[name](seconds))


async def _time(seconds: int) -> str:
    """Profiles the thread of the event loop. The profiler slows the thread down."""
    profiler = cProfile.Profile()
    try:
        profiler.enable()
    except ValueError as error:  # another profiler is active
        raise RestFailure(409, "another profiler is active in this process") from error
    try:
        await asyncio.sleep(seconds)
    finally:
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_LINES)
    return text.getvalue()


async def _memory(seconds: int) -> str:
    """Returns the growth of memory by source line."""
    was_on = tracemalloc.is_tracing()
    if not was_on:
        tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        await asyncio.sleep(seconds)
        grown = tracemalloc.take_snapshot().compare_to(before, "lineno")
    finally:
        if not was_on:
            tracemalloc.stop()
    return "\n".join([f"growth in {seconds} s", *(str(line) for line in grown[:_LINES]), ""])


async def _stacks(seconds: int) -> str:
    return stacks()


async def _command(seconds: int) -> str:
    return "\0".join(sys.argv)


_PROFILES: Final[dict[str, Callable[[int], Awaitable[str]]]] = {
    "profile": _time,
    "heap": _memory,
    "allocs": _memory,
    "goroutine": _stacks,
    "threadcreate": _stacks,
    "cmdline": _command,
}
