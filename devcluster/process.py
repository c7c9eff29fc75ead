"""A child process in a group of its own, with its log in a file; it is gone when we are."""

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

TETHER = Path(__file__).with_name("tether.py")
POLL_S = 0.02
"""How often a child's end is looked for. Short: stopping five children is part of every run."""


@dataclass(slots=True)
class Process:
    """One supervised program; start it again after a kill and the log goes on in the same file.

    ``tethered``: killed by the kernel when this process dies. False only for what ``KEEP=1`` leaves behind.
    """

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    tethered: bool = True
    cwd: Path | None = None
    _child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program; raises ProcessFailed if it is already running."""
        if self.is_running():
            raise ProcessFailed(self.name, "started twice", self.tail())
        tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())] if self.tethered else []
        self.log.parent.mkdir(parents=True, exist_ok=True)
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
        """The process id while it runs, also that of its group."""
        return self._child.pid if self._child is not None and self.is_running() else None

    @property
    def returncode(self) -> int | None:
        """How it ended (negative: by that signal); None while it runs or before it started."""
        return self._child.poll() if self._child is not None else None

    def is_running(self) -> bool:
        """Whether the child has been started and has not ended."""
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
        """Send a signal to the whole group; nothing if it is gone already."""
        if self._child is not None:
            try:
                os.killpg(self._child.pid, number)
            except ProcessLookupError:
                return

    async def ended(self, deadline_s: float) -> bool:
        """Wait for the child's end; False if it still runs after ``deadline_s``."""
        until = asyncio.get_running_loop().time() + deadline_s
        while self.is_running():
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def stop(self, grace_s: float = 5.0) -> int | None:
        """SIGTERM, then SIGKILL after the grace; returns how it ended."""
        if self.is_running():
            self.signal(signal.SIGTERM)
            if not await self.ended(grace_s):
                await self.kill()
        return self.returncode

    async def kill(self) -> None:
        """SIGKILL to the group; returns when the child is gone."""
        self.signal(signal.SIGKILL)
        await self.ended(10.0)
