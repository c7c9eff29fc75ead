"""Where time and memory go, and where tasks and threads are; what Python has no such thing of says so."""

import asyncio
import tracemalloc
from types import FunctionType

import aiohttp
import pytest


async def text(http: aiohttp.ClientSession, path: str) -> str:
    async with http.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


async def test_the_stack_dump_lists_tasks_and_threads(http: aiohttp.ClientSession) -> None:
    for path in ("/debug/stack", "/debug/pprof/goroutine", "/ws/v1/stack"):
        found = await text(http, path)
        assert "task muster-rest-health" in found
        assert "thread MainThread" in found


async def test_the_stack_dump_lists_a_task_without_line_numbers(http: aiohttp.ClientSession) -> None:
    """As of a coroutine of a compiled module."""

    async def wait() -> None:
        await asyncio.Event().wait()

    compiled = FunctionType(wait.__code__.replace(co_linetable=b""), globals())
    task = asyncio.create_task(compiled(), name="compiled")
    await asyncio.sleep(0)
    assert [frame.f_lineno for frame in task.get_stack()] == [None]
    found = await text(http, "/debug/stack")
    assert "task compiled" in found
    assert "in wait" in found
    task.cancel()


async def test_the_index_lists_the_profiles(http: aiohttp.ClientSession) -> None:
    assert "/debug/pprof/profile\n" in await text(http, "/debug/pprof/")


@pytest.mark.parametrize(
    "name, effects",
    [("profile", "function calls"), ("heap", "growth in 0 s"), ("allocs", "growth in 0 s"), ("cmdline", "")],
)
async def test_a_profile_accepts_its_duration_in_seconds(http: aiohttp.ClientSession, name: str, effects: str) -> None:
    assert effects in await text(http, f"/debug/pprof/{name}?seconds=0")


@pytest.mark.parametrize(
    "path, status",
    [
        ("block", 501),
        ("mutex", 501),
        ("symbol", 501),
        ("trace", 501),
        ("nothing", 404),
        ("heap?seconds=301", 400),
        ("heap?seconds=x", 400),
    ],
)
async def test_an_unavailable_profile_returns_an_error_status(
    http: aiohttp.ClientSession, path: str, status: int
) -> None:
    async with http.get(f"/debug/pprof/{path}") as answer:
        assert answer.status == status


async def test_only_one_profile_runs_at_a_time(http: aiohttp.ClientSession) -> None:
    first = asyncio.create_task(text(http, "/debug/pprof/heap?seconds=60"))
    while not tracemalloc.is_tracing():  # noqa: ASYNC110 - the server has no signal
        await asyncio.sleep(0)
    async with http.get("/debug/pprof/heap?seconds=0") as answer:
        status = answer.status
    assert status == 409
    first.cancel()
    while status == 409:  # a disconnected client lets the next one start
        async with http.get("/debug/pprof/heap?seconds=0") as answer:
            status = answer.status
    assert status == 200
