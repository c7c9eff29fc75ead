"""Restarts ended processes, as kubelets restart containers; records processes that ended without being killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from devcluster.process import Process

CHECK_INTERVAL_S = 0.05
"""Between two looks. A real kubelet takes longer; being fast means meeting the wreckage while it is warm."""


class Kubelet:
    """``exits``: who ended by itself, with its exit code and last words."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._processes = [*processes]
        self.exits: list[str] = []

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Keep them running until the block ends."""
        task = asyncio.create_task(self._work())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _work(self) -> None:
        while True:
            for process in self._processes:
                if not process.is_running():
                    if process.returncode not in {None, -signal.SIGKILL}:
                        self.exits.append(f"{process.name} ended with {process.returncode}: {process.tail(3)}")
                    process.start()
            await asyncio.sleep(CHECK_INTERVAL_S)
