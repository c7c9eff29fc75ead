"""Runs a coroutine so that SIGTERM ends it the way Ctrl-C does: through its clean-up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """``asyncio.run`` with a SIGTERM that cancels; raises KeyboardInterrupt for both signals."""

    async def cancellable() -> T:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    return asyncio.run(cancellable())
