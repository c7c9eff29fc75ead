"""Waits for conditions. Every wait has a deadline, and its error has the last result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from devcluster.errors import ConditionNotMet

T = TypeVar("T")


async def until(
    what: str,
    check: Callable[[], Awaitable[T]],
    deadline_s: float,
    *,
    every_s: float = 0.05,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """Call ``check`` until it returns a true value, and return that value.

    ``tolerate``: errors that mean "not yet". Raises ConditionNotMet with the last result or error.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    last = "not checked"
    while True:
        try:
            answer = await check()
        except tolerate as error:
            last = f"last error: {error!r}"
        else:
            if answer:
                return answer
            last = f"last result: {answer!r}"
        if loop.time() >= deadline:
            raise ConditionNotMet(what, deadline_s, last)
        await asyncio.sleep(every_s)
