"""A child process in its own process group, with a log file. It ends when the parent ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.errors import ProcessFailed
from devcluster.fork_server import Fork, fork_server

TETHER = Path(__file__).with_name("tether.py")
POLL_S = 0.02
"""Interval for checking whether a child has ended. Short, because every run stops several children."""


@dataclass(slots=True)
class Process:
    """One supervised program. It can be restarted, and then appends to the same log.

    ``tethered``: the kernel kills it when this process ends. False only for processes that ``KEEP=1`` leaves running.
    ``module``: a fork server that has imported this module starts its program; `argv` then has only the arguments. Not
    together with ``cwd`` or ``tethered=False``.
    """

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    tethered: bool = True
    cwd: Path | None = None
    module: str = ""
    _child: subprocess.Popen[bytes] | Fork | None = None

    def start(self) -> None:
        """Start the program. Raises ProcessFailed if it is already running."""
        if self.is_running():
            raise ProcessFailed(self.name, "already running", self.tail())
        if self.module and (self.cwd is not None or not self.tethered):
            raise ProcessFailed(self.name, "a program of a fork server has no cwd and is always tethered", self.tail())
        tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())] if self.tethered else []
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.module:
            self._child = Fork(fork_server(self.module), self.argv, self.log, self.env)
            return
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                [*tether, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
                cwd=self.cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """The process id, which is also its group id; None if it was not started."""
        return self._child.pid if self._child is not None and self.is_running() else None

    @property
    def returncode(self) -> int | None:
        """The exit code (negative: killed by that signal); None while it runs or before it started."""
        return self._child.poll() if self._child is not None else None

    def is_running(self) -> bool:
        """Whether the child was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def tail(self, lines: int = 25) -> str:
        """The end of the log."""
        if not self.log.exists():
            return "(no log)"
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - 64 * 1024))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def check(self) -> None:
        """Raise ProcessFailed, with the log's tail, if the child has ended."""
        if not self.is_running():
            raise ProcessFailed(self.name, f"ended with code {self.returncode}", self.tail())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group, if it still exists."""
        if self._child is not None:
            try:
                os.killpg(self._child.pid, number)
            except ProcessLookupError:
                return

    async def ended(self, deadline_s: float) -> bool:
        """Wait until the child ends. Returns False if it still runs after ``deadline_s``."""
        until = asyncio.get_running_loop().time() + deadline_s
        while self.is_running():
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def stop(self, grace_s: float = 5.0) -> int | None:
        """Send SIGTERM, and SIGKILL after ``grace_s``. Returns the exit code."""
        if self.is_running():
            self.signal(signal.SIGTERM)
            if not await self.ended(grace_s):
                await self.kill()
        return self.returncode

    async def kill(self) -> None:
        """Send SIGKILL to the group and wait until the child has ended."""
        self.signal(signal.SIGKILL)
        await self.ended(10.0)
