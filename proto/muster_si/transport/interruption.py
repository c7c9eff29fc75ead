"""Waiting for an answer that a session's end makes pointless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster_si.errors import SessionLost

T = TypeVar("T")
E = TypeVar("E")


async def unless_over(call: Awaitable[T], over: asyncio.Future[E], reason: Callable[[], str]) -> T:
    """The result of the call, or SessionLost with the reason as soon as `over` is done; the call is cancelled then."""
    task: asyncio.Future[T] = asyncio.ensure_future(call)
    either: list[asyncio.Future[T] | asyncio.Future[E]] = [task, over]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        task.cancel()
    raise SessionLost(reason())
