"""Where time and memory go (contract 4, row 28).

Differs: the profiles are Python's, as text: `profile` is cProfile's table of the scheduling thread, `heap` and
`allocs` are what tracemalloc saw grow, `goroutine` and `threadcreate` are the stacks of tasks and threads. There is no
`block`, `mutex`, `symbol` and `trace`: nothing in one thread without locks corresponds to them.
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from muster_core.edge.rest.asked import Asked
from muster_core.edge.rest.desk import Desk
from muster_core.edge.rest.endpoints.dumping import stacks
from muster_core.edge.rest.failures import RestFailure, bad_request, not_found

_SECONDS: Final = 30
_MOST_SECONDS: Final = 300
_LINES: Final = 60
_NOT_HERE: Final = ("block", "mutex", "symbol", "trace")


async def index(desk: Desk, request: web.Request) -> web.StreamResponse:
    """What there is."""
    lines = [f"/debug/pprof/{name}" for name in _PROFILES]
    return web.Response(text="\n".join([*lines, "seconds=N: how long is looked (profile, heap, allocs)", ""]))


async def profile(desk: Desk, request: web.Request) -> web.StreamResponse:
    """One of them."""
    name = request.match_info["name"]
    if name in _NOT_HERE:
        raise RestFailure(501, f"there is no {name} profile of this scheduler")
    if name not in _PROFILES:
        raise not_found(f"Unknown profile {name}")
    seconds = Asked(desk, request.match_info, request.query, 0).number("seconds", _SECONDS)
    if seconds > _MOST_SECONDS:
        raise bad_request(f"seconds is more than {_MOST_SECONDS}")
    if desk.profiling.locked():
        raise RestFailure(409, "another profile is being taken")
    async with desk.profiling:
        return web.Response(text=await _PROFILES[name](seconds))


async def _time(seconds: int) -> str:
    """What the event loop's thread does, slowed down by being looked at."""
    profiler = cProfile.Profile()
    try:
        profiler.enable()
    except ValueError as error:  # another tool looks already
        raise RestFailure(409, "another profiler is at work in this process") from error
    try:
        await asyncio.sleep(seconds)
    finally:
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_LINES)
    return text.getvalue()


async def _memory(seconds: int) -> str:
    """What grew while it was looked at, by line."""
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
