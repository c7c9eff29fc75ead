"""Starts one of Muster's programs by a fork of this process, which has imported it: ``python preloaded.py MODULE FD``.

Imports are most of what a start costs, and the end-to-end tests start Muster hundreds of times. A started program is a
process like any other: it has its own process group, environment, arguments and log, the kernel kills it when this
process ends, and it runs the module's ``__main__``.

Each datagram on the socket is a JSON object. ``{"argv": [...], "env": {...}, "log": "..."}`` starts the program and is
answered with its process id; ``{"pid": 1}`` is answered with the exit code of that process, or null while it runs.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

from typer.main import get_command

PR_SET_PDEATHSIG = 1
"""``prctl(2)``: the signal this process gets when its parent ends."""
LONGEST = 1 << 20
"""Bytes of a request: the environment is most of it."""


def main() -> None:
    """Serve requests until the other end of the socket is closed; a process that was forked runs the program."""
    module, descriptor = sys.argv[1], int(sys.argv[2])
    preload(module)
    with socket.socket(fileno=descriptor) as requests:
        started = serve(requests)
    if started is not None:
        sys.argv = [module, *started["argv"]]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def preload(module: str) -> None:
    """Import what the program imports, also to parse its command line, and exempt it from garbage collection.

    Otherwise each program would visit, and so copy, all objects of this process in its first collection.
    """
    program = importlib.import_module(f"{module}.main")
    if app := getattr(program, "app", None):
        get_command(app).make_context(module, [], resilient_parsing=True)
    gc.collect()
    gc.freeze()


def serve(requests: socket.socket) -> Mapping[str, Any] | None:
    """Answer requests. Returns None at their end, and the request that started it in a process that was forked."""
    parent = os.getpid()
    while data := requests.recv(LONGEST):
        request: Mapping[str, Any] = json.loads(data)
        if "pid" in request:
            answer = exit_code_of(request["pid"])
        else:
            answer = os.fork()
            if not answer:
                become(request, parent)
                return request
            os.setpgid(answer, answer)  # here too, so that the group is there when the answer is
        requests.send(json.dumps(answer).encode())
    return None


def exit_code_of(pid: int) -> int | None:
    """How the process ended (negative: by that signal); None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def become(request: Mapping[str, Any], parent: int) -> None:
    """Set up the forked process as ``Popen`` and the tether would: process group, death signal, log, environment."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the request
            os._exit(1)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["env"])


if __name__ == "__main__":
    main()
