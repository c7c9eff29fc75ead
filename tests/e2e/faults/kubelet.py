"""Restarts ended processes, as kubelets restart containers; records processes that ended without being killed."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from devcluster.process import Process
from tests.e2e.faults.logs import OF_LIBRARIES

CHECK_INTERVAL_S = 0.05
"""Between two looks. A real kubelet takes longer; a fast restart meets what the ended process left unfinished."""


class Kubelet:
    """``exits``: the processes that ended by themselves, with exit code and last log lines.

    ``expects_kills``: whether the killer works, so that a process killed by SIGKILL did not end by itself.
    """

    def __init__(self, processes: Iterable[Process]) -> None:
        self._processes = [*processes]
        self.exits: list[str] = []
        self.expects_kills = True

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
                    is_killed = process.returncode == -signal.SIGKILL and self.expects_kills
                    if process.returncode is not None and not is_killed:
                        self.exits.append(f"{process.name} ended with {process.returncode}: {_last_lines(process)}")
                    process.start()
            await asyncio.sleep(CHECK_INTERVAL_S)


def _last_lines(process: Process) -> str:
    """The last lines of its log, without what libraries log of tasks that its end interrupted."""
    return "\n".join([line for line in process.tail(60).splitlines() if not OF_LIBRARIES.search(line)][-3:])
