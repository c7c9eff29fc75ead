"""Runs a coroutine so that SIGTERM cancels it like Ctrl-C, and its cleanup runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """Like ``asyncio.run``, but SIGTERM cancels the coroutine. Raises KeyboardInterrupt for both signals."""

    async def cancellable() -> T:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    return asyncio.run(cancellable())
