"""Waits for a result, or for the end of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster_si.errors import SessionLost

T = TypeVar("T")
E = TypeVar("E")


async def unless_over(call: Awaitable[T], over: asyncio.Future[E], reason: Callable[[], str]) -> T:
    """Returns the result of the call. When `over` is done, cancels the call and raises SessionLost with the reason."""
    task: asyncio.Future[T] = asyncio.ensure_future(call)
    either: list[asyncio.Future[T] | asyncio.Future[E]] = [task, over]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        task.cancel()
    raise SessionLost(reason())
