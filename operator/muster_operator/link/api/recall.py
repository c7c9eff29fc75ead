"""Tells binds that are under way that nobody wants them any more: the session that decided them is over.

A bind that is tried again after that would take room that the next session has given to another pod. It is not cut off
either, because the API server may be carrying it out: it ends with this try, and the next session waits for that.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Recall:
    """One for all writers."""

    def __init__(self) -> None:
        self._recalled = asyncio.Event()

    def now(self) -> None:
        """Whatever is under way is not wanted any more; what begins later is."""
        self._recalled.set()
        self._recalled = asyncio.Event()

    def heard_by(self) -> Patience:
        """For one bind that begins now."""
        return Patience(self._recalled)


class Patience:
    """How long one bind is worth another try."""

    def __init__(self, recalled: asyncio.Event) -> None:
        self._recalled = recalled

    async def lasts(self, pause_s: float) -> bool:
        """Wait for the next try; False, at once, if there is to be none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._recalled.wait()
        return not self._recalled.is_set()
