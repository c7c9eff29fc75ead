"""How long ago each watched resource was heard of: by a complete list, an event or a bookmark.

Who stands by follows the cluster for days, and may lead after a time in which its watches brought nothing while the
lease could be read: an API server that serves the one and not the other, a connection that somebody swallows. What it
knows then is old, and whatever it decided by that would be wrong. So it takes over only from what is current.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger("muster.hearing")

#: Seconds of silence after which a watch may be cut: API servers send each one a bookmark a minute.
SILENT_S: Final = 180.0


class Hearing:
    """What is heard, noted by the inbox. `clock`: seconds of a steady clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._word = asyncio.Event()

    def note(self, plural: str) -> None:
        """It was heard of just now."""
        self._heard[plural] = self._clock()
        self._word.set()

    @property
    def silent(self) -> str:
        """The resources that were heard of once, and not lately; empty = none."""
        before = self._clock() - SILENT_S
        return ", ".join(sorted(plural for plural, heard in self._heard.items() if heard < before))

    async def everything(self) -> None:
        """Wait until none is silent."""
        if silent := self.silent:
            log.warning("what is known is old, waiting for the cluster's state before deciding", silent=silent)
        while self.silent:
            self._word.clear()
            await self._word.wait()
