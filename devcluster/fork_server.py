"""The client of `preloaded.py`: starts Muster's programs by a fork of a process that has imported them."""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import ProcessFailed

TETHER = Path(__file__).with_name("tether.py")
PRELOADED = Path(__file__).with_name("preloaded.py")


class ForkServer:
    """A process that has imported a module and starts its program. It ends when this process ends."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._socket, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())]
        with child_end:
            self._process = subprocess.Popen(
                [*tether, sys.executable, "-u", str(PRELOADED), module, str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                # Threads do not survive a fork, and numpy's library for linear algebra starts some.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[child_end.fileno()],
                start_new_session=True,
            )

    def ask(self, request: Mapping[str, object]) -> int | None:
        """Send a request and return the answer. Raises ProcessFailed if the process has ended."""
        try:
            self._socket.send(json.dumps(request).encode())
            answer = self._socket.recv(1024)
        except ConnectionError:
            answer = b""
        if not answer:
            raise ProcessFailed(f"fork server of {self.module}", f"ended with code {self._process.poll()}", "")
        found: int | None = json.loads(answer)
        return found


@functools.cache
def fork_server(module: str) -> ForkServer:
    """The fork server of the module in this process. It starts with the first call, and imports in the background."""
    return ForkServer(module)


class Fork:
    """A program that a fork server started; the part of `subprocess.Popen` that `Process` uses."""

    def __init__(self, server: ForkServer, argv: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self._server = server
        self._returncode: int | None = None
        pid = server.ask({"argv": [*argv], "env": {**os.environ, **env}, "log": str(log)})
        self.pid = pid or 0

    def poll(self) -> int | None:
        """The exit code (negative: ended by that signal); None while it runs."""
        if self._returncode is None:
            self._returncode = self._server.ask({"pid": self.pid})
        return self._returncode
