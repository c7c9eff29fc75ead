"""Runs a command that dies with the process that started it: ``python tether.py PARENT_PID COMMAND...``.

A program of its own because what has to happen between fork and exec is not safe to do in a forked Python.
Linux keeps the request over exec. Other systems lack it; there the parent's own clean-up has to do.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""``prctl(2)``: the signal this process gets when its parent ends."""


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  # becoming the command is the purpose


if __name__ == "__main__":
    main()
