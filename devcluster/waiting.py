"""Waits for conditions. Every wait has a deadline, and its error has the last result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from devcluster.errors import ConditionNotMet

T = TypeVar("T")

#: The first and the longest pause between two checks. A check is mostly one or two lists from the API server, 3 ms of
#: CPU time each: 20 of them per second would take an eighth of a processor.
_FIRST_S: Final = 0.05
_LONGEST_S: Final = 0.25


async def until(
    what: str,
    check: Callable[[], Awaitable[T]],
    deadline_s: float,
    *,
    every_s: float | None = None,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """Call ``check`` until it returns a true value, and return that value.

    ``every_s``: the pause between two checks; None: it grows from 0.05 to 0.25 s. ``tolerate``: errors that mean "not
    yet". Raises ConditionNotMet with the last result or error.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    last = "not checked"
    pause_s = every_s or _FIRST_S
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
        await asyncio.sleep(pause_s)
        if every_s is None:
            pause_s = min(pause_s * 1.25, _LONGEST_S)
